"""Batcher: a bounded queue, and one thread that runs the model on all waiting requests together."""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Generic, Protocol, TypeVar, final

from bertvision.server.limits import Limits, RefusedError


class Batched(Protocol):
    """What the batcher needs of a job."""

    @property
    def characters(self) -> int:
        """Number of characters in all its texts, as a measure of its cost."""

    @property
    def alone(self) -> bool:
        """Whether it must be computed separately from others."""


Job = TypeVar("Job", bound=Batched)
Result = TypeVar("Result")


@final
class Batcher(Generic[Job, Result]):
    """Takes jobs from many threads, and computes them in batches in a thread of its own.

    Every accepted job is computed, unless its future is cancelled before. Of the jobs that are taken from the queue
    together, those that must be computed alone come last, so that the others do not wait for them.

    Attributes:
        on_pass: callback that gets the number of jobs in a pass, before they are computed.
    """

    def __init__(self, compute: Callable[[Sequence[Job]], Sequence[Result]], limits: Limits) -> None:
        """Prepare the queue and the thread; `start` starts it.

        Args:
            compute: function from jobs to a result for each; only the batcher's thread calls it.
            limits: limits on the queue, on the size of a pass, and on the wait for more jobs.
        """
        self._compute = compute
        self._limits = limits
        self.on_pass: Callable[[int], None] = lambda _jobs: None
        self._queue: deque[tuple[Job, Future[Result]]] = deque()
        self._changed = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._work, name="batcher", daemon=True)  # so it keeps no process alive

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def closing(self) -> bool:
        """Whether it was told to close, and accepts no more jobs."""
        return self._closing

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def submit(self, job: Job) -> Future[Result]:
        """Put a job into the queue; the future gets its result.

        Raises:
            RefusedError: the queue is full, or the batcher is closing.
        """
        with self._changed:
            if self._closing:
                raise RefusedError(503, "stopping", "the server is being stopped. Try another one, or later.")
            if len(self._queue) >= self._limits.queue:
                message = f"{len(self._queue):,} requests are waiting already. Try again in a second."
                raise RefusedError(429, "queue_full", message, retry_after=1)
            future: Future[Result] = Future()
            self._queue.append((job, future))
            self._changed.notify()
        return future

    def close(self) -> None:
        """Compute all accepted jobs, and end the thread."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()

    def _work(self) -> None:
        while gathered := self._gather():
            together = [(job, future) for job, future in gathered if not job.alone]
            for group in (together, *([(job, future)] for job, future in gathered if job.alone)):
                pending = [(job, future) for job, future in group if future.set_running_or_notify_cancel()]
                if pending:
                    self._run(pending)

    def _gather(self) -> list[tuple[Job, Future[Result]]]:
        """Wait for jobs, and take the next batch from the queue; none if the batcher is closed and the queue empty."""
        with self._changed:
            while not self._queue and not self._closing:
                self._changed.wait()
            until = time.monotonic() + self._limits.wait_ms / 1000
            while len(self._queue) < self._limits.batch and not self._closing:
                left = until - time.monotonic()
                if left <= 0 or not self._changed.wait(left):
                    break
            taken: list[tuple[Job, Future[Result]]] = []
            room = self._limits.batch_characters
            while self._queue and len(taken) < self._limits.batch:
                room -= self._queue[0][0].characters
                if taken and room < 0:
                    break
                taken.append(self._queue.popleft())
            return taken

    def _run(self, pending: Sequence[tuple[Job, Future[Result]]]) -> None:
        self.on_pass(len(pending))
        try:
            results = self._compute([job for job, _ in pending])
        except Exception as error:  # noqa: BLE001 - any error is the result of these jobs; the thread must not end
            if len(pending) == 1:
                pending[0][1].set_exception(error)
                return
            for single in pending:  # again one by one, so that a job that fails does not fail the others
                self._run([single])
            return
        for (_, future), result in zip(pending, results, strict=True):
            future.set_result(result)
