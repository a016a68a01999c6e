import numpy as np
import pytest
import torch
from peft.tuners.lora import LoraLayer

from bertvision.encoder import Encoder, apply_learn, parse_learn
from bertvision.encoder.batch import padded_batch
from bertvision.encoder.delta import apply_changes, changed_weights, freeze
from bertvision.encoder.load import drop_pooler
from bertvision.errors import BertVisionError
from close import EXACT, FLOAT32
from tiny_models import tiny_model, tiny_windows

BATCH = padded_batch(tiny_windows(7, 5), np.arange(2))
LEARN = ["full", "top:0", "top:2", "top:1:strict", "houlsby:4", "houlsby:4+full", "lora:2", "bitfit", "none"]


def tiny(kind: str = "bert", *, pooler: bool = False) -> Encoder:
    model = tiny_model(kind)
    if not pooler:
        drop_pooler(model)
    return Encoder(model, name="tiny")


def tuned(learn: str, kind: str = "bert") -> Encoder:
    """An encoder in which everything that learns has moved."""
    encoder = tiny(kind)
    apply_learn(encoder, parse_learn(learn))
    random = torch.Generator().manual_seed(7)
    for value in encoder.model.parameters():
        if value.requires_grad:
            value.data += 0.1 * torch.randn(value.shape, generator=random)
    return encoder


@pytest.mark.parametrize(
    ("kind", "learn"),
    [*(("bert", learn) for learn in LEARN), ("albert", "houlsby:4"), ("albert", "lora:2"), ("modernbert", "lora:2")],
)
@torch.no_grad()
def test_saved_changes_give_the_tuned_encoder_bit_by_bit(kind: str, learn: str) -> None:
    encoder, again = tuned(learn, kind), tiny(kind)
    before = again(BATCH).states
    apply_changes(again, parse_learn(learn), changed_weights(encoder))
    expected = encoder(BATCH).states
    torch.testing.assert_close(again(BATCH).states, expected, rtol=EXACT, atol=EXACT)
    assert torch.equal(expected, before) == (learn == "none")


def test_only_what_learns_is_kept() -> None:
    changes = changed_weights(tuned("top:1:strict"))
    assert len(changes) == 16  # weight and bias of six linear maps and two LayerNorms
    assert all(name.startswith("encoder.layer.2.") and not value.requires_grad for name, value in changes.items())
    assert changed_weights(tuned("none")) == {}


def test_changes_of_another_choice_are_refused() -> None:
    message = r"do not fit tiny with --learn top:2:strict: 16 names differ, first 'encoder\.layer\.1\..* Is it the"
    with pytest.raises(BertVisionError, match=message):
        apply_changes(tiny(), parse_learn("top:2:strict"), changed_weights(tuned("top:1:strict")))


def test_changes_of_another_size_are_refused() -> None:
    changes = changed_weights(tuned("houlsby:4"))
    with pytest.raises(BertVisionError, match=r"houlsby\.down\.weight' has shape \(4, 16\), \(8, 16\) is expected"):
        apply_changes(tiny(), parse_learn("houlsby:8"), changes)


@torch.no_grad()
def test_an_encoder_with_its_pooler_takes_changes_that_were_learnt_without_it() -> None:
    encoder = tiny(pooler=True)
    pooler = encoder.model.get_parameter("pooler.dense.weight").clone()
    apply_changes(encoder, parse_learn("full"), changed_weights(tuned("full")))
    torch.testing.assert_close(encoder(BATCH).states, tuned("full")(BATCH).states, rtol=EXACT, atol=EXACT)
    assert torch.equal(encoder.model.get_parameter("pooler.dense.weight"), pooler)


@pytest.mark.parametrize("learn", ["full", "houlsby:4", "lora:2"])
@torch.no_grad()
def test_a_frozen_encoder_learns_nothing_and_gives_the_same_states(learn: str) -> None:
    encoder = tuned(learn)
    before = encoder(BATCH).states
    encoder.train()
    freeze(encoder)
    assert not any(value.requires_grad for value in encoder.parameters())
    assert not any(module.training or isinstance(module, LoraLayer) for module in encoder.modules())
    torch.testing.assert_close(encoder(BATCH).states, before, rtol=FLOAT32, atol=FLOAT32)
