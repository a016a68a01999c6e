"""A task and an encoder become a store."""

import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from bertvision.encoder.batch import TokenBatch, padded_batch
from bertvision.encoder.load import fingerprint, load_encoder
from bertvision.encoder.states import HiddenStates
from bertvision.errors import BertVisionError
from bertvision.inference import outputs as outputs_module
from bertvision.inference.computed_states import StreamStates
from bertvision.objectives import Pool
from bertvision.runs.fitting.extract import ExtractRequest, extract_states
from bertvision.store.codec import Keep
from bertvision.store.reader import StoreReader
from bertvision.tasks.examples import IntArray
from bertvision.tasks.load import load_task
from bertvision.tasks.tokenizer import TextTokenizer
from bertvision.tasks.windows import WindowOptions, Windows, build_windows
from bertvision.training.states import StateBatch
from close import HALF, KEPT
from folders import differences, everything
from tiny_models import save_tiny
from tiny_run import record_compiling, write_labels, write_questions
from tiny_store import SHARD, Count, cut_short, small_shards

SHORT = WindowOptions(length=24, stride=4, question=12)
"""Some contexts need two windows."""


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """With three layers and dropout."""
    return save_tiny(tmp_path_factory.mktemp("encoder"))


@pytest.fixture(scope="module")
def questions(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_questions(tmp_path_factory.mktemp("questions"), train=10, dev=4)


@pytest.fixture(scope="module")
def labels(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_labels(tmp_path_factory.mktemp("labels"), train=10, dev=4)


@pytest.fixture(autouse=True)
def _small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    small_shards(monkeypatch)
    monkeypatch.setitem(outputs_module.BATCH_TOKENS, "cpu", 50)  # several batches in a shard


def request_of(task: str, data: str, encoder: str, **changes: Any) -> ExtractRequest:  # noqa: ANN401 - any field
    request = ExtractRequest(task=task, data=data, encoder=encoder, windows=SHORT, device="cpu")
    return replace(request, **changes)


def windows_of(request: ExtractRequest, split: str) -> Windows:
    loaded = load_task(request.task, data=request.data)
    return build_windows(loaded.task, loaded.splits[split], TextTokenizer.load(request.encoder), request.windows)


@torch.no_grad()
def alone(request: ExtractRequest, windows: Windows, row: int) -> torch.Tensor:
    """The encoder's own states of one window, (layers, tokens, width)."""
    return load_encoder(request.encoder).forward(padded_batch(windows, np.array([row]))).states[0]


def test_layers_are_compiled_where_that_is_asked_for(
    questions: str, encoder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = record_compiling(monkeypatch)
    extract_states(request_of("squad2", questions, encoder, compile=True), tmp_path / "store")
    assert names == ["BertLayer.forward"]


@pytest.mark.parametrize("layers", [None, "1..3", "0..1", "2"])
def test_every_window_of_every_split_has_the_states_that_the_encoder_gives_it(
    layers: str | None, encoder: str, questions: str, tmp_path: Path
) -> None:
    request = request_of("squad2", questions, encoder, layers=layers)
    manifests = extract_states(request, tmp_path)
    first, last = {None: (0, 3), "1..3": (1, 3), "0..1": (0, 1), "2": (2, 2)}[layers]
    assert list(manifests) == ["train", "dev"]
    for split, manifest in manifests.items():
        windows = windows_of(request, split)
        assert len(windows) > windows.example[-1] + 1  # some examples have several
        content = manifest.content
        assert (content.windows, content.tokens) == (len(windows), len(windows.ids))
        assert (content.first_layer, content.layers, content.width) == (first, last - first + 1, 16)
        rows = np.random.default_rng(0).permutation(len(windows))
        hidden = StoreReader(tmp_path / split).batch(rows)
        assert hidden.mask.sum(dim=1).tolist() == windows.lengths[rows].tolist()
        for place, row in enumerate(rows):
            expected = alone(request, windows, row)[first : last + 1]
            found = hidden.states[place, :, : expected.shape[1]]
            torch.testing.assert_close(found, expected, rtol=KEPT, atol=KEPT)


def test_states_are_as_precise_as_asked(encoder: str, questions: str, tmp_path: Path) -> None:
    request = request_of("squad2", questions, encoder)
    rows = np.arange(3)
    for dtype in ("float32", "bfloat16"):
        extract_states(replace(request, dtype=dtype), tmp_path / dtype)
    exact, rough = (StoreReader(tmp_path / dtype / "dev").batch(rows).states for dtype in ("float32", "bfloat16"))
    assert torch.equal(rough, rough.bfloat16().float())
    assert not torch.equal(exact, exact.bfloat16().float())
    torch.testing.assert_close(rough, exact, rtol=HALF, atol=HALF)


@pytest.mark.parametrize("keep", ["fp16", "bf16", "int8"])
def test_states_are_kept_as_asked(keep: Keep, encoder: str, questions: str, tmp_path: Path) -> None:
    request = request_of("squad2", questions, encoder, keep=keep)
    manifest = extract_states(request, tmp_path)["dev"]
    assert manifest.content.keep == keep
    windows = windows_of(request, "dev")
    hidden = StoreReader(tmp_path / "dev").batch(np.array([1]))
    expected = alone(request, windows, 1)
    most = {"fp16": 1e-3, "bf16": 5e-3, "int8": 1.5e-2}[keep]
    assert float((hidden.states[0] - expected).norm() / expected.norm()) < most


@pytest.mark.parametrize("task", ["sst2", "answerable"])
@pytest.mark.parametrize("pool", [None, "cls", "mean"])
def test_labels_keep_one_pooled_row_per_window(
    *, task: str, pool: Pool | None, encoder: str, questions: str, labels: str, tmp_path: Path
) -> None:
    request = request_of(task, labels if task == "sst2" else questions, encoder, pool=pool, layers="1..3")
    manifests = extract_states(request, tmp_path)
    windows = windows_of(request, "train")
    content = manifests["train"].content
    assert (content.pool, content.tokens, content.windows) == (pool or "cls", len(windows), len(windows))
    rows = np.random.default_rng(1).permutation(len(windows))
    hidden = StoreReader(tmp_path / "train").batch(rows)
    assert hidden.states.shape == (len(windows), 3, 1, 16)
    assert hidden.mask.all()
    for place, row in enumerate(rows):
        states = alone(request, windows, row)[1:]
        expected = states.mean(dim=1) if pool == "mean" else states[:, 0]
        torch.testing.assert_close(hidden.states[place, :, 0], expected, rtol=KEPT, atol=KEPT)


def test_a_span_task_keeps_every_token_whatever_the_pool(encoder: str, questions: str, tmp_path: Path) -> None:
    content = extract_states(request_of("squad2", questions, encoder, pool="mean"), tmp_path)["dev"].content
    assert content.pool is None


def test_a_store_says_what_it_was_made_of(encoder: str, questions: str, tmp_path: Path) -> None:
    request = request_of("squad2", questions, encoder)
    content = extract_states(request, tmp_path)["dev"].content
    assert (content.encoder, content.fingerprint) == (encoder, fingerprint(load_encoder(encoder)))
    assert (content.task, content.split) == ("squad2", "dev")
    assert content.settings == {"length": 24, "stride": 4, "question": 12}


def test_progress_is_shown_shard_by_shard(encoder: str, labels: str, tmp_path: Path) -> None:
    shown = []

    def show(step: int, total: int, values: object, *, doing: str = "") -> None:
        shown.append((step, total, values, doing))

    extract_states(request_of("sst2", labels, encoder), tmp_path, show=show)
    assert shown == [
        (SHARD, 10, {}, "windows of train"),
        (2 * SHARD, 10, {}, "windows of train"),
        (10, 10, {}, "windows of train"),
        (4, 4, {}, "windows of dev"),
    ]


@pytest.mark.parametrize("keep", ["fp16", "int8"])
def test_a_killed_extraction_goes_on_and_ends_byte_for_byte_the_same(
    keep: Keep, encoder: str, questions: str, tmp_path: Path
) -> None:
    request = request_of("squad2", questions, encoder, keep=keep)
    with pytest.MonkeyPatch.context() as patch:
        every = Count(patch)
        extract_states(request, tmp_path / "whole")
    with pytest.MonkeyPatch.context() as patch:
        Count(patch, batches=10 if keep == "int8" else 4)
        with pytest.raises(KeyboardInterrupt):
            extract_states(request, tmp_path / "store")
    done = len(list((tmp_path / "store").rglob("0*.safetensors")))
    assert done > 0
    for split in ("train", "dev"):
        with pytest.raises(BertVisionError, match="it is not finished"):
            StoreReader(tmp_path / "store" / split)
    with pytest.MonkeyPatch.context() as patch:
        rest = Count(patch)
        extract_states(request, tmp_path / "store")
    sampled = len(windows_of(request, "train")) if keep == "int8" else 0
    assert len(rest.windows) == len(every.windows) - done * SHARD - sampled
    assert differences(tmp_path / "store", tmp_path / "whole") == []


def test_a_truncated_shard_is_refused_by_name_and_written_again(encoder: str, questions: str, tmp_path: Path) -> None:
    request = request_of("squad2", questions, encoder)
    extract_states(request, tmp_path)
    before = everything(tmp_path)
    cut_short(tmp_path / "train" / "000001.safetensors")
    with pytest.raises(BertVisionError, match=r"train/000001\.safetensors cannot be read"):
        StoreReader(tmp_path / "train").batch(np.array([SHARD]))
    with pytest.MonkeyPatch.context() as patch:
        count = Count(patch)
        extract_states(request, tmp_path)
    assert sorted(count.windows) == [4, 5, 6, 7]
    assert everything(tmp_path) == before


def test_a_store_of_something_else_is_refused_before_anything_is_computed(
    encoder: str, questions: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "thesis.txt").write_text("precious", encoding="utf-8")
    count = Count(monkeypatch)
    with pytest.raises(BertVisionError, match=r"dev is there already and is no store\. Use another --store"):
        extract_states(request_of("squad2", questions, encoder), tmp_path)
    assert count.windows == []


def test_another_request_for_the_same_folder_is_refused_with_the_differences(
    encoder: str, questions: str, tmp_path: Path
) -> None:
    request = request_of("squad2", questions, encoder)
    extract_states(request, tmp_path)
    before = everything(tmp_path)
    with pytest.raises(BertVisionError, match=r"holds another store: first_layer is 0, 1 is .*; layers is 4, 3 is ask"):
        extract_states(replace(request, layers="1..3"), tmp_path)
    longer = replace(request, windows=WindowOptions(length=30, stride=4, question=12))
    with pytest.raises(BertVisionError, match=r"digest is \w{16}, \w{16} is asked for; settings is "):
        extract_states(longer, tmp_path)
    assert everything(tmp_path) == before


def test_a_store_larger_than_allowed_is_refused_before_anything_is_written(
    encoder: str, questions: str, tmp_path: Path
) -> None:
    request = request_of("squad2", questions, encoder)
    with pytest.raises(BertVisionError, match=r"the store would take .*; --max-disk allows 20 KB\. Allow more, or use"):
        extract_states(replace(request, max_disk=20_000), tmp_path / "store")
    assert not (tmp_path / "store").exists()
    extract_states(replace(request, max_disk=200_000), tmp_path / "store")


def test_a_store_for_which_the_disk_has_no_room_is_refused_before_anything_is_written(
    encoder: str, questions: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _path: SimpleNamespace(free=20_000))
    with pytest.raises(BertVisionError, match=rf"would take .*; 20 KB are free on the disk of {tmp_path}\. Make room"):
        extract_states(request_of("squad2", questions, encoder), tmp_path / "a" / "store")
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_needs_no_room_any_more(
    encoder: str, questions: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = request_of("squad2", questions, encoder)
    before = extract_states(request, tmp_path)
    # all states, 31 KB, are there; what may come beside them is counted with the most that it can take
    monkeypatch.setattr("shutil.disk_usage", lambda _path: SimpleNamespace(free=50_000))
    assert extract_states(request, tmp_path) == before
    for shard in tmp_path.rglob("0*.safetensors"):
        shard.unlink()
    with pytest.raises(BertVisionError, match=r"; 50 KB are free"):
        extract_states(request, tmp_path)


def test_a_second_extraction_into_one_folder_is_refused(encoder: str, questions: str, tmp_path: Path) -> None:
    request = request_of("squad2", questions, encoder)
    messages = []

    def show(*_now: object, **_more: object) -> None:
        with pytest.raises(BertVisionError) as error:
            extract_states(request, tmp_path / "store")
        messages.append(str(error.value))

    extract_states(request, tmp_path / "store", show=show)
    assert messages
    assert all(f"store is in use by another process ({os.getpid()} on " in message for message in messages)
    extract_states(request, tmp_path / "alone")
    assert differences(tmp_path / "store", tmp_path / "alone") == []


def test_a_state_too_large_for_fp16_makes_its_shard_bf16(
    encoder: str, questions: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = StreamStates.batch

    def batch(states: StreamStates, rows: IntArray) -> StateBatch:
        found = real(states, rows)
        found.hidden.states[rows == 5] *= 1e5
        return found

    monkeypatch.setattr(StreamStates, "batch", batch)
    request = request_of("squad2", questions, encoder)
    manifests = extract_states(request, tmp_path)
    assert [shard.keep for shard in manifests["train"].shards][:3] == [None, "bf16", None]
    expected = alone(request, windows_of(request, "train"), 5) * 1e5
    found = StoreReader(tmp_path / "train").batch(np.array([5, 0])).states[0, :, : expected.shape[1]]
    assert found.abs().max() > 65504
    torch.testing.assert_close(found, expected, rtol=2**-8, atol=1)


def test_packed_windows_are_kept_as_padded_ones_are(
    encoder: str, questions: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a GPU computes them; there is no kernel for them here, so padded ones are packed afterwards."""
    request = request_of("squad2", questions, encoder)
    extract_states(request, tmp_path / "padded")
    real = StreamStates.batch

    def batch(states: StreamStates, rows: IntArray) -> StateBatch:
        hidden = real(states, rows).hidden
        packed = hidden.states.transpose(1, 2)[hidden.mask].transpose(0, 1)[None]  # (1, layers, tokens, width)
        lengths = hidden.mask.sum(dim=1)
        bounds = torch.cat([torch.zeros(1, dtype=torch.long), lengths.cumsum(0)]).int()
        ids = torch.zeros(1, packed.shape[2], dtype=torch.long)
        tokens = TokenBatch(ids, ids, ids == 0, bounds, int(lengths.max()), full=True)
        return StateBatch(HiddenStates(packed, tokens.mask), packed=tokens)

    monkeypatch.setattr(StreamStates, "batch", batch)
    extract_states(request, tmp_path / "packed")
    assert differences(tmp_path / "packed", tmp_path / "padded") == []


@pytest.mark.parametrize("task", ["squad2", "sst2"])
def test_shards_that_are_computed_together_hold_the_same(
    *, task: str, encoder: str, questions: str, labels: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = request_of(task, questions if task == "squad2" else labels, encoder)
    apart = extract_states(request, tmp_path / "apart")["train"]
    monkeypatch.setattr("bertvision.store.writer.GROUP_SHARDS", 2)
    count = Count(monkeypatch)
    assert [shard.tokens for shard in extract_states(request, tmp_path / "together")["train"].shards] == [
        shard.tokens for shard in apart.shards
    ]
    assert max(np.diff(sorted(count.windows[:8]))) == 1  # the first eight of them belong together
    lengths = windows_of(request, "train").lengths[count.windows[:8]]
    assert lengths.tolist() == sorted(lengths, reverse=True)  # and are batched by their length
    rows = np.arange(apart.content.windows)
    first, second = (StoreReader(tmp_path / name / "train").batch(rows).states for name in ("apart", "together"))
    torch.testing.assert_close(first, second, rtol=KEPT, atol=KEPT)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"layers": "2..4"}, r"option layers is '2\.\.4', such as 0\.\.3 is expected"),
        ({"task": "squad3"}, "unknown task 'squad3'"),
        ({"data": "nowhere"}, "nowhere does not exist"),
        ({"windows": WindowOptions(length=41)}, "window length 41 exceeds the 40 tokens this encoder takes"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_written(
    changes: dict[str, Any], message: str, encoder: str, questions: str, tmp_path: Path
) -> None:
    with pytest.raises(BertVisionError, match=message):
        extract_states(replace(request_of("squad2", questions, encoder), **changes), tmp_path / "store")
    assert not (tmp_path / "store").exists()
