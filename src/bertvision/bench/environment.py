"""BenchEnvironment: paths of a suite's data, encoders and runs on this machine; and digests of settings."""

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
    """Paths and device of this machine, which are no part of a cell's settings.

    Attributes:
        data: folder that contains the data folders named in cells; None if there is none.
        encoders: paths or hub names of encoders, by the names used in cells; others are loaded by that name.
        work: folder of the runs.
        device: device for all computations.
        show: progress callback.
    """

    data: Path | None = None
    encoders: Mapping[str, str] = field(default_factory=dict)
    work: Path = Path("runs/bench")
    device: Device = "auto"
    show: Show | None = None

    def find_data(self, name: str) -> str | None:
        """The data folder of that name; None for the built-in set.

        Raises:
            BertVisionError: there is no such folder.
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
        """The path or name to pass to `load_encoder` for an encoder of that name."""
        return self.encoders.get(name, name)

    def run(self, kind: str, settings: Any, seed: int) -> Path:  # noqa: ANN401 - a dataclass of any kind
        """The folder of the run with these settings and seed; suites share it."""
        return self.work / f"{kind}-{settings_digest(kind, settings, seed)}"


def settings_digest(kind: str, settings: Any, seed: int) -> str:  # noqa: ANN401 - a dataclass of any kind
    """Digest of a kind, its settings and a seed: 12 hexadecimal digits.

    Numbers count as float, so 1 and 1.0 are equal. Defaults do not count, so that a new setting with a default changes
    no digest.
    """
    content = {"kind": kind, "seed": seed, "settings": _changed(settings)}
    return hashlib.sha256(json.dumps(_as_floats(content), sort_keys=True).encode()).hexdigest()[:12]


def agrees(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether the settings in a record equal the current ones, both as JSON; settings it does not have are ignored.

    Records have all settings, so a default that has changed since then makes them differ.
    """

    def same(one: object, two: object) -> bool:
        if isinstance(one, list) and isinstance(two, list):
            return len(one) == len(two) and all(map(same, one, two))
        return agrees(one, two) if isinstance(one, dict) and isinstance(two, dict) else one == two

    return all(key in now and same(value, now[key]) for key, value in before.items())


def _changed(settings: Any) -> dict[str, Any]:  # noqa: ANN401 - a dataclass of any kind
    """The settings that differ from their defaults; every setting has one."""
    defaults = type(settings)()
    values = {one.name: getattr(settings, one.name) for one in fields(settings)}
    return {name: _changed_within(value) for name, value in values.items() if value != getattr(defaults, name)}


def _changed_within(value: Any) -> Any:  # noqa: ANN401 - a setting of any type
    """A setting, in which nested settings are reduced to those that differ from their defaults."""
    if isinstance(value, tuple):
        return [_changed_within(one) for one in value]
    return _changed(value) if is_dataclass(value) else value


def _as_floats(value: Any) -> Any:  # noqa: ANN401 - anything that JSON can hold
    """The same JSON value with all numbers as float."""
    match value:
        case bool() | str() | None:
            return value
        case int() | float():
            return float(value)
        case dict():
            return {key: _as_floats(one) for key, one in value.items()}
        case _:
            return [_as_floats(one) for one in value]
