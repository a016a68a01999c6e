"""export_pack: a pack → one ONNX graph of its encoder and heads, compared with PyTorch on real examples."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bertvision.atomic import write_json, write_text
from bertvision.errors import BertVisionError, MissingExtraError
from bertvision.pack_files import PACK_FILE, weights_digests
from bertvision.packs.agreement import compare_examples, read_examples
from bertvision.packs.card import PackCard
from bertvision.packs.exported import GRAPH_FILE, TOKENIZER_FILE, ExportCard, ExportedPack, Numbers
from bertvision.packs.graph import OPSET, PackGraph, write_graph
from bertvision.packs.graph_reader import GraphReader, input_names
from bertvision.packs.inputs import takes_pairs
from bertvision.packs.model_card import model_card
from bertvision.packs.models import PackModels
from bertvision.packs.pack import README, Pack
from bertvision.packs.pack_folder import EXPORT_FILE, is_exported, with_folder
from bertvision.packs.predict import pack_query
from bertvision.packs.reader import Reader
from bertvision.packs.runtimes import ROUNDING, GraphRuntime, usable_runtimes
from bertvision.packs.stream import Row, no_example, stream_rows
from bertvision.provenance import package_version
from bertvision.tasks.sources import find_builtin
from bertvision.tasks.task import SquadLayout

EXAMPLES = 200
"""Default number of examples on which graph and PyTorch are compared."""

TIMED = 8
"""Number of these examples on which every runtime is timed."""

ROUNDS = 3
"""Number of times that each runtime is timed; the shortest time counts."""

SAMPLES = 120
"""Maximum number of calibration examples for 8 bits, spread over a training set."""

BUILTIN_DATA = "built-in"
LIBRARIES = ("torch", "onnx", "onnxscript", "onnxruntime")


def export_pack(  # noqa: PLR0913 - what it depends on, by keyword
    pack: Pack,
    out: str | Path,
    *,
    numbers: Numbers = "float32",
    data: str | Path | None = None,
    examples: int = EXAMPLES,
    encoder: str | None = None,
) -> ExportedPack:
    """Write a pack as one ONNX graph with tokenizer and cards, which is used without torch.

    Args:
        pack: pack to export; its changes of the encoder are merged into the graph.
        out: folder to write; it appears, or replaces an older export, only when the graph agrees with PyTorch.
        numbers: `int8` quantises the weights of all large products to 8 bits, and their inputs at run time; the
            built-in training set of the same form is the calibration data.
        data: a file of the pack's task with the examples to compare; None takes the built-in set of the same form.
        examples: maximum number of examples to compare.
        encoder: path or name of the encoder; None takes the one that the pack names.

    Raises:
        BertVisionError: a library is missing, the encoder or a head cannot be exported to ONNX, the graph's outputs
            differ from PyTorch's, or files cannot be read or written.
    """
    missing = [name for name in LIBRARIES if find_spec(name) is None]
    if missing:
        raise MissingExtraError("an export", missing[0], "onnx")
    if examples < 1:
        raise BertVisionError(f"--examples is {examples}, at least 1 is expected.")
    target = Path(out)
    if (target / PACK_FILE).is_file() and not is_exported(target):
        raise BertVisionError(f"{target} holds a pack that was not exported, and would be lost. Use another --out.")
    rows = compared_rows(pack.card, data, examples)
    models = PackModels([pack], encoder=encoder, device="cpu")
    pad, limit = models.passes.pad, models.tokenizer.limit

    def write(place: Path) -> None:
        open_graph = partial(GraphReader, place, pack.card, pad=pad, limit=limit)
        models.tokenizer.save(place / TOKENIZER_FILE)
        graph = PackGraph(pack.card, models.encoder, models.heads[0])
        write_graph(graph, pack.card, place / GRAPH_FILE, limit=limit)
        reference = read_examples(models, rows)
        in_float32 = compare_examples(reference, read_examples(open_graph(), rows))
        if not in_float32.near:
            raise BertVisionError(
                f"the graph of {pack.folder} differs from PyTorch by {in_float32.difference:.2g}; at most "
                f"{in_float32.allowed:.2g} is allowed. Nothing was written; use it with PyTorch."
            )
        if numbers == "int8":
            from bertvision.packs.quantise import quantise_graph  # noqa: PLC0415 - imports onnx, an extra

            quantise_graph(place / GRAPH_FILE, sample_inputs(models, sample_rows(pack.card)))
        readers = _in_all_runtimes(open_graph)
        compared = {name: compare_examples(reference, read_examples(reader, rows)) for name, reader in readers.items()}
        if numbers == "float32":  # runtimes that compute in float32 must pass the same test as ONNX Runtime
            readers = {name: reader for name, reader in readers.items() if name in ROUNDING or compared[name].near}
        export = ExportCard(
            numbers=numbers,
            opset=OPSET,
            pad=pad,
            limit=limit,
            difference=in_float32.difference,
            largest=in_float32.largest,
            agreement={name: compared[name].agreement for name in readers},
            examples=len(rows),
            milliseconds=_milliseconds(readers, rows[:TIMED]),
            source=BUILTIN_DATA if data is None else Path(data).name,
            made_with={name: package_version(name) for name in LIBRARIES},
        )
        write_json(place / EXPORT_FILE, export.as_json())
        write_json(place / PACK_FILE, replace(pack.card, digests=weights_digests(place)).as_json())
        write_text(place / README, model_card(pack.card))

    with_folder(target, write)
    return ExportedPack.load(target)


def compared_rows(card: PackCard, data: str | Path | None, count: int) -> list[Row]:
    """The first `count` examples of a file, or if `data` is None, of the built-in dev set of the task's form.

    Raises:
        DataError: the file cannot be read, or has no example.
    """
    path, card = _builtin_file(card, "dev") if data is None else (Path(data), card)
    rows = list(islice(stream_rows(path, card), count))
    if not rows:
        raise no_example(path)
    return rows


def sample_rows(card: PackCard) -> list[Row]:
    """Calibration examples for 8 bits, which are never compared: spread over the built-in training set of that form."""
    rows = list(stream_rows(*_builtin_file(card, "train")))
    return rows[:: -(-len(rows) // SAMPLES)]


def _builtin_file(card: PackCard, split: Literal["train", "dev"]) -> tuple[Path, PackCard]:
    """A file of the built-in set of the task's form (questions, pairs, texts), and the card with that file's layout."""
    squad = isinstance(card.task.layout, SquadLayout)
    name = "qa" if squad else "paraphrase" if takes_pairs(card) else "sentiment2"
    found = find_builtin(replace(card.task, builtin=name))
    return found.paths[split], replace(card, task=replace(card.task, layout=found.layout))


def sample_inputs(reader: PackModels, rows: Sequence[Row]) -> Iterator[dict[str, NDArray[Any]]]:
    """Inputs of the pack's graph, by name, for every window of the examples, one window at a time."""
    (card,) = reader.cards
    for row in rows:
        query, _ = pack_query(reader, [row])
        for window in range(len(query.windows[0])):
            inputs: dict[str, NDArray[Any]] = {}
            for windows, names in zip(query.windows, input_names(separate=card.separate), strict=True):
                inputs |= dict(zip(names, windows.padded(np.array([window]), reader.passes.pad), strict=True))
            yield inputs


def _in_all_runtimes(open_graph: "partial[GraphReader]") -> dict[GraphRuntime, GraphReader]:
    """Open the graph in ONNX Runtime, and in every other usable runtime that supports its operations."""
    readers: dict[GraphRuntime, GraphReader] = {"onnx": open_graph()}
    for name in usable_runtimes()[1:]:
        with suppress(BertVisionError):  # a version of OpenVINO may lack an operation
            readers[name] = open_graph(runtime=name)
    return readers


def _milliseconds(readers: Mapping[GraphRuntime, Reader], rows: Sequence[Row]) -> dict[str, float]:
    """Milliseconds per example, each read alone, by runtime: the best of several rounds; runtimes alternate."""
    queries = {name: [pack_query(reader, [row])[0] for row in rows] for name, reader in readers.items()}
    seconds: dict[str, list[float]] = {name: [] for name in readers}
    for _ in range(ROUNDS):
        for name, reader in readers.items():
            begin = time.perf_counter()
            for query in queries[name]:
                reader.read_heads([query])
            seconds[name].append(time.perf_counter() - begin)
    return {name: round(1e3 * min(rounds) / len(rows), 2) for name, rounds in seconds.items()}
