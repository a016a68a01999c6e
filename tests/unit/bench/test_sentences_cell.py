"""Cells of sentences: which examples they learn from, what they tell, and what they lack."""

import json
import sys
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

from bertvision.bench.environment import BenchEnvironment
from bertvision.bench.outcomes import unpack_outcomes
from bertvision.bench.sentence_settings import SentenceSettings
from bertvision.bench.sentences_cell import measure_sentences, sample_per_class, sample_rows
from bertvision.errors import BertVisionError, MissingExtraError
from tiny_run import save_tiny_encoder, write_labels

pytestmark = pytest.mark.usefixtures("few_strengths")

OURS = ("last_layer", "layer_concat")
PARAMETERS = {"last_layer": 34, "layer_concat": 98, "embeddings": 17}
"""A row of 16 or 48 weights and a bias for each of two classes; scikit-learn has one row for both."""

LORA_PARAMETERS = 2 * 8 * (4 * (16 + 16) + 2 * (16 + 32))
"""Of two layers, rank 8: query, key, value and output are 16 × 16, the two maps behind them 16 × 32."""


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_tiny_encoder(tmp_path_factory.mktemp("encoder") / "tiny")


@pytest.fixture
def environment(encoder: str, tmp_path: Path) -> BenchEnvironment:
    write_labels(tmp_path / "data" / "films")
    return BenchEnvironment(data=tmp_path / "data", encoders={"tiny": encoder}, work=tmp_path / "work", device="cpu")


FILMS = SentenceSettings(data="films", encoder="tiny", methods=OURS, per_class=8)


def test_a_cell_tells_quality_cost_and_every_answer_of_each_method(environment: BenchEnvironment) -> None:
    pytest.importorskip("sentence_transformers")
    found = measure_sentences(replace(FILMS, methods=(*OURS, "embeddings")), 0, environment)
    assert json.loads(json.dumps(found)) == found
    assert list(found["models"]) == [*OURS, "embeddings"]
    assert found["examples"] == 16
    assert found["packages"] == {"sentence_transformers": version("sentence-transformers")}
    golds = unpack_outcomes(found["golds"])
    assert golds.tolist() == [1] * 6 + [0] * 6
    for name, model in found["models"].items():
        right = float((unpack_outcomes(model["outcomes"]) == golds).mean())
        assert model["scores"] == {"plain": {"accuracy": round(right, 4)}}
        assert right >= 0.8
        assert model["parameters"] == PARAMETERS[name]
        assert model["bytes"] == 4 * PARAMETERS[name]
        assert 0 < model["encode_seconds"] < model["seconds"]  # encoding is a part of learning, whoever did it
        assert model["inference_seconds"] > 0


def test_texts_are_encoded_once_for_all_cells_and_each_pays_its_share(environment: BenchEnvironment) -> None:
    whole = measure_sentences(replace(FILMS, per_class=None), 0, environment)
    kept = {path: path.stat().st_mtime_ns for path in environment.work.rglob("*")}
    assert sum(path.suffix == ".npy" for path in kept) == 2  # of train and of dev
    few = measure_sentences(replace(FILMS, methods=("layer_concat",)), 1, environment)
    assert {path: path.stat().st_mtime_ns for path in environment.work.rglob("*")} == kept
    spent = [one["models"]["layer_concat"]["encode_seconds"] for one in (whole, few)]
    assert spent[1] == pytest.approx(spent[0] * 16 / 40, abs=0.002)


def test_triplets_tune_the_encoder_before_a_head_is_solved(environment: BenchEnvironment) -> None:
    tuned = replace(FILMS, methods=("triplets",))
    found = [measure_sentences(tuned, 0, environment)["models"]["triplets"] for _ in range(2)]
    assert found[0]["outcomes"] == found[1]["outcomes"]
    assert found[0]["scores"]["plain"]["accuracy"] >= 0.8
    assert found[0]["parameters"] == PARAMETERS["last_layer"] + LORA_PARAMETERS
    assert not list(environment.work.rglob("near"))  # nothing is left of what was tuned


def test_the_same_seed_draws_the_same_examples_and_another_draws_others(environment: BenchEnvironment) -> None:
    few = replace(FILMS, per_class=5)
    answers = [
        measure_sentences(few, seed, environment)["models"]["last_layer"]["outcomes"] for seed in (0, 0, 1, 2, 3)
    ]
    assert answers[0] == answers[1]
    assert len(set(answers)) > 1


def test_pairs_with_scores_are_measured_too(environment: BenchEnvironment, tmp_path: Path) -> None:
    folder = tmp_path / "data" / "pairs"
    folder.mkdir()
    for split, rows in (("train", 24), ("dev", 9)):
        lines = [
            f"{row}\t{'good' if row % 2 else 'bad'} a\tgood {'abc'[row % 3]}\t{5.0 * (row % 2)}" for row in range(rows)
        ]
        text = "\n".join(["index\tsentence1\tsentence2\tscore", *lines]) + "\n"
        (folder / f"{split}.tsv").write_text(text, encoding="utf-8")
    found = measure_sentences(replace(FILMS, task="stsb", data="pairs", per_class=None), 0, environment)
    assert unpack_outcomes(found["golds"]).tolist() == [0, 5, 0, 5, 0, 5, 0, 5, 0]
    model = found["models"]["layer_concat"]
    assert model["scores"]["plain"]["pearson"] > 0.9
    assert len(unpack_outcomes(model["outcomes"])) == 9
    assert model["parameters"] == 6 * 3 * 16 + 1


@pytest.mark.parametrize(("method", "package"), [("embeddings", "sentence_transformers"), ("setfit", "setfit")])
def test_a_missing_package_is_named_before_anything_is_encoded(
    method: str, package: str, environment: BenchEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    message = rf"method '{method}' needs the package '{package}'. Install it: pip install 'bertvision\[bench\]'"
    with pytest.raises(MissingExtraError, match=message):
        measure_sentences(replace(FILMS, methods=("last_layer", method)), 0, environment)
    assert not environment.work.exists()


def test_without_dev_examples_nothing_can_be_judged(environment: BenchEnvironment, tmp_path: Path) -> None:
    (tmp_path / "data" / "films" / "dev.tsv").unlink()
    with pytest.raises(BertVisionError, match="sst2 has no dev split here, so that nothing can be judged"):
        measure_sentences(FILMS, 0, environment)


def test_as_many_of_every_class_are_drawn_and_others_by_another_seed() -> None:
    targets = np.array([0] * 20 + [1] * 5 + [2] * 2)
    rows = sample_per_class(targets, 4, 0)
    assert np.bincount(targets[rows]).tolist() == [4, 4, 2]
    assert rows.tolist() == sorted(set(rows.tolist()))
    assert sample_per_class(targets, 4, 0).tolist() == rows.tolist() != sample_per_class(targets, 4, 1).tolist()
    assert sample_per_class(targets, None, 0).tolist() == list(range(27))
    scores = np.array([0.1, 0.4, 0.6, 1.4, 4.6, 5.0])
    assert len(sample_per_class(scores, 1, 0)) == 3  # near 0, 1 and 5


def test_some_rows_are_the_same_for_everybody() -> None:
    assert sample_rows(10, 4).tolist() == sorted(sample_rows(10, 4).tolist())
    assert len(set(sample_rows(10, 4).tolist())) == 4
    assert sample_rows(3, 4).tolist() == sample_rows(3, None).tolist() == [0, 1, 2]
