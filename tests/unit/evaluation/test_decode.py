import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertvision.errors import BertVisionError
from bertvision.evaluation import decode
from bertvision.evaluation.decode import Scores, SpanPredictions, decode_spans
from bertvision.tasks.examples import Questions
from bertvision.tasks.load import TASKS
from bertvision.tasks.tokenizer import TextTokenizer
from bertvision.tasks.windows import WindowOptions, Windows, build_windows
from close import FLOAT64
from conftest import make_questions

SQUAD2 = TASKS["squad2"]
OVERLAPPING = WindowOptions(length=10, stride=3, question=2)  # 3 special tokens, 1 of the question, 6 of the context
LONGER = WindowOptions(length=16, stride=5, question=2)


def digits(tokens: int) -> str:
    """A context of so many tokens, each of one character: token i stands at character 2 i."""
    return " ".join(str(number % 10) for number in range(tokens))


def cut(tokenizer: TextTokenizer, *contexts: str, options: WindowOptions = OVERLAPPING) -> Windows:
    return build_windows(SQUAD2, make_questions(*(("who", context, None) for context in contexts)), tokenizer, options)


def scores_at(windows: Windows, places: dict[tuple[int, int], float], elsewhere: float = -9.0) -> Scores:
    """Scores of tokens by window and place in the window's context (-1: the window's first token)."""
    scores = np.full(len(windows.ids), elsewhere, dtype=np.float32)
    for (window, place), score in places.items():
        scores[windows.bounds[window] + (0 if place == -1 else windows.context[window, 0] + place)] = score
    return scores


def every_span(windows: Windows, start: Scores, end: Scores, limit: int) -> dict[int, dict[tuple[int, int], float]]:
    """The best score of every legal span of characters, by question."""
    found: dict[int, dict[tuple[int, int], float]] = {int(question): {} for question in windows.example}
    for window in range(len(windows)):
        spans = found[int(windows.example[window])]
        first_token, stop = windows.context[window].tolist()
        for first in range(first_token, stop):
            for last in range(first, min(first + limit, stop)):
                score = float(start[windows.bounds[window] + first] + end[windows.bounds[window] + last])
                row = int(windows.context_token[window]) - first_token
                key = int(windows.offsets[row + first, 0]), int(windows.offsets[row + last, 1])
                spans[key] = max(score, spans.get(key, -np.inf))
    return found


@st.composite
def random_scores(draw: st.DrawFn, tokens: int) -> Scores:
    """Random numbers, few different ones (so that many tie), all negative, or all the same."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    match draw(st.sampled_from(["random", "ties", "negative", "constant"])):
        case "random":
            return random.normal(size=tokens).astype(np.float32)
        case "ties":
            return random.integers(-2, 3, size=tokens).astype(np.float32)
        case "negative":
            return -random.random(size=tokens, dtype=np.float32) - 100
        case _:
            return np.full(tokens, random.normal(), dtype=np.float32)


@settings(max_examples=150, deadline=None)
@given(
    data=st.data(),
    options=st.sampled_from([OVERLAPPING, LONGER]),
    sizes=st.lists(st.integers(0, 24), min_size=1, max_size=5),
    limit=st.integers(1, 8),
    best=st.integers(1, 5) | st.integers(6, 25),
    chunk=st.sampled_from([1, 30, decode.CHUNK]),
)
def test_the_best_answers_are_those_of_a_comparison_of_every_span(
    tokenizer: TextTokenizer,
    *,
    data: st.DataObject,
    options: WindowOptions,
    sizes: list[int],
    limit: int,
    best: int,
    chunk: int,
) -> None:
    windows = cut(tokenizer, *(digits(size) for size in sizes), options=options)
    start, end = (data.draw(random_scores(len(windows.ids))) for _ in range(2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decode, "CHUNK", chunk)
        predictions = decode_spans(windows, start, end, limit=limit, best=best)
    assert predictions.scores.shape == predictions.starts.shape == predictions.ends.shape == (len(sizes), best)
    for question, spans in every_span(windows, start, end, limit).items():
        expected = sorted(spans.values(), reverse=True)[:best]
        expected += [-np.inf] * (best - len(expected))
        got = predictions.scores[question].tolist()
        assert got == expected
        answers = list(zip(predictions.starts[question].tolist(), predictions.ends[question].tolist(), strict=True))
        legal = [answer for answer, score in zip(answers, got, strict=True) if np.isfinite(score)]
        assert [spans[answer] for answer in legal] == [score for score in got if np.isfinite(score)]
        assert len(set(legal)) == len(legal)


@settings(max_examples=50, deadline=None)
@given(data=st.data(), sizes=st.lists(st.integers(0, 16), min_size=1, max_size=4))
def test_probabilities_sum_to_1_and_no_answer_is_the_least_of_the_windows(
    tokenizer: TextTokenizer, data: st.DataObject, sizes: list[int]
) -> None:
    windows = cut(tokenizer, *(digits(size) for size in sizes))
    start, end = (data.draw(random_scores(len(windows.ids))) for _ in range(2))
    predictions = decode_spans(windows, start, end)
    firsts = [
        (int(question), float(start[begin]) + float(end[begin]))
        for question, begin in zip(windows.example, windows.bounds, strict=False)
    ]
    for question in range(len(sizes)):
        assert predictions.null[question] == min(score for owner, score in firsts if owner == question)
    assert predictions.probabilities.shape == (len(sizes), 21)
    np.testing.assert_allclose(predictions.probabilities.sum(axis=1), 1.0, rtol=FLOAT64)


def test_the_best_answers_of_three_tokens_by_hand(tokenizer: TextTokenizer) -> None:
    windows = cut(tokenizer, digits(3))
    start = scores_at(windows, {(0, 0): 3, (0, 1): 1, (0, 2): 0, (0, -1): 2})
    end = scores_at(windows, {(0, 0): -4, (0, 1): 2, (0, 2): 2.25, (0, -1): 1})
    predictions = decode_spans(windows, start, end, limit=2, best=6)
    assert predictions.scores.tolist() == [[5, 3.25, 3, 2.25, -1, -np.inf]]  # 0-2 has three tokens, one too many
    assert predictions.starts[0, :5].tolist() == [0, 2, 2, 4, 0]
    assert predictions.ends[0, :5].tolist() == [3, 5, 3, 5, 1]
    assert (predictions.null.tolist(), predictions.margin.tolist()) == ([3], [-2])


def test_answers_of_30_tokens_and_20_of_them_are_usual(tokenizer: TextTokenizer) -> None:
    windows = cut(tokenizer, digits(40), options=WindowOptions())
    start = scores_at(windows, {(0, 0): 10})
    predictions = decode_spans(windows, start, np.arange(len(windows.ids), dtype=np.float32))
    assert predictions.scores.shape == (1, 20)
    assert (predictions.starts[0, 0], predictions.ends[0, 0]) == (0, 59)  # the 30th token stands at 58


def test_a_span_in_two_windows_counts_once_with_its_better_score(tokenizer: TextTokenizer) -> None:
    windows = cut(tokenizer, digits(9))  # tokens 0 to 5, and 3 to 8
    assert windows.context_token.tolist() == [0, 3]
    start = scores_at(windows, {(0, 4): 1, (1, 1): 2, (1, 5): 0})
    end = scores_at(windows, {(0, 4): 1, (1, 1): 2, (1, 5): 0})
    predictions = decode_spans(windows, start, end, limit=1, best=3)
    assert predictions.scores.tolist() == [[4, 0, -18]]
    assert predictions.starts[0, :2].tolist() == [8, 16]


def test_no_span_leaves_the_context_or_its_window(tokenizer: TextTokenizer) -> None:
    windows = cut(tokenizer, digits(2), digits(2))
    outside = np.full(len(windows.ids), 100, dtype=np.float32)
    for window in range(2):
        begin, stop = windows.bounds[window] + windows.context[window]
        outside[begin:stop] = -1
    predictions = decode_spans(windows, outside, outside, limit=30, best=4)
    assert predictions.scores.tolist() == [[-2, -2, -2, -np.inf]] * 2


def test_no_answer_is_the_least_over_the_windows_of_its_own_question(tokenizer: TextTokenizer) -> None:
    windows = cut(tokenizer, digits(9), digits(2))
    start = scores_at(windows, {(0, -1): 5, (1, -1): 3, (2, -1): -7})
    end = scores_at(windows, {(0, -1): 1, (1, -1): 2, (2, -1): 0})
    assert decode_spans(windows, start, end).null.tolist() == [5, -7]


def test_an_empty_context_has_no_answer_at_any_threshold(tokenizer: TextTokenizer) -> None:
    questions = make_questions(("who", "", None))
    windows = build_windows(SQUAD2, questions, tokenizer, OVERLAPPING)
    predictions = decode_spans(windows, *(np.zeros(len(windows.ids), dtype=np.float32) for _ in range(2)), best=2)
    assert predictions.scores.tolist() == [[-np.inf, -np.inf]]
    assert predictions.probabilities.tolist() == [[1, 0, 0]]
    assert predictions.texts(questions, None) == predictions.texts(questions, 1e9) == {"q0": ""}


def test_a_context_of_one_token_has_one_answer(tokenizer: TextTokenizer) -> None:
    windows = cut(tokenizer, "7")
    predictions = decode_spans(windows, *(np.zeros(len(windows.ids), dtype=np.float32) for _ in range(2)), best=2)
    assert predictions.scores.tolist() == [[0, -np.inf]]
    assert (predictions.starts[0, 0], predictions.ends[0, 0]) == (0, 1)
    assert predictions.probabilities.tolist() == [[0.5, 0.5, 0]]


def test_no_questions_give_no_predictions(tokenizer: TextTokenizer) -> None:
    windows = cut(tokenizer, digits(3))
    none = Windows(
        ids=windows.ids[:0],
        types=windows.types[:0],
        bounds=windows.bounds[:1],
        example=windows.example[:0],
        targets=windows.targets[:0],
        context=windows.context[:0],
        context_token=windows.context_token[:0],
        offsets=windows.offsets[:0],
        truncated=0,
    )
    empty = np.zeros(0, dtype=np.float32)
    assert decode_spans(none, empty, empty, best=3).scores.shape == (0, 3)


@pytest.fixture
def two_answers() -> tuple[SpanPredictions, Questions]:
    """Margins of -1 and 0.5; the first answer is given with the blank before it."""
    questions = make_questions(("who", "by ada", "ada"), ("who", "bob", None))
    predictions = SpanPredictions(
        null=np.array([1.0, 3.5]),
        scores=np.array([[2.0, 1.0], [3.0, -np.inf]]),
        starts=np.array([[2, 0], [0, 0]]),
        ends=np.array([[6, 2], [3, 0]]),
    )
    return predictions, questions


@pytest.mark.parametrize(
    ("threshold", "first", "second"),
    [(None, "ada", "bob"), (0.5, "ada", "bob"), (0.49, "ada", ""), (-1.0, "ada", ""), (-1.01, "", "")],
)
def test_texts_are_empty_where_the_margin_exceeds_the_threshold(
    two_answers: tuple[SpanPredictions, Questions], threshold: float | None, first: str, second: str
) -> None:
    predictions, questions = two_answers
    assert predictions.texts(questions, threshold) == {"q0": first, "q1": second}


def test_the_usual_threshold_is_0(two_answers: tuple[SpanPredictions, Questions]) -> None:
    predictions, questions = two_answers
    assert predictions.texts(questions) == {"q0": "ada", "q1": ""}


def test_probabilities_by_hand() -> None:
    log = np.log([[1.0, 2.0, 5.0]])
    numbers = np.zeros((1, 2), dtype=np.int64)
    predictions = SpanPredictions(null=log[:, 0] + 800, scores=log[:, 1:] + 800, starts=numbers, ends=numbers)
    np.testing.assert_allclose(predictions.probabilities, [[1 / 8, 2 / 8, 5 / 8]], rtol=FLOAT64)


def test_scores_of_another_number_of_tokens_are_refused(tokenizer: TextTokenizer) -> None:
    windows = cut(tokenizer, digits(2))
    scores = np.zeros(len(windows.ids), dtype=np.float32)
    with pytest.raises(BertVisionError, match="6 start and 7 end scores for 6 tokens"):
        decode_spans(windows, scores, np.zeros(7, dtype=np.float32))


@pytest.mark.parametrize(("limit", "best"), [(0, 20), (30, 0)])
def test_answers_of_no_tokens_and_no_answers_are_refused(tokenizer: TextTokenizer, limit: int, best: int) -> None:
    windows = cut(tokenizer, digits(2))
    scores = np.zeros(len(windows.ids), dtype=np.float32)
    with pytest.raises(BertVisionError, match=f"answers of {limit} tokens and {best} of them .* at least 1"):
        decode_spans(windows, scores, scores, limit=limit, best=best)


def test_one_long_context_does_not_make_the_tables_of_other_questions_wide(
    tokenizer: TextTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    windows = cut(tokenizer, *(digits(tokens) for tokens in (3, 9, 90, 12, 9, 3)))
    counts = np.bincount(windows.example)
    assert counts.tolist() == [1, 2, 29, 3, 2, 1]
    sizes, merge = list[int](), decode.__dict__["_best_of_all"]

    def count(*tables: np.ndarray) -> object:
        sizes.append(tables[0].size)
        return merge(*tables)

    monkeypatch.setattr(decode, "_best_of_all", count)
    random = np.random.default_rng(0)
    start, end = (random.normal(size=len(windows.ids)).astype(np.float32) for _ in range(2))
    found = decode_spans(windows, start, end, limit=3, best=4)
    assert sum(sizes) == 4 * (2 + 29 + 3 + 2)  # not 4 · 29 for each of them
    for question, spans in every_span(windows, start, end, 3).items():
        expected = sorted(spans.items(), key=lambda item: -item[1])[:4]
        given = zip(found.starts[question].tolist(), found.ends[question].tolist(), strict=True)
        assert list(given) == [span for span, _ in expected]
