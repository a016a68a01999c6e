"""What a tuned run held out: heads are to be judged by examples that their encoder never learned from."""

from dataclasses import dataclass
from pathlib import Path

from bertvision.encoder.snapshot import SNAPSHOTS, split_snapshot
from bertvision.errors import BertVisionError, DataError
from bertvision.runs.fitting.fit_request import FitRequest
from bertvision.runs.folder import RunFolder
from bertvision.runs.tuning.multitask_request import task_names
from bertvision.tasks.own import OWN
from bertvision.tasks.sources import find_own


@dataclass(frozen=True, slots=True, kw_only=True)
class TunedSplit:
    """How a tuned run divided its training examples; see `split_train`.

    Attributes:
        task: what it was tuned for.
        fraction: share of the examples that it used.
        held_out: share of those that it did not learn from.
        seed: seed of both choices.
    """

    task: str
    fraction: float
    held_out: float
    seed: int


def tuned_split(run: Path) -> TunedSplit:
    """How the run in a folder divided its training examples.

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
    """The folder of the run that an encoder's name means, be it `RUN`, `RUN@0.3` or `RUN/snapshots/0.3`."""
    run, _ = split_snapshot(encoder)
    return run.parent.parent if run.parent.name == SNAPSHOTS else run


def learnt_from(run: Path, task: str, data: str | None) -> bool:
    """Whether the folder holds an encoder that was tuned on the training examples of a task, or of several with it.

    Args:
        run: any folder.
        task: its name.
        data: where its examples are: any files of one's own are of the same task, so it must be the same training file,
            however its path is written.
    """
    try:
        folder = RunFolder(run)
        asked = folder.request()
    except BertVisionError:
        return False  # no run: an encoder's own folder, or none
    if "learn" not in asked or task not in task_names(asked["task"]):
        return False
    if task != OWN or asked["data"] == data:
        return True
    one, two = _own_train(folder.path_from_here(asked["data"])), _own_train(data)
    return one is not None and two is not None and one.samefile(two)


def _own_train(data: str | None) -> Path | None:
    """The user's own training file that a `--data` means; None if it means none that is there."""
    try:
        return None if data is None else find_own(Path(data)).get("train")
    except DataError:
        return None


def seen_notice(request: FitRequest) -> tuple[str, ...]:
    """A notice where the encoder may have learned from what a fit holds out."""
    run = tuned_run(request.encoder)
    if not learnt_from(run, request.task, request.data):
        return ()
    try:
        check_unseen(request, run)
    except BertVisionError as error:
        return (f"thresholds and choices may flatter: {error}",)
    return ()


def check_unseen(request: FitRequest, run: Path) -> None:
    """See that the encoder of a run did not learn from what a fit of the same examples holds out.

    Of one seed and share of the data, a smaller held-out part lies within a larger one.

    Raises:
        BertVisionError: it may have learned from some of it; the message names the options that help.
    """
    tuned = tuned_split(run)
    if not tuned.held_out:
        raise BertVisionError(
            f"{run} was tuned with --held-out 0, so that nothing is left to judge heads by. "
            "Tune it again with --held-out 0.05."
        )
    same = (tuned.seed, tuned.fraction) == (request.seed, request.largest)
    if not same or request.held_out > tuned.held_out:
        raise BertVisionError(
            f"{run} held out other examples than this fit would: --held-out is {request.held_out:g}, --seed "
            f"{request.seed}, --fraction {request.largest:g}, so heads would be judged by examples that the encoder "
            f"learned from. Use --held-out {tuned.held_out:g} --seed {tuned.seed} --fraction {tuned.fraction:g}."
        )
