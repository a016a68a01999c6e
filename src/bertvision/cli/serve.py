"""`bertvision serve`: serve packs over HTTP, with a page to try them."""

import os
import re
from dataclasses import dataclass, field
from typing import Literal

from bertvision.cli.output import print_lines, print_note
from bertvision.errors import BertVisionError, MissingExtraError
from bertvision.server.limits import Limits

TOKEN = "BERTVISION_TOKEN"  # noqa: S105 - the name of a variable

LOOPBACK = ("127.0.0.1", "::1", "localhost")
"""Values of --host with which the server can only be reached from this machine."""

LOOPBACK_HOSTS = frozenset({"127.0.0.1", "[::1]", "localhost"})
"""The same as they are written in the header Host."""

HOST = re.compile(r"[\w.-]+|\[[0-9A-Fa-f:.]+\]", re.ASCII)
"""Form of a host name or address in that header, without the port."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of `bertvision serve`."""

    pack: tuple[str, ...] = field(default=(), metadata={"metavar": "PACK"})
    """Folder of a pack, or its name on the hub; repeat for more (default: the included pack)."""

    host: str = "127.0.0.1"
    """Address to listen on; the default can only be reached from this machine."""

    port: int = 8000
    """Port to listen on; 0 takes a free one."""

    token: str | None = None
    """Bearer token that requests must send (default: the environment variable BERTVISION_TOKEN, which other users
    cannot see)."""

    allowed_host: tuple[str, ...] = field(default=(), metadata={"metavar": "NAME"})
    """Host name, without a port, that requests may be addressed to besides localhost, such as that of a reverse proxy;
    repeat for more (default: localhost alone if the server listens on this machine and has no token, else any)."""

    encoder: str | None = None
    """Path or name of the packs' encoder (default: the one that the packs name)."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device; 'auto' uses a GPU if there is one."""

    runtime: Literal["auto", "torch", "onnx", "openvino", "openvino-bf16"] = "auto"
    """Runtime: 'torch' for ordinary packs, one of the others for packs written by 'bertvision export'; 'auto' takes the
    fastest of these that agrees with PyTorch."""

    limits: Limits = field(default_factory=Limits)


def run(options: Options) -> int:
    """Serve."""
    if not 0 <= options.port <= 65535:
        raise BertVisionError(f"--port is {options.port}, 0 to 65535 is expected.")
    token = options.token if options.token is not None else os.environ.get(TOKEN)
    if token is not None and not (token.isascii() and token.strip() == token and token):
        raise BertVisionError("the token is empty or has spaces or letters beyond ASCII, which no header can carry.")
    for name in options.allowed_host:
        if not HOST.fullmatch(name):
            raise BertVisionError(f"--allowed-host is '{name}', a name without scheme and port is expected.")
    try:
        from bertvision.server.app import build_app  # noqa: PLC0415 - help should open at once
        from bertvision.server.serve import serve  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if error.name not in ("fastapi", "uvicorn", "prometheus_client"):
            raise
        raise MissingExtraError("serving", error.name, "serve") from None
    from bertvision.packs.open_pack import open_pack  # noqa: PLC0415
    from bertvision.server.service import PackService  # noqa: PLC0415

    packs = [open_pack(name, runtime=options.runtime) for name in options.pack or (None,)]
    service = PackService(packs, encoder=options.encoder, device=options.device)
    if token is None and options.host not in LOOPBACK:
        print_note(f"whoever reaches {options.host} can use this server; --token lets in those alone who know it.")

    def ready(address: str) -> None:
        print_lines([f"serving {', '.join(service.names)} at {address}"])

    app = build_app(service, options.limits, token=token, hosts=_hosts(options, token))
    serve(app, host=options.host, port=options.port, limits=options.limits, ready=ready)
    return 0


def _hosts(options: Options, token: str | None) -> frozenset[str] | None:
    """Host names that requests may be addressed to; None for any.

    They protect against DNS rebinding, by which a web page can reach a server that listens on this machine only; with a
    token that is not needed, since the page does not know it.
    """
    if not options.allowed_host and (token is not None or options.host not in LOOPBACK):
        return None
    return LOOPBACK_HOSTS | {name.lower() for name in options.allowed_host}
