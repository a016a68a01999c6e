"""TunedModel: an encoder and a head as one module, so that they learn together."""

from typing import final

from torch import Tensor, nn
from typing_extensions import override

from bertvision.encoder.batch import TokenBatch, unpack
from bertvision.encoder.encoder import Encoder
from bertvision.heads import Head


@final
class TunedModel(nn.Module):
    """Token windows → one output row per token."""

    def __init__(self, encoder: Encoder, head: Head) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = head

    @override
    def forward(self, batch: TokenBatch) -> tuple[Tensor, Tensor]:
        """Outputs, (windows, tokens, outputs), and their mask; packed windows come out apart from each other."""
        depth = self.encoder.depth
        reads = self.head.reads
        layers = None if reads is None else [depth + 1 + layer for layer in reads]
        hidden = self.encoder(batch, layers=layers)
        if not batch.packed:
            outputs: Tensor = self.head(hidden.states, hidden.mask)
            return outputs, hidden.mask
        if self.head.token_wise:
            return unpack(self.head(hidden.states, hidden.mask)[0], batch)
        rows, mask = unpack(hidden.states[0].transpose(0, 1), batch)  # (windows, tokens, layers, width)
        return self.head(rows.transpose(1, 2), mask), mask
