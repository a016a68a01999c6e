"""`bertvision triplets`: fine-tune an encoder on triplets, so that similar texts get close, before it learns tasks."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from bertvision.cli.learn_options import LearnOptions, result_as_json, result_title
from bertvision.cli.output import ProgressBar, print_json, print_lines, print_notes, print_table
from bertvision.cli.task_options import parse_caps

if TYPE_CHECKING:
    from bertvision.runs.tuning.tuning import TuneResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(LearnOptions):
    """Options of `bertvision triplets`."""

    tasks: str = "sst5,sts,quora"
    """Names of tasks with labels or scores, separated by commas; 'bertvision ls tasks' lists them."""

    loss: Literal["document", "margin", "in-batch"] = "document"
    """Loss of a triplet: 'document' compares the distance to the positive with those to all negatives together,
    'margin' with that to each negative, 'in-batch' must find the positive among those of the whole batch."""

    margin: float = 1.0
    """For --loss margin: how much farther away than the positive each negative should be."""

    cap: tuple[str, ...] = ()
    """Most triplets of a task, such as quora=4000; repeat for more."""

    out: Path | None = None
    """Folder for the run (default: runs/TASK+TASK-triplets)."""


def run(options: Options) -> int:
    """Tune on triplets."""
    from bertvision.runs.tuning.multitask_request import task_names  # noqa: PLC0415 - imports torch
    from bertvision.runs.tuning.triplet_request import TripletRequest  # noqa: PLC0415
    from bertvision.runs.tuning.triplets import DISTANCES, tune_triplets  # noqa: PLC0415
    from bertvision.training.processes import leave_processes  # noqa: PLC0415

    tasks = task_names(options.tasks)
    request = TripletRequest(
        **options.fields_of(",".join(tasks)),
        **options.learn_fields(),
        loss=options.loss,
        margin=options.margin,
        caps=parse_caps(options.cap),
    )
    out = options.out or Path("runs") / f"{'+'.join(tasks)}-triplets"
    with ProgressBar("triplets") as bar:
        result = tune_triplets(request, out, resume=options.resume, show=bar.show)
    leave_processes()
    if not result.main:
        return 0
    print_notes(result.notices)
    distances = json.loads((result.run / DISTANCES).read_text(encoding="utf-8"))
    if options.json:
        print_json(result_as_json(result) | {"distances": distances})
    else:
        _print(result, distances)
    return 0


def _print(result: "TuneResult", distances: dict[str, Any]) -> None:
    """Print mean distances of each task before and after, on dev or, without a dev split, on held-out examples."""
    rows = []
    for when in ("before", "after"):
        by_task = distances[when].get("dev") or distances[when].get("held_out", {})
        for name, row in by_task.items():
            other = None if row["other"] is None else row["other"]["mean"]
            means = [row["positive"]["mean"], row["negative"]["mean"], other]
            rows.append([name, when, distances["triplets"][name], *means, row["in_order"]])
    if not rows:  # there is neither a dev split nor held-out examples
        print_lines([result_title(result)])
        return
    columns = ["task", "", "triplets", "to positive", "to negatives", "to other tasks", "positive nearest"]
    print_table(result_title(result), columns, sorted(rows, key=lambda row: str(row[0])))
