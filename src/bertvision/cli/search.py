"""`bertvision search`: which head, or which way of tuning for one task or several, held-out examples find best."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from bertvision.amounts import in_words
from bertvision.cli.output import ProgressBar, print_json, print_lines, print_notes, print_table
from bertvision.cli.task_options import TaskOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(TaskOptions):
    """Options of `bertvision search`."""

    task: str
    """A task's name, or several between commas for a space of kind multitask; 'bertvision ls tasks' lists them."""

    space: Path | None = None
    """A TOML file with what to choose from; see docs/search.md. It must be given."""

    trials: int = 20
    """How many in all, of all processes; more than before goes on with a finished search."""

    storage: str | None = None
    """A database that several machines share, such as postgresql://USER@HOST/NAME; passwords are best in PGPASSWORD or
    ~/.pgpass (default: an SQLite file in the folder of the search, which several processes share)."""

    study: str | None = None
    """Name of the study in the database (default: the task's)."""

    jobs: int = 1
    """Processes on this machine."""

    epochs: float = 1.0
    """Passes over the data of a trial that is never pruned."""

    batch: int = 32
    """Windows per step, where the space says nothing else."""

    rungs: int = 3
    """How often trials are judged on the way; 1 prunes none."""

    reduction: int = 3
    """One of so many trials goes on from rung to rung."""

    together: int = 10
    """Most heads that learn in one pass; between passes the search learns what to try next."""

    fraction: float = 1.0
    """Share of the training examples to use."""

    held_out: float = 0.1
    """Share of the training examples that nobody learns from: they judge every trial. The dev set is looked at once,
    for the best trial, at the end."""

    pool: Literal["cls", "mean", "attention"] | None = None
    """Which row stands for a text, for labels, tags and scores; 'attention' lets heads learn which tokens count
    (default: what the encoder was trained with)."""

    pairs: Literal["auto", "together", "apart", "aligned"] = "auto"
    """For heads, encode the two texts of a pair together; or apart, and compare them as wholes, or aligned, also token
    by token; 'auto' aligns them for encoders trained on sentences, and reads them together for others."""

    from_: str = "stream"
    """For heads, where states come from: 'stream', or 'store:DIR' as extract has written it."""

    train_all: bool = False
    """Train convex heads like the others instead of solving them."""

    seed: int = 0
    """Of data order, held-out examples and every trial's first weights, and of what is tried; it is never searched."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where to compute."""

    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """Precision of the computation: 'auto' is bfloat16 on a GPU, float32 elsewhere."""

    out: Path | None = None
    """Folder of the search (default: runs/TASK-search). The same command goes on with a search that was stopped."""

    json: bool = False
    """Print what trials.json holds."""


def run(options: Options) -> int:
    """Search."""
    from bertvision.errors import BertVisionError  # noqa: PLC0415

    if options.space is None:
        raise BertVisionError("--space FILE.toml is missing: it says what to choose from. See docs/search.md.")
    from bertvision.runs.searching.search import SearchPlace, search  # noqa: PLC0415 - imports torch and optuna
    from bertvision.runs.searching.search_file import load_space  # noqa: PLC0415
    from bertvision.runs.searching.search_request import SearchRequest  # noqa: PLC0415

    request = SearchRequest(
        **options.data_fields(),
        space=load_space(options.space),
        epochs=options.epochs,
        batch=options.batch,
        rungs=options.rungs,
        reduction=options.reduction,
        together=options.together,
        fraction=options.fraction,
        held_out=options.held_out,
        seed=options.seed,
        pool=options.pool,
        pairs=options.pairs,
        source=options.from_,
        solve=not options.train_all,
        device=options.device,
        dtype=options.dtype,
    )
    place = SearchPlace(
        out=options.out or Path("runs") / f"{'+'.join(request.tasks)}-search",
        trials=options.trials,
        storage=options.storage,
        study=options.study,
        jobs=options.jobs,
    )
    with ProgressBar(f"search {options.task}") as bar:
        result = search(request, place, show=bar.show)
    print_notes(result.notices)
    if options.json:
        print_json(result.record)
    else:
        _print(result.out, result.record)
    return 0


def _print(out: Path, record: Mapping[str, Any]) -> None:
    """Every trial, best first, and what counted."""

    def order(row: Mapping[str, Any]) -> tuple[bool, float]:
        return row["state"] != "complete", -(row["value"] if row["value"] is not None else float("-inf"))

    names = list(dict.fromkeys(name for row in record["trials"] for name in row["parameters"] if "." not in name))
    rows = [
        [row["trial"], row["state"], row["value"], len(row["rungs"]), row["seconds"]]
        + [row["parameters"].get(name) for name in names]
        + [_options(row["parameters"])]
        for row in sorted(record["trials"], key=order)
    ]
    title = f"{out}: {in_words(len(rows), 'trial')}, best first by {record['objective']}"
    print_table(title, ["trial", "state", "value", "rungs", "seconds", *names, "options"], rows)
    for group, shares in record["importance"].items():
        listed = ", ".join(f"{name.removeprefix(f'{group}.')} {share:.0%}" for name, share in shares.items())
        print_lines([f"What counted {'in all trials' if group == 'all' else f'for {group}'}: {listed}"])
    best = record["best"]
    if best is not None and best["dev"] is not None:
        scores = ", ".join(f"{name} {_short(value)}" for name, value in best["dev"].items())
        print_lines([f"Trial {best['trial']} is in {out / 'best'}; on dev: {scores or 'there is none'}"])


def _options(parameters: Mapping[str, Any]) -> str:
    """Options of the head that was chosen, and what was chosen for single tasks."""
    own = f"{parameters.get('head')}."
    return " ".join(f"{name.removeprefix(own)}={_short(value)}" for name, value in parameters.items() if "." in name)


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value).lower() if isinstance(value, bool) else str(value)
