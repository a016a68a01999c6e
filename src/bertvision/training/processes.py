"""Distributed training by Accelerate: the main process writes, and all processes fail together."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import torch

from bertvision.errors import BertVisionError, UnknownNameError

T = TypeVar("T")

Processes = Any
"""An `accelerate.Accelerator`; Accelerate has no types."""


def join_processes(
    *, cpu: bool, tracker: str | None = None, run: Path | None = None, partly: bool = False
) -> Processes:
    """Join the processes that this one was launched with; one process alone is fine, too.

    Args:
        cpu: compute on the CPU even where there is a GPU.
        tracker: the experiment tracker to report to, such as `tensorboard`.
        run: where a tracker keeps its files.
        partly: whether a step may leave some parameters without a gradient, as with several tasks.

    Raises:
        BertVisionError: the tracker is unknown or not installed, or this process has used another device before.
    """
    from accelerate import Accelerator, DistributedDataParallelKwargs  # noqa: PLC0415 - takes a second to import

    if tracker is not None:
        _check_tracker(tracker)
    # the precision is ours to choose, step by step: Accelerate would fix one for as long as this process lives
    accelerator = Accelerator(
        cpu=cpu,
        log_with=tracker,
        project_dir=None if tracker is None else str(run),
        kwargs_handlers=[DistributedDataParallelKwargs(find_unused_parameters=partly)],
    )
    if not cpu and torch.cuda.is_available() and accelerator.device.type == "cpu":
        raise BertVisionError("this process computes on the CPU already. Start another one for the GPU.")
    return accelerator


def leave_processes() -> None:
    """Destroy the process group; afterwards processes can no longer communicate."""
    from accelerate import PartialState  # noqa: PLC0415

    PartialState().destroy_process_group()


def is_main() -> bool:
    """Whether this is the main process."""
    from accelerate import PartialState  # noqa: PLC0415

    return bool(PartialState().is_main_process)


def on_main(accelerator: Processes, action: Callable[[], T]) -> T:
    """Run an action in the main process and broadcast its result.

    Raises:
        BertVisionError: the action raised one; every process raises the same, so that none waits for ever.
        RuntimeError: in the other processes, if the action raised any other exception.
    """
    if accelerator.num_processes == 1:
        return action()
    from accelerate.utils import broadcast_object_list  # noqa: PLC0415

    outcome: list[Any] = [None, None]
    if accelerator.is_main_process:
        try:
            outcome[0] = action()
        except Exception as error:
            known = isinstance(error, BertVisionError)  # other exceptions may not be picklable
            message = str(error) if known else f"the main process failed: {type(error).__name__}: {error}"
            broadcast_object_list([None, (type(error) if known else RuntimeError, message)])
            raise
    broadcast_object_list(outcome)
    if outcome[1] is not None:
        kind, message = outcome[1]
        raise kind.__new__(kind, message)  # not kind(message): some constructors take other arguments
    result: T = outcome[0]
    return result


def gather(accelerator: Processes, value: T) -> list[T]:
    """The values of all processes, in order, in every process (all-gather)."""
    if accelerator.num_processes == 1:
        return [value]
    from accelerate.utils import gather_object  # noqa: PLC0415

    return list(gather_object([value]))


def _check_tracker(tracker: str) -> None:
    """Refuse a tracker that is unknown or not installed; Accelerate would ignore it silently."""
    from accelerate.tracking import get_available_trackers  # noqa: PLC0415
    from accelerate.utils import LoggerType  # noqa: PLC0415

    known = sorted(str(name) for name in LoggerType.list() if str(name) != "all")
    if tracker not in known:
        raise UnknownNameError("tracker", tracker, known)
    if tracker not in [str(name) for name in get_available_trackers()]:
        raise BertVisionError(
            f"--tracker {tracker} needs a package that is not here. Install it: pip install {tracker}"
        )
