"""PackModels: packs over one frozen encoder in PyTorch, computed in a single pass."""

from collections.abc import Sequence
from typing import final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from typing_extensions import override

from bertvision.device import Device
from bertvision.errors import BertVisionError
from bertvision.evaluation.outputs import GatheredOutputs, Outputs
from bertvision.heads import Head, layers_read
from bertvision.inference.computed_states import RowStates, StreamStates, encode_texts
from bertvision.inference.frozen_encoder import frozen_passes
from bertvision.inference.outputs import counted_outputs, frozen_batches
from bertvision.inference.pair_rows import join_texts
from bertvision.objectives import Pool, pool_rows
from bertvision.packs.card import PackCard
from bertvision.packs.layer_reader import LayerReader
from bertvision.packs.pack import Pack
from bertvision.packs.reader import PackQuery, Reader
from bertvision.packs.target import Target
from bertvision.tasks.examples import IntArray
from bertvision.tasks.token_rows import join_rows
from bertvision.tasks.tokenizer import TextTokenizer
from bertvision.tasks.windows import Windows
from bertvision.training.states import StateBatch

MOST_PADDING = 256
"""Maximum number of padding tokens in a batch: where windows are few and of very different lengths, they cost about as
much as another batch."""


@final
class PackModels(Reader):
    """Packs over one frozen encoder, with their heads, in PyTorch.

    Attributes:
        encoder: frozen encoder, with the changes of the packs merged in.
        passes: options of its passes.
        heads: heads of every pack.
    """

    explains = True

    def __init__(self, packs: Sequence[Pack], *, encoder: str | None = None, device: Device = "auto") -> None:
        """Load the encoder once, and the heads of all packs.

        Args:
            packs: at least one pack; all over the same encoder with the same changes.
            encoder: path or name of the encoder; None takes the one that the packs name.
            device: device to compute on.

        Raises:
            BertVisionError: no pack was given, packs differ in encoder or changes, or something cannot be loaded.
        """
        if not packs:
            raise BertVisionError("no pack was given; at least one is expected.")
        _check_shared(packs)
        first = packs[0]
        super().__init__([pack.card for pack in packs], TextTokenizer.load(encoder or first.card.encoder))
        self.encoder = first.load_encoder(encoder=encoder, device=device)
        self.passes = frozen_passes(self.encoder, dtype="auto")
        self.heads = [[head.to(self.encoder.device) for head in pack.load_heads()] for pack in packs]

    @override
    @torch.inference_mode()
    def read_heads(self, queries: Sequence[PackQuery]) -> list[list[Outputs]]:
        shared = [query for query in queries if not self._aligns(query)]
        shared_pass = self._read_shared(shared) if shared else None
        pair_rows: dict[object, Tensor] = {}
        return [
            self._read_aligned(query, pair_rows)
            if shared_pass is None or self._aligns(query)
            else shared_pass.outputs(query)
            for query in queries
        ]

    @override
    def contributions(self, query: PackQuery, targets: Sequence[Target]) -> list[NDArray[np.float64]]:
        card, reader = self.cards[query.pack], LayerReader(self.encoder, self.passes)
        heads = self.heads[query.pack]
        return [reader.read(card, head, query.windows, target) for head, target in zip(heads, targets, strict=True)]

    def _aligns(self, query: PackQuery) -> bool:
        return self.cards[query.pack].pairs == "aligned"

    def _read_aligned(self, query: PackQuery, known: dict[object, Tensor]) -> list[Outputs]:
        """The outputs of a pack that aligns pairs, in a separate pass: it needs the tokens of both texts at once.

        Args:
            query: windows of the first and of the second texts.
            known: cache of the rows of pairs by windows, pooling and layers, for queries that share them.
        """
        heads, pool = self.heads[query.pack], self.cards[query.pack].pool
        layers = layers_read(heads)
        key = *map(id, query.windows), pool, layers
        if key not in known:
            known[key] = encode_texts(
                self.encoder,
                query.windows,
                self.passes,
                pool=pool,
                pairs="aligned",
                layers=layers,
                padding=self._padding,
            )
        return _read_rows(known[key], heads, layers[0])

    @property
    def _padding(self) -> int | None:
        return None if self.passes.packed else MOST_PADDING

    def _read_shared(self, queries: Sequence[PackQuery]) -> "_SharedPass":
        """One pass over the windows of all queries."""
        shared = _SharedPass(self.cards, self.heads, queries)
        stream = StreamStates(self.encoder, shared.rows, self.passes, shared.layers)
        for rows in frozen_batches(shared.rows.sizes, self.encoder.device, padding=self._padding):
            states = stream.batch(rows)
            with torch.autocast(self.encoder.device.type, torch.bfloat16, enabled=self.passes.bf16):
                shared.take(states, rows)
        return shared


@final
class _SharedPass:
    """A pass over the windows of several queries; `Windows` objects that queries share are read once.

    Attributes:
        rows: the windows of all queries.
        layers: the range of layers that covers all layers the heads need.
    """

    def __init__(
        self, cards: Sequence[PackCard], heads: Sequence[Sequence[Head]], queries: Sequence[PackQuery]
    ) -> None:
        self._cards = cards
        self._heads = heads
        self.layers = layers_read([head for query in queries for head in heads[query.pack]])
        self._windows = {id(windows): windows for query in queries for windows in query.windows}  # each once, by id
        firsts = np.cumsum([0, *(len(windows) for windows in self._windows.values())]).tolist()
        self._first = dict(zip(self._windows, firsts, strict=False))  # where they begin in `rows`
        self.rows = join_rows(list(self._windows.values()))
        # for packs that read rows: the poolings that they need, and pooled states, (windows, layers, width)
        self._pools: dict[int, set[Pool]] = {key: set() for key in self._windows}
        self._pooled: dict[tuple[int, Pool], Tensor] = {}
        # for packs that read tokens: their outputs
        self._gathered: dict[int, dict[int, GatheredOutputs]] = {key: {} for key in self._windows}
        for query in queries:
            card = cards[query.pack]
            for windows in query.windows:
                if card.reads == "rows":
                    self._pools[id(windows)].add(card.pool)
                else:
                    gathered = GatheredOutputs(card.task, windows, len(heads[query.pack]))
                    self._gathered[id(windows)][query.pack] = gathered

    def take(self, states: StateBatch, rows: IntArray) -> None:
        """Pool the states of a batch for packs that read rows, and run the heads of packs that read tokens."""
        for key, windows in self._windows.items():
            places, part = self._part(states, rows, windows)
            if part is None:
                continue
            for pool in self._pools[key]:
                pooled = pool_rows(part.padded.states.float(), part.padded.mask, pool).cpu()
                if (key, pool) not in self._pooled:
                    self._pooled[key, pool] = torch.empty(len(windows), *pooled.shape[1:])
                self._pooled[key, pool][torch.from_numpy(places)] = pooled
            for pack, gathered in self._gathered[key].items():
                card = self._cards[pack]
                pooling = None if card.task.kind == "spans" else card.pool
                outputs = (counted_outputs(*part.read(head, pooling), pooling) for head in self._heads[pack])
                gathered.put(places, outputs)

    def outputs(self, query: PackQuery) -> list[Outputs]:
        """The outputs of every head of a query's pack, after all batches."""
        card, heads = self._cards[query.pack], self._heads[query.pack]
        if card.reads == "tokens":
            return self._gathered[id(query.windows[0])][query.pack].outputs()
        rows = join_texts([self._pooled[id(windows), card.pool] for windows in query.windows])
        return _read_rows(rows, heads, self.layers[0])

    def _part(self, states: StateBatch, rows: IntArray, windows: Windows) -> tuple[IntArray, StateBatch | None]:
        """Which of these windows are in a batch, and their states; None if there are none.

        Args:
            states: states of the batch.
            rows: (batch,) indices of the batch's windows among all.
            windows: windows of a query.
        """
        first = self._first[id(windows)]
        inside = (rows >= first) & (rows < first + len(windows))
        places: IntArray = rows[inside] - first
        if inside.all():
            return places, states
        if not len(places):
            return places, None
        return places, states.only(torch.from_numpy(np.flatnonzero(inside)).to(states.hidden.states.device))


def _read_rows(rows: Tensor, heads: Sequence[Head], lowest: int) -> list[Outputs]:
    """The outputs of heads for rows, (windows, layers, numbers), of which the first layer is `lowest`."""
    device = next(heads[0].parameters()).device
    batch = RowStates(rows, device, lowest=lowest).batch(np.arange(len(rows)))
    return [batch.read(head)[0][:, 0].float().cpu().numpy() for head in heads]


def _check_shared(packs: Sequence[Pack]) -> None:
    first = packs[0]
    for other in packs[1:]:
        if other.encoder_id != first.encoder_id:
            raise BertVisionError(
                f"the packs {first.folder} ({_encoder(first)}) and {other.folder} ({_encoder(other)}) lie over "
                "different encoders, so one pass cannot serve both. Fit their heads on the same encoder, or use them "
                "apart."
            )


def _encoder(pack: Pack) -> str:
    return f"{pack.card.encoder}, changed: {', '.join(pack.card.learn) or 'nothing'}, {pack.encoder_id}"
