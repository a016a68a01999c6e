"""Our windows against the usual call of a transformers tokenizer, on three kinds of vocabularies."""

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from bertvision.pretrained import builtin_encoder_folder
from bertvision.tasks.examples import Questions, Texts
from bertvision.tasks.load import TASKS, load_task
from bertvision.tasks.token_rows import SECOND
from bertvision.tasks.tokenizer import TextTokenizer
from bertvision.tasks.windows import WindowOptions, Windows, build_windows
from conftest import make_questions

CORPUS = [
    "The lighthouse keeper's daughter wrote 1,250 letters between 1901 and 1907.",
    "Où est l'école? naïve café — 北京是中国的首都, and £12.50 was paid.",
    "Emoji 👩‍🚀 and\ttabs  and   spaces; hyphen-ated words (in brackets).",
] * 4


def byte_level() -> PreTrainedTokenizerFast:
    """A vocabulary like RoBERTa's: bytes, leading spaces, two separators between texts."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=special, initial_alphabet=alphabet)
    backend.train_from_iterator(CORPUS, trainer)
    backend.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    return PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>", eos_token="</s>", pad_token="<pad>")  # noqa: S106


def unigram() -> PreTrainedTokenizerFast:
    """A vocabulary like ALBERT's: pieces with a mark for the space before them."""
    backend = Tokenizer(models.Unigram())
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=200, special_tokens=["[CLS]", "[SEP]", "<unk>"], unk_token="<unk>")  # noqa: S106
    backend.train_from_iterator(CORPUS, trainer)
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 0), ("[SEP]", 1)],
    )
    return PreTrainedTokenizerFast(tokenizer_object=backend, cls_token="[CLS]", sep_token="[SEP]")  # noqa: S106


def word_piece() -> PreTrainedTokenizerFast:
    loaded: PreTrainedTokenizerFast = AutoTokenizer.from_pretrained(builtin_encoder_folder())
    return loaded


@pytest.fixture(scope="module", params=[word_piece, byte_level, unigram], ids=lambda make: make.__name__)
def usual(request: pytest.FixtureRequest) -> PreTrainedTokenizerFast:
    make: Callable[[], PreTrainedTokenizerFast] = request.param
    return make()


def rows(windows: Windows) -> Iterable[tuple[list[int], list[int]]]:
    """Ids and segment numbers as an encoder is given them."""
    types = np.where(windows.types == SECOND, 0, windows.types)
    for begin, end in zip(windows.bounds[:-1], windows.bounds[1:], strict=True):
        yield windows.ids[begin:end].tolist(), types[begin:end].tolist()


def check_questions(usual: PreTrainedTokenizerFast, examples: Questions, length: int, stride: int) -> None:
    options = WindowOptions(length=length, stride=stride, question=length - stride - 5)
    ours = build_windows(TASKS["squad2"], examples, TextTokenizer(usual.backend_tokenizer, limit=None), options)
    contexts = [examples.contexts[number] for number in examples.context_index]
    theirs = usual(
        examples.questions,
        contexts,
        truncation="only_second",
        max_length=length,
        stride=stride,
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
        return_token_type_ids=True,
    )
    expected = list(zip(theirs["input_ids"], theirs["token_type_ids"], strict=True))
    assert list(rows(ours)) == expected
    assert ours.example.tolist() == theirs["overflow_to_sample_mapping"]
    for window, offsets in enumerate(theirs["offset_mapping"]):
        begin, end = ours.context[window]
        for token in range(begin, end):
            at = (np.array([number]) for number in (window, token, token))
            assert tuple(int(place[0]) for place in ours.characters(*at)) == tuple(offsets[token])


def test_windows_of_questions_equal_those_of_the_usual_call(usual: PreTrainedTokenizerFast) -> None:
    questions = make_questions(*(("Who wrote the letters?", context * 3, None) for context in dict.fromkeys(CORPUS)))
    check_questions(usual, questions, length=48, stride=8)


PIECES = st.text(alphabet="ab ,.'é北👩\u200d\n\u00a0\u200b", max_size=60)


@settings(max_examples=60, deadline=None)
@given(context=PIECES, question=st.text(alphabet="abc?", min_size=1, max_size=8))
def test_windows_of_odd_texts_equal_those_of_the_usual_call(
    usual: PreTrainedTokenizerFast, context: str, question: str
) -> None:
    check_questions(usual, make_questions((question, context, None)), length=24, stride=3)


@settings(max_examples=60, deadline=None)
@given(first=PIECES, second=PIECES, length=st.integers(8, 20))
def test_pairs_are_cut_as_longest_first_cuts_them(
    usual: PreTrainedTokenizerFast, first: str, second: str, length: int
) -> None:
    examples = Texts(["0"], [first], [second], np.zeros(1, dtype=np.int64))
    tokenizer = TextTokenizer(usual.backend_tokenizer, limit=None)
    ours = build_windows(TASKS["mrpc"], examples, tokenizer, WindowOptions(length=length))
    theirs = usual([first], [second], truncation="longest_first", max_length=length, return_token_type_ids=True)
    assert list(rows(ours)) == [(theirs["input_ids"][0], theirs["token_type_ids"][0])]


def test_single_texts_equal_the_usual_call(usual: PreTrainedTokenizerFast) -> None:
    examples = Texts([str(i) for i in range(len(CORPUS))], CORPUS, None, np.zeros(len(CORPUS), dtype=np.int64))
    tokenizer = TextTokenizer(usual.backend_tokenizer, limit=None)
    ours = build_windows(TASKS["sst2"], examples, tokenizer, WindowOptions(length=20))
    theirs = usual(CORPUS, truncation=True, max_length=20, return_token_type_ids=True)
    assert list(rows(ours)) == list(zip(theirs["input_ids"], theirs["token_type_ids"], strict=True))


@pytest.mark.realdata
def test_windows_of_real_questions_equal_those_of_the_usual_call(real_data: Path) -> None:
    examples = load_task("squad2", data=real_data / "squad2").splits["dev"]
    assert isinstance(examples, Questions)
    check_questions(word_piece(), examples, length=384, stride=128)
