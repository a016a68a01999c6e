"""The `bertvision extract` that makes a store, in words to copy."""

import shlex
from dataclasses import fields
from pathlib import Path

from bertvision.runs.fitting.extract import ExtractRequest


def extract_command(request: ExtractRequest, beside: Path) -> str:
    """The command that makes what is asked for, in a folder beside one that holds something else."""
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
    words += ["--keep", request.keep, "--store", str(_free(beside))]
    return shlex.join(words)


def _free(folder: Path) -> Path:
    """A name like a folder's that nothing has yet."""
    number = 2
    while (other := folder.with_name(f"{folder.name}-{number}")).exists():
        number += 1
    return other
