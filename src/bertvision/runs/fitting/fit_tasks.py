"""fit_tasks: several tasks that share an encoder, fitted in one pass over the union of their texts."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from bertvision.errors import BertVisionError
from bertvision.inference.shared_rows import SharedRows
from bertvision.runs.fitting.fit import FitResult, check_fit, fit_heads
from bertvision.runs.fitting.fit_request import FitRequest
from bertvision.runs.fitting.frozen import FrozenTask, freeze_task
from bertvision.runs.folder import RunFolder, check_series
from bertvision.runs.watch import Show, tell, telling

SHARED_FIELDS = ("encoder", "pool", "device", "dtype")
"""Fields of the requests that must be equal, so that one pass of the encoder serves all tasks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksResult:
    """The result of `fit_tasks`.

    Attributes:
        out: folder of the fits.
        results: the result of every task, by its name.
        notices: messages for the user.
    """

    out: Path
    results: dict[str, FitResult]
    notices: tuple[str, ...]


def fit_tasks(
    requests: Sequence[FitRequest], out: str | Path, *, resume: bool = False, show: Show | None = None
) -> TasksResult:
    """Encode every distinct text of several tasks once, then fit the heads of each task in its own folder.

    Of pairs that are aligned, whose two texts give one row, every distinct pair is encoded once. The results of a task
    are those of fitting it alone, up to rounding: windows are encoded in other batches. Killed fits continue with
    `resume`; the texts of finished tasks are not encoded again.

    Raises:
        BertVisionError: the requests cannot share a pass, or as `fit_heads`.
    """
    for request in requests:
        request.check()
    _check_shared_fields(requests)
    folder = Path(out)
    check_series(folder, resume=resume)
    frozen: dict[str, FrozenTask] = {}
    for request in requests:
        run = RunFolder(folder / request.task)
        run.check(asdict(request), resume=resume)
        if run.result() is None:
            loaded = next(iter(frozen.values())).encoder if frozen else None
            frozen[request.task] = freeze_task(request, encoder=loaded)
            _check_rows(frozen[request.task])
            check_fit(frozen[request.task])
    notices = []
    if frozen:
        tell(show, f"encoding the texts of {', '.join(frozen)} …")
        shared = _share(list(frozen.values()))
        frozen = {task: replace(frozen_task, shared=shared) for task, frozen_task in frozen.items()}
        notices.append(
            f"{shared.asked:,} texts or pairs of {len(frozen)} tasks; {len(shared):,} different ones, encoded once."
        )
    results = {
        request.task: fit_heads(
            request,
            folder / request.task,
            resume=resume,
            show=telling(show, request.task),
            frozen=frozen.get(request.task),
        )
        for request in requests
    }
    for task, result in results.items():
        notices += [notice if task in notice else f"{task}: {notice}" for notice in result.notices]
    return TasksResult(out=folder, results=results, notices=tuple(notices))


def _check_shared_fields(requests: Sequence[FitRequest]) -> None:
    """Refuse requests that cannot share a pass of one encoder."""
    tasks = [request.task for request in requests]
    for task in tasks:
        if tasks.count(task) > 1:
            raise BertVisionError(f"{task} is named {tasks.count(task)} times. Name every task once.")
    for name in SHARED_FIELDS:
        values = {str(getattr(request, name)) for request in requests}
        if len(values) > 1:
            raise BertVisionError(
                f"tasks that share a pass need the same {name}; {' and '.join(sorted(values))} differ."
            )
    if any(request.cross_fit is not None for request in requests):
        raise BertVisionError("the encoders of --cross-fit were tuned for one task. Fit the tasks one by one.")
    if any(request.store is not None for request in requests):
        raise BertVisionError("a store holds the states of one task. Use --from stream with several tasks.")


def _check_rows(frozen: FrozenTask) -> None:
    """Refuse a task whose heads read every token: such states are not kept in memory."""
    if not frozen.in_memory:
        name = frozen.task.name
        reason = "it asks for spans" if frozen.task.kind == "spans" else "--pool attention"
        raise BertVisionError(
            f"{name}: {reason}, so heads read every token, and those states are not kept in memory: it shares no pass "
            f"with other tasks. Fit it by itself: bertvision fit {name}"
        )


def _share(tasks: Sequence[FrozenTask]) -> SharedRows:
    """The rows of all texts of the tasks, which have the same encoder and pooling."""
    first = tasks[0]
    return SharedRows(first.encoder, [texts for frozen in tasks for texts in frozen.texts], first.passes, first.pool)
