"""Examples, and the windows cut from them."""

from dataclasses import dataclass

from bertvision.tasks.examples import Examples
from bertvision.tasks.windows import Windows


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A split, or some of it: its examples, and the windows cut from them."""

    examples: Examples
    windows: Windows
