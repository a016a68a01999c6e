from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pytest

from bertvision.errors import BertVisionError
from bertvision.tasks.examples import Questions, Texts
from bertvision.tasks.load import TASKS
from bertvision.tasks.tokenizer import TextTokenizer
from bertvision.tasks.windows import WindowOptions, Windows, build_windows, build_windows_apart
from conftest import make_questions, make_tags

SQUAD2, ANSWERABLE, SST2 = (TASKS[name] for name in ("squad2", "answerable", "sst2"))
CLS, SEP = 101, 102


def labelled_texts(windows: Windows, examples: Questions) -> list[str]:
    """The text that each window's target covers, "" where the window has no answer."""
    texts = []
    for window, (first, last) in enumerate(windows.targets.tolist()):
        if first == 0:
            texts.append("")
            continue
        [start], [end] = windows.characters(*(np.array([number]) for number in (window, int(first), int(last))))
        context = examples.contexts[int(examples.context_index[windows.example[window]])]
        texts.append(context[start:end])
    return texts


def window_ids(windows: Windows, window: int) -> list[int]:
    ids: list[int] = windows.ids[windows.bounds[window] : windows.bounds[window + 1]].tolist()
    return ids


def test_a_short_question_and_context_make_one_window(tokenizer: TextTokenizer) -> None:
    windows = build_windows(SQUAD2, make_questions(("who wrote?", "ada wrote it", "ada")), tokenizer)
    ids = window_ids(windows, 0)
    assert len(windows) == 1
    assert (ids[0], ids[4], ids[-1]) == (CLS, SEP, SEP)
    assert windows.types.tolist() == [0, 0, 0, 0, 0, 1, 1, 1, 1]
    assert windows.context.tolist() == [[5, 8]]
    assert windows.targets.tolist() == [[5, 5]]


def test_no_texts_make_no_windows(tokenizer: TextTokenizer) -> None:
    none = Texts([], [], None, np.array([], dtype=np.int64))
    assert len(build_windows(SST2, none, tokenizer)) == 0
    assert len(build_windows(SST2, replace(none, pairs=[]), tokenizer)) == 0
    assert len(build_windows(SQUAD2, make_questions(), tokenizer)) == 0


def test_a_long_context_makes_windows_that_share_the_stride(tokenizer: TextTokenizer) -> None:
    context = " ".join(str(number) for number in range(10))  # ten tokens
    options = WindowOptions(length=10, stride=2, question=3)  # 3 special + 2 question + 5 context
    windows = build_windows(SQUAD2, make_questions(("who ?", context, "7")), tokenizer, options)
    first = windows.context_token.tolist()
    assert first == [0, 3, 6]
    assert windows.lengths.tolist() == [10, 10, 9]
    assert windows.example.tolist() == [0, 0, 0]


def test_only_windows_with_the_whole_answer_are_labelled(tokenizer: TextTokenizer) -> None:
    context = " ".join(str(number) for number in range(10))
    options = WindowOptions(length=10, stride=2, question=3)
    questions = make_questions(("who ?", context, "4 5"), ("who ?", context, "2 3"), ("who ?", context, None))
    windows = build_windows(SQUAD2, questions, tokenizer, options)
    assert labelled_texts(windows, questions) == ["", "4 5", "", "2 3", "", "", "", "", ""]


@pytest.mark.parametrize(
    ("context", "answer", "covered"),
    [
        ("It began in the 1990s there", "1990", "1990s"),  # the answer ends inside a token
        ("The naïve café owner", "café", "café"),  # accents, which the tokenizer strips
        ("She paid $12.50 for it", "$12.50", "$12.50"),  # several tokens without spaces
        ("北京是中国的首都", "中国", "中国"),  # CJK: one token per character
        ("a  b   c", "b   c", "b   c"),  # runs of spaces
        ("👩‍🚀 Ada flew", "Ada", "Ada"),  # characters outside the vocabulary before the answer
        ("Ada", "Ada", "Ada"),  # the whole context
    ],
)
def test_an_answer_is_labelled_by_the_tokens_that_cover_it(
    tokenizer: TextTokenizer, context: str, answer: str, covered: str
) -> None:
    questions = make_questions(("who?", context, answer))
    assert labelled_texts(build_windows(SQUAD2, questions, tokenizer), questions) == [covered]


def test_every_answer_is_labelled_in_its_own_context(tokenizer: TextTokenizer) -> None:
    rows = [("who ?", "one two three", "two"), ("what ?", "four five six", "six"), ("who ?", "one two three", "three")]
    examples = make_questions(*rows)
    windows = build_windows(SQUAD2, examples, tokenizer)
    assert windows.targets.tolist() == [[5, 5], [6, 6], [6, 6]]  # behind [CLS], two tokens and [SEP]
    assert labelled_texts(windows, examples) == ["two", "six", "three"]


def test_white_space_around_an_answer_does_not_move_its_label(tokenizer: TextTokenizer) -> None:
    questions = make_questions(("who?", "it was Ada Lovelace then", " Ada Lovelace "))
    assert labelled_texts(build_windows(SQUAD2, questions, tokenizer), questions) == ["Ada Lovelace"]


def test_an_answer_that_no_token_covers_is_labelled_as_absent(tokenizer: TextTokenizer) -> None:
    # U+200B is dropped by the tokenizer, so no token stands for it
    questions = make_questions(("who?", "one \u200b two", "\u200b"))
    assert build_windows(SQUAD2, questions, tokenizer).targets.tolist() == [[0, 0]]


def test_an_empty_context_gives_a_window_without_context(tokenizer: TextTokenizer) -> None:
    windows = build_windows(SQUAD2, make_questions(("who?", "", None), ("who?", "ada", "ada")), tokenizer)
    assert windows.context.tolist() == [[4, 4], [4, 5]]
    assert windows.targets.tolist() == [[0, 0], [4, 4]]


def test_a_long_question_is_cut_and_counted(tokenizer: TextTokenizer) -> None:
    questions = make_questions(("why " * 100, "because of ada", "ada"), ("why", "because of ada", "ada"))
    windows = build_windows(SQUAD2, questions, tokenizer)
    assert windows.truncated == 1
    assert windows.context[:, 0].tolist() == [66, 3]
    assert labelled_texts(windows, questions) == ["ada", "ada"]


def test_a_context_of_thousands_of_tokens_is_covered_whole(tokenizer: TextTokenizer) -> None:
    context = " ".join(str(number % 10) for number in range(5000))
    windows = build_windows(SQUAD2, make_questions(("who?", context, None)), tokenizer)
    covered = np.zeros(5000, dtype=bool)
    for first, (begin, end) in zip(windows.context_token, windows.context, strict=True):
        covered[first : first + end - begin] = True
    assert covered.all()
    assert windows.lengths.max() == 384


def test_answerability_is_labelled_window_by_window(tokenizer: TextTokenizer) -> None:
    context = " ".join(str(number) for number in range(10))
    options = WindowOptions(length=10, stride=2, question=3)
    questions = make_questions(("who ?", context, "4 5"), ("who ?", context, None))
    assert build_windows(ANSWERABLE, questions, tokenizer, options).targets.tolist() == [0, 1, 0, 0, 0, 0]


def texts(first: list[str], second: list[str] | None = None) -> Texts:
    return Texts([str(i) for i in range(len(first))], first, second, np.zeros(len(first), dtype=np.int64))


def test_a_text_too_long_for_one_window_is_cut_and_counted(tokenizer: TextTokenizer) -> None:
    windows = build_windows(SST2, texts(["one two three four", "one"]), tokenizer, WindowOptions(length=5))
    assert windows.lengths.tolist() == [5, 3]
    assert windows.truncated == 1


def test_of_pairs_apart_every_text_has_a_window_and_both_count(tokenizer: TextTokenizer) -> None:
    pairs = texts(["one two three four", "one"], ["two", "three four five six seven"])
    windows = build_windows_apart(SST2, pairs, tokenizer, WindowOptions(length=5))
    assert windows.second is not None
    assert windows.lengths.tolist() == [5, 3]  # [CLS] and [SEP] are among them
    assert windows.second.lengths.tolist() == [3, 5]
    assert windows.sizes.tolist() == [8, 8]
    assert windows.truncated == 2  # one text on either side
    assert windows.texts(np.array([1, 0])).lengths.tolist() == [3, 5, 5, 3]  # first texts, then second texts


def test_single_texts_are_the_same_where_pairs_would_be_apart(tokenizer: TextTokenizer) -> None:
    single, options = texts(["one two three four", "one"]), WindowOptions(length=5)
    apart, usual = (
        build_windows_apart(SST2, single, tokenizer, options),
        build_windows(SST2, single, tokenizer, options),
    )
    assert apart.second is None
    assert apart.ids.tolist() == usual.ids.tolist()
    assert apart.sizes.tolist() == apart.lengths.tolist() == [5, 3]
    assert apart.texts(np.array([1])).ids.tolist() == window_ids(usual, 1)


def test_the_context_of_a_text_is_all_of_it_and_that_of_a_pair_its_second_text(tokenizer: TextTokenizer) -> None:
    assert build_windows(SST2, texts(["one two three"]), tokenizer).context.tolist() == [[1, 4]]
    assert build_windows(SST2, texts(["one two"], ["three"]), tokenizer).context.tolist() == [[4, 5]]


def test_every_window_has_the_tags_of_its_text(tokenizer: TextTokenizer) -> None:
    tagged = Texts(["0", "1"], ["one two", "three"], None, np.array([[1, 0, 1], [0, 0, 0]]))
    windows = build_windows(make_tags("a", "b", "c"), tagged, tokenizer)
    assert windows.targets.tolist() == [[1, 0, 1], [0, 0, 0]]


def test_equal_texts_are_tokenised_once_and_still_make_windows_of_their_own(
    tokenizer: TextTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode = Mock(side_effect=tokenizer.encode)
    monkeypatch.setattr(tokenizer, "encode", encode)
    windows = build_windows(SST2, texts(["one two", "three", "one two"]), tokenizer)
    assert window_ids(windows, 0) == window_ids(windows, 2) != window_ids(windows, 1)
    encode.assert_called_once_with(["one two", "three"], offsets=False)


def test_windows_longer_than_the_encoder_takes_are_refused(tokenizer: TextTokenizer) -> None:
    with pytest.raises(BertVisionError, match=r"length 758 exceeds the 512 tokens .* Use --length 512"):
        build_windows(SST2, texts(["one"]), tokenizer, WindowOptions(length=758))


@pytest.mark.parametrize(
    "options",
    [
        WindowOptions(length=64, stride=16, question=64),
        WindowOptions(length=200, stride=150),
    ],
)
def test_options_that_leave_no_room_for_the_context_are_refused(
    tokenizer: TextTokenizer, options: WindowOptions
) -> None:
    with pytest.raises(BertVisionError, match=f"the stride is {options.stride} and must be smaller"):
        build_windows(SQUAD2, make_questions(("who?", "ada", "ada")), tokenizer, options)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (WindowOptions(stride=-1), "the stride is -1, at least 0 is expected"),
        (WindowOptions(question=0), "questions get 0 tokens, at least 1 is expected"),
    ],
)
def test_a_stride_or_a_question_of_too_few_tokens_is_refused(
    tokenizer: TextTokenizer, options: WindowOptions, problem: str
) -> None:
    with pytest.raises(BertVisionError, match=problem):
        build_windows(SQUAD2, make_questions(("who?", "ada", "ada")), tokenizer, options)


@pytest.mark.parametrize("pairs", [None, ["two"]])
def test_windows_with_no_room_for_text_are_refused(tokenizer: TextTokenizer, pairs: list[str] | None) -> None:
    with pytest.raises(BertVisionError, match="no room for text"):
        build_windows(SST2, texts(["one"], pairs), tokenizer, WindowOptions(length=2))
