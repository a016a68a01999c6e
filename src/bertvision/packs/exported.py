"""ExportedPack: an ONNX graph of the encoder and all heads, with tokenizer and cards; it runs without torch."""

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
"""Number format of a graph's matrix products with weights."""

ENOUGH: dict[Numbers, float] = {"float32": 0.99, "int8": 0.97}
"""Share of predictions that must be the same as PyTorch's: below it the command prints a note, and for float32 graphs
runtimes that reach it are preferred."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportCard:
    """How a pack was exported.

    Attributes:
        numbers: number format of the graph's products.
        opset: ONNX opset version of the graph.
        pad: vocabulary number of the padding token.
        limit: maximum number of tokens in a window; None if the encoder has no limit.
        difference: largest absolute difference from PyTorch's outputs, of the graph in float32 (before quantisation).
        largest: largest absolute value of PyTorch's outputs.
        agreement: by runtime, the share of examples with the same prediction as from PyTorch; for questions, with the
            same best answer and the same decision whether to give it.
        examples: number of examples that were compared.
        milliseconds: by runtime, the time for one example alone.
        source: source of the examples: the name of a file, or `built-in`.
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
        """The content of `export.json`."""
        return {"format": FORMAT, "record": "export", **asdict(self)}


@final
@dataclass(frozen=True)
class ExportedPack(PackFolder):
    """A pack in the form of one ONNX graph.

    Attributes:
        export: how it was exported.
        runtime: runtime that computes the graph.
    """

    export: ExportCard
    runtime: GraphRuntime = "onnx"

    @classmethod
    def load(cls, folder: str | Path, *, runtime: GraphRuntime | None = None) -> Self:
        """Open the exported pack in a folder; the graph is not loaded yet.

        Args:
            folder: folder of the pack.
            runtime: runtime that computes the graph; None takes ONNX Runtime, or for float32 the usable runtime that
                `choose_runtime` prefers by the measurements of the export.

        Raises:
            BertVisionError: there is no exported pack, a card cannot be read, or a file is missing.
        """
        place = Path(folder)
        otherwise = "Export the pack again."
        build = partial(from_json, ExportCard)
        export = read_card(place / EXPORT_FILE, build, format=FORMAT, record="export", otherwise=otherwise)
        missing = [name for name in (GRAPH_FILE, TOKENIZER_FILE) if not (place / name).is_file()]
        if missing:
            raise BertVisionError(f"{place} is not whole: {missing[0]} is not there. Copy it again.")
        return cls(place, read_pack_card(place), export, runtime or _default_runtime(export))


def _default_runtime(export: ExportCard) -> GraphRuntime:
    if export.numbers == "int8":  # OpenVINO agrees less with PyTorch, which an export's few examples may not show
        return "onnx"
    return choose_runtime(export.milliseconds, export.agreement, ENOUGH[export.numbers])
