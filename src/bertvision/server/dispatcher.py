"""Dispatcher: checks a request, hands it to the batcher, and waits for the reply."""

import asyncio
from dataclasses import dataclass
from typing import final

from bertvision.errors import BertVisionError, UnknownNameError
from bertvision.server.batcher import Batcher
from bertvision.server.jobs import Job
from bertvision.server.limits import Limits, RefusedError
from bertvision.server.service import PackService, Reply
from bertvision.tasks.task import TaskKind


@final
@dataclass(frozen=True, slots=True)
class Dispatcher:
    """Chooses the packs for requests, and waits for the replies to their jobs.

    Attributes:
        service: packs that are served.
        batcher: computes the jobs.
        limits: limits on texts and on time.
    """

    service: PackService
    batcher: Batcher[Job, Reply]
    limits: Limits

    def choose(self, kinds: tuple[TaskKind, ...], name: str | None) -> int:
        """The index of the pack that a request names, or if it names none, of the first one for such tasks.

        Args:
            kinds: kinds of tasks that the request is for.
            name: name of the pack; None if the request names none.

        Raises:
            BertVisionError: no pack for such tasks is served, or none with that name.
        """
        numbers = {
            known: number
            for number, (known, card) in enumerate(zip(self.service.names, self.service.cards, strict=True))
            if card.task.kind in kinds
        }
        if not numbers:
            served = ", ".join(self.service.names)
            raise BertVisionError(f"no pack here is for {' or '.join(kinds)}; served are: {served}.")
        if name is None:
            return next(iter(numbers.values()))
        if name not in numbers:
            raise UnknownNameError("pack", name[:80], numbers)
        return numbers[name]

    async def ask(self, job: Job) -> Reply:
        """Compute a job together with others, and return its reply.

        Raises:
            BertVisionError: the job is not what its pack reads.
            RefusedError: a text is too long, the queue is full, the server is stopping, or the time is over.
        """
        most = self.limits.text_characters
        longest = max(len(job.text), len(job.pair or ""))
        if longest > most:
            message = f"a text may have {most:,} characters at most, got {longest:,}. Cut it."
            raise RefusedError(422, "text_too_long", message)
        self.service.check(job)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(self.batcher.submit(job)), self.limits.seconds)
        except TimeoutError:
            seconds = self.limits.seconds
            message = f"there was no reply within {seconds:g} seconds. Try again later, or with less text."
            raise RefusedError(503, "too_slow", message, retry_after=1) from None
