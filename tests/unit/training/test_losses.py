import math
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from bertvision.errors import BertVisionError
from bertvision.training.losses import Losses


def alone(tensor: Tensor, **_: str) -> Tensor:
    return tensor


def with_another(tensor: Tensor, reduction: str) -> Tensor:
    """A second process that saw two windows with a loss of 10 together."""
    assert reduction == "sum"
    return tensor + torch.tensor([10.0, 2.0])


def make(begin: tuple[float, int] = (0.0, 0), reduce: object = alone) -> Losses:
    return Losses(SimpleNamespace(device=torch.device("cpu"), reduce=reduce), begin)


def test_the_mean_is_over_windows_since_the_last_look_at_it() -> None:
    losses = make()
    losses.add(torch.tensor(6.0), 3)
    losses.add(torch.tensor(2.0), 1)
    assert losses.peek(2) == (8.0, 4)
    assert losses.mean(2) == 2.0
    losses.add(torch.tensor(5.0), 1)
    assert losses.mean(3) == 5.0


def test_it_goes_on_from_a_checkpoint() -> None:
    losses = make((8.0, 4))
    losses.add(torch.tensor(2.0), 1)
    assert losses.mean(1) == 2.0


def test_the_mean_is_over_all_processes_and_a_look_is_at_the_own_ones() -> None:
    losses = make(reduce=with_another)
    losses.add(torch.tensor(6.0), 2)
    assert losses.peek(1) == (6.0, 2)
    assert losses.mean(1) == 4.0  # 16 over 4 windows


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_stops_the_run(value: float) -> None:
    losses = make()
    losses.add(torch.tensor(value), 1)
    expected = rf"the loss is {value} at step 7\. Snapshots made before are kept; use a smaller --lr"
    with pytest.raises(BertVisionError, match=expected):
        losses.peek(7)
    with pytest.raises(BertVisionError, match=expected):
        losses.mean(7)
