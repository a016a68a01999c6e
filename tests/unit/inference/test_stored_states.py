"""States from a store, as an encoder would give them."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from bertvision.encoder.load import load_encoder
from bertvision.errors import BertVisionError
from bertvision.heads import HeadShape, build_head
from bertvision.inference.computed_states import StreamStates, encode_texts
from bertvision.inference.outputs import PassOptions
from bertvision.inference.stored_states import StoredSplit, StoreStates, rows_in_memory
from bertvision.runs.fitting.extract import ExtractRequest, extract_states
from bertvision.store.codec import Keep
from bertvision.store.reader import StoreReader
from bertvision.tasks.examples import Examples, IntArray
from bertvision.tasks.load import TaskData, load_task
from bertvision.tasks.tokenizer import TextTokenizer
from bertvision.tasks.windows import WindowOptions, Windows, build_windows
from bertvision.training.states import StateBatch
from close import FLOAT32, KEPT, KEPT_BF16, KEPT_INT8
from tiny_models import save_tiny
from tiny_run import write_labels, write_questions
from tiny_store import Source, small_shards, write_store

SHORT = WindowOptions(length=24, stride=4, question=12)
CPU = torch.device("cpu")
PASS = PassOptions(packed=False, pad=1, bf16=False)
LAYERS = range(2, 4)


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


def rows_of(whole: Examples, part: Examples, windows: Windows) -> IntArray:
    return StoredSplit(Mock(spec=StoreReader), whole, windows).rows(part)


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
    rows = rows_of(whole, part, windows)
    assert len(rows) == len(of_part)
    assert [chosen[example] for example in of_part.example] == windows.example[rows].tolist()
    assert [tokens_of(windows, row) for row in rows] == [tokens_of(of_part, row) for row in range(len(of_part))]


def batches(
    encoder: str, questions: TaskData, store: Path, options: PassOptions
) -> Iterator[tuple[StateBatch, StateBatch]]:
    """What the store and the encoder give for the same windows of a part of a split, at layers 2 and 3."""
    tokenizer = TextTokenizer.load(encoder)
    whole = questions.splits["train"]
    part = whole.select(np.array([9, 2, 6, 0, 11, 4]))
    rows = rows_of(whole, part, build_windows(questions.task, whole, tokenizer, SHORT))
    windows = build_windows(questions.task, part, tokenizer, SHORT)
    reader = StoreReader(store / "train")
    stored = StoreStates(reader, rows, windows, layers=LAYERS, options=options, device=CPU)
    streamed = StreamStates(load_encoder(encoder), windows, PASS, LAYERS)
    for some in (np.random.default_rng(0).permutation(len(windows)), np.array([3, 1]), np.array([0])):
        yield stored.batch(some), streamed.batch(some)


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        (PASS, (torch.float32, KEPT)),
        (replace(PASS, bf16=True), (torch.float32, KEPT)),  # a CPU's states are float32 all the same
        (replace(PASS, packed=True), (torch.float32, KEPT)),  # as on a GPU
        (replace(PASS, packed=True, bf16=True), (torch.bfloat16, KEPT_BF16)),
    ],
)
def test_a_batch_of_a_store_is_a_batch_of_the_encoder(
    options: PassOptions, kind: tuple[torch.dtype, float], encoder: str, questions: TaskData, store: Path
) -> None:
    dtype, close = kind
    for found, expected in batches(encoder, questions, store, options):
        assert (found.lowest, expected.lowest) == (2, 2)
        assert (found.packed is not None) == options.packed
        assert found.hidden.states.dtype == dtype
        assert torch.equal(found.padded.mask, expected.padded.mask)
        assert found.padded.context is not None
        assert expected.padded.context is not None
        assert torch.equal(found.padded.context, expected.padded.context)
        assert found.padded.context.any()
        real = expected.padded.mask
        torch.testing.assert_close(
            found.padded.states.transpose(1, 2)[real].float(),
            expected.padded.states.transpose(1, 2)[real],
            rtol=close,
            atol=close,
        )
        assert not found.padded.states.transpose(1, 2)[~real].any()


@pytest.mark.parametrize("name", ["layer_mix", "ladder"])
def test_a_head_reads_packed_windows_of_a_store_like_padded_ones(
    name: str, encoder: str, questions: TaskData, store: Path
) -> None:
    head = build_head(name, HeadShape(layers=4, width=16, outputs=2), {"layers": "2..3"}).eval()
    padded, packed = (batches(encoder, questions, store, replace(PASS, packed=way)) for way in (False, True))
    for (one, _), (other, _) in zip(padded, packed, strict=True):
        (expected, mask), (found, same) = one.read(head), other.read(head)
        assert torch.equal(mask, same)
        torch.testing.assert_close(found[mask], expected[mask], rtol=FLOAT32, atol=FLOAT32)


@pytest.mark.parametrize("keep", ["fp16", "int8"])
@pytest.mark.parametrize("layers", [range(4), range(1, 4), range(2, 3)])
def test_one_row_per_window_is_read_into_memory(keep: Keep, layers: range, encoder: str, tmp_path: Path) -> None:
    data = write_labels(tmp_path / "data", train=10, dev=4)
    request = ExtractRequest(task="sst2", data=data, encoder=encoder, windows=SHORT, device="cpu", keep=keep)
    extract_states(request, tmp_path / "store")
    loaded = load_task("sst2", data=data)
    whole = loaded.splits["train"]
    windows = build_windows(loaded.task, whole, TextTokenizer.load(encoder), SHORT)
    rows = rows_of(whole, whole.select(np.array([8, 1, 5])), windows)
    states = rows_in_memory(StoreReader(tmp_path / "store" / "train"), rows, layers, CPU)
    expected = encode_texts(load_encoder(encoder), [windows], PASS, pool="cls")[[8, 1, 5], layers[0] : layers[-1] + 1]
    close = KEPT if keep == "fp16" else KEPT_INT8
    torch.testing.assert_close(states.rows, expected, rtol=close, atol=close)
    batch = states.batch(np.array([2, 0]))
    assert batch.lowest == layers[0]
    assert torch.equal(batch.padded.states[:, :, 0], states.rows[[2, 0]])


def test_rows_of_many_shards_keep_their_order_and_may_come_twice(tmp_path: Path) -> None:
    source = Source(*[1] * 9)
    write_store(tmp_path, source)
    rows = np.random.default_rng(0).integers(0, 9, 2500)
    states = rows_in_memory(StoreReader(tmp_path), rows, range(3), CPU).rows
    assert torch.equal(states, torch.cat(source.windows)[rows].half().float())


def test_a_split_that_is_not_there_is_no_store(store: Path) -> None:
    with pytest.raises(BertVisionError, match=r"store/test is no store: it has no manifest\.json"):
        StoreReader(store / "test")
