import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from bertvision.errors import BertVisionError, UnknownNameError
from bertvision.heads import HeadShape, build_head, load_head, save_head
from bertvision.heads.files import CARD, WEIGHTS
from bertvision.provenance import package_version
from close import FLOAT32
from conftest import ROOT

OLD = ROOT / "tests" / "fixtures" / "head-format-1"
"""A `layer_mix` that version 0.1.0 wrote: layers 1..2 of 3, width 2, 2 outputs; made once, never again."""

SHAPE = HeadShape(layers=3, width=2, outputs=2)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A copy of the old head that a test may spoil."""
    return shutil.copytree(OLD, tmp_path / "head")


def test_a_head_of_format_1_still_loads_and_gives_what_it_gave() -> None:
    head = load_head(OLD, shape=SHAPE)
    assert (head.name, head.reads, head.full_shape) == ("layer_mix", (1, 2), SHAPE)
    assert head.options == {"gate": "softmax", "norm": False, "layer_dropout": 0.0, "dropout": 0.1, "layers": "1..2"}
    assert not head.training
    states = torch.tensor([[[[4.0, 0.0]], [[0.0, 8.0]]]])
    # softmax(0, ln 3) = (1/4, 3/4), scale 2: the mixture is 2 · (1, 6) = (2, 12);
    # outputs: 1 · 2 + 2 · 12 + 0.5 = 26.5 and -1 · 2 + 0.5 · 12 - 1 = 3
    outputs = head(states, torch.ones(1, 1, dtype=torch.bool))
    torch.testing.assert_close(outputs, torch.tensor([[[26.5, 3.0]]]), rtol=FLOAT32, atol=0.0)


@pytest.mark.parametrize(
    ("name", "option", "before"),
    [("pooled_adapter_inception", "stride", 2), ("pooled_adapter_xception", "strides", (3,))],
)
def test_options_that_an_old_card_does_not_name_are_what_they_were(
    name: str, option: str, before: object, tmp_path: Path
) -> None:
    today = build_head(name, SHAPE)
    assert today.options[option] != before
    save_head(today, tmp_path)
    card = json.loads((tmp_path / CARD).read_text())
    del card["options"][option]
    (tmp_path / CARD).write_text(json.dumps(card))
    assert load_head(tmp_path).options[option] == before


def test_what_is_written_today_is_still_format_1(tmp_path: Path) -> None:
    save_head(load_head(OLD), tmp_path)
    card = json.loads((OLD / CARD).read_text())
    assert json.loads((tmp_path / CARD).read_text()) == card | {"version": package_version()}
    weights, old = load_file(tmp_path / WEIGHTS), load_file(OLD / WEIGHTS)
    assert weights.keys() == old.keys()
    assert all(torch.equal(weights[key], old[key]) for key in old)


def test_a_folder_that_is_not_there_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(BertVisionError, match=r"head\.safetensors cannot be written: No such file or directory\."):
        save_head(build_head("last_layer", SHAPE), tmp_path / "missing")
    assert not (tmp_path / "missing").exists()


def test_a_head_for_another_encoder_or_task_is_refused() -> None:
    with pytest.raises(
        BertVisionError,
        match=r"head-format-1 holds a head for 3 layers of width 2, 2 outputs; 4 layers of width 2, 2 outputs were "
        r"asked for\. Use its own encoder and task\.$",
    ):
        load_head(OLD, shape=HeadShape(layers=4, width=2, outputs=2))


def cut(name: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:-7])


def change_card(**changes: object) -> Callable[[Path], object]:
    def change(folder: Path) -> None:
        card = json.loads((folder / CARD).read_text()) | changes
        (folder / CARD).write_text(json.dumps({key: value for key, value in card.items() if value is not None}))

    return change


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda folder: (folder / CARD).unlink(), "No such file"),
        (lambda folder: (folder / WEIGHTS).unlink(), "No such file"),
        (cut(CARD), "Expecting"),
        (cut(WEIGHTS), "Error while deserializing header"),
        (lambda folder: (folder / WEIGHTS).write_bytes(b""), "Error while deserializing header"),
        (lambda folder: (folder / CARD).write_bytes(b"\xff"), "codec can't decode"),
        (lambda folder: (folder / CARD).write_text("[]"), "cannot be interpreted"),
        (change_card(format=None), "'format' is missing"),
        (change_card(head=None), "'head' is missing"),
        (change_card(options=None), "'options' is missing"),
        (change_card(shape={"layers": 3}), "is missing"),
    ],
)
def test_what_is_missing_cut_or_empty_is_refused(saved: Path, spoil: Callable[[Path], object], why: str) -> None:
    spoil(saved)
    with pytest.raises(BertVisionError, match=rf"head/head\.(json|safetensors) cannot be read \(.*{why}.*\)\.$"):
        load_head(saved)


def test_a_folder_without_a_head_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BertVisionError, match=r"missing/head\.json cannot be read \(.*No such file.*\)\.$"):
        load_head(tmp_path / "missing")


def test_another_format_is_refused_with_the_version_that_made_it(saved: Path) -> None:
    change_card(format=2, version="3.1.4")(saved)
    with pytest.raises(
        BertVisionError,
        match=r"head\.json has format 2, 1 is expected; it was made by version 3\.1\.4, this is \d+\.\d+",
    ):
        load_head(saved)


def test_a_head_that_this_version_does_not_know_is_refused(saved: Path) -> None:
    change_card(head="layer_mixer")(saved)
    with pytest.raises(UnknownNameError, match=r"unknown head 'layer_mixer'\. Did you mean 'layer_mix'\?"):
        load_head(saved)


@pytest.mark.parametrize(
    ("weights", "why"),
    [
        ({"project.bias": torch.zeros(3)}, "size mismatch for project.bias"),
        ({"pool.mix": None}, 'Missing key.*"pool.mix"'),
        ({"other": torch.zeros(1)}, "Unexpected key.*other"),
    ],
)
def test_weights_that_do_not_fit_are_refused(saved: Path, weights: dict[str, torch.Tensor | None], why: str) -> None:
    changed = load_file(saved / WEIGHTS) | weights
    save_file({key: value for key, value in changed.items() if value is not None}, saved / WEIGHTS)
    with pytest.raises(BertVisionError, match=rf"(?s)head\.safetensors does not fit .*head\.json \(.*{why}"):
        load_head(saved)
