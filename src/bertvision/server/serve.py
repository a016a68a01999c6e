"""serve: listen, until a signal says to stop; what was accepted by then is answered."""

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
        port: 0 takes a free one.
        limits: how long to wait for replies under way when stopped.
        ready: function that gets the address when requests are accepted.

    Raises:
        BertVisionError: nobody can listen there.
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
        signal.signal(number, _stop_quietly)  # uvicorn raises the signal again when it has stopped
    log_to_standard_error()
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,  # the border writes these lines
        server_header=False,
        timeout_graceful_shutdown=int(limits.seconds) + 1,
    )
    with listening:
        shown = f"[{host}]" if family == socket.AF_INET6 else host
        ready(f"http://{shown}:{listening.getsockname()[1]}/")
        uvicorn.Server(config).run(sockets=[listening])


def _stop_quietly(_number: int, _frame: object) -> None:
    """Nothing is left to do."""
