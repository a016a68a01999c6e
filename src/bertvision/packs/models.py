"""PackModels: packs over one frozen encoder, read in a single pass."""

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
"""Tokens of padding in a batch: about what another batch costs, where few windows have lengths of all kinds."""


@final
class PackModels(Reader):
    """Packs over one frozen encoder, with their heads, in PyTorch.

    Attributes:
        encoder: frozen encoder with the changes of the packs in it.
        passes: options of its passes.
        heads: heads of every pack.
    """

    explains = True

    def __init__(self, packs: Sequence[Pack], *, encoder: str | None = None, device: Device = "auto") -> None:
        """Load the encoder once, and the heads of all packs.

        Args:
            packs: at least one.
            encoder: path or name of the encoder; None takes the one that the packs name.
            device: device to compute on.

        Raises:
            BertVisionError: packs do not lie over the same encoder, or something cannot be loaded.
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
        reading = self._read_shared(shared) if shared else None
        pairs: dict[object, Tensor] = {}
        return [
            self._read_aligned(query, pairs) if reading is None or self._aligns(query) else reading.outputs(query)
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
        """What heads say of pairs, in a pass of their own, since the tokens of both texts are needed at once.

        Args:
            query: two texts of every pair.
            known: rows of pairs that other queries have read, to which new ones are added.
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

    def _read_shared(self, queries: Sequence[PackQuery]) -> "_Reading":
        """One pass over the windows of all queries."""
        reading = _Reading(self.cards, self.heads, queries)
        stream = StreamStates(self.encoder, reading.rows, self.passes, reading.layers)
        for rows in frozen_batches(reading.rows.sizes, self.encoder.device, padding=self._padding):
            states = stream.batch(rows)
            with torch.autocast(self.encoder.device.type, torch.bfloat16, enabled=self.passes.bf16):
                reading.take(states, rows)
        return reading


@final
class _Reading:
    """A pass over the windows of all queries, each different one once.

    Attributes:
        rows: all windows.
        layers: from the lowest to the highest that one of the heads reads.
    """

    def __init__(
        self, cards: Sequence[PackCard], heads: Sequence[Sequence[Head]], queries: Sequence[PackQuery]
    ) -> None:
        self._cards = cards
        self._heads = heads
        self.layers = layers_read([head for query in queries for head in heads[query.pack]])
        self._different = {id(windows): windows for query in queries for windows in query.windows}
        firsts = np.cumsum([0, *(len(windows) for windows in self._different.values())]).tolist()
        self._first = dict(zip(self._different, firsts, strict=False))
        self.rows = join_rows(list(self._different.values()))
        self._pooled: dict[tuple[int, Pool], Tensor] = {}  # one row per window and layer, for packs that read rows
        # by the windows: which rows are wanted of them, and outputs of packs that read their tokens
        self._pools: dict[int, set[Pool]] = {key: set() for key in self._different}
        self._gathered: dict[int, dict[int, GatheredOutputs]] = {key: {} for key in self._different}
        for query in queries:
            card = cards[query.pack]
            for windows in query.windows:
                if card.reads == "rows":
                    self._pools[id(windows)].add(card.pool)
                else:
                    gathered = GatheredOutputs(card.task, windows, len(heads[query.pack]))
                    self._gathered[id(windows)][query.pack] = gathered

    def take(self, states: StateBatch, rows: IntArray) -> None:
        """Let every pack take what it needs of a batch."""
        for key, windows in self._different.items():
            mine, part = self._part(states, rows, windows)
            if part is None:
                continue
            for pool in self._pools[key]:
                pooled = pool_rows(part.padded.states.float(), part.padded.mask, pool).cpu()
                if (key, pool) not in self._pooled:
                    self._pooled[key, pool] = torch.empty(len(windows), *pooled.shape[1:])
                self._pooled[key, pool][torch.from_numpy(mine)] = pooled
            for pack, gathered in self._gathered[key].items():
                card = self._cards[pack]
                rows_of = None if card.task.kind == "spans" else card.pool
                gathered.put(mine, (counted_outputs(*part.read(head, rows_of), rows_of) for head in self._heads[pack]))

    def outputs(self, query: PackQuery) -> list[Outputs]:
        """What the heads of a query's pack gave."""
        card, heads = self._cards[query.pack], self._heads[query.pack]
        if card.reads == "tokens":
            return self._gathered[id(query.windows[0])][query.pack].outputs()
        rows = join_texts([self._pooled[id(windows), card.pool] for windows in query.windows])
        return _read_rows(rows, heads, self.layers[0])

    def _part(self, states: StateBatch, rows: IntArray, windows: Windows) -> tuple[IntArray, StateBatch | None]:
        """Which windows of a query stand in a batch, and their states; None if there are none."""
        first = self._first[id(windows)]
        inside = (rows >= first) & (rows < first + len(windows))
        mine: IntArray = rows[inside] - first
        if inside.all():
            return mine, states
        if not len(mine):
            return mine, None
        return mine, states.only(torch.from_numpy(np.flatnonzero(inside)).to(states.hidden.states.device))


def _read_rows(rows: Tensor, heads: Sequence[Head], lowest: int) -> list[Outputs]:
    """What heads say of rows, (windows, layers, numbers), from the lowest layer on."""
    device = next(heads[0].parameters()).device
    batch = RowStates(rows, device, lowest=lowest).batch(np.arange(len(rows)))
    return [batch.read(head)[0][:, 0].float().cpu().numpy() for head in heads]


def _check_shared(packs: Sequence[Pack]) -> None:
    first = packs[0]
    for other in packs[1:]:
        if other.encoder_id != first.encoder_id:
            raise BertVisionError(
                f"the packs {first.folder} ({_words(first)}) and {other.folder} ({_words(other)}) lie over different "
                "encoders, so one pass cannot serve both. Fit their heads on the same encoder, or use them apart."
            )


def _words(pack: Pack) -> str:
    return f"{pack.card.encoder}, changed: {', '.join(pack.card.learn) or 'nothing'}, {pack.encoder_id}"
