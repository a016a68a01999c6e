"""Job: a request as the batcher and the packs take it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What one request asks of a pack.

    Attributes:
        pack: index of the pack.
        text: a text, or a question.
        pair: the second text of a pair, or the context of a question; None for a single text.
        top: maximum number of answers; None if the reply has no list of answers.
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
        """Whether it needs a pass of its own: contributions of layers need gradients."""
        return self.layers
