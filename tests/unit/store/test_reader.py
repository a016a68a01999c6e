"""States of any windows of a store, and whether its files are as they were written."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bertvision.errors import BertVisionError
from bertvision.store.codec import Keep
from bertvision.store.reader import StoreReader
from tiny_store import LAYERS, WIDTH, Source, change_byte, cut_short, small_shards, write_store

LENGTHS = (5, 2, 7, 1, 3, 3, 6, 4, 2)
CPU = torch.device("cpu")
COMMAND = "bertvision extract squad2 --store here"


@pytest.fixture(autouse=True)
def _small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    small_shards(monkeypatch)


@pytest.fixture
def source(tmp_path: Path) -> Source:
    made = Source(*LENGTHS)
    write_store(tmp_path, made)
    return made


@pytest.mark.parametrize(("keep", "dtype"), [("fp16", torch.float16), ("bf16", torch.bfloat16)])
def test_every_window_comes_back_in_its_place_padded_and_with_its_mask(
    keep: Keep, dtype: torch.dtype, tmp_path: Path
) -> None:
    made = Source(*LENGTHS)
    write_store(tmp_path, made, keep=keep)
    reader = StoreReader(tmp_path)
    rows = np.random.default_rng(0).permutation(9)
    for some in (rows, rows[:3], np.array([8]), np.array([2, 2])):
        hidden = reader.batch(some)
        longest = max(LENGTHS[row] for row in some)
        assert hidden.states.shape == (len(some), LAYERS, longest, WIDTH)
        assert hidden.states.dtype == torch.float32
        for place, row in enumerate(some):
            tokens = LENGTHS[row]
            expected = made.windows[row].to(dtype).float().transpose(0, 1)
            assert torch.equal(hidden.states[place, :, :tokens], expected)
            assert not hidden.states[place, :, tokens:].any()
            assert hidden.mask[place].tolist() == [True] * tokens + [False] * (longest - tokens)


def test_int8_windows_come_back_nearly_as_they_were(tmp_path: Path) -> None:
    made = Source(*LENGTHS)
    write_store(tmp_path, made, keep="int8")
    hidden = StoreReader(tmp_path).batch(np.array([6, 0, 8]))
    for place, row in enumerate((6, 0, 8)):
        errors = hidden.states[place, :, : LENGTHS[row]] - made.windows[row].transpose(0, 1)
        assert float(errors.norm() / made.windows[row].norm()) < 0.015
    assert hidden.mask.sum(dim=1).tolist() == [6, 5, 2]
    assert not hidden.states[2, :, 2:].any()


@pytest.mark.parametrize("keep", ["fp16", "bf16", "int8"])
@pytest.mark.parametrize("layers", [range(3), range(1), range(1, 2), range(1, 3), range(2, 3)])
def test_some_layers_are_those_of_the_whole_read(keep: Keep, layers: range, tmp_path: Path) -> None:
    write_store(tmp_path, Source(*LENGTHS), keep=keep, first_layer=4)
    reader = StoreReader(tmp_path)
    assert reader.layers == range(4, 7)
    rows = np.array([7, 0, 8, 3])
    asked = range(layers[0] + 4, layers[-1] + 5)
    whole, some = reader.batch(rows), reader.batch(rows, asked)
    assert torch.equal(some.states, whole.states[:, layers[0] : layers[-1] + 1])
    assert torch.equal(some.mask, whole.mask)
    packed = reader.packed(rows, asked, device=CPU)
    assert torch.equal(packed, reader.packed(rows, device=CPU)[layers[0] : layers[-1] + 1])


@pytest.mark.usefixtures("source")
@pytest.mark.parametrize("layers", [range(2, 4), range(-1, 2)])
def test_layers_that_are_not_there_are_refused(layers: range, tmp_path: Path) -> None:
    with pytest.raises(BertVisionError, match=rf"it has layers 0\.\.2, {layers[0]}\.\.{layers[-1]} are asked for"):
        StoreReader(tmp_path).batch(np.array([0]), layers)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("keep", ["fp16", "bf16", "int8"])
def test_packed_windows_are_those_of_the_padded_batch_end_to_end(
    *, keep: Keep, large: bool, dtype: torch.dtype, tmp_path: Path
) -> None:
    made = Source(*LENGTHS)
    if large:  # for fp16: the second of three shards is kept as bf16
        made.windows[5][0, 1, 2] = 1e5
    write_store(tmp_path, made, keep=keep)
    reader = StoreReader(tmp_path)
    assert [shard.keep for shard in reader.manifest.shards] == [
        None,
        "bf16" if large and keep == "fp16" else None,
        None,
    ]
    for rows in (np.array([6, 1, 1, 8, 5]), np.array([1, 5, 8])):  # whichever comes first
        padded = reader.batch(rows)
        packed = reader.packed(rows, device=CPU, dtype=dtype)
        assert packed.is_contiguous()
        assert torch.equal(packed.transpose(0, 1), padded.states.transpose(1, 2)[padded.mask].to(dtype))


@pytest.mark.parametrize("keep", ["fp16", "bf16", "int8"])
def test_single_rows_are_those_of_the_padded_batch(keep: Keep, tmp_path: Path) -> None:
    write_store(tmp_path, Source(*[1] * 11), keep=keep)
    reader = StoreReader(tmp_path)
    rows = np.array([10, 3, 4, 3, 0, 8])
    for layers in (None, range(1, 3), range(1)):
        assert torch.equal(reader.single(rows, layers), reader.batch(rows, layers).states[:, :, 0])
    assert reader.single(rows[:0]).shape == (0, LAYERS, WIDTH)


def test_what_is_kept_comes_as_it_is_on_disk(source: Source, tmp_path: Path) -> None:
    kept = StoreReader(tmp_path).kept(np.array([5, 2]))
    assert kept.keys() == {"states"}
    assert torch.equal(kept["states"], torch.cat([source.windows[5], source.windows[2]]).half())


def test_a_batch_stays_as_it_is_while_others_are_read(source: Source, tmp_path: Path) -> None:
    reader = StoreReader(tmp_path)
    held = reader.batch(np.array([2])).states[0, 1]  # a view holds the memory, too
    for row in range(9):
        reader.batch(np.array([row, 6]))
    assert torch.equal(held, source.windows[2][:, 1].half().float())


def test_shards_are_read_once_and_only_those_that_are_needed(source: Source, tmp_path: Path) -> None:
    reader = StoreReader(tmp_path)
    (tmp_path / "000000.safetensors").unlink()
    first = reader.batch(np.array([5])).states
    (tmp_path / "000001.safetensors").unlink()
    assert torch.equal(reader.batch(np.array([5])).states, first)
    assert torch.equal(first[0], source.windows[5].half().float().transpose(0, 1))


def put_another(path: Path) -> None:
    """Put the shard before in its place."""
    path.write_bytes(path.with_name("000000.safetensors").read_bytes())


@pytest.mark.parametrize("harm", [cut_short, Path.unlink, put_another])
@pytest.mark.usefixtures("source")
def test_a_shard_that_cannot_be_read_is_refused_by_name(harm: Callable[[Path], None], tmp_path: Path) -> None:
    harm(tmp_path / "000001.safetensors")
    reader = StoreReader(tmp_path)
    reader.batch(np.array([0, 8]))
    with pytest.raises(
        BertVisionError, match=r"shard .*000001\.safetensors cannot be read \(.*\)\. See: bertvision store verify "
    ):
        reader.batch(np.array([0, 5]))


@pytest.mark.usefixtures("source")
def test_files_as_they_were_written_have_no_problems(tmp_path: Path) -> None:
    assert StoreReader(tmp_path).broken() == []


@pytest.mark.parametrize("file", ["000000.safetensors", "000002.safetensors", "statistics.safetensors"])
def test_a_changed_byte_a_cut_and_a_missing_file_are_found_and_named(file: str, tmp_path: Path) -> None:
    write_store(tmp_path, Source(*LENGTHS), keep="int8")
    path = tmp_path / file
    size = path.stat().st_size
    reader = StoreReader(tmp_path)
    for place in (0, size // 2, size - 1):
        change_byte(path, place)
        assert reader.broken() == [f"{file} has another checksum than when it was written"]
        change_byte(path, place)
        assert reader.broken() == []
    cut_short(path)
    assert reader.broken() == [f"{file} has {size // 2:,} bytes, {size:,} are expected"]
    path.unlink()
    assert reader.broken() == [f"{file} is missing"]


@pytest.mark.usefixtures("source")
def test_every_problem_is_told(tmp_path: Path) -> None:
    change_byte(tmp_path / "000000.safetensors")
    (tmp_path / "000002.safetensors").unlink()
    assert [problem.split()[0] for problem in StoreReader(tmp_path).broken()] == [
        "000000.safetensors",
        "000002.safetensors",
    ]


@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"layers": 2},
        {"first_layer": 1, "layers": 2},
        {"first_layer": 2, "layers": 1},
        {"keep": "int8"},
        {"encoder": "the same weights elsewhere"},
    ],
)
def test_a_store_with_what_is_needed_or_more_fits(wanted: dict[str, Any], source: Source, tmp_path: Path) -> None:
    StoreReader(tmp_path).check(source.content(**wanted), COMMAND)


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"fingerprint": "xyz"}, "fingerprint is abc, xyz is asked for"),
        ({"pool": "cls"}, "pool is None, cls is asked for"),
        ({"split": "dev", "digest": "x"}, "split is train, dev is asked for; digest is def, x is asked for"),
        ({"layers": 4}, r"it has layers 0\.\.2, 0\.\.3 are asked for"),
        ({"first_layer": 3, "layers": 1}, r"it has layers 0\.\.2, 3\.\.3 are asked for"),
        ({"width": 8}, "width is 4, 8 is asked for"),
    ],
)
def test_a_store_of_something_else_is_refused_with_the_difference_and_the_command(
    wanted: dict[str, Any], message: str, source: Source, tmp_path: Path
) -> None:
    with pytest.raises(BertVisionError, match=rf"does not fit: {message}\. Make one that does: {COMMAND}$"):
        StoreReader(tmp_path).check(source.content(**wanted), COMMAND)


def test_layers_below_the_first_one_kept_are_missed(tmp_path: Path) -> None:
    made = Source(*LENGTHS)
    write_store(tmp_path, made, first_layer=1)
    reader = StoreReader(tmp_path)
    reader.check(made.content(first_layer=1), COMMAND)
    with pytest.raises(BertVisionError, match=r"it has layers 1\.\.3, 0\.\.2 are asked for"):
        reader.check(made.content(), COMMAND)
