import pytest
import torch
from torch import Tensor
from typing_extensions import override

from bertvision.heads import Head, HeadShape


class Plain(Head):
    @override
    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        return states.mean(dim=1)


def test_a_head_that_says_nothing_reads_every_layer_and_each_token_by_itself() -> None:
    head = Plain()
    assert head.reads is None
    assert head.token_wise
    assert head(torch.zeros(2, 3, 5, 4), torch.ones(2, 5, dtype=torch.bool)).shape == (2, 5, 4)


def test_a_head_without_maths_cannot_be_built() -> None:
    with pytest.raises(TypeError, match="abstract"):
        Head()  # type: ignore[abstract]  # what the test is about


def test_a_shape_is_written_by_name_and_does_not_change() -> None:
    with pytest.raises(TypeError, match="positional"):
        HeadShape(3, 8, 2)  # type: ignore[call-arg]  # what the test is about
    with pytest.raises(AttributeError, match="cannot assign"):
        HeadShape(layers=3, width=8, outputs=2).layers = 4  # type: ignore[misc]  # what the test is about
