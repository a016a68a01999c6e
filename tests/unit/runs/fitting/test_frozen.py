"""A task in front of a frozen encoder: what is learnt from, what judges, and what heads read."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from bertvision.encoder.load import load_encoder
from bertvision.errors import BertVisionError
from bertvision.inference.computed_states import RowStates, StreamStates
from bertvision.runs.fitting.fit_request import FitRequest
from bertvision.runs.fitting.frozen import FrozenTask, freeze_task
from bertvision.tasks.examples import Texts
from bertvision.tasks.tokenizer import TextTokenizer
from bertvision.tasks.windows import build_windows
from bertvision.training.trainee import HeadSpec
from close import FLOAT32
from conftest import make_questions
from tiny_run import WIDTH, WINDOWS, save_tiny_encoder, tiny_fit, write_labels, write_pairs, write_questions

HEAD = HeadSpec(head="last_layer")


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_tiny_encoder(tmp_path_factory.mktemp("encoder"), dropout=0.3)


@pytest.fixture(scope="module")
def sentences(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An encoder that says it was trained on sentences."""
    folder = tmp_path_factory.mktemp("sentences")
    save_tiny_encoder(folder)
    (folder / "1_Pooling").mkdir()
    content = json.dumps({"pooling_mode_mean_tokens": True})
    (folder / "1_Pooling" / "config.json").write_text(content, encoding="utf-8")
    return str(folder)


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_pairs(tmp_path_factory.mktemp("pairs"))


def rows(frozen: FrozenTask) -> Tensor:
    states = frozen.states(frozen.dev, range(3)) if frozen.dev is not None else None
    assert isinstance(states, RowStates)
    return states.rows


def test_the_largest_share_is_what_is_passed_over(encoder: str, tmp_path: Path) -> None:
    data = write_labels(tmp_path)
    few = freeze_task(tiny_fit("sst2", data, encoder, replace(HEAD, fraction=0.25)))
    all_of_it = freeze_task(tiny_fit("sst2", data, encoder, HEAD))
    both = freeze_task(tiny_fit("sst2", data, encoder, HEAD, replace(HEAD, fraction=0.25)))
    assert (len(few.train.examples), len(few.held_out.examples)) == (8, 2)
    for part, other in (both.train, all_of_it.train), (both.held_out, all_of_it.held_out):
        assert isinstance(part.examples, Texts)
        assert isinstance(other.examples, Texts)
        assert part.examples.texts == other.examples.texts
        assert np.array_equal(part.windows.ids, other.windows.ids)


@torch.no_grad()
def test_pairs_apart_are_compared_number_by_number(encoder: str, pairs: str) -> None:
    frozen = freeze_task(tiny_fit("own", pairs, encoder, HEAD, pairs="apart", pool="mean"))
    assert (frozen.parts.separate, frozen.shape.width, frozen.shape.layers, frozen.shape.outputs) == (
        True,
        2 * WIDTH,
        3,
        2,
    )
    found = rows(frozen)
    assert found.shape == (12, 3, 2 * WIDTH)
    assert frozen.dev is not None
    examples = frozen.dev.examples
    assert isinstance(examples, Texts)
    assert examples.pairs is not None
    tokenizer, loaded = TextTokenizer.load(encoder), load_encoder(encoder)
    for row in range(3):
        texts = [examples.texts[row], examples.pairs[row]]
        alone = Texts(ids=["0", "1"], texts=texts, pairs=None, targets=np.zeros(2, dtype=np.int64))
        windows = build_windows(frozen.task, alone, tokenizer, WINDOWS)
        stream = StreamStates(loaded, windows, frozen.passes, range(3))
        u, v = (stream.batch(np.array([number])).hidden.states[0].mean(dim=1) for number in (0, 1))
        u, v = (rows / rows.norm(dim=1, keepdim=True) for rows in (u, v))
        expected = torch.cat([(u - v).abs(), u * v], dim=1)
        torch.testing.assert_close(found[row], expected, rtol=FLOAT32, atol=FLOAT32)


@pytest.mark.parametrize(("way", "parts"), [("together", 1), ("apart", 2), ("aligned", 6)])
def test_rows_say_how_many_parts_they_have(way: str, parts: int, encoder: str, pairs: str) -> None:
    frozen = freeze_task(tiny_fit("own", pairs, encoder, HEAD, pairs=way, pool="mean"))
    states = frozen.states(frozen.train, range(3))
    assert isinstance(states, RowStates)
    assert states.pairs == way
    assert states.rows.shape == (len(frozen.train.windows), 3, frozen.shape.width)
    assert frozen.shape.width == parts * WIDTH


def test_pairs_together_are_one_window(encoder: str, pairs: str) -> None:
    frozen = freeze_task(tiny_fit("own", pairs, encoder, HEAD, pairs="together"))
    assert (frozen.parts.separate, frozen.shape.width) == (False, WIDTH)
    assert rows(frozen).shape == (12, 3, WIDTH)
    assert frozen.dev is not None
    assert frozen.dev.windows.types.max() == 1  # the second text is there, in the second segment


def test_the_encoder_says_how_rows_and_pairs_are_made_where_nobody_else_does(
    encoder: str, sentences: str, pairs: str
) -> None:
    plain, trained = (freeze_task(tiny_fit("own", pairs, name, HEAD)) for name in (encoder, sentences))
    assert (plain.parts.pairs, plain.pool) == ("together", "cls")
    assert (trained.parts.pairs, trained.pool) == ("aligned", "mean")
    asked = freeze_task(tiny_fit("own", pairs, sentences, HEAD, pairs="together", pool="cls"))
    assert (asked.parts.separate, asked.pool) == (False, "cls")


def test_single_texts_and_questions_are_never_apart(encoder: str, sentences: str, tmp_path: Path) -> None:
    texts = freeze_task(tiny_fit("sst2", write_labels(tmp_path / "labels"), sentences, HEAD))
    assert (texts.parts.separate, texts.shape.width) == (False, WIDTH)
    data = write_questions(tmp_path / "squad")
    questions = freeze_task(tiny_fit("squad2", data, sentences, HEAD, pairs="apart"))
    assert (questions.parts.separate, questions.shape.width) == (False, WIDTH)
    frozen = freeze_task(tiny_fit("squad2", data, encoder, HEAD))
    states = frozen.states(frozen.train, range(1, 3))
    assert isinstance(states, StreamStates)
    first, again = (states.batch(np.arange(4)).hidden.states for _ in range(2))
    assert torch.equal(first, again)  # no dropout, though the encoder was made with some
    assert states.batch(np.arange(4)).lowest == 1


def test_data_without_a_train_split_are_refused(encoder: str, tmp_path: Path) -> None:
    data = Path(write_labels(tmp_path))
    (data / "train.tsv").unlink()
    with pytest.raises(BertVisionError, match="sst2 has no train split here, so there is nothing to learn from"):
        freeze_task(tiny_fit("sst2", str(data), encoder, HEAD))


def test_data_without_a_dev_split_are_fine(encoder: str, tmp_path: Path) -> None:
    data = Path(write_labels(tmp_path))
    (data / "dev.tsv").unlink()
    assert freeze_task(tiny_fit("sst2", str(data), encoder, HEAD)).dev is None


def test_without_held_out_examples_nobody_could_judge(encoder: str, tmp_path: Path) -> None:
    request: FitRequest = tiny_fit("sst2", write_labels(tmp_path), encoder, HEAD, held_out=0.0)
    with pytest.raises(BertVisionError, match="--held-out is 0, but heads are judged on held-out training examples"):
        freeze_task(request)


def test_only_pairs_of_texts_have_second_texts(encoder: str, tmp_path: Path) -> None:
    parts = freeze_task(tiny_fit("sst2", write_labels(tmp_path), encoder, HEAD)).parts
    apart = replace(parts, pairs="apart")
    with pytest.raises(TypeError, match="there are no second texts"):
        apart.part(parts.train)
    with pytest.raises(TypeError, match="only texts come in pairs"):
        apart.part(make_questions(("a", "b", None)))
