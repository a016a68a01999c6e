import pytest

from bertvision.errors import UnknownNameError
from bertvision.heads import HEADS, HeadShape, LastLayer, build_head

SHAPE = HeadShape(layers=3, width=8, outputs=2)


def test_a_head_is_built_by_name_with_its_options() -> None:
    head = build_head("last_layer", SHAPE, {"dropout": 0.3})
    assert isinstance(head, LastLayer)
    assert head.dropout.p == 0.3
    assert build_head("last_layer", SHAPE).get_parameter("project.weight").shape == (2, 8)


def test_an_unknown_head_is_answered_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown head 'lastlayer'. Did you mean 'last_layer'\? Known: "):
        build_head("lastlayer", SHAPE)


def test_an_option_that_the_head_does_not_have_is_refused() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'drop'"):
        build_head("last_layer", SHAPE, {"drop": 0.3})


def test_names_are_those_of_files() -> None:
    assert all(HEADS[name].__module__ == f"bertvision.heads.{name}" for name in HEADS)
