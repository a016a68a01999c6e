"""PackGraph: an encoder with a pack's heads as one module; write_graph exports it to ONNX."""

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
"""ONNX opset: the first with GELU as one operator; ONNX Runtime reads it since version 1.17."""

SAMPLE = (2, 8)
"""Windows and tokens of the batch for tracing: a size of 1 would become a constant of the graph."""


@final
class PackGraph(nn.Module):
    """Padded windows → the outputs of every head: for every token in tasks of kind `spans`, else a row per window."""

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
        """Outputs of every head: (batch, tokens, outputs) for spans, else (batch, outputs).

        Args:
            ids: (batch, tokens) vocabulary numbers.
            types: (batch, tokens) segment numbers.
            mask: (batch, tokens) True where a token is real.
            second_ids: `ids` of the second texts, if the texts of a pair are encoded separately.
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
        # through all layers, since torch cannot trace a pass that stops early; layers that no head needs are dropped
        # from the graph
        self.encoder.visit(TokenBatch(ids, types, mask, None, ids.shape[1]), collected.__setitem__)
        return HiddenStates(torch.stack([collected[layer] for layer in self._layers], dim=1), mask, None, types > 0)


@torch.no_grad()
def write_graph(graph: PackGraph, card: PackCard, path: Path, *, limit: int | None) -> None:
    """Export a pack's module to ONNX, for batches of any size and windows of any length up to the limit.

    Args:
        graph: module on the CPU.
        card: card of its pack.
        path: file to write.
        limit: maximum number of tokens in a window; None if the encoder has no limit.

    Raises:
        BertVisionError: the encoder or a head cannot be exported.
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
                tuple(torch.ones(SAMPLE, dtype=dtype) for _ in names for dtype in dtypes),  # the same one is one input
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
    """Suppress log messages up to WARNING, warnings and standard output, which libraries fill during an export."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
