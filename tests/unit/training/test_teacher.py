"""A teacher's outputs laid over a student's windows, where both cut texts differently."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from bertvision.tasks.examples import Questions
from bertvision.tasks.load import TASKS
from bertvision.tasks.task import Task
from bertvision.tasks.tokenizer import TextTokenizer
from bertvision.tasks.windows import WindowOptions, Windows, build_windows
from bertvision.training.data import TuneData
from bertvision.training.teacher import TeacherTargets, align_tokens, matching_windows
from close import FLOAT32
from conftest import make_questions
from tiny_models import tiny_tokenizer
from tiny_run import tiny_model

SPANS, ANSWERABLE = TASKS["squad2"], TASKS["answerable"]
CPU = torch.device("cpu")
NONE = -np.inf


def word_tokenizer() -> TextTokenizer:
    """Whole words, with special tokens as MPNet has them: <s> question </s> </s> context </s>."""
    backend = Tokenizer(models.WordLevel({"<s>": 0, "</s>": 1, "<unk>": 2}, unk_token="<unk>"))  # noqa: S106
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    backend.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 1)]
    )
    return TextTokenizer(backend, limit=None)


WORDS, LETTERS = word_tokenizer(), TextTokenizer(tiny_tokenizer().backend_tokenizer, limit=None)


def cut(tokenizer: TextTokenizer, questions: Questions, *, length: int = 32, task: Task = SPANS) -> Windows:
    return build_windows(task, questions, tokenizer, WindowOptions(length=length, stride=2, question=2))


def numbered(windows: Windows) -> NDArray[np.float32]:
    """Scores that tell where they come from: 10 times the token, and 1 more for last tokens."""
    return 10.0 * np.arange(len(windows.ids), dtype=np.float32)[:, None] + np.array([0, 1], dtype=np.float32)


def test_letters_learn_from_words_where_these_begin_and_end() -> None:
    questions = make_questions(("a", "ab cde f", None))
    student, teacher = cut(LETTERS, questions), cut(WORDS, questions)
    # <s> a </s> </s> ab cde f </s> teaches [CLS] a [SEP] a b c d e f [SEP]
    aligned = align_tokens(student, teacher, numbered(teacher))
    assert aligned[:, 0].tolist() == [0, NONE, NONE, 40, NONE, 50, NONE, NONE, 60, NONE]
    assert aligned[:, 1].tolist() == [1, NONE, NONE, NONE, 41, NONE, NONE, 51, 61, NONE]


def test_words_learn_from_their_first_and_last_letters() -> None:
    questions = make_questions(("a", "ab cde f", None))
    student, teacher = cut(WORDS, questions), cut(LETTERS, questions)
    aligned = align_tokens(student, teacher, numbered(teacher))
    assert aligned[:, 0].tolist() == [0, NONE, NONE, NONE, 30, 50, 80, NONE]
    assert aligned[:, 1].tolist() == [1, NONE, NONE, NONE, 41, 71, 81, NONE]


def test_of_pieces_of_one_character_the_first_begins_and_the_last_ends() -> None:
    questions = make_questions(("a", "ab cde f", None))
    student, teacher = cut(LETTERS, questions), cut(LETTERS, questions)
    pieces = np.array([[0, 1], [0, 1], [3, 4], [3, 4], [5, 6], [7, 8]], dtype=np.int32)
    aligned = align_tokens(replace(student, offsets=pieces), teacher, numbered(teacher))
    assert aligned[3:7].tolist() == [[30, NONE], [NONE, 31], [50, NONE], [NONE, 51]]
    aligned = align_tokens(student, replace(teacher, offsets=pieces), numbered(teacher))
    assert aligned[3:6].tolist() == [[30, 41], [NONE, NONE], [50, 61]]


def test_a_window_s_teacher_is_the_one_with_most_in_common() -> None:
    questions = make_questions(("a", "ab cd ef gh ij kl", None), ("b", "ab", None))
    # letters in one window each; words in windows of 5 and of 3, which share "gh ij"
    student, teacher = cut(LETTERS, questions), cut(WORDS, questions, length=10)
    assert [teacher.context[0].tolist(), teacher.context[1].tolist()] == [[4, 9], [4, 7]]
    assert matching_windows(student, teacher).tolist() == [0, 2]
    assert matching_windows(teacher, student).tolist() == [0, 0, 1]
    # several of both: letters "ab cd ef gh i" and "h ij kl", of which 4 characters stand in the first window of words
    assert matching_windows(cut(LETTERS, questions, length=13), teacher).tolist() == [0, 1, 2]
    # "ab cd", "cd ef", "ef gh", "gh ij", which stands in both, and "ij kl"
    assert matching_windows(cut(LETTERS, questions, length=8), teacher).tolist() == [0, 0, 0, 0, 1, 2]


def plain_alignment(student: Windows, teacher: Windows, matching: list[int]) -> NDArray[np.float32]:
    """What `align_tokens` promises, token by token."""
    scores = numbered(teacher)
    aligned = np.full((len(student.ids), 2), NONE, dtype=np.float32)
    for window, match in enumerate(matching):
        places = []
        for windows, row in ((student, window), (teacher, match)):
            base, (begin, end) = int(windows.bounds[row]), windows.context[row].tolist()
            tokens = range(end - begin)
            spans = [windows.offsets[windows.context_token[row] + n].tolist() for n in tokens]
            places.append({(side, spans[n][side]): base + begin + n for n in tokens for side in (0, 1)})
        ours, theirs = places
        for key, place in ours.items():
            if key in theirs:
                aligned[place, key[0]] = scores[theirs[key], key[0]]
        aligned[student.bounds[window]] = scores[teacher.bounds[match]]
    return aligned


WORD = st.text("abc", min_size=1, max_size=4)


@settings(max_examples=40, deadline=None)
@given(
    contexts=st.lists(st.lists(WORD, min_size=0, max_size=9).map(" ".join), min_size=1, max_size=4, unique=True),
    lengths=st.tuples(st.integers(12, 24), st.integers(12, 24)),
    swapped=st.booleans(),
)
def test_all_windows_are_aligned_as_one_by_one(contexts: list[str], lengths: tuple[int, int], swapped: bool) -> None:  # noqa: FBT001
    questions = make_questions(*((f"{'ab'[number % 2]} c", context, None) for number, context in enumerate(contexts)))
    tokenizers = (WORDS, LETTERS) if swapped else (LETTERS, WORDS)
    student, teacher = (cut(one, questions, length=length) for one, length in zip(tokenizers, lengths, strict=True))
    matching = matching_windows(student, teacher).tolist()
    assert [teacher.example[match] for match in matching] == student.example.tolist()
    expected = plain_alignment(student, teacher, matching)
    np.testing.assert_array_equal(align_tokens(student, teacher, numbered(teacher)), expected)


def aligned_targets(questions: Questions, *, share: float = 0.5) -> TeacherTargets:
    student, teacher = cut(LETTERS, questions), cut(WORDS, questions)
    return TeacherTargets.align(SPANS, student, teacher, numbered(teacher), share=share, temperature=2.0)


def test_an_answer_that_no_token_of_the_teacher_ends_with_is_learnt_without_it() -> None:
    context = "ab cde f"
    questions = make_questions(*(("a", context, answer) for answer in ("cde", "cd", "de", "cde f", None)))
    targets = aligned_targets(questions)
    assert targets.taught.tolist() == [True, False, False, True, True]
    assert targets.batch(np.array([1, 0]), 10).share.tolist() == [0.0, 0.5]


def test_a_batch_is_padded_with_what_has_no_chance() -> None:
    targets = aligned_targets(make_questions(("a", "ab", None), ("a", "ab cd", None)))
    outputs = targets.batch(np.array([1, 0]), 9).outputs
    assert (outputs.shape, outputs.dtype) == ((2, 9, 2), torch.float32)
    # both in letters: [CLS] a [SEP] a b [SEP], and two more letters; the teacher's second window begins at token 6
    assert outputs[1, :, 0].tolist() == [0, NONE, NONE, 40] + [NONE] * 5
    assert outputs[0, :, 1].tolist() == [61, NONE, NONE, NONE, 101, NONE, 111, NONE, NONE]


def test_rows_of_windows_come_from_the_matching_ones() -> None:
    questions = make_questions(("a", "ab cd ef gh ij kl", None), ("b", "ab", None))
    student, teacher = cut(LETTERS, questions, task=ANSWERABLE), cut(WORDS, questions, length=10, task=ANSWERABLE)
    rows = np.array([[1, 2], [3, 4], [5, 6]], dtype=np.float32)
    targets = TeacherTargets.align(ANSWERABLE, student, teacher, rows, share=1.0, temperature=1.0)
    assert targets.batch(np.array([1, 0]), 99).outputs.tolist() == [[5, 6], [1, 2]]
    assert targets.taught.all()


def tune_data(questions: Questions, task: Task) -> TuneData:
    return TuneData(task=task, windows=cut(LETTERS, questions, task=task), pool="cls", packed=False, pad=1)


@pytest.mark.parametrize(("task", "weighted"), [(SPANS, False), (ANSWERABLE, False), (ANSWERABLE, True)])
def test_a_share_of_the_loss_is_the_teacher_s(task: Task, *, weighted: bool) -> None:
    questions = make_questions(("a", "a b c d", "b"), ("a", "a b c d e f", None), ("b", "f", None))
    data, rows = tune_data(questions, task), np.arange(3)
    data = replace(data, windows=replace(data.windows, ids=data.windows.ids % 20))
    if weighted:
        data = replace(data, weights=torch.tensor([0.75, 1.5]))
    scores = np.random.default_rng(0).normal(size=(len(data.windows.ids if task is SPANS else rows), 2))
    teacher = TeacherTargets.align(
        task, data.windows, data.windows, scores.astype(np.float32), share=0.25, temperature=2.0
    )
    model = tiny_model().eval()
    usual, mixed, alone = (
        replace(data, teacher=each).train_batch(rows).losses(model, CPU)
        for each in (None, teacher, replace(teacher, share=1.0))
    )
    torch.testing.assert_close(mixed, 0.75 * usual + 0.25 * alone, rtol=FLOAT32, atol=FLOAT32)
    assert not torch.isclose(usual, alone).any()
    if weighted:
        plain = replace(data, weights=None, teacher=replace(teacher, share=1.0)).train_batch(rows).losses(model, CPU)
        # the first window has an answer, class 1
        torch.testing.assert_close(alone, plain * torch.tensor([1.5, 0.75, 0.75]), rtol=FLOAT32, atol=FLOAT32)


def test_a_window_s_loss_does_not_depend_on_its_neighbours() -> None:
    questions = make_questions(("a", "a b c d", "b"), ("a", "a b c d e f", None), ("b", "f", None))
    data = tune_data(questions, SPANS)
    data = replace(data, windows=replace(data.windows, ids=data.windows.ids % 20))
    scores = numbered(data.windows) / np.float32(100)
    teacher = TeacherTargets.align(SPANS, data.windows, data.windows, scores, share=0.5, temperature=1.0)
    data, model = replace(data, teacher=teacher), tiny_model().eval()
    together = data.train_batch(np.arange(3)).losses(model, CPU)
    apart = torch.cat([data.train_batch(np.array([row])).losses(model, CPU) for row in range(3)])
    torch.testing.assert_close(together, apart, rtol=FLOAT32, atol=FLOAT32)
    assert all(one != two for one, two in pairwise(together.tolist()))
