"""A server of tiny packs inside a test."""

import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI

from bertvision.packs.pack import Pack
from bertvision.server.app import build_app
from bertvision.server.jobs import Job
from bertvision.server.limits import Limits
from bertvision.server.service import PackService
from bertvision.tasks.load import TASKS
from tiny_pack import TAGS, make_pack
from tiny_run import save_tiny_encoder

ANY_ANSWER = 1e9
"""A threshold above which no margin is."""

CONTEXT = "a b gold c d"
QUESTION = "where is it ?"


def make_packs(folder: Path) -> dict[str, Pack]:
    """One pack of each kind over one encoder, and one over another."""
    encoder = save_tiny_encoder(folder / "encoder")
    other = save_tiny_encoder(folder / "other", seed=1)
    heads = ["layer_mix", "last_layer"]
    return {
        "squad2": make_pack(folder / "qa", encoder, TASKS["squad2"], heads=heads, threshold=ANY_ANSWER),
        "sst2": make_pack(folder / "mood", encoder, TASKS["sst2"], seed=1),
        "sts": make_pack(folder / "alike", encoder, TASKS["sts"], pairs="apart", seed=2),
        "moods": make_pack(folder / "tags", encoder, TAGS, reads="tokens", seed=3),
        "answerable": make_pack(folder / "answerable", encoder, TASKS["answerable"], heads=["layer_mix"], seed=4),
        "silent": make_pack(folder / "silent", encoder, TASKS["squad2"], heads=["layer_mix"], threshold=-ANY_ANSWER),
        "other": make_pack(folder / "elsewhere", other, TASKS["sst2"], seed=5),
    }


def app_with(
    service: PackService,
    *,
    token: str | None = None,
    before: Callable[[Sequence[Job]], object] = lambda _jobs: None,
    **limits: Any,  # noqa: ANN401 - fields of Limits
) -> FastAPI:
    """An application; `before` sees the jobs of every pass before they are computed."""

    class Watched:
        def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the service has
            return getattr(service, name)

        def run(self, jobs: Sequence[Job]) -> list[dict[str, Any]]:
            before(jobs)
            return service.run(jobs)

    watched: Any = Watched()
    return build_app(watched, Limits(**limits), token=token)


@contextmanager
def listening(app: FastAPI) -> Iterator[str]:
    """Serve an application at a free port of this machine from a thread of its own; gives the address."""
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False))
    with socket.create_server(("127.0.0.1", 0)) as place:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [place]})
        thread.start()
        yield f"http://127.0.0.1:{place.getsockname()[1]}/"
        server.should_exit = True
        thread.join()
