import pytest
import torch
from torch import nn
from transformers import AlbertConfig, AutoModel

from bertvision.encoder.architecture import ARCHITECTURES, architecture_of, blocks_of, calls_of
from bertvision.errors import UnknownNameError
from tiny_models import KINDS, tiny_config, tiny_model


def test_every_architecture_of_the_table_has_a_small_model_to_be_tested_with() -> None:
    assert {tiny_config(kind).model_type for kind in KINDS} == set(ARCHITECTURES)


@pytest.mark.parametrize("kind", KINDS)
def test_both_outputs_of_every_layer_are_linear_maps_to_the_full_width(kind: str) -> None:
    model = tiny_model(kind)
    names = architecture_of(model.config.model_type)
    for block in blocks_of(model, names):
        for name in (names.attention_output, names.feed_forward_output):
            linear = block.get_submodule(name)
            assert isinstance(linear, nn.Linear)
            assert linear.out_features == model.config.hidden_size
        assert block.get_submodule(names.feed_forward_output).get_parameter("weight").shape == (16, 24)
    if names.final_norm is not None:
        assert isinstance(model.get_submodule(names.final_norm), nn.LayerNorm)


@pytest.mark.parametrize(
    ("layers", "groups", "inner", "expected"),
    [
        (3, 1, 1, [0, 0, 0]),
        (4, 2, 2, [0, 1, 0, 1, 2, 3, 2, 3]),
        (3, 2, 1, [0, 0, 1]),
        (5, 3, 1, [0, 0, 1, 1, 2]),
    ],
)
def test_the_layers_of_albert_run_in_the_order_we_say(
    layers: int, groups: int, inner: int, expected: list[int]
) -> None:
    sizes = {"vocab_size": 9, "embedding_size": 4, "hidden_size": 8, "num_attention_heads": 1, "intermediate_size": 8}
    config = AlbertConfig(num_hidden_layers=layers, num_hidden_groups=groups, inner_group_num=inner, **sizes)
    model = AutoModel.from_config(config)
    blocks = blocks_of(model, architecture_of("albert"))
    run: list[int] = []
    for number, block in enumerate(blocks):
        block.register_forward_hook(lambda *_, number=number: run.append(number))
    model(input_ids=torch.tensor([[1, 2, 3]]))
    assert run == expected
    assert [blocks.index(block) for block in calls_of(model, architecture_of("albert"), layers)] == expected


def test_an_architecture_we_do_not_know_is_answered_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown encoder architecture 'debertav2'. Did you mean 'deberta-v2'"):
        architecture_of("debertav2")
