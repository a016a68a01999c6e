"""`bertvision tune`: stage 1, the encoder, with snapshots at fractions of an epoch."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from bertvision.cli.leaderboard import SHOWN
from bertvision.cli.options import Given
from bertvision.cli.output import ProgressBar, print_json, print_note, print_table
from bertvision.cli.task_options import TaskOptions, parse_numbers, parse_settings
from bertvision.training.options import Recipe, TuneOptions, with_recipe

if TYPE_CHECKING:
    from bertvision.runs.request import TuneRequest
    from bertvision.runs.tuning import TuneResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(TaskOptions):
    """Options of `bertvision tune`."""

    tuning: TuneOptions = field(default_factory=TuneOptions)

    learn: str = "full"
    """What learns: full, top:K, top:K:strict, houlsby:D, houlsby:D+full, lora:R, bitfit, layernorm or none."""

    head: str | None = None
    """What reads the layers and learns with them; 'bertvision ls heads' lists them (default: the checkpoint's own
    output, or last_layer)."""

    set: tuple[str, ...] = ()
    """An option of the head, such as size=64; repeat it for more."""

    pooled: bool = False
    """Give the head the encoder's own pooled vector as one more layer, for labels, tags and scores."""

    recipe: Recipe | None = None
    """Settings of one of the source documents; options given beside it win."""

    snapshots: str = ""
    """Epochs after which to keep a snapshot, such as 0.1,0.3,1; the end is always kept."""

    fraction: float = 1.0
    """Share of the training examples to use."""

    held_out: float = 0.05
    """Share of the training examples that nobody learns from: thresholds and early stopping look at them."""

    cross_fit: int | None = None
    """Tune so many encoders, each without a fold of the training examples, and one with all of them: what
    'bertvision fit --cross-fit' needs."""

    pool: Literal["cls", "mean"] | None = None
    """Which row stands for a text, for labels, tags and scores (default: what the encoder was trained with)."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where to compute."""

    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """Precision of the computation: 'auto' is bfloat16 on a GPU, float32 elsewhere; weights stay float32."""

    compile: bool = False
    """Compile the encoder's layers first: takes a minute, and pays on a GPU when there is much to compute."""

    save_every: int | None = None
    """Steps between checkpoints for --resume (default: one a minute, and one at every snapshot)."""

    tracker: str | None = None
    """Report to an experiment tracker that Accelerate knows, such as tensorboard."""

    out: Path | None = None
    """Folder of the run, or of the runs of a cross-fit (default: runs/TASK-LEARN)."""

    resume: bool = False
    """Go on with a run that was interrupted."""

    json: bool = False
    """Print JSON."""

    given: Given = field(default_factory=Given)


def run(options: Options) -> int:
    """Tune."""
    from bertvision.runs.request import TuneRequest  # noqa: PLC0415 - imports torch, and help should open at once
    from bertvision.runs.tune import tune  # noqa: PLC0415
    from bertvision.training.processes import leave_processes  # noqa: PLC0415

    request = TuneRequest(
        **options.data_fields(),
        learn=options.learn,
        options=with_recipe(options.tuning, options.recipe, options.given),
        head=options.head,
        head_options=parse_settings(options.set),
        pooled=options.pooled,
        snapshots=parse_numbers("--snapshots", options.snapshots),
        fraction=options.fraction,
        held_out=options.held_out,
        pool=options.pool,
        device=options.device,
        dtype=options.dtype,
        compile=options.compile,
        save_every=options.save_every,
        tracker=options.tracker,
    )
    out = options.out or Path("runs") / f"{options.task}-{options.learn.replace(':', '')}"
    if options.cross_fit is not None:
        return _run_folds(options, request, options.cross_fit, out)
    with ProgressBar(f"tune {options.task}") as bar:
        result = tune(request, out, resume=options.resume, show=bar.show)
    leave_processes()
    if result.main:
        for notice in result.notices:
            print_note(notice)
        _print(result, as_json=options.json)
    return 0


def _run_folds(options: Options, request: "TuneRequest", folds: int, out: Path) -> int:
    from bertvision.runs.cross_fit import tune_folds  # noqa: PLC0415 - imports torch
    from bertvision.training.processes import leave_processes  # noqa: PLC0415

    with ProgressBar(f"tune {options.task}") as bar:
        result = tune_folds(request, folds, out, resume=options.resume, show=bar.show)
    leave_processes()
    if not result.main:
        return 0
    for notice in result.notices:
        print_note(notice)
    if options.json:
        print_json({name: _as_json(one) for name, one in result.results.items()})
        return 0
    names = list(dict.fromkeys(name for one in result.results.values() for name in one.metrics))
    columns = [name for name in names if name in SHOWN or name.removeprefix("held_out_") in SHOWN]
    rows = [[name, one.steps, *(one.metrics.get(key) for key in columns)] for name, one in result.results.items()]
    print_table(f"{result.run}: {folds} folds and the whole", ["run", "steps", *columns], rows)
    return 0


def _as_json(result: "TuneResult") -> dict[str, object]:
    return {
        "run": str(result.run),
        "trainable": result.trainable,
        "total": result.total,
        "steps": result.steps,
        "processes": result.processes,
        "snapshots": [f"{result.run}@{snapshot.folder.name}" for snapshot in result.snapshots],
        "metrics": result.metrics,
    }


def _print(result: "TuneResult", *, as_json: bool) -> None:
    if as_json:
        print_json(_as_json(result))
        return
    share = result.trainable / result.total
    title = f"{result.run}: {result.trainable:,} of {result.total:,} parameters learnt ({share:.2%})"
    print_table(title, ["metric", "value"], list(result.metrics.items()))
