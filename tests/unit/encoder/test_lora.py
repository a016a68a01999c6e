import numpy as np
import pytest
import torch
from peft.tuners.lora import LoraLayer
from torch import nn

from bertvision.encoder import Encoder
from bertvision.encoder.batch import padded_batch
from bertvision.encoder.houlsby import add_houlsby_adapters
from bertvision.encoder.lora import add_lora, merge_lora
from bertvision.errors import BertVisionError
from close import EXACT, FLOAT32
from tiny_models import KINDS, tiny_model, tiny_windows

BATCH = padded_batch(tiny_windows(7, 5), np.arange(2))
MAPS = {"modernbert": 4, "deberta-v2": 8}
"""Linear maps in a layer where there are not six: ModernBERT joins some, DeBERTa also maps relative positions."""


def changed_maps(encoder: Encoder) -> dict[str, nn.Module]:
    return {name: module for name, module in encoder.model.named_modules() if isinstance(module, LoraLayer)}


def randomise(encoder: Encoder, seed: int = 0) -> None:
    random = torch.Generator().manual_seed(seed)
    for name, value in encoder.model.named_parameters():
        if "lora_" in name:
            value.data.copy_(0.2 * torch.randn(value.shape, generator=random))


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_a_fresh_low_rank_change_changes_nothing(kind: str) -> None:
    encoder = Encoder(tiny_model(kind), name="tiny")
    before = encoder(BATCH).states
    add_lora(encoder, 2)
    torch.testing.assert_close(encoder(BATCH).states, before, rtol=EXACT, atol=EXACT)


@pytest.mark.parametrize("kind", KINDS)
def test_every_linear_map_inside_the_layers_is_changed_and_no_other(kind: str) -> None:
    encoder = Encoder(tiny_model(kind), name="tiny")
    add_lora(encoder, 2)
    names = list(changed_maps(encoder))
    assert len(names) == MAPS.get(kind, 6) * len(encoder.blocks)
    assert not [name for name in names if "pooler" in name or "embedding" in name]
    inside = {module for block in encoder.blocks for module in block.modules()}
    assert inside.issuperset(changed_maps(encoder).values())


@torch.no_grad()
def test_a_change_is_twice_the_product_of_two_narrow_maps() -> None:
    encoder = Encoder(tiny_model("bert"), name="tiny")
    name = "encoder.layer.1.attention.self.value"
    own = encoder.model.get_submodule(name)
    add_lora(encoder, 2)
    randomise(encoder)
    down, up = (encoder.model.get_parameter(f"{name}.lora_{part}.bertvision.weight") for part in "AB")
    assert (tuple(down.shape), tuple(up.shape)) == ((2, 16), (16, 2))
    states = torch.randn(3, 16, generator=torch.Generator().manual_seed(1))
    expected = own(states) + 2 * states @ down.T @ up.T
    torch.testing.assert_close(encoder.model.get_submodule(name)(states), expected, rtol=FLOAT32, atol=FLOAT32)


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_merging_gives_a_plain_encoder_with_the_same_states(kind: str) -> None:
    encoder = Encoder(tiny_model(kind), name="tiny")
    own = encoder(BATCH).states
    names = list(encoder.model.state_dict())
    add_lora(encoder, 2)
    randomise(encoder)
    before = encoder(BATCH).states
    merge_lora(encoder)
    assert changed_maps(encoder) == {}
    assert list(encoder.model.state_dict()) == names
    torch.testing.assert_close(encoder(BATCH).states, before, rtol=FLOAT32, atol=FLOAT32)
    assert (before - own).abs().max() > 0.1  # what was merged was no small thing


def test_an_encoder_without_low_rank_changes_has_nothing_to_merge() -> None:
    encoder = Encoder(tiny_model("bert"), name="tiny")
    modules = list(encoder.modules())
    merge_lora(encoder)
    assert list(encoder.modules()) == modules


def test_layers_with_bottleneck_adapters_are_refused() -> None:
    encoder = Encoder(tiny_model(), name="tuned")
    add_houlsby_adapters(encoder, 2)
    with pytest.raises(BertVisionError, match="tuned was tuned with houlsby adapters; lora cannot be added"):
        add_lora(encoder, 2)
