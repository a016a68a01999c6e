"""Dispatcher: takes a request, checks it, and waits for its reply."""

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
    """Turns requests into jobs, and waits for their replies."""

    service: PackService
    batcher: Batcher[Job, Reply]
    limits: Limits

    def choose(self, kinds: tuple[TaskKind, ...], name: str | None) -> int:
        """The number of the pack that a request names; of the first that is for such tasks, if it names none.

        Raises:
            BertVisionError: there is none.
        """
        fitting = {
            known: number
            for number, (known, card) in enumerate(zip(self.service.names, self.service.cards, strict=True))
            if card.task.kind in kinds
        }
        if not fitting:
            served = ", ".join(self.service.names)
            raise BertVisionError(f"no pack here is for {' or '.join(kinds)}; served are: {served}.")
        if name is None:
            return next(iter(fitting.values()))
        if name not in fitting:
            raise UnknownNameError("pack", name[:80], fitting)
        return fitting[name]

    async def ask(self, job: Job) -> Reply:
        """The reply to a job.

        Raises:
            BertVisionError: the pack cannot read it.
            RefusedError: it is too long, or took too long, or there are too many.
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
