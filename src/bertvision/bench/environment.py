"""BenchEnvironment: where a suite's data, encoders and runs are on this machine, which no result depends on."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any

from bertvision.device import Device
from bertvision.errors import BertVisionError
from bertvision.runs.watch import Show

BUILTIN_DATA = "builtin"


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchEnvironment:
    """Where things are.

    Attributes:
        data: the folder that holds the folders of data that cells name; None if there is none.
        encoders: where an encoder is, by the name that cells use; others are looked for under their name.
        work: folder of the runs.
        device: where to compute.
        show: is told how far a cell is.
    """

    data: Path | None = None
    encoders: Mapping[str, str] = field(default_factory=dict)
    work: Path = Path("runs/bench")
    device: Device = "auto"
    show: Show | None = None

    def find_data(self, name: str) -> str | None:
        """The folder of data of that name; None is the built-in set.

        Raises:
            BertVisionError: it is not there.
        """
        if name == BUILTIN_DATA:
            return None
        if self.data is None:
            raise BertVisionError(
                f"the suite needs the data '{name}'. Say where they are: --data DIR that holds {name}/"
            )
        if not (self.data / name).exists():
            raise BertVisionError(f"the suite needs the data '{name}', and {self.data} holds none of that name.")
        return str(self.data / name)

    def find_encoder(self, name: str) -> str:
        """What `load_encoder` takes for an encoder of that name."""
        return self.encoders.get(name, name)

    def run(self, kind: str, settings: Any, seed: int) -> Path:  # noqa: ANN401 - a dataclass of any kind
        """The folder of the run that settings and a seed stand for, whichever suite asks for it."""
        return self.work / f"{kind}-{settings_digest(kind, settings, seed)}"


def settings_digest(kind: str, settings: Any, seed: int) -> str:  # noqa: ANN401 - a dataclass of any kind
    """Twelve letters that stand for settings and a seed; the same for 1 and 1.0, and when kinds learn new words."""
    content = {"kind": kind, "seed": seed, "settings": _differing(settings)}
    return hashlib.sha256(json.dumps(_alike(content), sort_keys=True).encode()).hexdigest()[:12]


def agrees(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether settings of a record, as JSON has them, are those of now: words that are new since then do not count.

    A default that has changed since then counts, since records have all settings.
    """

    def same(one: object, two: object) -> bool:
        if isinstance(one, list) and isinstance(two, list):
            return len(one) == len(two) and all(map(same, one, two))
        return agrees(one, two) if isinstance(one, dict) and isinstance(two, dict) else one == two

    return all(key in now and same(value, now[key]) for key, value in before.items())


def _differing(settings: Any) -> dict[str, Any]:  # noqa: ANN401 - a dataclass of any kind
    """The settings that differ from their defaults, which all have."""
    usual = type(settings)()
    found = {one.name: getattr(settings, one.name) for one in fields(settings)}
    return {name: _short(value) for name, value in found.items() if value != getattr(usual, name)}


def _short(value: Any) -> Any:  # noqa: ANN401 - a setting of any type
    """Settings in a setting without their defaults."""
    if isinstance(value, tuple):
        return [_short(one) for one in value]
    return _differing(value) if is_dataclass(value) else value


def _alike(value: Any) -> Any:  # noqa: ANN401 - anything that JSON can hold
    match value:
        case bool() | str() | None:
            return value
        case int() | float():
            return float(value)
        case dict():
            return {key: _alike(one) for key, one in value.items()}
        case _:
            return [_alike(one) for one in value]
