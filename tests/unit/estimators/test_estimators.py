"""Estimators for scikit-learn: states once, maps as solved by hand, files without pickle."""

import json
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import (
    check_get_params_invariance,
    check_no_attributes_set_in_init,
    check_parameters_default_constructible,
    check_set_params,
)

from bertvision import AllLayerClassifier, AllLayerFeatures, AllLayerRegressor
from bertvision.encoder.encoder import Encoder
from bertvision.errors import BertVisionError
from bertvision.estimators import rows
from bertvision.training.linear_problem import Layout
from bertvision.training.solve import solve_at, solve_linear
from close import FLOAT32, SOLVED
from tiny_run import save_tiny_encoder

GOOD = [f"the {thing} is good" for thing in ("film", "meal", "song", "book", "cat", "day", "man", "sea")]
BAD = [f"the {thing} is bad and dull" for thing in ("film", "meal", "song", "book", "cat", "day", "man", "sea")]
TEXTS = GOOD + BAD
LABELS = ["yes"] * len(GOOD) + ["no"] * len(BAD)
KINDS = [AllLayerClassifier, AllLayerRegressor, AllLayerFeatures]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_tiny_encoder(tmp_path_factory.mktemp("encoder") / "tiny")


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    rows.text_rows.cache_clear()
    yield
    rows.text_rows.cache_clear()


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many windows went through an encoder, batch by batch."""
    seen: list[int] = []
    visit = Encoder.visit

    def count(self: Encoder, batch: object, *args: object, **more: object) -> object:
        seen.append(len(batch.ids))  # type: ignore[attr-defined]
        return visit(self, batch, *args, **more)  # type: ignore[arg-type]  # as it was called

    monkeypatch.setattr(Encoder, "visit", count)
    return seen


def test_features_are_the_encoders_own_layers_side_by_side(encoder: str) -> None:
    kept = rows.text_rows(encoder, "mean", 384, "cpu")
    expected = kept.rows(TEXTS)
    assert expected.shape == (16, kept.encoder.depth + 1, kept.encoder.width)
    every = AllLayerFeatures(encoder, pool="mean", device="cpu").fit_transform(TEXTS)
    assert every.dtype == np.float32
    np.testing.assert_array_equal(every, expected.flatten(1).numpy())
    some = AllLayerFeatures(encoder, pool="mean", layers=(0, 2), device="cpu").fit_transform(np.array(TEXTS))
    np.testing.assert_array_equal(some, expected[:, [0, 2]].flatten(1).numpy())


def test_a_pair_is_how_far_its_texts_are_apart_and_agree(encoder: str) -> None:
    features = AllLayerFeatures(encoder, pool="mean", layers=(1,), device="cpu")
    first, second = (
        rows / np.linalg.norm(rows, axis=1, keepdims=True)
        for rows in (features.fit_transform(GOOD), features.fit_transform(BAD))
    )
    expected = np.concatenate([np.abs(first - second), first * second], axis=1)
    for pairs in (list(zip(GOOD, BAD, strict=True)), np.array([GOOD, BAD]).T):
        aligned = features.fit_transform(pairs)  # as wholes, then token by token
        assert aligned.shape == (8, 6 * 16)
        np.testing.assert_allclose(aligned[:, : 2 * 16], expected, rtol=FLOAT32, atol=FLOAT32)
        wholes = clone(features).set_params(pairs="apart").fit_transform(pairs)
        np.testing.assert_allclose(wholes, expected, rtol=FLOAT32, atol=FLOAT32)


def test_another_way_to_compare_is_refused(encoder: str) -> None:
    with pytest.raises(BertVisionError, match="pairs is 'together'; apart or aligned is expected"):
        AllLayerFeatures(encoder, pairs="together", device="cpu").fit(TEXTS)  # type: ignore[arg-type]


def test_a_pair_is_aligned_once_and_a_text_apart_once_in_however_many_pairs(encoder: str, encoded: list[int]) -> None:
    pairs = [(GOOD[0], BAD[0]), (GOOD[0], BAD[1]), (GOOD[0], BAD[0])]
    features = AllLayerFeatures(encoder, pool="mean", device="cpu")
    first, again = features.fit_transform(pairs), features.fit_transform(pairs[::-1])
    np.testing.assert_array_equal(again, first[::-1])
    assert sum(encoded) == 2 * 2
    clone(features).set_params(pairs="apart").fit_transform(pairs)
    assert sum(encoded) == 2 * 2 + 3


def test_every_text_is_encoded_once_for_all_folds_and_settings(encoder: str, encoded: list[int]) -> None:
    model = AllLayerClassifier(encoder, device="cpu")
    search = GridSearchCV(model, {"strength": [0.1, 1.0], "layers": [None, (1,)]}, cv=2).fit(TEXTS, LABELS)
    assert search.best_score_ >= 0.5
    assert sum(encoded) == len(TEXTS)
    scores = cross_val_score(clone(model).set_params(strength=1.0), TEXTS + TEXTS, LABELS + LABELS, cv=4)
    assert sum(encoded) == len(TEXTS)
    assert scores.shape == (4,)


def test_the_oldest_rows_are_forgotten_when_there_are_too_many(encoder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = rows.text_rows(encoder, "mean", 384, "cpu")
    size = kept.rows(TEXTS[:1]).nbytes
    monkeypatch.setattr(rows, "MOST_BYTES", 5 * size + 1)
    before = kept.rows(TEXTS)
    assert len(kept) == 5
    torch.testing.assert_close(kept.rows(TEXTS), before, rtol=FLOAT32, atol=FLOAT32)


def test_threads_may_share_rows_that_are_forgotten(encoder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = rows.text_rows(encoder, "mean", 384, "cpu")
    expected = kept.rows(TEXTS)
    monkeypatch.setattr(rows, "MOST_BYTES", 0)
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda number: kept.rows(TEXTS[: 1 + number % 16]), range(160)))
    for number, some in enumerate(found):
        torch.testing.assert_close(some, expected[: 1 + number % 16], rtol=FLOAT32, atol=FLOAT32)


def test_a_classifier_of_one_layer_is_logistic_regression_on_standardised_states(encoder: str) -> None:
    model = AllLayerClassifier(encoder, layers=(1,), strength=0.5, device="cpu").fit(TEXTS, LABELS)
    inputs = model.features.fit_transform(TEXTS)
    scaled = (inputs - inputs.mean(axis=0)) / np.where(inputs.std(axis=0) > 1e-5, inputs.std(axis=0), 1)
    # ours is a mean over examples with half the strength on two rows of weights: one row of twice that difference
    theirs = LogisticRegression(C=1 / (0.5 * len(TEXTS) / 2), tol=1e-8, max_iter=2000).fit(scaled, LABELS)
    np.testing.assert_allclose(model.predict_proba(TEXTS), theirs.predict_proba(scaled), atol=2e-3)
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.predict(TEXTS).tolist() == LABELS
    assert ((model.decision_function(TEXTS) > 0) == (model.predict(TEXTS) == "yes")).all()
    assert model.score(TEXTS, LABELS) == 1.0


def test_a_regressor_of_one_layer_is_ridge_regression_on_standardised_states(encoder: str) -> None:
    scores = np.linspace(0, 5, len(TEXTS))
    model = AllLayerRegressor(encoder, layers=(1,), strength=0.1, device="cpu").fit(TEXTS, scores)
    inputs = model.features.fit_transform(TEXTS).astype(np.float64)
    scaled = (inputs - inputs.mean(axis=0)) / np.where(inputs.std(axis=0) > 1e-5, inputs.std(axis=0), 1)
    theirs = Ridge(alpha=0.1 * len(TEXTS)).fit(scaled, scores)
    np.testing.assert_allclose(model.predict(TEXTS), theirs.predict(scaled), atol=1e-3)


@pytest.mark.parametrize("strength", [None, 30.0])
def test_how_alike_the_texts_of_pairs_are_counts_by_itself(strength: float | None, encoder: str) -> None:
    pairs = list(zip(GOOD + BAD, GOOD[4:] + BAD[:4] + GOOD[:4] + BAD[4:], strict=True))
    scores = np.array([number % 3 for number in range(16)]) + 1.0 * (np.arange(16) < 4)
    model = AllLayerRegressor(encoder, strength=strength, layers=(0, 2), device="cpu").fit(pairs, scores)
    inputs, goal = torch.from_numpy(model.features.fit_transform(pairs)), torch.from_numpy(scores)

    def solved(*, compared: bool) -> np.ndarray:
        layout = Layout(layers=2, parts=6, similarity_parts=4) if compared else Layout(layers=2)
        if strength is None:  # by folds, which choose the strength and whether sums count
            found = solve_linear(inputs, goal, kind="scores", outputs=1, layout=layout)
            weight, bias = found.weight, found.bias
        else:
            weight, bias = solve_at(inputs, goal, strength=strength, kind="scores", outputs=1, layout=layout)
        return (inputs @ weight.T + bias)[:, 0].numpy()

    np.testing.assert_allclose(model.predict(pairs), solved(compared=True), atol=SOLVED)
    assert strength is None or np.abs(solved(compared=True) - solved(compared=False)).max() > 10 * SOLVED


def test_a_strength_is_chosen_by_folds_and_all_examples_are_learnt_from(encoder: str) -> None:
    labels = [0, 1, 2, 3] * 12
    texts = [f"{TEXTS[number % 16]} {label * 'very '}" for number, label in enumerate(labels)]
    model = AllLayerClassifier(encoder, device="cpu").fit(texts, labels)
    again = AllLayerClassifier(encoder, strength=model.strength_, device="cpu").fit(texts, labels)
    np.testing.assert_allclose(model.predict_proba(texts), again.predict_proba(texts), atol=SOLVED)
    assert model.decision_function(texts).shape == (48, 4)
    assert model.predict(texts).dtype == np.int64
    np.testing.assert_allclose(model.predict_proba(texts).sum(axis=1), 1.0, rtol=FLOAT32)


@pytest.mark.parametrize("paired", [False, True])
def test_copies_of_texts_do_not_make_the_penalty_weaker(encoder: str, *, paired: bool) -> None:
    words = [f"{first} {second}" for first in "abcdefgh" for second in "abcd"]
    labels = np.random.default_rng(0).permutation([0, 1] * 16).tolist()  # which the texts tell nothing of
    texts = [(text, "good") for text in words] if paired else words
    once, copied = (AllLayerClassifier(encoder, device="cpu").fit(texts * n, labels * n) for n in (1, 5))
    assert copied.strength_ >= 0.1 * once.strength_


def test_balanced_classes_count_the_same(encoder: str) -> None:
    texts, labels = GOOD[:2] + BAD, [1] * 2 + [0] * 8
    plain = AllLayerClassifier(encoder, strength=1e4, device="cpu").fit(texts, labels)
    balanced = AllLayerClassifier(encoder, strength=1e4, class_weight="balanced", device="cpu").fit(texts, labels)
    assert plain.predict_proba(texts)[:, 1].mean() == pytest.approx(0.2, abs=0.02)
    assert balanced.predict_proba(texts)[:, 1].mean() == pytest.approx(0.5, abs=0.02)


def test_they_stand_in_pipelines(encoder: str) -> None:
    pipe = make_pipeline(AllLayerFeatures(encoder, device="cpu"), LogisticRegression()).fit(TEXTS, LABELS)
    assert pipe.score(TEXTS, LABELS) == 1.0


@pytest.mark.parametrize("kind", KINDS)
def test_scikit_learns_checks_that_apply_to_texts(kind: type) -> None:
    name = kind.__name__
    check_parameters_default_constructible(name, kind())
    check_no_attributes_set_in_init(name, kind())
    check_get_params_invariance(name, kind())
    check_set_params(name, kind())
    assert clone(kind(layers=(0, 1))).layers == (0, 1)
    assert kind().__sklearn_tags__().input_tags.string


def test_a_saved_estimator_predicts_as_before(encoder: str, tmp_path: Path) -> None:
    model = AllLayerClassifier(encoder, strength=1.0, layers=(0, 1), device="cpu").fit(TEXTS, LABELS)
    model.save(tmp_path / "a" / "model")
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["model"]
    back = AllLayerClassifier.load(tmp_path / "a" / "model")
    assert back.get_params() == model.get_params()
    np.testing.assert_array_equal(back.predict_proba(TEXTS), model.predict_proba(TEXTS))
    assert back.predict(TEXTS).tolist() == LABELS
    scores = AllLayerRegressor(encoder, strength=1.0, device="cpu").fit(TEXTS, range(16))
    scores.save(tmp_path / "scores")
    np.testing.assert_array_equal(AllLayerRegressor.load(tmp_path / "scores").predict(TEXTS), scores.predict(TEXTS))


def test_an_estimator_saved_before_texts_could_be_aligned_compares_them_as_wholes(encoder: str, tmp_path: Path) -> None:
    pairs = list(zip(GOOD, BAD, strict=True))
    model = AllLayerRegressor(encoder, strength=1.0, pairs="apart", device="cpu").fit(pairs, range(8))
    model.save(tmp_path / "old")
    card = json.loads((tmp_path / "old" / "estimator.json").read_text())
    del card["settings"]["pairs"]
    (tmp_path / "old" / "estimator.json").write_text(json.dumps(card))
    np.testing.assert_array_equal(AllLayerRegressor.load(tmp_path / "old").predict(pairs), model.predict(pairs))


def test_what_cannot_be_loaded_is_told(encoder: str, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    model = AllLayerClassifier(encoder, strength=1.0, device="cpu").fit(TEXTS, LABELS)
    model.save(folder)
    with pytest.raises(BertVisionError, match="is there already"):
        model.save(folder)
    with pytest.raises(BertVisionError, match=r"holds a AllLayerClassifier\. Use AllLayerClassifier\.load"):
        AllLayerRegressor.load(folder)
    with pytest.raises(
        BertVisionError, match=r"nothing/estimator\.json cannot be read .* Fit and save the estimator again"
    ):
        AllLayerClassifier.load(tmp_path / "nothing")
    card = json.loads((folder / "estimator.json").read_text())
    (folder / "estimator.json").write_text(json.dumps(card | {"fingerprint": "0123"}))
    with pytest.raises(BertVisionError, match="with fingerprint 0123; the one here has"):
        AllLayerClassifier.load(folder)
    (folder / "estimator.json").write_text(json.dumps(card | {"format": 9}))
    with pytest.raises(BertVisionError, match="has format 9, 2 is expected"):
        AllLayerClassifier.load(folder)
    (folder / "estimator.safetensors").write_bytes(b"cut")
    (folder / "estimator.json").write_text(json.dumps(card))
    with pytest.raises(BertVisionError, match=r"estimator\.safetensors cannot be read .* copy it again"):
        AllLayerClassifier.load(folder)


def test_an_estimator_that_cannot_be_written_leaves_nothing(
    encoder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = AllLayerClassifier(encoder, strength=1.0, device="cpu").fit(TEXTS, LABELS)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("bertvision.tensor_files.save_file", full)
    with pytest.raises(BertVisionError, match=r"model cannot be written: No space left on device\. Make room"):
        model.save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").touch()
    with pytest.raises(BertVisionError, match="cannot be written"):
        model.save(tmp_path / "file" / "model")


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ("a text", r"one text was given\. Use \[text\]"),
        ([], "there are no texts"),
        (["a", ("a", "b")], "single texts and pairs of texts are mixed"),
        (["a", 3], "row 1 is '3'; a text or a pair of texts is expected"),
        ([("a", "b", "c")], "row 0 is"),
        ([("a", 1)], "row 0 is"),
        (5, "5 was given; a list of texts, or of pairs of texts, is expected"),
        (None, "None was given; a list of texts"),
        (["a", "\ud800"], "row 1 cannot be read: character 0 is half of a surrogate pair"),
    ],
)
def test_inputs_that_are_no_texts_are_refused(inputs: object, message: str, encoder: str) -> None:
    with pytest.raises(BertVisionError, match=message):
        AllLayerFeatures(encoder, device="cpu").fit(inputs)  # type: ignore[arg-type]


def test_what_cannot_be_solved_is_refused(encoder: str) -> None:
    model = AllLayerClassifier(encoder, device="cpu")
    with pytest.raises(BertVisionError, match="there is one class, 'no'; at least two"):
        model.fit(BAD, ["no"] * 8)
    with pytest.raises(BertVisionError, match="there are 16 texts and 2 targets"):
        model.fit(TEXTS, [0, 1])
    with pytest.raises(BertVisionError, match=r"2 different texts are too few to choose a .* Set strength"):
        model.fit(TEXTS[:2] * 8, [0, 1] * 8)
    with pytest.raises(BertVisionError, match="folds is 1; 2 or more are expected"):
        clone(model).set_params(folds=1).fit(TEXTS, LABELS)
    with pytest.raises(BertVisionError, match=r"layers are \(2, 1\); some of 0 to"):
        clone(model).set_params(layers=(2, 1)).fit(TEXTS, LABELS)
    with pytest.raises(BertVisionError, match=r"scores have shape \(2, 1\); one finite number"):
        AllLayerRegressor(encoder, device="cpu").fit(TEXTS[:2], [[1.0], [2.0]])
    with pytest.raises(BertVisionError, match="one finite number"):
        AllLayerRegressor(encoder, device="cpu").fit(TEXTS[:2], [1.0, float("nan")])


def test_what_cannot_be_solved_is_refused_before_texts_are_encoded(encoder: str, encoded: list[int]) -> None:
    texts = [f"{text} which no test has read" for text in TEXTS]
    model = AllLayerClassifier(encoder, device="cpu")
    for one, targets in ((model, [0, 1]), (clone(model).set_params(folds=1), LABELS), (model, range(16))):
        with pytest.raises(BertVisionError, match=r"as many are expected|2 or more are expected|too few to choose"):
            one.fit(texts, targets)
    assert encoded == []


@pytest.mark.parametrize("wrong", ["high", None, "1,5"])
def test_scores_that_are_no_numbers_are_told(wrong: object, encoder: str) -> None:
    with pytest.raises(BertVisionError, match="one finite number per text is expected"):
        AllLayerRegressor(encoder, device="cpu").fit(TEXTS, [*range(15), wrong])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_gives_the_states_of_a_cpu(encoder: str) -> None:
    on_cpu, on_gpu = (AllLayerFeatures(encoder, device=device).fit_transform(TEXTS) for device in ("cpu", "cuda"))
    np.testing.assert_allclose(on_gpu, on_cpu, rtol=FLOAT32, atol=FLOAT32)


def test_settings_that_mean_nothing_are_refused(encoder: str) -> None:
    model = AllLayerClassifier(encoder, device="cpu", strength=1.0)
    for strength in (0.0, -1.0, float("nan"), float("inf"), "1"):
        with pytest.raises(BertVisionError, match=rf"strength is '?{strength}'?; a number above 0 is expected"):
            clone(model).set_params(strength=strength).fit(TEXTS, LABELS)
    with pytest.raises(BertVisionError, match="pool is 'max'; cls or mean is expected"):
        clone(model).set_params(pool="max").fit(TEXTS, LABELS)
    with pytest.raises(BertVisionError, match="the device is 'tpu'; auto, cpu, cuda are known"):
        clone(model).set_params(device="tpu").fit(TEXTS, LABELS)
    with pytest.raises(BertVisionError, match="layers are all; some of 0 to"):
        clone(model).set_params(layers="all").fit(TEXTS, LABELS)


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_a_class_that_is_missing_among_texts_is_told_by_its_number(missing: object, encoder: str) -> None:
    model = AllLayerClassifier(encoder, device="cpu", strength=1.0)
    with pytest.raises(BertVisionError, match=f"class 1 is {missing}; a text or a number is expected"):
        model.fit(TEXTS, np.array([LABELS[0], missing, *LABELS[2:]], dtype=object))
    with pytest.raises(BertVisionError, match="class 1 is nan; a text or a number is expected"):
        model.fit(TEXTS, [0.0, float("nan"), *[1.0] * 14])
    with pytest.raises(BertVisionError, match="texts and numbers mixed"):
        model.fit(TEXTS, np.array([1, *LABELS[1:]], dtype=object))
    numbers = np.array([int(label == "yes") for label in LABELS], dtype=object)  # as a column of a table may hold them
    assert model.fit(TEXTS, numbers).predict(TEXTS[:1]).tolist() == [1]


def test_columns_of_features_have_names(encoder: str) -> None:
    features = AllLayerFeatures(encoder, layers=(0, 2), device="cpu")
    with pytest.raises(NotFittedError):
        features.get_feature_names_out()
    for inputs in (TEXTS, list(zip(GOOD, BAD, strict=True))):
        states = features.fit_transform(inputs)
        names = features.get_feature_names_out()
        assert len(names) == len(set(names)) == states.shape[1]
        assert (names[0], names[-1]) == ("layer0_0", f"layer2_{states.shape[1] // 2 - 1}")
    table = ColumnTransformer([("text", features, 0)]).fit(np.array(TEXTS, dtype=object)[:, None])
    assert table.get_feature_names_out()[0] == "text__layer0_0"


def test_an_encoder_may_be_a_path_and_layers_numbers_of_numpys(encoder: str, tmp_path: Path) -> None:
    layers = np.arange(2)
    model = AllLayerClassifier(Path(encoder), layers=tuple(layers), strength=np.float64(1.0)).fit(TEXTS, LABELS)  # type: ignore[arg-type]
    model.save(tmp_path / "model")
    loaded = AllLayerClassifier.load(tmp_path / "model")
    assert (loaded.encoder, loaded.layers) == (encoder, (0, 1))
    assert (loaded.predict_proba(TEXTS) == model.predict_proba(TEXTS)).all()
    search = GridSearchCV(model, {"strength": np.ones(1, np.float32), "folds": np.array([2]), "length": np.array([64])})
    search.fit(TEXTS, LABELS).best_estimator_.save(tmp_path / "searched")
    assert AllLayerClassifier.load(tmp_path / "searched").get_params().items() >= {"folds": 2, "length": 64}.items()
    AllLayerClassifier(encoder, layers=1, strength=1.0).fit(TEXTS, LABELS).save(tmp_path / "one")  # type: ignore[arg-type]
    assert AllLayerClassifier.load(tmp_path / "one").layers == (1,)


class Frame(dict[str, list[str]]):
    """Goes through the names of its columns, as a data frame of pandas does."""

    columns = ("review", "stars")


def test_the_names_of_a_tables_columns_are_not_taken_for_texts(encoder: str) -> None:
    model = AllLayerClassifier(encoder, strength=1.0).fit(TEXTS, LABELS)
    table = Frame(review=TEXTS, stars=LABELS)
    for use in (model.predict, model.features.transform, lambda table: model.fit(table, LABELS)):
        with pytest.raises(BertVisionError, match=r"a table with the columns review, stars was given; .* Take one"):
            use(table)


def test_what_was_not_learnt_from_is_refused(encoder: str) -> None:
    model = AllLayerClassifier(encoder, strength=1.0)
    with pytest.raises(NotFittedError, match="not fitted yet"):
        model.predict(TEXTS)
    with pytest.raises(BertVisionError, match="Were single texts learned from and pairs given"):
        model.fit(TEXTS, LABELS).predict([("a", "b")])
    for classes, shape in ((np.eye(16, 2, dtype=np.int64), r"\(16, 2\)"), ([], r"\(0,\)")):
        with pytest.raises(BertVisionError, match=rf"classes have shape {shape}; one class per text is expected"):
            model.fit(TEXTS, classes)


def test_an_encoder_of_another_run_is_another(encoder: str, tmp_path: Path) -> None:
    other = shutil.copytree(encoder, tmp_path / "other")
    assert rows.text_rows(encoder, "mean", 384, "cpu") is rows.text_rows(encoder, "mean", 384, "cpu")
    assert rows.text_rows(str(other), "mean", 384, "cpu") is not rows.text_rows(encoder, "mean", 384, "cpu")
