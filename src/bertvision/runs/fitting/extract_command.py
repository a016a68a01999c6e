"""extract_command: the command line of `bertvision extract` that makes a store, for messages."""

import shlex
from dataclasses import fields
from pathlib import Path

from bertvision.runs.fitting.extract import ExtractRequest


def extract_command(request: ExtractRequest, beside: Path) -> str:
    """The shell command for a request, with a new folder beside `beside`, which holds another store."""
    words = ["bertvision", "extract", request.task]
    if request.data is not None:
        words += ["--data", request.data]
    words += ["--skip-bad"] * request.skip_bad
    for field in fields(request.columns):
        value = getattr(request.columns, field.name)
        if value != field.default:
            option = f"--{field.name.replace('_', '-')}"
            words += [option] if value is True else [option, value]
    windows = request.windows
    words += ["--length", str(windows.length), "--stride", str(windows.stride), "--question", str(windows.question)]
    words += ["--encoder", request.encoder]
    if request.layers is not None:
        words += ["--layers", request.layers]
    if request.pool is not None:
        words += ["--pool", request.pool]
    if request.dtype != "auto":
        words += ["--dtype", request.dtype]
    words += ["--keep", request.keep, "--store", str(_unused_path(beside))]
    return shlex.join(words)


def _unused_path(folder: Path) -> Path:
    """The folder's path with the first of the suffixes -2, -3, … under which nothing exists."""
    named = folder.resolve() if folder.name in {"", ".."} else folder  # `.` and `..` have no name of their own
    number = 2
    while (other := named.with_name(f"{named.name}-{number}")).exists():
        number += 1
    return other
