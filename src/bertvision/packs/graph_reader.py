"""GraphReader: an exported pack, in ONNX Runtime or OpenVINO; neither torch nor transformers is imported."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from bertvision.evaluation.outputs import GatheredOutputs, Outputs
from bertvision.pack_files import check_digest
from bertvision.packs.card import PackCard
from bertvision.packs.exported import GRAPH_FILE, TOKENIZER_FILE
from bertvision.packs.reader import PackQuery, Reader
from bertvision.packs.runtimes import LENGTH_STEP, GraphRuntime, load_graph
from bertvision.tasks.batches import length_batches
from bertvision.tasks.tokenizer import TextTokenizer

BATCH_TOKENS = 4096
"""Maximum number of tokens in a batch, padding included."""

MOST_PADDING = 64
"""Maximum number of padding tokens in a batch: a processor gains nothing from batches, and loses time with padding."""

INPUTS = ("ids", "types", "mask")
"""Names of a graph's inputs; see `input_names` for pairs whose texts are encoded separately."""


@final
class GraphReader(Reader):
    """An exported pack with its graph loaded."""

    def __init__(  # noqa: PLR0913 - what it depends on, by keyword
        self,
        folder: Path,
        card: PackCard,
        *,
        pad: int,
        limit: int | None,
        runtime: GraphRuntime = "onnx",
        threads: int = 0,
    ) -> None:
        """Load the graph.

        Args:
            folder: folder of the graph and its tokenizer.
            card: card of the pack.
            pad: vocabulary number of the padding token.
            limit: maximum number of tokens in a window; None if the encoder has no limit.
            runtime: runtime that computes the graph.
            threads: number of threads; 0 leaves it to the runtime, which takes one for each core.

        Raises:
            BertVisionError: the graph's file differs from the digest in the card, or as `load_graph`.
        """
        check_digest(folder / GRAPH_FILE, card.digests.get(GRAPH_FILE))
        super().__init__([card], TextTokenizer.from_file(folder / TOKENIZER_FILE, limit=limit))
        self._pad = pad
        self._step, self._limit = LENGTH_STEP[runtime], limit
        self._run = load_graph(folder / GRAPH_FILE, runtime, threads=threads)

    @override
    def read_heads(self, queries: Sequence[PackQuery]) -> list[list[Outputs]]:
        return [self._read(query) for query in queries]

    def _read(self, query: PackQuery) -> list[Outputs]:
        (card,) = self.cards
        spans = card.task.kind == "spans"
        gathered = GatheredOutputs(card.task, query.windows[0], len(card.heads))
        lengths = np.maximum.reduce([windows.lengths for windows in query.windows])
        for rows in length_batches(lengths, size=BATCH_TOKENS, tokens=BATCH_TOKENS, padding=MOST_PADDING):
            inputs: dict[str, NDArray[Any]] = {}
            multiple = self._step if len(rows) == 1 else 1  # a batch of several has padding enough
            for windows, names in zip(query.windows, input_names(separate=card.separate), strict=True):
                padded = windows.padded(rows, self._pad, multiple=multiple, limit=self._limit)
                inputs |= dict(zip(names, padded, strict=True))
            gathered.put(rows, (values[inputs["mask"]] if spans else values for values in self._run(inputs)))
        return gathered.outputs()


def input_names(*, separate: bool) -> list[tuple[str, ...]]:
    """Names of a graph's inputs for each text: for two if the texts of a pair are encoded separately."""
    return [INPUTS, tuple(f"second_{name}" for name in INPUTS)] if separate else [INPUTS]
