"""ExportedPack: one graph with the encoder and all heads, a tokenizer and a card; nothing else is needed to run it."""

from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self, final

from bertvision.cards import read_card
from bertvision.errors import BertVisionError
from bertvision.packs.card import read_pack_card
from bertvision.packs.pack_folder import EXPORT_FILE, PackFolder
from bertvision.packs.runtimes import GraphRuntime, choose_runtime
from bertvision.typed_json import from_json

FORMAT = 2
GRAPH_FILE, TOKENIZER_FILE = "model.onnx", "tokenizer.json"

Numbers = Literal["float32", "int8"]
"""How a graph computes its products."""

ENOUGH: dict[Numbers, float] = {"float32": 0.99, "int8": 0.97}
"""Share of the predictions that must stay as they are: of float32 for a runtime to be taken by itself, of 8 bits to go
without a note."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportCard:
    """How a pack was exported.

    Attributes:
        numbers: how the graph computes.
        opset: ONNX opset version of the graph.
        pad: number of the padding token.
        limit: most tokens in a window; None where there is no end.
        difference: largest difference from PyTorch of any output of the graph in float32.
        largest: the largest of those outputs.
        agreement: share of examples that got the same prediction as from PyTorch, in every runtime that was there; of
            questions, the same best answer, and the same decision whether it is given.
        examples: number of examples that were compared.
        milliseconds: time for one example by itself in each runtime.
        source: source of the examples.
        made_with: versions of the libraries.
    """

    numbers: Numbers
    opset: int
    pad: int
    limit: int | None
    difference: float
    largest: float
    agreement: dict[str, float]
    examples: int
    milliseconds: dict[str, float]
    source: str
    made_with: dict[str, str | None]

    def as_json(self) -> dict[str, Any]:
        """What its file holds."""
        return {"format": FORMAT, "record": "export", **asdict(self)}


@final
@dataclass(frozen=True)
class ExportedPack(PackFolder):
    """A pack as one graph.

    Attributes:
        export: how it was made.
        runtime: runtime that computes it.
    """

    export: ExportCard
    runtime: GraphRuntime = "onnx"

    @classmethod
    def load(cls, folder: str | Path, *, runtime: GraphRuntime | None = None) -> Self:
        """The exported pack in a folder; the graph is not loaded yet.

        Args:
            folder: folder of the pack.
            runtime: runtime; None takes the one that was fastest when it was exported, of those that are here and
                agreed with PyTorch; in 8 bits ONNX Runtime.

        Raises:
            BertVisionError: there is none, or it is not whole.
        """
        place = Path(folder)
        otherwise = "Export the pack again."
        build = partial(from_json, ExportCard)
        export = read_card(place / EXPORT_FILE, build, format=FORMAT, record="export", otherwise=otherwise)
        missing = [name for name in (GRAPH_FILE, TOKENIZER_FILE) if not (place / name).is_file()]
        if missing:
            raise BertVisionError(f"{place} is not whole: {missing[0]} is not there. Copy it again.")
        return cls(place, read_pack_card(place), export, runtime or _own_runtime(export))


def _own_runtime(export: ExportCard) -> GraphRuntime:
    """What computes a graph by itself; see `choose_runtime`."""
    if export.numbers == "int8":  # OpenVINO agrees less, by fewer examples than an export compares
        return "onnx"
    return choose_runtime(export.milliseconds, export.agreement, ENOUGH[export.numbers])
