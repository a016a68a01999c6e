"""Limits of the server, and the error for requests that it refuses."""

import math
from dataclasses import dataclass, fields
from typing import final

from typing_extensions import override

from bertvision.errors import BertVisionError


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of the server."""

    body_bytes: int = 1_000_000
    """Most bytes in the body of a request; a larger one gets status 413."""

    text_characters: int = 50_000
    """Most characters in a text; a longer one gets status 422."""

    queue: int = 256
    """Most requests that wait for the model; further ones get status 429."""

    seconds: float = 30.0
    """Timeout: seconds from a request to its answer; after that it gets status 503."""

    batch: int = 32
    """Most requests in one pass; 1 computes each alone."""

    batch_characters: int = 200_000
    """Most characters in one pass, so that short texts do not wait for many long ones."""

    wait_ms: float = 2.0
    """Milliseconds that an idle model waits for more requests before it starts a pass."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value, option = getattr(self, field.name), field.name.replace("_", "-")
            least = 0 if field.name == "wait_ms" else 1
            if not value >= least:  # NaN is refused, too
                raise BertVisionError(f"--{option} is {value}, at least {least} is expected.")
            if value == math.inf:
                raise BertVisionError(f"--{option} is {value}, a finite number is expected.")


@final
class RefusedError(Exception):
    """A request is refused, with the HTTP status and the body of the reply.

    Attributes:
        status: HTTP status code.
        code: the reason as an identifier, for programs.
        message: the reason as a sentence, with what to do.
        retry_after: seconds after which the client may try again; None if that does not help.
    """

    def __init__(self, status: int, code: str, message: str, *, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.retry_after = retry_after

    @override
    def __str__(self) -> str:
        return f"{self.status} {self.code}: {self.message}"
