"""A pack as one graph gives what it gives in PyTorch, and needs nothing else."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

from bertvision.errors import BertVisionError, DataError
from bertvision.evaluation.outputs import Outputs, SpanScores
from bertvision.packs import agreement, export, graph_reader, quantise
from bertvision.packs.export import compared_rows, export_pack
from bertvision.packs.exported import GRAPH_FILE, TOKENIZER_FILE, ExportedPack
from bertvision.packs.graph import PackGraph, write_graph
from bertvision.packs.graph_reader import GraphReader
from bertvision.packs.models import PackModels
from bertvision.packs.open_pack import load_reader, open_pack
from bertvision.packs.pack import Pack
from bertvision.packs.predict import predict_rows
from bertvision.packs.question_answerer import QuestionAnswerer
from bertvision.packs.reader import PackQuery
from bertvision.packs.runtimes import LENGTH_STEP, ROUNDING, GraphRuntime, Inputs, RunGraph, load_graph, usable_runtimes
from bertvision.packs.text_models import TextClassifier, TextScorer
from bertvision.tasks.load import TASKS
from bertvision.tasks.task import Pairs
from bertvision.tasks.token_rows import SECOND
from close import FLOAT32, HALF
from tiny_models import save_tiny, tiny_windows
from tiny_pack import TAGS, make_pack
from tiny_run import WIDTH, WORDS, save_tiny_encoder

QUESTION, CONTEXT = "where is it ?", "a b gold c d e f gold g h"
SIZES = [(2,), (30,), (17, 15, 13), (40, 5, 3, 2, 2)]
"""Tokens of the windows of some batches: one or several, the shortest there are, and the longest."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("export")
    save_tiny_encoder(folder / "encoder")
    return folder


@pytest.fixture(scope="module")
def pack(place: Path) -> Pack:
    """Answers questions with the mean of two heads."""
    heads = ["layer_mix", "last_layer"]
    return make_pack(place / "qa", str(place / "encoder"), TASKS["squad2"], heads=heads, threshold=0.5)


@pytest.fixture(scope="module")
def exported(place: Path, pack: Pack) -> ExportedPack:
    return export_pack(pack, place / "qa-onnx", examples=20)


@pytest.fixture
def graph_at_hand(exported: ExportedPack, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tracing takes seconds: the graph of the same pack that is there already is taken instead."""

    def copy(_graph: PackGraph, _card: object, path: Path, *, limit: int | None) -> None:
        assert limit == exported.export.limit
        shutil.copy(exported.folder / GRAPH_FILE, path)

    monkeypatch.setattr(export, "write_graph", copy)


def values(outputs: list[Outputs]) -> list[list[float]]:
    """The numbers of every head."""
    return [
        np.concatenate([one.start, one.end] if isinstance(one, SpanScores) else [one.ravel()]).tolist()
        for one in outputs
    ]


@pytest.mark.parametrize(
    "kind", ["bert", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("distilbert", "roberta", "mpnet"))]
)
def test_a_graph_gives_what_pytorch_gives_for_any_number_of_windows_and_tokens(tmp_path: Path, kind: str) -> None:
    made = make_pack(tmp_path / "p", save_tiny(tmp_path / "e", kind), TASKS["squad2"], heads=["layer_mix"], threshold=0)
    models = PackModels([made], device="cpu")
    write_graph(PackGraph(made.card, models.encoder, models.heads[0]), made.card, tmp_path / GRAPH_FILE, limit=40)
    weights = [weight.name for weight in onnx.load(tmp_path / GRAPH_FILE).graph.initializer]
    assert any("layer.1." in name for name in weights)
    assert not any("layer.2." in name for name in weights)  # the head reads up to layer 2, which is the second's output
    models.tokenizer.save(tmp_path / TOKENIZER_FILE)
    for runtime in usable_runtimes():
        near = HALF if runtime in ROUNDING else FLOAT32
        reader = GraphReader(tmp_path, made.card, pad=models.passes.pad, limit=40, runtime=runtime, threads=1)
        for lengths in SIZES:
            windows = tiny_windows(*lengths)
            for types in (windows.types, SECOND * windows.types):
                query = PackQuery(0, (replace(windows, types=types),))
                (expected,), (got,) = models.read_heads([query]), reader.read_heads([query])
                for mine, other in zip(values(got), values(expected), strict=True):
                    assert mine == pytest.approx(other, rel=near, abs=near * max(np.abs(other)))


@pytest.mark.parametrize(("step", "expected"), [(1, [(2, 17), (1, 9), (1, 37)]), (16, [(2, 17), (1, 16), (1, 40)])])
def test_only_a_window_by_itself_is_padded_to_a_round_length_within_the_limit(
    exported: ExportedPack, monkeypatch: pytest.MonkeyPatch, step: int, expected: list[tuple[int, int]]
) -> None:
    plain = load_reader(replace(exported, runtime="onnx"))
    sizes: list[tuple[int, ...]] = []

    def load(path: Path, runtime: GraphRuntime, *, threads: int = 0) -> RunGraph:
        run = load_graph(path, runtime, threads=threads)

        def watch(inputs: Inputs) -> Sequence[NDArray[np.float32]]:
            sizes.append(inputs["ids"].shape)
            return run(inputs)

        return watch

    monkeypatch.setattr(graph_reader, "load_graph", load)
    monkeypatch.setitem(LENGTH_STEP, "onnx", step)
    reader = GraphReader(exported.folder, exported.card, pad=exported.export.pad, limit=40, threads=1)
    for lengths in ((17, 15), (9,), (37,)):
        windows = tiny_windows(*lengths)
        query = PackQuery(0, (replace(windows, ids=windows.ids % len(WORDS)),))
        (got,), (wanted,) = reader.read_heads([query]), plain.read_heads([query])
        for mine, other in zip(values(got), values(wanted), strict=True):
            assert mine == pytest.approx(other, rel=FLOAT32, abs=FLOAT32 * max(np.abs(other)))
    assert sizes == expected


def test_an_exported_pack_answers_as_the_pack_does(pack: Pack, exported: ExportedPack) -> None:
    models = QuestionAnswerer(pack, device="cpu"), QuestionAnswerer.from_pretrained(exported.folder, runtime="onnx")
    contexts = [CONTEXT, "good a b " * 40]  # the second makes several windows
    expected, got = (model(question=[QUESTION] * 2, context=contexts, top_k=3) for model in models)
    for mine, other in zip(got, expected, strict=True):
        assert [one["answer"] for one in mine] == [one["answer"] for one in other]
        scores = [one["score"] for one in other]
        assert [one["score"] for one in mine] == pytest.approx(scores, rel=1e2 * FLOAT32)


@pytest.mark.slow
def test_labels_tags_and_scores_of_pairs_are_those_of_the_packs(place: Path) -> None:
    encoder = str(place / "encoder")
    texts = ["a good a", "bad b c d e f", "gold"]
    pairs = list(zip(texts, ["b", "good", "a c d e f g h"], strict=True))
    mood = make_pack(place / "mood", encoder, TASKS["sst2"], seed=1)
    tags = make_pack(place / "tags", encoder, TAGS, reads="tokens", heads=["layer_mix"], seed=3)
    ways: tuple[Pairs, ...] = ("apart", "aligned")
    alike = {way: make_pack(place / way, encoder, TASKS["sts"], pairs=way, seed=2) for way in ways}
    for made in (mood, tags, *alike.values()):
        export_pack(made, place / f"{made.folder.name}-onnx", examples=5)
    for name, made in (("mood", mood), ("tags", tags)):
        expected = TextClassifier(made, device="cpu").rows(texts)
        assert np.allclose(
            TextClassifier.from_pretrained(place / f"{name}-onnx", runtime="onnx").rows(texts), expected, atol=1e-4
        )
    for way, made in alike.items():
        expected = TextScorer(made, device="cpu").rows(pairs)
        assert np.allclose(
            TextScorer.from_pretrained(place / f"{way}-onnx", runtime="onnx").rows(pairs), expected, atol=1e-4
        )


def test_its_card_says_how_near_it_is_to_pytorch(pack: Pack, exported: ExportedPack) -> None:
    assert exported.card == replace(pack.card, digests=exported.card.digests)
    assert list(exported.card.digests) == ["model.onnx"]
    found = exported.export
    assert (found.numbers, found.examples, found.source) == ("float32", 20, "built-in")
    assert {found.agreement[name] for name in found.agreement if name not in ROUNDING} == {1.0}
    assert 0.0 < found.difference < FLOAT32 * found.largest
    assert set(found.milliseconds) == set(found.agreement) == set(usable_runtimes())
    assert all(0.0 < time < 1e4 for time in found.milliseconds.values())
    assert sorted(path.name for path in exported.folder.iterdir()) == [
        *("README.md", "export.json", "model.onnx", "pack.json", "tokenizer.json")
    ]
    graph = onnx.load(exported.folder / GRAPH_FILE)
    assert [one.name for one in graph.graph.output] == list(pack.card.heads)
    assert [one.version for one in graph.opset_import if not one.domain] == [found.opset]


def test_a_copy_of_it_needs_neither_the_pack_nor_the_encoder(
    tmp_path: Path, exported: ExportedPack, monkeypatch: pytest.MonkeyPatch
) -> None:
    exported.save_pretrained(tmp_path / "copy")
    monkeypatch.setattr("bertvision.tasks.tokenizer.locate_encoder", None)
    answerer = QuestionAnswerer.from_pretrained(tmp_path / "copy", runtime="onnx")
    assert answerer(question=QUESTION, context=CONTEXT)["answer"]
    assert Path(answerer.pack.folder) == tmp_path / "copy"


@pytest.mark.usefixtures("graph_at_hand")
def test_a_graph_that_is_not_pytorch_s_is_refused_and_leaves_nothing(
    tmp_path: Path, pack: Pack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agreement, "TOLERANCE", 0.0)
    with pytest.raises(BertVisionError, match=r"differs from PyTorch by .* Nothing was written"):
        export_pack(pack, tmp_path / "out", examples=3)
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("graph_at_hand")
def test_a_runtime_that_cannot_read_the_graph_is_done_without(
    tmp_path: Path, pack: Pack, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(path: Path, runtime: GraphRuntime, *, threads: int = 0) -> RunGraph:
        if runtime != "onnx":
            raise BertVisionError(f"{path} is no graph that OpenVINO reads.")
        return load_graph(path, runtime, threads=threads)

    monkeypatch.setattr(graph_reader, "load_graph", load)
    found = export_pack(pack, tmp_path / "out", examples=3)
    assert set(found.export.milliseconds) == set(found.export.agreement) == {"onnx"}
    assert found.runtime == "onnx"


@pytest.mark.usefixtures("graph_at_hand")
def test_int8_computes_in_whole_numbers_and_states_how_many_predictions_stay(
    tmp_path: Path, pack: Pack, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(BertVisionError, match=r"no weights .* leave --int8 out"):
        export_pack(pack, tmp_path / "int8", numbers="int8", examples=2)
    monkeypatch.setattr(quantise, "NARROWEST", WIDTH)
    narrow = export_pack(pack, tmp_path / "int8", numbers="int8", examples=40)
    graph = onnx.load(narrow.folder / GRAPH_FILE)
    assert "QuantizeLinear" in {node.op_type for node in graph.graph.node}
    assert onnx.TensorProto.INT8 in {weight.data_type for weight in graph.graph.initializer}
    assert narrow.export.numbers == "int8"
    assert narrow.runtime == "onnx"  # whatever is faster
    rows = compared_rows(pack.card, None, 40)
    cards = [pack.card, replace(pack.card, threshold=None)]  # the answer that is given, and the best one
    said = [
        [
            [row["prediction"] for row in predict_rows(PackModels([replace(pack, card=card)], device="cpu"), rows)],
            [row["prediction"] for row in predict_rows(load_reader(replace(narrow, card=card, runtime="onnx")), rows)],
        ]
        for card in cards
    ]
    same = [[mine == other for mine, other in zip(*both, strict=True)] for both in said]
    assert narrow.export.agreement["onnx"] == np.mean(np.all(same, axis=0))
    assert sorted(path.name for path in narrow.folder.iterdir())[-2:] == ["pack.json", "tokenizer.json"]


def test_examples_come_from_a_file_or_from_a_built_in_set_of_the_form(tmp_path: Path, pack: Pack) -> None:
    assert isinstance(compared_rows(pack.card, None, 3)[0].input, tuple)
    single = compared_rows(replace(pack.card, task=TASKS["sst2"]), None, 3)
    assert all(isinstance(row.input, str) for row in single)
    assert len(compared_rows(replace(pack.card, task=TASKS["sts"]), None, 4)) == 4
    (tmp_path / "none.json").write_text('{"data": []}', encoding="utf-8")
    with pytest.raises(DataError, match=r"none\.json has no example"):
        compared_rows(pack.card, tmp_path / "none.json", 3)


def test_samples_are_spread_over_training_examples_and_not_compared(pack: Pack) -> None:
    samples, compared = (export.sample_rows(pack.card), compared_rows(pack.card, None, 1000))
    assert export.SAMPLES // 2 < len(samples) <= export.SAMPLES
    assert not {str(row.input) for row in samples} & {str(row.input) for row in compared}


def test_a_runtime_that_does_not_fit_is_refused(pack: Pack, exported: ExportedPack) -> None:
    with pytest.raises(BertVisionError, match=r"was not exported.*bertvision export .* --to onnx"):
        open_pack(pack.folder, runtime="onnx")
    with pytest.raises(BertVisionError, match="was exported, and PyTorch does not read it"):
        open_pack(exported.folder, runtime="torch")
    with pytest.raises(BertVisionError, match="was exported, and PyTorch does not read it"):
        Pack.load(exported.folder)
    with pytest.raises(BertVisionError, match="brings its encoder with it"):
        load_reader(exported, encoder="minilm")
    with pytest.raises(BertVisionError, match="runs by itself on the CPU"):
        load_reader(exported, device="cuda")


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("model.onnx", None, "model.onnx is not there"),
        ("model.onnx", "other", "model.onnx is damaged"),
        ("tokenizer.json", "{}", "no tokenizer that can be read"),
        ("export.json", "{", "cannot be read"),
        ("export.json", json.dumps({"format": 9, "record": "export"}), "has format 9, 2 is expected"),
    ],
)
def test_damage_is_said_in_one_sentence(
    tmp_path: Path, exported: ExportedPack, file: str, content: str | None, message: str
) -> None:
    exported.save_pretrained(tmp_path / "copy")
    path = tmp_path / "copy" / file
    path.unlink() if content is None else path.write_text(content, encoding="utf-8")
    with pytest.raises(BertVisionError, match=message):
        load_reader(open_pack(tmp_path / "copy"))


def test_what_is_missing_or_too_little_is_said_first(
    tmp_path: Path, pack: Pack, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(BertVisionError, match="--examples is 0, at least 1"):
        export_pack(pack, tmp_path / "out", examples=0)
    with pytest.raises(BertVisionError, match="holds a pack that was not exported, and would be lost"):
        export_pack(pack, pack.folder)
    monkeypatch.setattr(export, "find_spec", lambda name: None if name == "onnxscript" else name)
    with pytest.raises(BertVisionError, match=r"needs the package 'onnxscript'.*bertvision\[onnx\]"):
        export_pack(pack, tmp_path / "out")
