"""What the model is asked for."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One request, checked.

    Attributes:
        pack: number of the pack.
        text: a text, or a question.
        pair: the second text of a pair, or the context of a question; None where a pack reads single texts.
        top: maximum number of answers; None where there is nothing to choose from.
        layers: whether the contributions of the layers are requested instead of the answer.
    """

    pack: int
    text: str
    pair: str | None = None
    top: int | None = None
    layers: bool = False

    @property
    def characters(self) -> int:
        """Number of characters in both texts."""
        return len(self.text) + len(self.pair or "")

    @property
    def alone(self) -> bool:
        """Whether it is computed by itself, since it needs gradients."""
        return self.layers
