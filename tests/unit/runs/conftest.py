"""What tests of runs share."""

from collections.abc import Iterator

import pytest

from bertvision.training import solve


@pytest.fixture(scope="module")
def few_strengths() -> Iterator[None]:
    """Solved heads try 4 penalties, not 26: which of them is chosen has tests of its own, where it is chosen."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(solve, "STRENGTHS", (10.0, 1.0, 0.1, 0.01))
        yield
