"""A check that nothing is evaluated on the examples that it was fitted on."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from bertvision.errors import BertVisionError

HELD_OUT_PREFIX = "held_out_"
"""Prefix of the names of metrics on held-out examples."""


def check_unseen(what: str, fitted_on: AbstractSet[str], ids: Sequence[str]) -> None:
    """Refuse examples that something was fitted on.

    Args:
        what: name of the fitted thing, for the message.
        fitted_on: ids of the examples it was fitted on.
        ids: of the examples it is to be applied to.

    Raises:
        BertVisionError: an id is in both.
    """
    seen = [key for key in ids if key in fitted_on]
    if seen:
        raise BertVisionError(
            f"the {what} was fitted on {len(seen):,} of these {len(ids):,} examples, first '{seen[0]}'. "
            "Fit it on held-out training examples."
        )
