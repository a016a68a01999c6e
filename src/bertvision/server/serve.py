"""serve: run the HTTP server until it gets a signal; requests accepted before that are answered."""

import signal
import socket
from collections.abc import Callable

import uvicorn
from fastapi import FastAPI

from bertvision.errors import BertVisionError
from bertvision.server.limits import Limits
from bertvision.server.logs import log_to_standard_error


def serve(app: FastAPI, *, host: str, port: int, limits: Limits, ready: Callable[[str], None]) -> None:
    """Serve an application until SIGINT or SIGTERM.

    Args:
        app: application from `build_app`.
        host: address to listen at.
        port: port to listen at; 0 takes a free one.
        limits: limits; when stopped, the server waits about `limits.seconds` for the replies under way.
        ready: callback that gets the URL once clients can connect.

    Raises:
        BertVisionError: listening at that address and port fails.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=2048)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise BertVisionError(
            f"cannot listen at {host}, port {port}: {reason}. Use another --host or --port."
        ) from None
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop_quietly)
    log_to_standard_error()
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,  # `RequestMiddleware` writes these lines
        server_header=False,
        timeout_graceful_shutdown=int(limits.seconds) + 1,
    )
    with listening:
        shown = f"[{host}]" if family == socket.AF_INET6 else host
        ready(f"http://{shown}:{listening.getsockname()[1]}/")
        uvicorn.Server(config).run(sockets=[listening])


def _stop_quietly(_number: int, _frame: object) -> None:
    """Do nothing: uvicorn has its own handler, and raises the signal again after it has stopped."""
