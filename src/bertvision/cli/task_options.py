"""The options for data and encoder that all commands with a task share, and parsers of option values."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from bertvision.cli.output import print_notes
from bertvision.errors import BertVisionError
from bertvision.pretrained import BUILTIN_ENCODER
from bertvision.tasks.load import TaskData, load_task
from bertvision.tasks.own import OwnColumns
from bertvision.tasks.windows import WindowOptions

_UNITS = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


@dataclass(frozen=True, slots=True, kw_only=True)
class DataOptions:
    """Where the data come from."""

    data: str | None = None
    """Data set: a folder in the official layout, one file (plain or .gz), 'hub' or 'hub:NAME' for the Hugging Face
    hub, or 'builtin' for the built-in set (default: the built-in set)."""

    skip_bad: bool = False
    """Skip rows that cannot be read, and report how many and why, instead of stopping."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderOptions:
    """Data, token windows and encoder."""

    data: DataOptions = field(default_factory=DataOptions)
    columns: OwnColumns = field(default_factory=OwnColumns)
    windows: WindowOptions = field(default_factory=WindowOptions)

    encoder: str = BUILTIN_ENCODER
    """Encoder: 'minilm', a local folder, a name on the hub, a tuned run (RUN, or RUN@0.3 for a snapshot), a pack's
    folder, or 'qa-minilm', the included pack."""

    def fields_of(self, task: str) -> dict[str, Any]:
        """The fields of a `DataRequest` for a task."""
        return {
            "task": task,
            "data": self.data.data,
            "columns": self.columns,
            "skip_bad": self.data.skip_bad,
            "windows": self.windows,
            "encoder": self.encoder,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOptions(EncoderOptions):
    """Data of one task, token windows and encoder."""

    task: str
    """Name of a task; 'bertvision ls tasks' lists them."""

    def data_fields(self) -> dict[str, Any]:
        """The fields of a `DataRequest`."""
        return self.fields_of(self.task)


def load_with_notes(task: str, data: str | None, columns: OwnColumns, *, skip_bad: bool) -> TaskData:
    """Load a task and print its notices on standard error."""
    loaded = load_task(task, data=data, columns=columns, skip_bad=skip_bad)
    print_notes(loaded.notices)
    return loaded


def parse_settings(settings: Sequence[str], *, option: str = "--set", example: str = "size=64") -> dict[str, str]:
    """Values by name, from words such as `size=64`; of repeated names the last counts.

    Raises:
        BertVisionError: a word has no name or no "=".
    """
    pairs = [setting.partition("=") for setting in settings]
    for name, sign, value in pairs:
        if not sign or not name:
            raise BertVisionError(
                f"{option} is '{name}{sign}{value}', a name and a value such as {example} are expected."
            )
    return {name: value for name, _, value in pairs}


def parse_caps(words: Sequence[str]) -> dict[str, int]:
    """Whole numbers by task, from words such as `quora=4000`.

    Raises:
        BertVisionError: a word is not of this form.
    """
    caps = parse_settings(words, option="--cap", example="quora=4000")
    try:
        return {task: int(most) for task, most in caps.items()}
    except ValueError:
        raise BertVisionError(
            f"--cap is '{', '.join(words)}', whole numbers such as quora=4000 are expected."
        ) from None


def parse_numbers(option: str, text: str) -> tuple[float, ...]:
    """Numbers separated by commas.

    Raises:
        BertVisionError: one of them is not a number.
    """
    try:
        return tuple(float(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise BertVisionError(f"{option} is '{text}', numbers such as 0.1,0.3,1 are expected.") from None


def parse_size(option: str, text: str | None) -> int | None:
    """A number of bytes from text such as 20GB, with decimal units; None stays None.

    Raises:
        BertVisionError: the text is not a size.
    """
    if text is None:
        return None
    size = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]B)?", text.strip().upper())
    if size is None:
        raise BertVisionError(f"{option} is '{text}', a size such as 500MB or 20GB is expected.")
    return int(float(size[1]) * _UNITS[size[2] or ""])
