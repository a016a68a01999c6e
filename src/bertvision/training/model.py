"""TunedModel: an encoder and a head as one module, so that they learn together."""

from typing import final

from torch import Tensor, nn
from typing_extensions import override

from bertvision.encoder.batch import TokenBatch, unpack
from bertvision.encoder.encoder import Encoder
from bertvision.encoder.states import HiddenStates
from bertvision.heads import Head
from bertvision.objectives import Pool, pool_rows


@final
class TunedModel(nn.Module):
    """Token windows → one output row per token, or one per window.

    Attributes:
        encoder: gives the states.
        head: reads them.
        pool: how a window becomes one row before the head reads it; None gives the head every token. A head that
            looks beyond a token gets every token in any case, and its rows are pooled later.
        pooled: whether the head gets the encoder's own pooled vector as one more layer, below all others.
    """

    def __init__(self, encoder: Encoder, head: Head, *, pool: Pool | None = None, pooled: bool = False) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = head
        self.pool = pool
        self.pooled = pooled

    @override
    def forward(self, batch: TokenBatch) -> tuple[Tensor, Tensor]:
        """Outputs, (windows, tokens, outputs), and their mask; packed windows come out apart from each other."""
        hidden = self._states(batch)
        whole_tokens = self.pool is None and self.head.token_wise
        if batch.packed and whole_tokens:
            return unpack(self.head(hidden.states, hidden.mask)[0], batch)
        if batch.packed:
            hidden = _unpacked(hidden, batch)
        if self.pool is not None and self.head.token_wise:
            states = pool_rows(hidden.states, hidden.mask, self.pool).unsqueeze(2)
            mask = hidden.mask.new_ones(len(states), 1)
            return self.head(states, mask), mask
        return self.head(hidden.states, hidden.mask, hidden.context), hidden.mask

    def _states(self, batch: TokenBatch) -> HiddenStates:
        """The layers that the head reads."""
        if not self.pooled:
            hidden: HiddenStates = self.encoder(batch, layers=self.head.reads)
            return hidden
        # the pooled vector is made from the last layer, so there is nothing to save by reading fewer
        everything = self.encoder(batch, pooled=True).with_pooled()
        return HiddenStates(everything.states[:, list(self.head.reads)], batch.mask, context=everything.context)


def _unpacked(hidden: HiddenStates, batch: TokenBatch) -> HiddenStates:
    """The states of packed windows, padded."""
    states, mask = unpack(hidden.states[0].transpose(0, 1), batch)  # (windows, tokens, layers, width)
    context = None if hidden.context is None else unpack(hidden.context[0], batch)[0]
    return HiddenStates(states.transpose(1, 2), mask, context=context)
