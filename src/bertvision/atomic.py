"""A file is either whole or not there: written under a temporary name, then renamed."""

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from bertvision.errors import BertVisionError


def write_text(path: Path, text: str) -> None:
    """Write a text file, replacing an older one only when the new one is complete.

    Raises:
        BertVisionError: the file cannot be written (no such folder, no space, no permission).
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise BertVisionError(f"{path} cannot be written: {error.strerror}.") from None
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(0o644)  # mkstemp makes files for their owner alone
        Path(temporary).replace(path)
    except OSError as error:
        raise BertVisionError(f"{path} cannot be written: {error.strerror}.") from None
    finally:
        Path(temporary).unlink(missing_ok=True)


def write_json(path: Path, content: Any) -> None:  # noqa: ANN401 - anything that JSON can hold
    """Write a JSON file, readable by people, as `write_text` does."""
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
