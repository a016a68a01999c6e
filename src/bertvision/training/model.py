"""TunedModel: an encoder and a head as one module, so that they learn together; TaskModels: several that share one."""

from collections.abc import Mapping
from typing import final

from torch import Tensor, nn
from typing_extensions import override

from bertvision.encoder.batch import TokenBatch
from bertvision.encoder.encoder import Encoder
from bertvision.encoder.states import HiddenStates
from bertvision.heads import Head
from bertvision.objectives import Pool
from bertvision.training.states import StateBatch


@final
class TunedModel(nn.Module):
    """Token windows → one output row per token, or one per window.

    Attributes:
        encoder: gives the states.
        head: reads them.
        pool: how a window becomes one row before the head reads it; None gives the head every token. A head that
            looks beyond a token gets every token in any case, and its rows are pooled later.
        pooled: whether the head gets the encoder's own pooled vector as one more layer, below all others.
        apart: whether the first half of the windows are first texts of pairs and the rest their second texts, whose
            pooled rows the head reads side by side.
    """

    def __init__(
        self, encoder: Encoder, head: Head, *, pool: Pool | None = None, pooled: bool = False, apart: bool = False
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = head
        self.pool = pool
        self.pooled = pooled
        self.apart = apart

    @override
    def forward(self, batch: TokenBatch) -> tuple[Tensor, Tensor]:
        """Outputs, (windows, tokens, outputs), and their mask; packed windows come out apart from each other."""
        states = StateBatch(self._states(batch), lowest=self.head.reads[0], packed=batch if batch.packed else None)
        if self.apart and self.pool is not None:
            states = states.side_by_side(self.pool)
        return states.read(self.head, self.pool)

    def _states(self, batch: TokenBatch) -> HiddenStates:
        """The layers that the head reads."""
        if not self.pooled:
            hidden: HiddenStates = self.encoder(batch, layers=self.head.reads)
            return hidden
        # the pooled vector is made from the last layer, so there is nothing to save by reading fewer
        everything = self.encoder(batch, pooled=True).with_pooled()
        states = everything.states[:, self.head.among(0)]
        return HiddenStates(states, batch.mask, context=everything.context)


@final
class TaskModels(nn.Module):
    """One model for each of several tasks, on one encoder that they share.

    Attributes:
        tasks: the model of each task, by name.
    """

    def __init__(self, models: Mapping[str, TunedModel]) -> None:
        super().__init__()
        self.tasks = nn.ModuleDict(dict(models))

    @override
    def forward(self, batch: TokenBatch, *, task: str) -> tuple[Tensor, Tensor]:
        """Outputs of the model of a task, and their mask."""
        outputs: tuple[Tensor, Tensor] = self.tasks[task](batch)
        return outputs
