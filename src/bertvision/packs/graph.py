"""PackGraph: an encoder with a pack's heads as one module, and the ONNX graph of it."""

import io
import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import final

import torch
from torch import Tensor, nn
from torch.export import Dim
from typing_extensions import override

from bertvision.encoder.batch import TokenBatch
from bertvision.encoder.encoder import Encoder
from bertvision.encoder.states import HiddenStates
from bertvision.errors import BertVisionError
from bertvision.heads import Head, layers_read
from bertvision.inference.pair_rows import read_texts
from bertvision.objectives import pool_rows
from bertvision.packs.card import PackCard
from bertvision.packs.graph_reader import input_names
from bertvision.training.states import StateBatch

OPSET = 20
"""The first with Gelu as one operator; every ONNX Runtime since 1.17 reads it."""

SAMPLE = (2, 8)
"""Windows and tokens of the batch that is traced: not 1, which would be taken for a constant."""


@final
class PackGraph(nn.Module):
    """Padded windows → the outputs of every head: of every token for answers in a text, else one row per window."""

    def __init__(self, card: PackCard, encoder: Encoder, heads: Sequence[Head]) -> None:
        super().__init__()
        self.encoder = encoder
        self.heads = nn.ModuleList(heads)
        self._card = card
        self._readers = list(heads)
        self._layers = layers_read(heads)

    @override
    def forward(
        self,
        ids: Tensor,
        types: Tensor,
        mask: Tensor,
        second_ids: Tensor | None = None,
        second_types: Tensor | None = None,
        second_mask: Tensor | None = None,
    ) -> tuple[Tensor, ...]:
        """Outputs of every head.

        Args:
            ids: (batch, tokens) vocabulary numbers.
            types: (batch, tokens) segment numbers.
            mask: (batch, tokens) True where a token is real.
            second_ids: `ids` of the second texts, where those of a pair are encoded apart.
            second_types: `types` of the second texts.
            second_mask: `mask` of the second texts.
        """
        hidden = [self._encode(ids, types, mask)]
        if second_ids is not None and second_types is not None and second_mask is not None:
            hidden.append(self._encode(second_ids, second_types, second_mask))
        card, lowest = self._card, self._layers[0]
        if card.reads == "rows":
            rows = read_texts(hidden, card.pool, card.pairs).unsqueeze(2)
            batch = StateBatch(HiddenStates(rows, torch.ones_like(rows[:, 0, :, 0], dtype=torch.bool)), lowest=lowest)
            return tuple(batch.read(head)[0][:, 0] for head in self._readers)
        batch = StateBatch(hidden[0], lowest=lowest)
        if card.task.kind == "spans":
            return tuple(batch.read(head)[0] for head in self._readers)
        return tuple(pool_rows(*batch.read(head, card.pool), card.pool) for head in self._readers)

    def _encode(self, ids: Tensor, types: Tensor, mask: Tensor) -> HiddenStates:
        collected: dict[int, Tensor] = {}
        # to the top, since torch cannot trace a pass that is left early; what no head needs, it drops from the graph
        self.encoder.visit(TokenBatch(ids, types, mask, None, ids.shape[1]), collected.__setitem__)
        return HiddenStates(torch.stack([collected[layer] for layer in self._layers], dim=1), mask, None, types > 0)


@torch.no_grad()
def write_graph(graph: PackGraph, card: PackCard, path: Path, *, limit: int | None) -> None:
    """Write a graph whose numbers of windows and tokens are free.

    Args:
        graph: graph on the CPU.
        card: card of its pack.
        path: file to write.
        limit: most tokens in a window; None where there is no end.

    Raises:
        BertVisionError: something that encoder or heads do has no form in ONNX.
    """
    graph.eval()
    names = input_names(separate=card.separate)
    dtypes = (torch.int64, torch.int64, torch.bool)
    batch = Dim("batch", min=1)
    tokens = [Dim(name, min=2, max=limit) for name in ("tokens", "second_tokens")]
    flat = [name for side in names for name in side]
    try:
        with quiet(), graph.encoder.plain_attention():
            torch.onnx.export(
                graph,
                tuple(torch.ones(SAMPLE, dtype=dtype) for _ in names for dtype in dtypes),  # one tensor is one input
                path,
                dynamo=True,
                input_names=flat,
                output_names=list(card.heads),
                dynamic_shapes=tuple(
                    {0: batch, 1: side} for side, _ in zip(tokens, names, strict=False) for _ in dtypes
                ),
                opset_version=OPSET,
                external_data=False,
                verbose=False,
            )
    except Exception as error:
        cause = error.__cause__ or error
        reason = next(iter(str(cause).strip().splitlines()), type(cause).__name__)
        raise BertVisionError(
            f"{graph.encoder.name} ({graph.encoder.config.model_type}) with {', '.join(card.heads)} cannot be exported "
            f"({reason}). Use it with PyTorch, or take other heads."
        ) from error


@contextmanager
def quiet() -> Iterator[None]:
    """Keep to ourselves what libraries say of their own inner life while they export."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
