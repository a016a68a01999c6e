"""What was fitted on some examples must not be judged by them."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from bertvision.errors import BertVisionError

HELD_OUT_PREFIX = "held_out_"
"""Before the names of metrics on held-out examples."""


def check_unseen(what: str, fitted_on: AbstractSet[str], ids: Sequence[str]) -> None:
    """Refuse examples that something was fitted on.

    Args:
        what: was fitted, in words.
        fitted_on: the ids it was fitted on.
        ids: those it is to be applied to.

    Raises:
        BertVisionError: one of `ids` is among them.
    """
    seen = [key for key in ids if key in fitted_on]
    if seen:
        raise BertVisionError(
            f"the {what} was fitted on {len(seen):,} of these {len(ids):,} examples, first '{seen[0]}'. "
            "Fit it on held-out training examples."
        )
