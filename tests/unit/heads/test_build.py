import json

import pytest
import torch

from bertvision.errors import BertVisionError, UnknownNameError
from bertvision.heads import HEADS, HeadShape, blank_head, build_head, count_parameters
from bertvision.heads.adapter_pool import AdapterPool
from bertvision.heads.last_layer import LastLayer

SHAPE = HeadShape(layers=5, width=8, outputs=2)


def test_a_head_is_built_by_name_with_its_options_as_words_or_values() -> None:
    for dropout in (0.3, "0.3"):
        head = build_head("last_layer", SHAPE, {"dropout": dropout})
        assert isinstance(head, LastLayer)
        assert head.name == "last_layer"
        assert head.dropout.p == 0.3
        assert head.project.weight.shape == (2, 8)


def test_a_name_is_a_class_with_some_options_set_and_given_ones_are_stronger() -> None:
    named = build_head("adapter_pool_64_skip", SHAPE)
    assert isinstance(named, AdapterPool)
    assert named.options == {"size": 64, "shared": True, "skip": True, "layers": "0..4"}
    other = build_head("adapter_pool_64_skip", SHAPE, {"skip": "false", "size": 3})
    assert other.options == {"size": 3, "shared": True, "skip": False, "layers": "0..4"}
    assert other.project.weight.shape == (2, 5 * 3)


@pytest.mark.parametrize("name", HEADS)
def test_a_head_built_again_from_its_options_in_json_is_the_same(name: str) -> None:
    head = blank_head(name, SHAPE, {"layers": "1..3"})
    again = blank_head(name, SHAPE, json.loads(json.dumps(head.options)))
    assert again.options == head.options
    assert again.reads == head.reads
    shapes = {key: value.shape for key, value in head.state_dict().items()}
    assert {key: value.shape for key, value in again.state_dict().items()} == shapes


def test_the_options_given_are_left_as_they_were() -> None:
    given = {"layers": "0..2", "size": "4"}
    build_head("adapter_pool", SHAPE, given)
    assert given == {"layers": "0..2", "size": "4"}
    assert HEADS["adapter_pool_64"].options == {"size": 64}


def test_layers_are_numbered_as_the_encoder_does_and_the_rest_is_as_if_there_were_no_others() -> None:
    head = build_head("layer_mix", SHAPE, {"layers": "2..3"})
    assert (head.reads, head.depth, head.lowest) == ((2, 3), 3, 2)
    assert head.shape == HeadShape(layers=2, width=8, outputs=2)
    assert head.full_shape == SHAPE
    assert head.get_parameter("pool.mix").shape == (2,)
    assert build_head("last_layer", SHAPE, {"layers": "0..3"}).reads == (3,)
    assert build_head("layer_mix", SHAPE, {"layers": 2}).reads == (2,)


@pytest.mark.parametrize("name", ["layer_weights", "dot_attention", "weighted_attention", "encoder_attention"])
def test_heads_of_document_002_leave_the_embeddings_out_unless_told_otherwise(name: str) -> None:
    assert build_head(name, SHAPE).reads == (1, 2, 3, 4)
    assert build_head(name, SHAPE).options["layers"] == "1..4"
    assert build_head(name, SHAPE, {"layers": "0..4"}).reads == (0, 1, 2, 3, 4)


def test_an_unknown_head_is_answered_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown head 'lastlayer'\. Did you mean 'last_layer'\? Known: adap"):
        build_head("lastlayer", SHAPE)


def test_an_option_that_the_head_does_not_have_is_answered_with_the_nearest() -> None:
    with pytest.raises(
        UnknownNameError,
        match=r"^unknown option of head 'mean_conv' 'filter'\. Did you mean 'filters'\? Known: adapter, dilation, ",
    ):
        build_head("mean_conv", SHAPE, {"filter": 3})
    with pytest.raises(
        UnknownNameError, match=r"^unknown option of head 'dot_attention' 'size'\. Known: layers, tokens\.$"
    ):
        build_head("dot_attention", SHAPE, {"size": 3})


def test_a_value_that_an_option_cannot_have_is_refused_with_those_it_can() -> None:
    with pytest.raises(
        BertVisionError,
        match=r"^head 'pooled_conv': option source is 'max', one of layers, mix, mean is expected \(default: layers\)",
    ):
        build_head("pooled_conv", SHAPE, {"source": "max"})
    with pytest.raises(BertVisionError, match=r"^head 'conv': option filters is '64,0', whole numbers such as 64,128 "):
        build_head("conv", SHAPE, {"filters": "64,0"})
    with pytest.raises(BertVisionError, match=r"^option layers is '0\.\.5', such as 0\.\.4 is expected\.$"):
        build_head("conv", SHAPE, {"layers": "0..5"})


def test_parameters_are_counted_with_the_statistics_of_batch_normalisation() -> None:
    assert count_parameters(build_head("last_layer", SHAPE)) == 2 * 8 + 2
    head = build_head("xception", SHAPE, {"stem": "3", "entry": "4,6"})
    # stem 5·3·3, separable 3·3 + 3·4 and 4·3 + 4·6, around 3·6, output 6·2 + 2
    convolutions, output = 45 + 21 + 36 + 18, 14
    # gain, bias, mean and variance of 3, 4, 6 and 6 channels
    assert count_parameters(head) == convolutions + output + 4 * (3 + 4 + 6 + 6)


def test_a_blank_head_is_like_another_but_holds_no_numbers() -> None:
    blank, head = blank_head("adapter_pool", SHAPE, {"size": 3}), build_head("adapter_pool", SHAPE, {"size": 3})
    assert {value.device for value in blank.parameters()} == {torch.device("meta")}
    assert count_parameters(blank) == count_parameters(head)
    assert (blank.options, blank.reads) == (head.options, head.reads)
    assert build_head("adapter_pool", SHAPE).project.weight.device == torch.device("cpu")
