"""RequestMiddleware: for every request its id, checks of host, token and body size, headers, log line, metrics."""

import asyncio
import hmac
import json
import logging
import re
import time
import uuid
from collections.abc import Callable
from typing import final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bertvision.server.limits import Limits, RefusedError
from bertvision.server.logs import LOGGER

OPEN = frozenset({"/", "/page.css", "/page.js", "/icon.svg", "/examples.json", "/healthz"})
"""Paths that need no token: the page, which asks for it, and the health check."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)

HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}

_PORT = re.compile(r":\d+$")
_GIVEN_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_log = logging.getLogger(LOGGER)


def problem(refused: RefusedError, request_id: str) -> tuple[bytes, dict[str, str]]:
    """Body and headers of the reply to a refused request."""
    error = {"code": refused.code, "message": refused.message, "request_id": request_id}
    headers = {"content-type": "application/json"}
    if refused.retry_after is not None:
        headers["retry-after"] = str(refused.retry_after)
    if refused.status == 401:
        headers["www-authenticate"] = "Bearer"
    return json.dumps({"error": error}).encode(), headers  # as ASCII: messages may quote invalid Unicode


@final
class RequestMiddleware:
    """ASGI middleware around the application."""

    def __init__(  # noqa: PLR0913 - what it checks, by keyword
        self,
        app: ASGIApp,
        *,
        limits: Limits,
        token: str | None,
        hosts: frozenset[str] | None,
        paths: frozenset[str],
        count: Callable[[str, int, float], None],
    ) -> None:
        """Wrap an application.

        Args:
            app: application that serves the requests.
            limits: limits on the size of bodies and on time.
            token: bearer token that requests must send; None needs no token.
            hosts: names allowed in the header Host, in lower case and without a port; None allows all.
            paths: paths that are served; others are counted as "other", so that invented paths cannot fill the metrics.
            count: callback that gets path, status and seconds of every request.
        """
        self._app = app
        self._limits = limits
        self._token = token
        self._hosts = hosts
        self._paths = paths
        self._count = count

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; a scope of another type goes to the application unchanged."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begin = time.perf_counter()
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        given = headers.get("x-request-id", "")
        request_id = given if _GIVEN_ID.fullmatch(given) else uuid.uuid4().hex
        scope.setdefault("state", {})["request_id"] = request_id
        status = 0

        async def send_on(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                added = HEADERS | {"x-request-id": request_id}
                message["headers"] = [*message.get("headers", []), *_raw(added)]
            await send(message)

        served = scope
        if scope["method"] == "HEAD":  # monitoring tools send it; the HTTP server leaves out the body of the reply
            served = {**scope, "method": "GET"}
        try:
            self._check_host(headers.get("host", ""))
            self._check_token(scope["path"], headers.get("authorization", ""))
            await self._app(served, _replay(await self._body(headers, receive), receive), send_on)
        except RefusedError as refused:
            await _send_problem(refused, request_id, send_on)
        except Exception:  # noqa: BLE001 - after any error the client gets a reply, and the log the traceback
            _log.exception("error", extra={"fields": {"request_id": request_id}})
            if not status:
                message = "this is a mistake of the server; its log tells more under the request's id."
                await _send_problem(RefusedError(500, "internal", message), request_id, send_on)
        finally:
            seconds = time.perf_counter() - begin
            path = scope["path"] if scope["path"] in self._paths else "other"
            self._count(path, status, seconds)
            fields = {"request_id": request_id, "method": scope["method"], "path": path, "status": status}
            _log.info("request", extra={"fields": fields | {"seconds": round(seconds, 6)}})

    def _check_host(self, host: str) -> None:
        """Refuse other host names: that of a malicious web page may resolve to this server (DNS rebinding)."""
        name = _PORT.sub("", host).lower()
        if self._hosts is not None and name not in self._hosts:
            message = f"the host '{name[:80]}' is not allowed. Use localhost, or start the server with --allowed-host."
            raise RefusedError(421, "wrong_host", message)

    def _check_token(self, path: str, authorization: str) -> None:
        if self._token is None or path in OPEN:
            return
        scheme, _, given = authorization.partition(" ")
        same = hmac.compare_digest(given.strip().encode(), self._token.encode())
        if scheme.lower() != "bearer" or not same:
            raise RefusedError(401, "token", "the token is missing or wrong. Send it: Authorization: Bearer TOKEN")

    async def _body(self, headers: dict[str, str], receive: Receive) -> bytes:
        """Read the whole body.

        Raises:
            RefusedError: it is larger than allowed, or does not arrive in time.
        """
        most = self._limits.body_bytes
        too_long = RefusedError(413, "body_too_large", f"the body may have {most:,} bytes at most. Send less text.")
        length = headers.get("content-length", "0")
        if length.isdecimal() and int(length) > most:
            raise too_long
        parts, size, more = [], 0, True
        try:
            async with asyncio.timeout(self._limits.seconds):
                while more:
                    message = await receive()
                    part = message.get("body", b"")
                    size += len(part)
                    if size > most:
                        raise too_long
                    parts.append(part)
                    more = message["type"] == "http.request" and message.get("more_body", False)
        except TimeoutError:
            message_text = f"the body did not arrive within {self._limits.seconds:g} seconds."
            raise RefusedError(408, "slow_body", message_text) from None
        return b"".join(parts)


def _replay(body: bytes, receive: Receive) -> Receive:
    """A `receive` for the application: first the body, which was read already, then the further messages."""
    replayed = False

    async def replay() -> Message:
        nonlocal replayed
        if replayed:
            return await receive()
        replayed = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


def _raw(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    """Headers as ASGI wants them."""
    return [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]


async def _send_problem(refused: RefusedError, request_id: str, send: Send) -> None:
    body, headers = problem(refused, request_id)
    headers["content-length"] = str(len(body))
    await send({"type": "http.response.start", "status": refused.status, "headers": _raw(headers)})
    await send({"type": "http.response.body", "body": body})
