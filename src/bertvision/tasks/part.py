"""Part: examples and their token windows."""

from dataclasses import dataclass

from bertvision.tasks.examples import Examples
from bertvision.tasks.windows import Windows


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A split or a subset of one: its examples, and the token windows cut from them."""

    examples: Examples
    windows: Windows
