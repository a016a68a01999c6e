"""QuestionAnswerer takes and gives what the former pipeline did; its probabilities are computed here once more."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bertvision.errors import BertVisionError
from bertvision.evaluation.outputs import SpanScores
from bertvision.packs.inputs import make_questions, question_windows
from bertvision.packs.models import PackModels
from bertvision.packs.pack import Pack
from bertvision.packs.question_answerer import QuestionAnswerer
from bertvision.packs.reader import PackQuery
from bertvision.packs.spans import strip_span, widen_span
from bertvision.tasks.load import TASKS
from bertvision.tasks.windows import WindowOptions
from close import FLOAT32
from tiny_pack import make_pack
from tiny_run import save_tiny_encoder

CONTEXT = "a b c gold d e f"
LONG = " ".join("abcdefgh"[number * 7 % 8] for number in range(150))


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Pack:
    folder = tmp_path_factory.mktemp("packs")
    encoder = save_tiny_encoder(folder / "encoder")
    return make_pack(folder / "pack", encoder, TASKS["squad2"], threshold=0.0)


@pytest.fixture(scope="module")
def ask(pack: Pack) -> QuestionAnswerer:
    return QuestionAnswerer(pack, device="cpu")


def plain_answers(
    pack: Pack, question: str, context: str, options: WindowOptions | None = None
) -> tuple[list[tuple[float, int, int]], float]:
    """Every span of every window by p(start) · p(end), softmax over the first token and the context's; and the null."""
    models = PackModels([pack], device="cpu")
    windows = question_windows(pack.card, make_questions([question], [context]), models.tokenizer, options)
    (scores,) = models.read([PackQuery(0, (windows,))])
    assert isinstance(scores, SpanScores)
    best: dict[tuple[int, int], float] = {}
    nulls = []
    for window in range(len(windows)):
        begin = int(windows.bounds[window])
        first, last = windows.context[window].tolist()
        tokens = [0, *range(first, last)]
        start = {t: float(np.exp(scores.start[begin + t])) for t in tokens}
        end = {t: float(np.exp(scores.end[begin + t])) for t in tokens}
        totals = sum(start.values()), sum(end.values())
        nulls.append(start[0] * end[0] / totals[0] / totals[1])
        for one in tokens[1:]:
            for two in range(one, min(one + 15, last)):
                base = int(windows.context_token[window]) - first
                place = int(windows.offsets[base + one, 0]), int(windows.offsets[base + two, 1])
                share = start[one] * end[two] / totals[0] / totals[1]
                best[place] = max(best.get(place, 0.0), share)
    return sorted(((share, *place) for place, share in best.items()), reverse=True), min(nulls)


@pytest.mark.parametrize("context", [CONTEXT, LONG], ids=["short", "several windows"])
def test_answers_and_probabilities_are_those_of_the_former_pipeline(
    pack: Pack, ask: QuestionAnswerer, context: str
) -> None:
    expected, null = plain_answers(pack, "where is it ?", context)
    got = ask(question="where is it ?", context=context, top_k=4)
    assert [(one["start"], one["end"]) for one in got] == [(start, end) for _, start, end in expected[:4]]
    assert np.allclose([one["score"] for one in got], [share for share, _, _ in expected[:4]], rtol=FLOAT32)
    assert all(one["answer"] == context[one["start"] : one["end"]] for one in got)
    both = ask(question="where is it ?", context=context, top_k=5000, handle_impossible_answer=True)
    nothing = next(one for one in both if one["answer"] == "")
    assert (nothing["start"], nothing["end"]) == (0, 0)
    assert np.isclose(nothing["score"], null, rtol=FLOAT32)


def test_every_way_of_asking_gives_the_same(ask: QuestionAnswerer) -> None:
    one: dict[str, Any] = {"question": "where is it ?", "context": CONTEXT}
    expected = ask(**one)
    assert set(expected) == {"score", "start", "end", "answer"}
    ways: Sequence[Any] = [ask(one), ask([one]), ask(data=one), ask(data=[one]), ask("where is it ?", CONTEXT)]
    assert all(way == expected for way in ways)
    together = ask(one for _ in "ab")
    assert together == ask(data=(one for _ in "ab"))
    for got in together:  # questions in one batch are added up in another order than a single one
        assert got == expected | {"score": pytest.approx(expected["score"], rel=FLOAT32)}


def test_no_questions_have_no_answers(ask: QuestionAnswerer) -> None:
    assert ask([]) == ask(data=[]) == ask(question=[], context=CONTEXT) == []


def test_several_questions_are_answered_in_order(ask: QuestionAnswerer) -> None:
    questions = ["where is it ?", "is a b ?", "where ?"]
    alone = [ask(question=question, context=CONTEXT) for question in questions]
    for got in (ask(question=questions, context=CONTEXT), ask(question=questions, context=[CONTEXT] * 3)):
        assert [one["start"] for one in got] == [one["start"] for one in alone]
    pairs = [{"question": question, "context": CONTEXT} for question in questions]
    assert ask(pairs) == ask(*pairs) == ask(data=pairs)
    several = ask(question=questions, context=CONTEXT, top_k=2)
    assert [len(one) for one in several] == [2, 2, 2]


def test_the_threshold_says_when_nothing_comes_first(pack: Pack) -> None:
    for threshold, first in ((-1e9, True), (1e9, False)):
        card = replace(pack.card, threshold=threshold)
        ask = QuestionAnswerer(Pack(pack.folder, card), device="cpu")
        got = ask(question="where is it ?", context=CONTEXT, handle_impossible_answer=True)
        assert (got["answer"] == "") is first
        assert ask(question="where is it ?", context=CONTEXT)["answer"] != ""


def test_answers_are_no_longer_than_asked_for(ask: QuestionAnswerer) -> None:
    got = ask(question="where is it ?", context=LONG, max_answer_len=2, top_k=20)
    assert max(len(one["answer"].split()) for one in got) <= 2


@pytest.mark.parametrize(
    ("given", "options"),
    [
        ({"doc_stride": 3}, WindowOptions(length=64, stride=3, question=24)),
        ({"max_seq_len": 30, "max_question_len": 4}, WindowOptions(length=30, stride=15, question=4)),
        ({"max_seq_len": 30}, WindowOptions(length=30, stride=15, question=11)),  # questions of 24 would leave no room
    ],
)
def test_windows_are_cut_as_asked_for(
    pack: Pack, ask: QuestionAnswerer, given: dict[str, Any], options: WindowOptions
) -> None:
    expected, _ = plain_answers(pack, "where is it ?", LONG, options)
    got = ask(question="where is it ?", context=LONG, **given)
    assert (got["start"], got["end"]) == expected[0][1:]
    assert np.isclose(got["score"], expected[0][0], rtol=FLOAT32)
    assert not np.isclose(got["score"], plain_answers(pack, "where is it ?", LONG)[0][0][0], rtol=FLOAT32)


def test_answers_are_widened_to_whole_words() -> None:
    text = "the golden-age, 1843"
    assert widen_span(text, 6, 8) == (4, 10)
    assert widen_span(text, 10, 11) == (10, 11)
    assert widen_span(text, 17, 19) == (16, 20)
    assert strip_span(text, 3, 4) == (4, 4)
    assert strip_span(text, 3, 10) == (4, 10)


@pytest.mark.parametrize(
    ("text", "piece", "word"),
    [
        ("au cafe\u0301 noir", "cafe", "cafe\u0301"),
        ("e\u0301te\u0301", "te", "e\u0301te\u0301"),
        ("\u0939\u093f\u0928\u094d\u0926\u0940 \u092e\u0947\u0902", "\u0928", "\u0939\u093f\u0928\u094d\u0926\u0940"),
        ("\u4ed6\u51fa\u751f\u5728\u5317\u4eac\u5e02\u3002", "\u5317\u4eac", "\u5317\u4eac"),
        ("2008\u5e74", "00", "2008"),
        ("\u6771\u4eac\u306b\u30d4\u30ab", "\u6771\u4eac", "\u6771\u4eac"),
        ("\u0e01\u0e34\u0e19\u0e02\u0e49\u0e32\u0e27", "\u0e01", "\u0e01\u0e34"),
        ("\u0e1b\u0e35\u0e52\u0e55\u0e54", "\u0e52", "\u0e52\u0e55\u0e54"),
    ],
    ids=["accent", "accents", "Hindi", "Chinese", "number", "Japanese", "Thai", "Thai number"],
)
def test_words_of_other_scripts_are_neither_cut_nor_joined(text: str, piece: str, word: str) -> None:
    start = text.index(piece)
    begin, end = widen_span(text, start, start + len(piece))
    assert text[begin:end] == word


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"question": "", "context": "a"}, "the question is empty"),
        ({"question": "a", "context": " "}, "the context is empty"),
        ({"question": ["a", "b"], "context": ["c"]}, "2 questions and 1 contexts"),
        ({"question": "a"}, "a question and a context are expected"),
        ({"data": {"question": "a"}}, "with two texts is expected"),
        ({"data": "a"}, "with two texts is expected"),
        ({"question": "a", "context": "b", "top_k": 0}, "top_k is 0"),
        ({"question": "a", "context": "b", "max_answer_len": 0}, "answers of 0 tokens"),
        ({"question": "a\ud800", "context": "b"}, "half of a surrogate pair"),
    ],
)
def test_bad_questions_are_refused(ask: QuestionAnswerer, given: dict[str, Any], message: str) -> None:
    with pytest.raises(BertVisionError, match=message):
        ask(**given)


def test_a_pack_with_labels_answers_no_questions(tmp_path: Path, pack: Pack) -> None:
    labels = make_pack(tmp_path / "labels", pack.card.encoder, TASKS["sst2"])
    with pytest.raises(BertVisionError, match=r"is for sst2, which has labels .* Use TextClassifier"):
        QuestionAnswerer(labels)
