"""`bertvision fit`: stage 2, train many heads in one pass over a frozen encoder."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from bertvision.cli.leaderboard import print_freeze_points, print_leaderboard
from bertvision.cli.options import GivenOptions
from bertvision.cli.output import ProgressBar, print_json, print_note, print_notes
from bertvision.cli.task_options import TaskOptions, parse_numbers, parse_size
from bertvision.errors import BertVisionError
from bertvision.tasks.own import OWN, OwnColumns
from bertvision.training.schedule import Schedule

if TYPE_CHECKING:
    from bertvision.runs.fitting.fit_request import FitRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadLearning:
    """How to train heads, unless a TOML file says otherwise."""

    lr: float = 1e-3
    """Learning rate of the heads."""

    schedule: Schedule = "linear"
    """Learning rate schedule after the warmup; 'restarts' is a cosine that restarts once."""

    warmup: float = 0.06
    """Share of the steps in which the learning rate rises."""

    weight_decay: float = 0.01
    """Weight decay; not applied to biases, LayerNorms and mixing weights."""

    clip: float = 1.0
    """Largest gradient norm of a head; 0 turns clipping off."""

    grid: tuple[str, ...] = ()
    """Grid search: train every head with each of these values, such as lr=3e-4,1e-3 or size=64,128; repeat to combine
    several options. A head that lacks the option, or is solved and does not depend on it, is trained once."""

    seeds: int = 1
    """Train every head this many times, each with its own random seed for initial weights and dropout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FreezePoints:
    """When further tuning stops paying off."""

    snapshots: str = ""
    """Fit the heads on each of these snapshots of a tuned run, such as 0.1,0.3,1, or on 'all' snapshots."""

    tolerance: float = 0.01
    """With --snapshots: the freeze point is the earliest snapshot at most this share below the best later score."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FitOptions(TaskOptions):
    """What to fit, on which data, and how."""

    task: str
    """Name of a task; 'bertvision ls tasks' lists them. 'fit' also takes several, such as cola,sst5,rte: they share one
    pass, and each has its own folder."""

    learning: HeadLearning = field(default_factory=HeadLearning)

    heads: str = "all"
    """Heads to train: 'all' that are valid for the task, names separated by commas, or a TOML file with a table
    [[head]] for each."""

    epochs: float = 1.0
    """Passes over the training examples; fractions such as 0.3 are fine. Not used for convex heads on labels, tags or
    scores, which are solved."""

    batch: int = 32
    """Batch size: windows per optimiser step."""

    validate: str = ""
    """Epochs after which to validate heads on the held-out examples, such as 0.5,1; each head's best state is kept."""

    fraction: str = "1"
    """Share of the training examples to use. Several, such as 0.1,0.3,1, train every head on each, in the same pass."""

    held_out: float = 0.1
    """Share of the training examples to hold out for validation: to rank heads and fit thresholds, never to train."""

    pool: Literal["cls", "mean", "attention"] | None = None
    """How a text becomes one vector, for labels, tags and scores: 'cls' takes that of the first token, 'mean' the mean
    over tokens; 'attention' lets each head learn which tokens count, and runs the encoder for every batch (default: as
    the encoder was trained)."""

    pairs: Literal["auto", "together", "apart", "aligned"] = "auto"
    """How to encode the two texts of a pair: 'together' as one window; 'apart', compared as wholes; or 'aligned', also
    compared token by token. 'auto' takes 'aligned' for encoders trained on sentences, 'together' for others."""

    cross_fit: int | None = None
    """Number of folds of 'bertvision tune --cross-fit', whose run --encoder names: every training example gets the
    states of the encoder that was tuned without it."""

    train_all: bool = False
    """Train convex heads by gradient steps like the others, instead of solving them."""

    class_weights: bool = False
    """Weight the loss so that all classes count the same, however rare; for tasks with one label per text."""

    seed: int = 0
    """Random seed of data order and held-out examples, and the first of the heads' own seeds."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device; 'auto' uses a GPU if there is one."""

    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """Precision of computation; 'auto' is bfloat16 on a GPU and float32 elsewhere. Weights of heads stay float32."""

    compile: bool = False
    """Compile the encoder's layers first. This takes a minute and pays off on a GPU when there is much to compute."""

    max_disk: str | None = None
    """Most disk space for a store that is written on the way or as a trial, such as 20GB (default: the free space)."""

    max_memory: str | None = None
    """Most memory for states at a time, such as 8GB (default: the machine's free memory)."""

    out: Path | None = None
    """Folder for the run, or for the runs of several tasks or snapshots (default: runs/TASK-heads)."""

    @property
    def run(self) -> Path:
        """Folder of the run."""
        return self.out or Path("runs") / f"{self.task}-heads"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of `bertvision fit`."""

    fit: FitOptions
    freezing: FreezePoints = field(default_factory=FreezePoints)

    from_: str = "auto"
    """Where hidden states come from: 'stream' runs the encoder for every batch, 'store:DIR' reads a store written by
    extract, 'auto' measures and chooses. A store that 'auto' makes is removed when the run is finished."""

    resume: bool = False
    """Continue an interrupted run."""

    json: bool = False
    """Print the leaderboard (for several tasks: by task), or the freeze points, as JSON."""

    given: GivenOptions = field(default_factory=GivenOptions)


def run(options: Options) -> int:
    """Fit heads for one task; or for several tasks, or on several snapshots."""
    from bertvision.runs.fitting.fit import fit_heads  # noqa: PLC0415 - imports torch, and help should open at once

    fit = options.fit
    tasks = [task.strip() for task in fit.task.split(",") if task.strip()]
    if len(tasks) > 1:
        return _run_tasks(options, tasks)
    if options.freezing.snapshots:
        return _run_snapshots(options)
    request = build_request(as_tuned(fit, options.given), source=options.from_)
    with ProgressBar(f"fit {fit.task}") as bar:
        result = fit_heads(request, fit.run, resume=options.resume, show=bar.show)
    print_notes(result.notices)
    if options.json:
        print_json(result.leaderboard)
    else:
        print_leaderboard(result.run, result.leaderboard)
    return 0


def _run_tasks(options: Options, tasks: list[str]) -> int:
    """Fit several tasks in one pass."""
    from bertvision.runs.fitting.fit_tasks import fit_tasks  # noqa: PLC0415 - imports torch

    if options.freezing.snapshots:
        raise BertVisionError(f"--snapshots takes one task, {len(tasks)} were named. Fit them one by one.")
    fit, no_columns = options.fit, OwnColumns()
    fits = [replace(fit, task=task, columns=fit.columns if task == OWN else no_columns) for task in tasks]
    requests = [build_request(as_tuned(one, options.given), source=options.from_) for one in fits]
    out = fit.out or Path("runs") / f"{'+'.join(tasks)}-heads"
    with ProgressBar("fit") as bar:
        result = fit_tasks(requests, out, resume=options.resume, show=bar.show)
    print_notes(result.notices)
    if options.json:
        print_json({task: fitted.leaderboard for task, fitted in result.results.items()})
        return 0
    for fitted in result.results.values():
        print_leaderboard(fitted.run, fitted.leaderboard)
    return 0


def _run_snapshots(options: Options) -> int:
    """Fit on snapshots of a tuned run, and find the freeze point."""
    from bertvision.runs.fitting.freeze_points import fit_snapshots  # noqa: PLC0415 - imports torch

    snapshots, fit = options.freezing.snapshots, options.fit
    with ProgressBar(f"fit {fit.task}") as bar:
        result = fit_snapshots(
            build_request(as_tuned(fit, options.given), source=options.from_),
            fit.run,
            snapshots=None if snapshots == "all" else parse_numbers("--snapshots", snapshots),
            tolerance=options.freezing.tolerance,
            resume=options.resume,
            show=bar.show,
        )
    print_notes(result.notices)
    if options.json:
        print_json(result.table)
    else:
        print_freeze_points(result.table)
    return 0


def as_tuned(fit: FitOptions, given: GivenOptions) -> FitOptions:
    """The options, with the split of a tuned encoder as the default for those not given; a note tells the user.

    So heads are by default validated on examples that their encoder was not trained on.
    """
    from bertvision.runs.fitting.fit_request import WHOLE  # noqa: PLC0415 - imports torch
    from bertvision.runs.folder import CONFIG  # noqa: PLC0415
    from bertvision.runs.tuned_split import learnt_from, tuned_run, tuned_split  # noqa: PLC0415

    run = tuned_run(fit.encoder)
    run = run if fit.cross_fit is None else run / WHOLE
    # a cross-fit always has the task of its encoders, so that the task need not be compared
    folds = fit.cross_fit is not None and (run / CONFIG).is_file()
    if not folds and not learnt_from(run, fit.task, fit.data.data):
        return fit  # not a run (the fit raises an error if it needs one), or one that was tuned on other examples
    tuned = tuned_split(run)
    adapted = replace(
        fit,
        fraction=fit.fraction if "fraction" in given else str(tuned.fraction).removesuffix(".0"),
        held_out=fit.held_out if "held_out" in given or not tuned.held_out else tuned.held_out,
        seed=fit.seed if "seed" in given else tuned.seed,
    )
    if adapted != fit:
        shares = f"--fraction {adapted.fraction} --held-out {adapted.held_out:g} --seed {adapted.seed}"
        print_note(f"{fit.task}: examples are divided as {run} divided them, unless you say otherwise: {shares}.")
    return adapted


def build_request(options: FitOptions, *, source: str) -> "FitRequest":
    """The request for the options of a command line.

    Raises:
        BertVisionError: a value cannot be parsed, or a task or head is unknown.
    """
    from bertvision.runs.fitting.fit_request import FitRequest  # noqa: PLC0415 - imports torch
    from bertvision.runs.fitting.head_specs import parse_heads, spread  # noqa: PLC0415
    from bertvision.tasks.load import find_task  # noqa: PLC0415
    from bertvision.training.trainee import HeadSpec  # noqa: PLC0415

    learning = options.learning
    base = HeadSpec(
        head="last_layer",
        lr=learning.lr,
        schedule=learning.schedule,
        warmup=learning.warmup,
        weight_decay=learning.weight_decay,
        clip=learning.clip,
        seed=options.seed,
    )
    kind = find_task(options.task, data=options.data.data, columns=options.columns).kind
    solve = not options.train_all
    heads = spread(
        parse_heads(options.heads, kind, base),
        learning.grid,
        learning.seeds,
        parse_numbers("--fraction", options.fraction),
        solve=solve and kind != "spans" and options.pool != "attention",
    )
    return FitRequest(
        **options.data_fields(),
        heads=tuple(heads),
        epochs=options.epochs,
        batch=options.batch,
        seed=options.seed,
        validate=parse_numbers("--validate", options.validate),
        held_out=options.held_out,
        pool=options.pool,
        pairs=options.pairs,
        source=source,
        max_disk=parse_size("--max-disk", options.max_disk),
        max_memory=parse_size("--max-memory", options.max_memory),
        cross_fit=options.cross_fit,
        solve=solve,
        class_weights=options.class_weights,
        device=options.device,
        dtype=options.dtype,
        compile=options.compile,
    )
