"""Cells of sentences: which examples they learn from, what they tell, and what a paired test makes of it."""

import json
from pathlib import Path

import numpy as np
import pytest

from bertvision.bench.sentences import (
    SentenceSettings,
    few_rows,
    measure_sentences,
    pack_predictions,
    paired_tests,
    some_rows,
    unpack_predictions,
)
from bertvision.errors import BertVisionError
from bertvision.tasks.load import TASKS
from tiny_run import save_tiny_encoder


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_tiny_encoder(tmp_path_factory.mktemp("encoder") / "tiny")


def write_films(folder: Path) -> str:
    """SST-2 with texts that a tiny encoder tells apart."""
    folder.mkdir()
    for split, rows in (("train", 24), ("dev", 10)):
        lines = [f"{'good' if row % 2 else 'bad'} {'abcdefgh'[row % 8]}\t{row % 2}" for row in range(rows)]
        (folder / f"{split}.tsv").write_text("\n".join(["sentence\tlabel", *lines]) + "\n", encoding="utf-8")
    return str(folder)


@pytest.mark.parametrize("method", ["last_layer", "layer_concat", "embeddings"])
def test_a_cell_tells_quality_cost_and_every_answer(method: str, encoder: str, tmp_path: Path) -> None:
    if method == "embeddings":
        pytest.importorskip("sentence_transformers")
    settings = SentenceSettings(data=write_films(tmp_path / "films"), encoder=encoder, method=method, shots=8)
    found = measure_sentences(settings, 0, tmp_path / "cache")
    assert json.loads(json.dumps(found)) == found
    assert found["examples"] == 16
    right = [digit == str(row % 2) for row, digit in enumerate(found["predictions"])]
    assert found["metrics"] == {"accuracy": np.mean(right)}
    assert found["metrics"]["accuracy"] >= 0.8
    assert all(found["seconds"][name] >= 0 for name in ("encode", "fit", "predict"))
    # a row of weights and a bias for each of two classes; scikit-learn has one row for both
    assert found["parameters"] == {"last_layer": 34, "layer_concat": 98, "embeddings": 17}[method]


def test_texts_are_encoded_once_for_all_cells(encoder: str, tmp_path: Path) -> None:
    data = write_films(tmp_path / "films")
    first = measure_sentences(SentenceSettings(data=data, encoder=encoder), 0, tmp_path / "cache")
    kept = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "cache").iterdir()}
    assert len(kept) == 4  # vectors and their seconds, of train and of dev
    again = measure_sentences(SentenceSettings(data=data, encoder=encoder), 1, tmp_path / "cache")
    assert {path.name: path.stat().st_mtime_ns for path in (tmp_path / "cache").iterdir()} == kept
    assert again["predictions"] == first["predictions"]
    assert again["seconds"]["encode"] == first["seconds"]["encode"]


def test_pairs_with_scores_are_measured_too(encoder: str, tmp_path: Path) -> None:
    folder = tmp_path / "pairs"
    folder.mkdir()
    for split, rows in (("train", 24), ("dev", 9)):
        lines = [
            f"{row}\t{'good' if row % 2 else 'bad'} a\tgood {'abc'[row % 3]}\t{5.0 * (row % 2)}" for row in range(rows)
        ]
        text = "\n".join(["index\tsentence1\tsentence2\tscore", *lines]) + "\n"
        (folder / f"{split}.tsv").write_text(text, encoding="utf-8")
    settings = SentenceSettings(task="stsb", data=str(folder), encoder=encoder)
    found = measure_sentences(settings, 0, tmp_path / "cache")
    assert found["metrics"]["pearson"] > 0.9
    assert len(found["predictions"]) == 9
    assert found["parameters"] == 2 * 3 * 16 + 1
    with pytest.raises(BertVisionError, match="SetFit labels single texts, and stsb has others"):
        measure_sentences(SentenceSettings(task="stsb", data=str(folder), method="setfit"), 0, tmp_path)


def test_as_many_of_every_class_are_drawn_and_others_by_another_seed() -> None:
    targets = np.array([0] * 20 + [1] * 5 + [2] * 2)
    rows = few_rows(targets, 4, 0)
    assert np.bincount(targets[rows]).tolist() == [4, 4, 2]
    assert rows.tolist() == sorted(set(rows.tolist()))
    assert few_rows(targets, 4, 0).tolist() == rows.tolist() != few_rows(targets, 4, 1).tolist()
    assert few_rows(targets, None, 0).tolist() == list(range(27))
    scores = np.array([0.1, 0.4, 0.6, 1.4, 4.6, 5.0])
    assert len(few_rows(scores, 1, 0)) == 3  # near 0, 1 and 5


def test_some_rows_are_the_same_for_everybody() -> None:
    assert some_rows(10, 4).tolist() == sorted(some_rows(10, 4).tolist())
    assert len(set(some_rows(10, 4).tolist())) == 4
    assert some_rows(3, 4).tolist() == [0, 1, 2]


@pytest.mark.parametrize("predictions", [np.array([0, 4, 1]), np.array([0.125, 4.5])])
def test_predictions_come_back(predictions: np.ndarray) -> None:
    packed = pack_predictions(predictions)
    np.testing.assert_array_equal(unpack_predictions(json.loads(json.dumps(packed))), predictions)


def test_a_paired_test_tells_how_much_better_and_how_sure() -> None:
    golds = np.arange(200) % 2
    right = "".join(map(str, golds))
    half = "".join(str(gold if row % 4 else 1 - gold) for row, gold in enumerate(golds))
    found = paired_tests(TASKS["sst2"], golds, right, half)["accuracy"]
    assert found["value"] == pytest.approx(0.25)
    assert found["low"] > 0.1
    assert found["p"] < 0.01
    assert paired_tests(TASKS["sst2"], golds, half, half)["accuracy"]["p"] == 1.0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (SentenceSettings(task="squad2"), "task is 'squad2'; one with labels or scores"),
        (SentenceSettings(method="layerconcat"), "Did you mean 'layer_concat'"),
        (SentenceSettings(shots=1), "shots is 1; 2 or more"),
        (SentenceSettings(most=0), "most is 0; 2 or more"),
    ],
)
def test_what_cannot_be_measured_is_refused(settings: SentenceSettings, message: str, tmp_path: Path) -> None:
    with pytest.raises(BertVisionError, match=message):
        measure_sentences(settings, 0, tmp_path)
