"""Scores of a model, by models whose outputs are known."""

from typing import cast

import numpy as np
import pytest
from numpy.typing import NDArray

from bertvision.errors import BertVisionError
from bertvision.evaluation import threshold as threshold_module
from bertvision.evaluation.outputs import SpanScores
from bertvision.inference.outputs import PassOptions
from bertvision.objectives import Pool
from bertvision.runs import validate as validate_module
from bertvision.runs.validate import Validation
from bertvision.tasks.examples import Examples, Questions, Texts, target_array
from bertvision.tasks.load import TASKS
from bertvision.tasks.part import Part
from bertvision.tasks.task import Task, TaskKind
from bertvision.tasks.tokenizer import TextTokenizer
from bertvision.tasks.windows import Windows, build_windows
from bertvision.training.model import TunedModel
from conftest import make_questions, make_tags
from tiny_run import WINDOWS, save_tiny_encoder, tiny_model

PASSES = PassOptions(packed=False, pad=0, bf16=False)
MODEL = cast("TunedModel", None)  # the outputs are given, nobody asks the model


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> TextTokenizer:
    return TextTokenizer.load(save_tiny_encoder(tmp_path_factory.mktemp("encoder")))


def part(task: Task, examples: Examples, tokenizer: TextTokenizer) -> Part:
    return Part(examples=examples, windows=build_windows(task, examples, tokenizer, WINDOWS))


def make(task: str | Task, tokenizer: TextTokenizer, held_out: Examples | None, dev: Examples | None) -> Validation:
    value = TASKS[task] if isinstance(task, str) else task
    parts = [None if examples is None else part(value, examples, tokenizer) for examples in (held_out, dev)]
    return Validation(task=value, held_out=parts[0], dev=parts[1], pool="cls", passes=PASSES)


def questions(prefix: str, *words: str | None) -> Questions:
    """One question per word, which is the answer, or None; every context is 'b c d e'."""
    made = make_questions(*[("where ?", "b c d e", word) for word in words])
    return Questions(
        ids=[f"{prefix}{number}" for number in range(len(made))],
        questions=made.questions,
        context_index=made.context_index,
        answers=made.answers,
        contexts=made.contexts,
        titles=made.titles,
    )


def always_the_first_word(no_answer: dict[int, float]) -> object:
    """Scores that choose the context's first word in every window, with a null score for each window."""

    def scores(_model: TunedModel, windows: Windows, _options: PassOptions) -> SpanScores:
        start = np.zeros(len(windows.ids), dtype=np.float32)
        for window in range(len(windows)):
            begin = windows.bounds[window]
            start[begin + windows.context[window, 0]] = 5
            start[begin] = no_answer[window]
        return SpanScores(start, start.copy())

    return scores


@pytest.mark.parametrize(("fewest", "expected"), [(1, -3.0), (2, 0.0)])
def test_thresholds_are_fitted_as_if_half_of_the_questions_had_no_answer(
    fewest: int, expected: float, tokenizer: TextTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threshold_module, "FEWEST", fewest)
    held_out = questions("h", "b", None, "b", "b")
    # margins -4, -2, -1 and -0.2: all would be answered if each question counted once
    monkeypatch.setattr(validate_module, "span_scores", always_the_first_word({0: 3.0, 1: 4.0, 2: 4.5, 3: 4.9}))
    values, _ = make("squad2", tokenizer, held_out, None).score(MODEL)
    assert values["threshold"] == pytest.approx(expected)


def test_three_thresholds_are_stated_apart(tokenizer: TextTokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threshold_module, "FEWEST", 1)
    held_out = questions("h", "b", "b", None, None, None)
    dev = questions("d", "b", "b", None, "c", None)
    # null scores against the answer's 5, twice each: margins -4, -2, -1, -0.2 and 0.5
    nulls = {0: 3.0, 1: 4.0, 2: 4.5, 3: 4.9, 4: 5.25}
    monkeypatch.setattr(validate_module, "span_scores", always_the_first_word(nulls))
    values, score = make("squad2", tokenizer, held_out, dev).score(MODEL)
    # at threshold 0 all but the last question are answered with 'b': right for two, and silence for the last
    assert (values["f1"], values["exact"]) == (60.0, 60.0)
    # half-way between the last right answer and the first wrong one of the held-out questions
    assert values["threshold"] == pytest.approx(-1.5)
    # there the third dev question is answered with nothing, which is right, and the fourth, which is wrong anyway
    assert (values["f1_fitted"], values["exact_fitted"]) == (80.0, 80.0)
    assert (values["best_f1"], values["total"]) == (80.0, 5)
    assert isinstance(values["total"], int)
    # the choice between snapshots is made on held-out questions, at their best threshold
    assert score == values["held_out_best_f1"] == 100.0
    assert values["held_out_f1"] == 60.0


def test_without_held_out_questions_nothing_is_fitted(
    tokenizer: TextTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(validate_module, "span_scores", always_the_first_word({0: 3, 1: 9}))
    values, score = make("squad2", tokenizer, None, questions("d", "b", None)).score(MODEL)
    assert (values["f1"], values["best_f1"], score) == (100.0, 100.0, None)
    assert not [name for name in values if "fitted" in name or "held_out" in name or name == "threshold"]


def test_without_dev_the_held_out_questions_are_scored(
    tokenizer: TextTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(validate_module, "span_scores", always_the_first_word({0: 3, 1: 9}))
    values, score = make("squad2", tokenizer, questions("h", "b", None), None).score(MODEL)
    assert score == 100.0
    assert all(name.startswith("held_out_") or name == "threshold" for name in values)


def test_squad1_always_answers(tokenizer: TextTokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validate_module, "span_scores", always_the_first_word({0: 9, 1: 9}))
    values, score = make("squad1", tokenizer, questions("h", "b", "b"), questions("d", "b", "c")).score(MODEL)
    assert (values["f1"], values["exact_match"], score) == (50.0, 50.0, 100.0)
    assert "threshold" not in values


def test_questions_on_both_sides_are_refused_before_anything_is_learnt(tokenizer: TextTokenizer) -> None:
    shared = questions("x", "b", None)
    with pytest.raises(BertVisionError, match=r"fitted on 2 of these 2 examples, first 'x0'"):
        make("squad2", tokenizer, shared, shared)
    make("answerable", tokenizer, shared, shared)  # no threshold is fitted here


def given_rows(rows: list[list[float]]) -> object:
    def scores(_model: TunedModel, windows: Windows, _options: PassOptions, *, pool: Pool) -> NDArray[np.float32]:
        assert pool == "cls"
        return np.array(rows[: len(windows)], dtype=np.float32)

    return scores


def texts(*targets: float) -> Texts:
    count = len(targets)
    kind: TaskKind = "scores" if any(target % 1 for target in targets) else "labels"
    return Texts([str(row) for row in range(count)], ["a"] * count, None, target_array(kind, targets))


def test_labels_are_the_largest_output(tokenizer: TextTokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validate_module, "row_scores", given_rows([[1, 0], [0, 1], [2, 3], [1, 0]]))
    values, score = make("sst2", tokenizer, texts(0, 1), texts(0, 1, 0, 0)).score(MODEL)
    assert values == {"held_out_accuracy": 1.0, "accuracy": 0.75}
    assert score == 1.0


def test_tags_are_the_labels_with_an_output_above_0(tokenizer: TextTokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validate_module, "row_scores", given_rows([[0.1, -9.0], [0.0, -0.1]]))
    tagged = Texts(["0", "1"], ["a", "a"], None, np.array([[1, 0], [0, 0]]))
    values, score = make(make_tags("a", "b"), tokenizer, tagged, None).score(MODEL)
    assert values == {"held_out_micro_f1": 1.0, "held_out_macro_f1": 0.5, "held_out_subset_accuracy": 1.0}
    assert score == 1.0


def test_scores_are_the_output_itself(tokenizer: TextTokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validate_module, "row_scores", given_rows([[1.0], [2.0], [3.0]]))
    values, score = make("sts", tokenizer, None, texts(1.5, 2.5, 3.5)).score(MODEL)
    assert values["pearson"] == pytest.approx(1.0)
    assert score is None
    assert "held_out_pearson" not in values


def test_answerability_is_judged_by_question_not_by_window(
    tokenizer: TextTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = make_questions(("where ?", " ".join("abcdefgh" * 18), "h"), ("where ?", "a b", None))
    monkeypatch.setattr(validate_module, "row_scores", given_rows([[9, 0], [0, 1], [3, 0], [2, 1]]))
    validation = make("answerable", tokenizer, None, long)
    assert validation.dev is not None
    assert len(validation.dev.windows) == 4
    assert validation.score(MODEL)[0]["accuracy"] == 1.0


def test_spans_come_from_questions(tokenizer: TextTokenizer) -> None:
    windows = build_windows(TASKS["sst2"], texts(0, 1), tokenizer, WINDOWS)
    odd = Part(examples=texts(0, 1), windows=windows)
    validation = Validation(task=TASKS["squad2"], held_out=None, dev=odd, pool="cls", passes=PASSES)
    with pytest.raises(TypeError, match="spans come from questions"):
        validation.score(tiny_model())


def test_a_real_model_can_be_scored(tokenizer: TextTokenizer) -> None:
    values, score = make("squad2", tokenizer, questions("h", "b", None), questions("d", "c", None)).score(tiny_model())
    assert set(values) > {"f1", "f1_fitted", "best_f1", "threshold"}
    assert score is not None
