import pytest
import torch
from torch import Tensor
from typing_extensions import override

from bertvision.errors import BertVisionError
from bertvision.heads import Head, HeadShape

SHAPE = HeadShape(layers=3, width=4, outputs=2)


class Plain(Head):
    @override
    def forward(self, states: Tensor, mask: Tensor, context: Tensor | None = None) -> Tensor:
        return states.mean(dim=1)


class EverySecond(Plain):
    @property
    @override
    def needs(self) -> range:
        return range(0, self.shape.layers, 2)


def test_a_head_that_says_nothing_reads_every_layer_and_each_token_by_itself() -> None:
    head = Plain(SHAPE)
    assert head.reads == (0, 1, 2)
    assert head.depth == 2
    assert head.token_wise
    assert head.first_layer == 0
    assert head.full_shape == head.shape == SHAPE
    assert head(torch.zeros(2, 3, 5, 4), torch.ones(2, 5, dtype=torch.bool)).shape == (2, 5, 4)


def test_what_a_head_needs_is_counted_from_the_lowest_layer_that_it_may_read() -> None:
    head = EverySecond(SHAPE)
    assert (head.reads, head.depth) == ((0, 2), 2)
    head.lowest = 5
    assert (head.reads, head.depth) == ((5, 7), 7)
    assert torch.arange(4, 10)[head.among(4)].tolist() == [5, 6, 7]  # neighbouring ones, with what it leaves out


def test_a_head_without_maths_cannot_be_built() -> None:
    with pytest.raises(TypeError, match="abstract"):
        Head(SHAPE)  # type: ignore[abstract]  # what the test is about


def test_a_shape_is_written_by_name_and_does_not_change() -> None:
    with pytest.raises(TypeError, match="positional"):
        HeadShape(3, 8, 2)  # type: ignore[call-arg]  # what the test is about
    with pytest.raises(AttributeError, match="cannot assign"):
        SHAPE.layers = 4  # type: ignore[misc]  # what the test is about


def test_a_shape_is_told_in_words() -> None:
    assert str(HeadShape(layers=13, width=768, outputs=2)) == "13 layers of width 768, 2 outputs"


@pytest.mark.parametrize("wrong", [{"layers": 0}, {"width": 0}, {"outputs": -1}])
def test_a_shape_without_layers_width_or_outputs_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(BertVisionError, match=r"a head was asked for .* outputs; at least 1 of each is expected"):
        HeadShape(**{"layers": 2, "width": 3, "outputs": 4, **wrong})
