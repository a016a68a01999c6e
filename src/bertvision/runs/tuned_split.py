"""What a tuned run held out: heads must be judged on examples that their encoder was not trained on."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bertvision.encoder.snapshot import SNAPSHOTS, split_snapshot
from bertvision.errors import BertVisionError, DataError
from bertvision.runs.fitting.fit_request import FitRequest
from bertvision.runs.folder import RunFolder
from bertvision.runs.request import LearnRequest
from bertvision.runs.tuning.multitask_request import task_names
from bertvision.tasks.load import TASKS
from bertvision.tasks.own import OWN
from bertvision.tasks.sources import find_own


@dataclass(frozen=True, slots=True, kw_only=True)
class TunedSplit:
    """How a tuned run split its training examples; see `split_train`.

    Attributes:
        task: the task it was tuned for; of several, their names between commas.
        fraction: share of the training examples that it used.
        held_out: share of the used examples that it held out.
        seed: seed of both random choices.
    """

    task: str
    fraction: float
    held_out: float
    seed: int


def tuned_split(run: Path) -> TunedSplit:
    """How the run in a folder split its training examples.

    Raises:
        BertVisionError: the folder holds no run.
    """
    request = RunFolder(run).request()
    return TunedSplit(
        task=request["task"],
        fraction=request["fraction"],
        held_out=request["held_out"],
        seed=request["options"]["seed"],
    )


def tuned_run(encoder: str) -> Path:
    """The folder of the run in an encoder's name: that of `RUN`, `RUN@0.3` and `RUN/snapshots/0.3` is `RUN`."""
    run, _ = split_snapshot(encoder)
    return run.parent.parent if run.parent.name == SNAPSHOTS else run


def learnt_from(run: Path, task: str, data: str | None) -> bool:
    """Whether a folder holds a run whose encoder was tuned on the training examples of a task, alone or among others.

    Args:
        run: any folder.
        task: name of the task; tasks that are read from the same files, as squad2 and answerable, have the same
            examples.
        data: where its files are; compared only for the task `own`, under whose name any files may be read: it must be
            the same training file, however its path is written.
    """
    try:
        folder = RunFolder(run)
        request = folder.request()
    except BertVisionError:
        return False  # not a run, such as the folder of a plain encoder
    if "learn" not in request or not any(_same_files(task, name) for name in task_names(request["task"])):
        return False
    if task != OWN or request["data"] == data:
        return True
    theirs, ours = _own_train(folder.path_from_here(request["data"])), _own_train(data)
    return theirs is not None and ours is not None and theirs.samefile(ours)


def _same_files(one: str, other: str) -> bool:
    """Whether two tasks are the same, or are read from the same files."""
    first, second = TASKS.get(one), TASKS.get(other)
    if first is None or second is None:
        return one == other
    return (first.folders, first.files) == (second.folders, second.files)


def _own_train(data: str | None) -> Path | None:
    """The user's own training file that `--data` names; None if there is none."""
    try:
        return None if data is None else find_own(Path(data)).get("train")
    except DataError:
        return None


def seen_notice(request: FitRequest | LearnRequest) -> tuple[str, ...]:
    """A notice if the encoder may have been tuned, in any run that led to it, on examples that are held out now."""
    tasks = task_names(request.task) if request.held_out else ()
    for run in _tuned_runs(request.encoder):
        if any(learnt_from(run, task, request.data) for task in tasks):
            try:
                check_unseen(request, run)
            except BertVisionError as error:
                return (f"thresholds and choices may flatter: {error}",)
    return ()


def learned_in_any_run(request: FitRequest) -> bool:
    """Whether an encoder was tuned, in any run that led to it, on the training examples of the task."""
    return any(learnt_from(run, request.task, request.data) for run in _tuned_runs(request.encoder))


def _tuned_runs(encoder: str) -> Iterator[Path]:
    """The folders of the runs that an encoder was tuned in, the last one first."""
    while True:
        folder = RunFolder(tuned_run(encoder))
        try:
            encoder = folder.encoder_from_here(folder.request()["encoder"])
        except BertVisionError:
            return  # not a run
        yield folder.path


def check_unseen(request: FitRequest | LearnRequest, run: Path) -> None:
    """Refuse a tuned encoder that may have been trained on examples that are held out now.

    With the same seed and share of the data, a smaller held-out part is a subset of a larger one; so at most as much as
    the run held out may be held out.

    Raises:
        BertVisionError: seed or share differ, or more is held out; the message names the options to use.
    """
    tuned = tuned_split(run)
    if isinstance(request, FitRequest):
        what, fraction, seed = "fit", request.largest, request.seed
    else:
        what, fraction, seed = "run", request.fraction, request.options.seed
    if not tuned.held_out:
        raise BertVisionError(
            f"{run} was tuned with --held-out 0, so that nothing is left to judge heads by. "
            "Tune it again with --held-out 0.05."
        )
    if (tuned.seed, tuned.fraction) != (seed, fraction) or request.held_out > tuned.held_out:
        raise BertVisionError(
            f"{run} held out other examples than this {what} would: --held-out is {request.held_out:g}, "
            f"--seed {seed}, --fraction {fraction:g}, so heads would be judged by examples that the encoder "
            f"learned from. Use --held-out {tuned.held_out:g} --seed {tuned.seed} --fraction {tuned.fraction:g}."
        )
