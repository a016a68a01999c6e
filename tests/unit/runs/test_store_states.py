"""States from a store, as an encoder would give them."""

from pathlib import Path

import numpy as np
import pytest
import torch

from bertvision.encoder.load import load_encoder
from bertvision.errors import BertVisionError
from bertvision.runs.extract import ExtractRequest, extract_states
from bertvision.runs.outputs import PassOptions
from bertvision.runs.states import StreamStates, encode_rows
from bertvision.runs.store_states import StoreStates, rows_in_memory, stored_rows
from bertvision.store.reader import StoreReader
from bertvision.tasks.load import TaskData, load_task
from bertvision.tasks.tokenizer import TextTokenizer
from bertvision.tasks.windows import WindowOptions, Windows, build_windows
from close import KEPT
from tiny_models import save_tiny
from tiny_run import write_labels, write_questions
from tiny_store import small_shards

SHORT = WindowOptions(length=24, stride=4, question=12)
CPU = torch.device("cpu")
PASS = PassOptions(packed=False, pad=1, bf16=False)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_tiny(tmp_path_factory.mktemp("encoder"))


@pytest.fixture(scope="module")
def questions(tmp_path_factory: pytest.TempPathFactory) -> TaskData:
    return load_task("squad2", data=write_questions(tmp_path_factory.mktemp("questions"), train=12, dev=4))


@pytest.fixture(autouse=True)
def _small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    small_shards(monkeypatch)


@pytest.fixture
def store(encoder: str, tmp_path: Path) -> Path:
    data = write_questions(tmp_path / "data", train=12, dev=4)
    request = ExtractRequest(task="squad2", data=data, encoder=encoder, windows=SHORT, device="cpu", layers="1..3")
    extract_states(request, tmp_path / "store")
    return tmp_path / "store"


def tokens_of(windows: Windows, row: int) -> list[int]:
    listed: list[int] = windows.ids[windows.bounds[row] : windows.bounds[row + 1]].tolist()
    return listed


@pytest.mark.parametrize("chosen", [[7, 0, 11, 3, 5], [4], list(range(12)), list(range(11, -1, -1))])
def test_windows_of_any_examples_in_any_order_are_found(chosen: list[int], encoder: str, questions: TaskData) -> None:
    tokenizer = TextTokenizer.load(encoder)
    whole = questions.splits["train"]
    part = whole.select(np.array(chosen))
    windows = build_windows(questions.task, whole, tokenizer, SHORT)
    assert np.bincount(windows.example).max() > 1
    of_part = build_windows(questions.task, part, tokenizer, SHORT)
    rows = stored_rows(whole, part, windows)
    assert len(rows) == len(of_part)
    assert [chosen[example] for example in of_part.example] == windows.example[rows].tolist()
    assert [tokens_of(windows, row) for row in rows] == [tokens_of(of_part, row) for row in range(len(of_part))]


def test_a_batch_of_a_store_is_a_batch_of_the_encoder(encoder: str, questions: TaskData, store: Path) -> None:
    tokenizer = TextTokenizer.load(encoder)
    whole = questions.splits["train"]
    part = whole.select(np.array([9, 2, 6, 0, 11, 4]))
    rows = stored_rows(whole, part, build_windows(questions.task, whole, tokenizer, SHORT))
    windows = build_windows(questions.task, part, tokenizer, SHORT)
    stored = StoreStates(StoreReader(store / "train"), rows, windows, CPU)
    streamed = StreamStates(load_encoder(encoder), windows, PASS, range(1, 4))
    for some in (np.random.default_rng(0).permutation(len(windows)), np.array([3, 1]), np.array([0])):
        found, expected = stored.batch(some), streamed.batch(some)
        assert (found.lowest, found.packed) == (expected.lowest, None)
        assert torch.equal(found.padded.mask, expected.padded.mask)
        assert found.padded.context is not None
        assert expected.padded.context is not None
        assert torch.equal(found.padded.context, expected.padded.context)
        assert found.padded.context.any()
        real = expected.padded.mask
        torch.testing.assert_close(
            found.padded.states.transpose(1, 2)[real],
            expected.padded.states.transpose(1, 2)[real],
            rtol=KEPT,
            atol=KEPT,
        )


@pytest.mark.parametrize("layers", [None, "1..3"])
def test_one_row_per_window_is_read_into_memory(layers: str | None, encoder: str, tmp_path: Path) -> None:
    data = write_labels(tmp_path / "data", train=10, dev=4)
    request = ExtractRequest(task="sst2", data=data, encoder=encoder, windows=SHORT, device="cpu", layers=layers)
    extract_states(request, tmp_path / "store")
    loaded = load_task("sst2", data=data)
    whole = loaded.splits["train"]
    windows = build_windows(loaded.task, whole, TextTokenizer.load(encoder), SHORT)
    part = whole.select(np.array([8, 1, 5]))
    reader = StoreReader(tmp_path / "store" / "train")
    states = rows_in_memory(reader, stored_rows(whole, part, windows), CPU)
    lowest = 0 if layers is None else 1
    expected = encode_rows(load_encoder(encoder), windows, PASS, "cls")[[8, 1, 5], lowest:]
    torch.testing.assert_close(states.rows, expected, rtol=KEPT, atol=KEPT)
    batch = states.batch(np.array([2, 0]))
    assert batch.lowest == lowest
    assert torch.equal(batch.padded.states[:, :, 0], states.rows[[2, 0]])
    alone = StoreStates(reader, np.array([8, 1, 5]), windows, CPU).batch(np.array([2, 0])).padded
    assert torch.equal(alone.states, batch.padded.states)  # one token each, and no context
    assert alone.context is not None
    assert not alone.context.any()


def test_more_rows_than_are_read_at_a_time_keep_their_order(store: Path) -> None:
    reader = StoreReader(store / "dev")
    rows = np.random.default_rng(0).integers(0, reader.manifest.content.windows, 2500)
    states = rows_in_memory(reader, rows, CPU).rows
    assert len(states) == 2500
    for place in (0, 1023, 1024, 2047, 2048, 2499):
        assert torch.equal(states[place], reader.batch(rows[place : place + 1]).states[0, :, 0])


def test_a_split_that_is_not_there_is_no_store(store: Path) -> None:
    with pytest.raises(BertVisionError, match=r"store/test is no store: it has no manifest\.json"):
        StoreReader(store / "test")
