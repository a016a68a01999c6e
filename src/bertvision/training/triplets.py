"""TripletData: triplets of texts as training data of an encoder without a head."""

from dataclasses import dataclass
from functools import partial
from typing import Self, final

import numpy as np
import torch
from torch import Tensor, nn
from typing_extensions import override

from bertvision.encoder.batch import TokenBatch, token_batch
from bertvision.encoder.encoder import Encoder
from bertvision.errors import BertVisionError
from bertvision.objectives import Pool, pool_rows
from bertvision.objectives.triplets import TripletLoss, triplet_losses
from bertvision.tasks.examples import IntArray
from bertvision.tasks.triplets import Triplets
from bertvision.tasks.windows import Windows
from bertvision.training.data import Forward, TrainBatch
from bertvision.training.options import TuneOptions
from bertvision.training.plan import Plan, StepPlan
from bertvision.training.states import StateBatch


@final
class SentenceModel(nn.Module):
    """Token windows → sentence vectors, pooled from the last layer.

    Attributes:
        encoder: computes the states.
        pool: how they are pooled over the tokens.
    """

    def __init__(self, encoder: Encoder, pool: Pool) -> None:
        super().__init__()
        self.encoder = encoder
        self.pool = pool

    @override
    def forward(self, batch: TokenBatch) -> Tensor:
        """Vectors, (windows, width)."""
        hidden = self.encoder(batch, layers=(self.encoder.depth,))
        padded = StateBatch(hidden, packed=batch if batch.packed else None).padded
        return pool_rows(padded.states[:, 0], padded.mask, self.pool)


@dataclass(frozen=True, slots=True, kw_only=True)
class TripletData:
    """Triplets of texts; rows are triplets.

    Attributes:
        triplets: which texts belong together.
        windows: of every text of the triplets.
        loss: of a triplet.
        margin: for the loss of that name.
        packed: whether windows are packed end to end.
        pad: number of the padding token.
        bf16: whether to compute in bfloat16; weights stay as they are.
    """

    triplets: Triplets
    windows: Windows
    loss: TripletLoss
    margin: float
    packed: bool
    pad: int
    bf16: bool = False

    def plan(self, options: TuneOptions) -> StepPlan:
        """Every triplet once per epoch."""
        return Plan(self.windows.lengths[self.triplets.anchor], options)

    def ready(self, options: TuneOptions, device: torch.device) -> Self:  # noqa: ARG002 - the protocol has it
        """The same; there are no classes to weigh.

        Raises:
            BertVisionError: class weights are asked for.
        """
        if options.class_weights:
            raise BertVisionError("--class-weights is for labels; triplets have none. Leave it out.")
        return self

    def train_batch(self, rows: IntArray) -> TrainBatch:
        """The batch of these triplets; its number of different texts varies, so it has no kind for CUDA graphs."""
        picked = self.triplets.select(rows)
        numbers = np.concatenate([picked.anchor, picked.positive, picked.negatives.ravel()])
        texts, place = np.unique(numbers, return_inverse=True)  # a text is encoded once, however often it is needed
        batch = token_batch(self.windows, texts, packed=self.packed, pad=self.pad)
        others = torch.from_numpy(place), torch.from_numpy(alike(picked))
        return TrainBatch((*batch.tensors, *others), partial(self._losses, batch))

    def _losses(self, form: TokenBatch, model: Forward, tensors: tuple[Tensor, ...]) -> Tensor:
        """The loss of every triplet, (rows,); the model gives one vector for each window."""
        *tokens, place, same = tensors
        with torch.autocast(place.device.type, dtype=torch.bfloat16, enabled=self.bf16):
            vectors = model(form.with_tensors(tokens))
        vectors = vectors.float()[place]
        count = len(same)
        return triplet_losses(
            self.loss,
            vectors[:count],
            vectors[count : 2 * count],
            vectors[2 * count :].view(count, -1, vectors.shape[-1]),
            margin=self.margin,
            alike=same,
        )


def alike(triplets: Triplets) -> "np.ndarray[tuple[int, int], np.dtype[np.bool_]]":
    """Where the column's positive is no negative of the row: of its group, or the text of its anchor or positive."""
    same: np.ndarray[tuple[int, int], np.dtype[np.bool_]] = (
        (triplets.group[:, None] == triplets.group)
        | (triplets.anchor[:, None] == triplets.positive)
        | (triplets.positive[:, None] == triplets.positive)
    )
    return same
