import torch
from torch import Tensor

from bertvision.heads import HeadShape
from bertvision.heads.layer_concat import LayerConcat
from close import FLOAT32

SHAPE = HeadShape(layers=3, width=2, outputs=2)
STATES = torch.tensor([[[[1.0, 2.0], [3.0, -1.0]], [[0.0, 1.0], [2.0, 2.0]], [[4.0, -2.0], [-1.0, 5.0]]]])
MASK = torch.ones(1, 2, dtype=torch.bool)
MEAN = torch.tensor([[1.0, 1.0], [0.0, -1.0], [2.0, 1.0]])
DEVIATION = torch.tensor([[2.0, 0.5], [1.0, 4.0], [2.0, 1.0]])
WEIGHT = torch.tensor([[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [-1.0, 1.0, 2.0, 0.0, 0.5, -2.0]])


def make_head() -> LayerConcat:
    head = LayerConcat(SHAPE)
    head.project.load_state_dict({"weight": WEIGHT, "bias": torch.tensor([0.5, -2.0])})
    return head


def check_close(got: Tensor, expected: list[list[list[float]]]) -> None:
    torch.testing.assert_close(got, torch.tensor(expected), rtol=FLOAT32, atol=FLOAT32)


def test_all_layers_are_projected_at_once_the_lowest_first() -> None:
    # 1 + 4 + 0 + 4 + 20 - 12 + 0.5, -1 + 2 + 0 + 0 + 2 + 4 - 2;
    # 3 - 2 + 6 + 8 - 5 + 30 + 0.5, -3 - 1 + 4 + 0 - 0.5 - 10 - 2
    check_close(make_head()(STATES, MASK), [[[17.5, 5.0], [40.5, -12.5]]])


def test_every_number_is_standardised_by_its_own_mean_and_deviation() -> None:
    head = make_head()
    head.standardise(MEAN, DEVIATION)
    # the tokens become (0, 2 | 0, 0.5 | 1, -3) and (1, -4 | 2, 0.75 | -1.5, 4)
    # 4 + 2 + 5 - 18 + 0.5, 2 + 0 + 0.5 + 6 - 2; 1 - 8 + 6 + 3 - 7.5 + 24 + 0.5, -1 - 4 + 4 + 0 - 0.75 - 8 - 2
    check_close(head(STATES, MASK), [[[-6.5, 6.5], [19.0, -11.75]]])


def test_what_it_standardises_by_is_saved_and_not_learnt() -> None:
    head, other = make_head(), LayerConcat(SHAPE)
    head.standardise(MEAN, DEVIATION)
    other.load_state_dict(head.state_dict())
    assert torch.equal(other(STATES, MASK), head(STATES, MASK))
    assert {name for name, _ in head.named_parameters()} == {"project.weight", "project.bias"}


def test_it_keeps_a_copy_of_what_it_standardises_by() -> None:
    head, mean = make_head(), MEAN.clone()
    head.standardise(mean, DEVIATION)
    mean.fill_(99.0)
    assert torch.equal(head.mean, MEAN)


def test_every_layer_is_asked_for() -> None:
    assert make_head().reads == (0, 1, 2)


def test_outputs_of_rounded_states_are_float32() -> None:
    head = make_head()
    head.standardise(MEAN, DEVIATION)
    # every number here has few enough bits to pass through bfloat16 unharmed
    check_close(head(STATES.bfloat16(), MASK), [[[-6.5, 6.5], [19.0, -11.75]]])
