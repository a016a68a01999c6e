"""export_pack: a pack → one ONNX graph with its encoder and all heads, checked against PyTorch on real windows."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bertvision.atomic import write_json, write_text
from bertvision.errors import BertVisionError, DataError
from bertvision.evaluation.decode import decode_spans
from bertvision.evaluation.outputs import Outputs, SpanScores, join_heads, predicted_targets
from bertvision.packs.card import PACK_FILE, PackCard
from bertvision.packs.exported import GRAPH_FILE, TOKENIZER_FILE, ExportCard, ExportedPack, Numbers
from bertvision.packs.graph import OPSET, PackGraph, quiet, write_graph
from bertvision.packs.inputs import takes_pairs
from bertvision.packs.model_card import model_card
from bertvision.packs.models import PackModels
from bertvision.packs.onnx_reader import OnnxReader
from bertvision.packs.pack import README, Pack
from bertvision.packs.pack_folder import EXPORT_FILE, is_exported, with_folder
from bertvision.packs.predict import ask_rows
from bertvision.packs.reader import Reader
from bertvision.packs.stream import Row, stream_rows
from bertvision.provenance import package_version
from bertvision.tasks.sources import find_builtin
from bertvision.tasks.task import SquadLayout

TOLERANCE = 1e-4
"""Most that outputs may differ from PyTorch's, as a share of the largest of them, or of 1 if that is smaller: a dozen
layers in single precision, with sums in another order, stay a hundred times below."""

NEAR = 0.01
"""Two scores count as the same if they differ by less than this share, or by this."""

EXAMPLES = 200
"""How many examples are compared, unless another number is asked for."""

BUILTIN_DATA = "built-in"
LIBRARIES = ("torch", "onnx", "onnxscript", "onnxruntime")


@dataclass(frozen=True, slots=True)
class Compared:
    """How far a graph agrees with PyTorch.

    Attributes:
        difference: the largest of any output.
        largest: of PyTorch's outputs.
        agreement: share of the examples with the same prediction; of questions, with the same best answer that is
            given or not given alike.
    """

    difference: float
    largest: float
    agreement: float


def export_pack(  # noqa: PLR0913 - what it depends on, by keyword
    pack: Pack,
    out: str | Path,
    *,
    numbers: Numbers = "float32",
    data: str | Path | None = None,
    examples: int = EXAMPLES,
    encoder: str | None = None,
) -> ExportedPack:
    """Write a pack as one graph with its tokenizer and its card: all that it takes to use it without torch.

    Args:
        pack: what to export; changes of its encoder are merged in.
        out: folder that appears, or replaces an older export, only when the graph was found right.
        numbers: `int8` rounds the weights of all products to 8 bits, and what they are multiplied with while it runs.
        data: a file of the pack's task whose examples are compared; None takes the built-in set of the same form.
        examples: how many of them.
        encoder: where the encoder is, where that is not what the pack calls it.

    Raises:
        BertVisionError: libraries are missing, something has no form in ONNX, or outputs are not PyTorch's.
    """
    missing = [name for name in LIBRARIES if find_spec(name) is None]
    if missing:
        raise BertVisionError(f"{', '.join(missing)} is not installed. Install it: pip install 'bertvision[onnx]'")
    if examples < 1:
        raise BertVisionError(f"--examples is {examples}, at least 1 is expected.")
    target = Path(out)
    if (target / PACK_FILE).is_file() and not is_exported(target):
        raise BertVisionError(f"{target} holds a pack that was not exported, and would be lost. Use another --out.")
    rows = compared_rows(pack.card, data, examples)
    models = PackModels([pack], encoder=encoder, device="cpu")
    pad, limit = models.passes.pad, models.tokenizer.limit

    def write(place: Path) -> None:
        def compare() -> Compared:
            return compare_readers(models, OnnxReader(place, pack.card, pad=pad, limit=limit), rows)

        models.tokenizer.save(place / TOKENIZER_FILE)
        graph = PackGraph(pack.card, models.encoder, models.heads[0])
        write_graph(graph, pack.card, place / GRAPH_FILE, limit=limit)
        exact = compare()
        if not exact.difference <= TOLERANCE * max(1.0, exact.largest):
            raise BertVisionError(
                f"the graph of {pack.folder} differs from PyTorch by {exact.difference:.2g}; at most "
                f"{TOLERANCE * max(1.0, exact.largest):.2g} is allowed. Nothing was written; use it with PyTorch."
            )
        if numbers == "int8":
            _quantise(place / GRAPH_FILE)
        export = ExportCard(
            numbers=numbers,
            opset=OPSET,
            pad=pad,
            limit=limit,
            difference=exact.difference,
            largest=exact.largest,
            agreement=(compare() if numbers == "int8" else exact).agreement,
            examples=len(rows),
            source=BUILTIN_DATA if data is None else Path(data).name,
            made_with={name: package_version(name) for name in LIBRARIES},
        )
        write_json(place / EXPORT_FILE, export.as_json())
        write_json(place / PACK_FILE, pack.card.as_json())
        write_text(place / README, model_card(pack.card))

    with_folder(target, write)
    return ExportedPack.load(target)


def compared_rows(card: PackCard, data: str | Path | None, count: int) -> list[Row]:
    """Examples to compare: of a file, or of the built-in set of the task's form.

    Raises:
        DataError: the file cannot be read, or has none.
    """
    if data is None:
        squad = isinstance(card.task.layout, SquadLayout)
        name = "qa" if squad else "paraphrase" if takes_pairs(card) else "sentiment2"
        found = find_builtin(replace(card.task, builtin=name))
        path, card = found.paths["dev"], replace(card, task=replace(card.task, layout=found.layout))
    else:
        path = Path(data)
    rows = list(islice(stream_rows(path, card), count))
    if not rows:
        raise DataError(f"{path} has no example.")
    return rows


def compare_readers(ours: Reader, theirs: Reader, rows: Sequence[Row]) -> Compared:
    """The same examples through PyTorch and through a graph."""
    (mine, said), (other, told) = (_read(reader, rows) for reader in (ours, theirs))
    pairs = list(zip(mine, other, strict=True))
    difference = max(float(np.abs(first - second).max()) for first, second in pairs)
    same = [_same(first, second) for first, second in zip(said, told, strict=True)]
    return Compared(difference, max(float(np.abs(first).max()) for first in mine), float(np.mean(same)))


def _read(reader: Reader, rows: Sequence[Row]) -> tuple[list[NDArray[np.float32]], list[object]]:
    """Outputs of all heads, and what is predicted of each example."""
    (card,) = reader.cards
    ask, questions = ask_rows(reader, rows)
    (outputs,) = reader.read_heads([ask])
    columns = [column for one in outputs for column in _columns(one)]
    found = join_heads(card.task, ask.windows[0], outputs)
    if questions is None or not isinstance(found, SpanScores):
        return columns, predicted_targets(card.task, np.asarray(found)).tolist()
    said = decode_spans(ask.windows[0], found.start, found.end)
    # the answer, and whether it is given: where most questions get none, that alone would tell little
    texts = [said.texts(questions, threshold).values() for threshold in (None, card.threshold)]
    return columns, list(zip(*texts, strict=True))


def _columns(outputs: Outputs) -> list[NDArray[np.float32]]:
    return [outputs.start, outputs.end] if isinstance(outputs, SpanScores) else [outputs]


def _same(first: object, second: object) -> bool:
    """Whether two predictions are the same; scores are if they are near."""
    if isinstance(first, float) and isinstance(second, float):
        return abs(first - second) <= NEAR * max(1.0, abs(first))
    return first == second


def _quantise(path: Path) -> None:
    """Replace a graph by one whose products of weights are computed in 8 bits."""
    from onnxruntime.quantization import QuantType, quantize_dynamic  # noqa: PLC0415 - an extra

    narrow = path.with_name(f".{path.name}.int8")
    with quiet():
        quantize_dynamic(
            path, narrow, per_channel=True, weight_type=QuantType.QInt8, op_types_to_quantize=["MatMul", "Gemm"]
        )
    narrow.replace(path)
