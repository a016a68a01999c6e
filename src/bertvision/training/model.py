"""TunedModel: an encoder and a head trained together; TaskModels: several heads on one shared encoder."""

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
    """Token windows → one row of outputs per token, or one per window.

    Attributes:
        encoder: computes the states.
        head: reads them.
        pool: how states are pooled over the tokens before the head; None does not pool. For a head that is not
            `token_wise` they are never pooled; its outputs are pooled later, in the loss.
        pooled: whether the encoder's own pooled vector is an additional layer, below all others.
        apart: whether the first half of the windows are the first texts of pairs and the second half the second ones;
            the head then reads the pooled rows of both, concatenated.
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
        """Outputs, (windows, tokens, outputs), and their mask; those of packed windows are padded."""
        states = StateBatch(self._states(batch), lowest=self.head.reads[0], packed=batch if batch.packed else None)
        if self.apart and self.pool is not None:
            states = states.side_by_side(self.pool)
        return states.read(self.head, self.pool)

    def _states(self, batch: TokenBatch) -> HiddenStates:
        """The layers that the head reads."""
        if not self.pooled:
            hidden: HiddenStates = self.encoder(batch, layers=self.head.reads)
            return hidden
        # the pooled vector needs the last layer, so the encoder cannot stop early
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
