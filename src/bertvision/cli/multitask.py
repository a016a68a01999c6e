"""`bertvision multitask`: fine-tune one encoder for several tasks, with a head for each."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from bertvision.cli.leaderboard import shown_metrics
from bertvision.cli.learn_options import LearnOptions, result_as_json, result_title
from bertvision.cli.output import ProgressBar, print_json, print_note, print_table
from bertvision.cli.task_options import parse_caps, parse_settings
from bertvision.errors import BertVisionError, UnknownNameError
from bertvision.evaluation.held_out import HELD_OUT_PREFIX

if TYPE_CHECKING:
    from bertvision.runs.tuning.multitask_request import Input, MultitaskRequest
    from bertvision.runs.tuning.tuning import TuneResult

INPUTS: "tuple[Input, ...]" = ("apart", "pair", "qa")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(LearnOptions):
    """Options of `bertvision multitask`."""

    tasks: str = "sst5,sts,quora"
    """Names of tasks, separated by commas, in the order in which they are trained; 'bertvision ls tasks' lists them."""

    heads: str = ""
    """Heads of single tasks, such as sst5=layer_mix,squad2=last_layer; all other tasks have dense_stack."""

    set: tuple[str, ...] = ()
    """Set an option of all heads, such as dropout=0.2, or of one task's head, such as sst5.size=64; repeat for more."""

    input: str = "apart"
    """How texts are read: 'apart' encodes the two texts of a pair separately and joins their vectors, 'pair' encodes
    them together, 'qa' reads texts as the context of a question. Several, separated by commas, give one run each."""

    ask: tuple[str, ...] = ()
    """For --input qa: the question about the texts of a task, such as sst5="Is this review kind?"; repeat for more."""

    order: Literal["sequence", "round-robin", "proportional", "temperature"] = "sequence"
    """Order of the batches in an epoch: one task after the other, one batch of each task in turn, all at random, or at
    random with small tasks more often than their size would give."""

    temperature: float = 2.0
    """For --order temperature: 1 samples tasks in proportion to their size, a large number samples them evenly."""

    cap: tuple[str, ...] = ()
    """Most windows of a task per epoch, such as quora=4000, drawn anew in every epoch; repeat for more."""

    balance: bool = False
    """Sample windows so that all classes are seen equally often; scores are balanced by their nearest whole number."""

    out: Path | None = None
    """Folder for the run, or for the runs of several inputs (default: runs/TASK+TASK-LEARN)."""


def run(options: Options) -> int:
    """Tune for several tasks."""
    from bertvision.runs.tuning.multitask import multitask, multitask_inputs  # noqa: PLC0415 - imports torch
    from bertvision.training.processes import leave_processes  # noqa: PLC0415

    inputs = _parse_inputs(options.input)
    request = build_request(options, inputs[0])
    out = options.out or Path("runs") / f"{'+'.join(request.tasks)}-{options.learn.replace(':', '')}"
    results: Mapping[Input, TuneResult]
    with ProgressBar("multitask") as bar:
        if len(inputs) == 1:
            results = {inputs[0]: multitask(request, out, resume=options.resume, show=bar.show)}
        else:
            results = multitask_inputs(request, inputs, out, resume=options.resume, show=bar.show)
    leave_processes()
    first = results[inputs[0]]
    if not first.main:
        return 0
    for notice in dict.fromkeys(notice for result in results.values() for notice in result.notices):
        print_note(notice)
    if options.json:
        shown = {name: _as_json(result) for name, result in results.items()}
        print_json(shown if len(inputs) > 1 else shown[inputs[0]])
    else:
        title = result_title(first) if len(inputs) == 1 else f"{out}: {', '.join(inputs)}"
        _print(title, request, results)
    return 0


def build_request(options: Options, chosen: "Input") -> "MultitaskRequest":
    """The request for the options of a command line, with one of the inputs.

    Raises:
        BertVisionError: a value cannot be parsed, or a task is unknown.
    """
    from bertvision.runs.tuning.multitask_request import MultitaskRequest, task_names  # noqa: PLC0415 - imports torch

    tasks = task_names(options.tasks)
    settings = parse_settings(options.set)
    shared = {name: value for name, value in settings.items() if "." not in name}
    options_of: dict[str, dict[str, str]] = {task: dict(shared) for task in tasks} if shared else {}
    for name, value in settings.items():
        task, dot, option = name.partition(".")
        if dot:
            options_of.setdefault(task, {})[option] = value
    heads = [word for word in options.heads.split(",") if word.strip()]
    return MultitaskRequest(
        **options.fields_of(",".join(tasks)),
        **options.learn_fields(),
        heads_of=parse_settings(heads, option="--heads", example="sst5=layer_mix"),
        options_of=options_of,
        input=chosen,
        questions=parse_settings(options.ask, option="--ask", example="sst5='Is it good?'"),
        order=options.order,
        temperature=options.temperature,
        caps=parse_caps(options.cap),
        balance=options.balance,
    )


def _parse_inputs(text: str) -> list["Input"]:
    """The inputs in the value of --input, in the order of `INPUTS`."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in INPUTS:
            raise UnknownNameError("input", name, INPUTS)
    chosen: list[Input] = [name for name in INPUTS if name in names]
    if not chosen or len(chosen) < len(names):
        raise BertVisionError(f"--input is '{text}', some of {', '.join(INPUTS)}, once each, are expected.")
    return chosen


def _as_json(result: "TuneResult") -> dict[str, object]:
    from bertvision.runs.tuning.multitask import metrics_by_task  # noqa: PLC0415 - imports torch

    return result_as_json(result) | {"metrics": metrics_by_task(result.metrics)}


def _print(title: str, request: "MultitaskRequest", results: Mapping["Input", "TuneResult"]) -> None:
    """Print a row per task and input with its head and its metrics."""
    from bertvision.runs.tuning.multitask import metrics_by_task  # noqa: PLC0415 - imports torch
    from bertvision.runs.tuning.multitask_request import DEFAULT_HEAD  # noqa: PLC0415

    by_input = {name: metrics_by_task(result.metrics) for name, result in results.items()}
    rows = [(task, name, _shown(by_input[name].get(task, {}))) for task in request.tasks for name in results]
    columns = list(dict.fromkeys(metric for *_, metrics in rows for metric in metrics))
    print_table(
        title,
        ["task", "input", "head", *columns],
        [
            [task, name, request.heads_of.get(task, DEFAULT_HEAD), *(metrics.get(metric) for metric in columns)]
            for task, name, metrics in rows
        ],
    )


def _shown(metrics: Mapping[str, float]) -> dict[str, float]:
    """The metrics to show: on dev, or on held-out examples without a dev split."""
    names = shown_metrics([metrics]) or shown_metrics([metrics], HELD_OUT_PREFIX)
    return {name: metrics[name] for name in names}
