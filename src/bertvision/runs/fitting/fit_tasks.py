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

ALIKE = ("encoder", "pool", "device", "dtype")
"""What tasks must ask for alike, so that one pass serves them all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksResult:
    """What came out of the fits of several tasks.

    Attributes:
        out: folder of the fits.
        results: results of each task, by name.
        notices: what the user should know.
    """

    out: Path
    results: dict[str, FitResult]
    notices: tuple[str, ...]


def fit_tasks(
    requests: Sequence[FitRequest], out: str | Path, *, resume: bool = False, show: Show | None = None
) -> TasksResult:
    """Encode every different text of several tasks once, then fit each task's heads in a folder of its own.

    Two texts that are aligned have one row, and every different pair of them is encoded once. A task's results are
    those it has when it is fitted alone, but for the last bits: windows are encoded in other batches. Killed fits go on
    with `resume`; the texts of tasks that are finished are not encoded again.

    Raises:
        BertVisionError: the requests do not go together, or something in one of them does not fit.
    """
    for request in requests:
        request.check()
    _check_alike(requests)
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
        frozen = {task: replace(one, shared=shared) for task, one in frozen.items()}
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


def _check_alike(requests: Sequence[FitRequest]) -> None:
    tasks = [request.task for request in requests]
    for task in tasks:
        if tasks.count(task) > 1:
            raise BertVisionError(f"{task} is named {tasks.count(task)} times. Name every task once.")
    for name in ALIKE:
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
    """Refuse a task whose states do not stay in memory."""
    if not frozen.in_memory:
        name = frozen.task.name
        reason = "it asks for spans" if frozen.task.kind == "spans" else "--pool attention"
        raise BertVisionError(
            f"{name}: {reason}, so heads read every token, and those states are not kept in memory: it shares no pass "
            f"with other tasks. Fit it by itself: bertvision fit {name}"
        )


def _share(tasks: Sequence[FrozenTask]) -> SharedRows:
    first = tasks[0]
    return SharedRows(first.encoder, [some for frozen in tasks for some in frozen.texts], first.passes, first.pool)
