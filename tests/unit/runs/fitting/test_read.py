"""One pass for many heads puts every score where a pass of one model puts it."""

from pathlib import Path

import numpy as np
import pytest
import torch

from bertvision.encoder.load import load_encoder
from bertvision.evaluation.outputs import SpanScores
from bertvision.heads import Head, HeadShape, build_head
from bertvision.inference import outputs as outputs_module
from bertvision.inference.computed_states import RowStates, StreamStates, encode_texts
from bertvision.inference.outputs import PassOptions, row_scores, span_scores
from bertvision.runs.fitting import read as read_module
from bertvision.runs.fitting.read import read_heads
from bertvision.tasks.load import TASKS, load_task
from bertvision.tasks.tokenizer import TextTokenizer
from bertvision.tasks.windows import Windows, build_windows
from bertvision.training.model import TunedModel
from close import FLOAT32
from tiny_run import WIDTH, WINDOWS, save_tiny_encoder, write_questions

CPU = torch.device("cpu")
PASS = PassOptions(packed=False, pad=0, bf16=False)
NAMES = ["last_layer", "adapter_pool_64", "layer_mix", "context_conv"]


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(outputs_module.BATCH_TOKENS, "cpu", 60)  # a few windows at a time


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_tiny_encoder(tmp_path_factory.mktemp("encoder"), dropout=0.1)


@pytest.fixture(scope="module")
def windows(tmp_path_factory: pytest.TempPathFactory, encoder: str) -> Windows:
    data = load_task("squad2", data=Path(write_questions(tmp_path_factory.mktemp("squad"))))
    return build_windows(data.task, data.splits["dev"], TextTokenizer.load(encoder), WINDOWS)


def heads() -> list[Head]:
    torch.manual_seed(0)
    return [build_head(name, HeadShape(layers=3, width=WIDTH, outputs=2)) for name in NAMES]


def test_every_token_gets_its_scores_from_every_head(encoder: str, windows: Windows) -> None:
    loaded, made = load_encoder(encoder), heads()
    states = StreamStates(loaded, windows, PASS, range(3))
    found = read_heads(made, states, windows, task=TASKS["squad2"], pool="cls", device=CPU, bf16=False)
    for head, scores in zip(made, found, strict=True):
        assert isinstance(scores, SpanScores)
        expected = span_scores(TunedModel(loaded, head), windows, PASS)
        assert scores.start == pytest.approx(expected.start, abs=FLOAT32)
        assert scores.end == pytest.approx(expected.end, abs=FLOAT32)
        assert np.ptp(scores.start) > 0


def test_every_window_gets_its_row_from_every_head(encoder: str, windows: Windows) -> None:
    loaded, made = load_encoder(encoder), heads()[:3]
    states = RowStates(encode_texts(loaded, [windows], PASS, pool="mean"), CPU)
    found = read_heads(made, states, windows, task=TASKS["sst2"], pool="mean", device=CPU, bf16=False)
    for head, rows in zip(made, found, strict=True):
        assert not isinstance(rows, SpanScores)
        expected = row_scores(TunedModel(loaded, head, pool="mean"), windows, PASS, pool="mean")
        assert rows.shape == (len(windows), 2)
        assert rows == pytest.approx(expected, abs=FLOAT32)
        assert len(np.unique(rows[:, 0])) > 1


def test_heads_are_judged_without_dropout_and_left_as_they_were(encoder: str, windows: Windows) -> None:
    first = build_head("last_layer", HeadShape(layers=3, width=WIDTH, outputs=2), {"dropout": 0.5}).train()
    second = build_head("last_layer", HeadShape(layers=3, width=WIDTH, outputs=2)).eval()
    second.load_state_dict(first.state_dict())
    states = StreamStates(load_encoder(encoder), windows, PASS, range(3))
    one, other = read_heads([first, second], states, windows, task=TASKS["squad2"], pool="cls", device=CPU, bf16=False)
    assert isinstance(one, SpanScores)
    assert isinstance(other, SpanScores)
    assert np.array_equal(one.start, other.start)
    assert (first.training, second.training) == (True, False)


def test_no_head_gives_no_outputs_and_reads_nothing(
    encoder: str, windows: Windows, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = StreamStates(load_encoder(encoder), windows, PASS, range(3))
    monkeypatch.setattr(StreamStates, "batch", lambda *_: pytest.fail("a batch was encoded"))
    assert read_heads([], states, windows, task=TASKS["squad2"], pool="cls", device=CPU, bf16=False) == []


def test_long_reading_tells_how_far_it_is(encoder: str, windows: Windows, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []

    def read() -> None:
        states = StreamStates(load_encoder(encoder), windows, PASS, range(3))
        read_heads(heads(), states, windows, task=TASKS["squad2"], pool="cls", device=CPU, bf16=False, tell=told.append)

    read()
    assert not told  # it took no time
    monkeypatch.setattr(read_module, "SHOW_SECONDS", 0.0)
    read()
    assert len(told) > 1
    assert told[-1] == f"4 heads: {len(windows)} of {len(windows)} windows read …"
