"""Batcher: one thread runs the model on all requests that have gathered; a bounded queue before it."""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Generic, Protocol, TypeVar, final

from bertvision.server.limits import Limits, RefusedError


class Batched(Protocol):
    """What the batcher knows of a job."""

    @property
    def characters(self) -> int:
        """Number of characters in all its texts, as a measure of its cost."""

    @property
    def alone(self) -> bool:
        """Whether it is computed by itself."""


Job = TypeVar("Job", bound=Batched)
Result = TypeVar("Result")


@final
class Batcher(Generic[Job, Result]):
    """Gathers jobs of many threads, and computes them together in one.

    Every job that was accepted is computed, unless its future was cancelled before. Jobs that are computed alone come
    after those that were gathered with them, which do not wait for them.

    Attributes:
        told: function that gets the number of jobs in a pass, before they are computed.
    """

    def __init__(self, compute: Callable[[Sequence[Job]], Sequence[Result]], limits: Limits) -> None:
        """Prepare; `start` starts the thread.

        Args:
            compute: function from several jobs to a result for each; only the one thread calls it.
            limits: limits on the queue and on what is computed together.
        """
        self._compute = compute
        self._limits = limits
        self.told: Callable[[int], None] = lambda _jobs: None
        self._queue: deque[tuple[Job, Future[Result]]] = deque()
        self._changed = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._work, name="batcher", daemon=True)  # keeps no process alive

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def closing(self) -> bool:
        """Whether nothing more is accepted."""
        return self._closing

    def start(self) -> None:
        """Begin to compute."""
        self._thread.start()

    def submit(self, job: Job) -> Future[Result]:
        """Accept a job.

        Raises:
            RefusedError: too many are waiting, or the server is being stopped.
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
        """Compute what was accepted, and stop."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()

    def _work(self) -> None:
        while gathered := self._gather():
            together = [one for one in gathered if not one[0].alone]
            for group in (together, *([one] for one in gathered if one[0].alone)):
                live = [(job, future) for job, future in group if future.set_running_or_notify_cancel()]
                if live:
                    self._run(live)

    def _gather(self) -> list[tuple[Job, Future[Result]]]:
        """The jobs to compute next; none if there will be no more."""
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

    def _run(self, live: Sequence[tuple[Job, Future[Result]]]) -> None:
        self.told(len(live))
        try:
            results = self._compute([job for job, _ in live])
        except Exception as error:  # noqa: BLE001 - whatever it is, it belongs to the requests, and the thread goes on
            if len(live) == 1:
                live[0][1].set_exception(error)
                return
            for one in live:  # so that a job that cannot be computed spoils no other
                self._run([one])
            return
        for (_, future), result in zip(live, results, strict=True):
            future.set_result(result)
