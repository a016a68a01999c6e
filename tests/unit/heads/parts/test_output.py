import pytest
import torch

from bertvision.heads.parts.float32_products import layer_scores
from bertvision.heads.parts.output import OutputMap, tokens_first
from close import EXACT


def make_map(weight: list[list[float]], bias: list[float]) -> OutputMap:
    project = OutputMap(len(weight[0]), len(weight))
    project.load_state_dict({"weight": torch.tensor(weight), "bias": torch.tensor(bias)})
    return project


def test_the_output_is_a_linear_map_with_a_bias() -> None:
    project = make_map([[1.0, 2.0], [3.0, -1.0]], [0.5, -2.0])
    # 4 - 4 + 0.5 and 12 + 2 - 2
    assert project(torch.tensor([4.0, -2.0])).tolist() == [0.5, 12.0]


def test_it_starts_as_bert_starts_its_output() -> None:
    torch.manual_seed(0)
    project = OutputMap(1000, 100)
    assert project.weight.std().item() == pytest.approx(0.02, rel=0.02)
    assert project.weight.mean().item() == pytest.approx(0.0, abs=2e-4)
    assert not project.bias.any()


def test_inputs_that_tie_in_bfloat16_stay_apart_under_autocast() -> None:
    project = make_map([[1.0]], [0.25])
    first, second = 1.0, 1.0 + 2**-10
    assert torch.tensor(first).bfloat16() == torch.tensor(second).bfloat16()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        outputs = project(torch.tensor([[first], [second]]))
    assert outputs.dtype == torch.float32
    assert outputs.tolist() == [[first + 0.25], [second + 0.25]]


def test_outputs_that_tie_in_bfloat16_stay_apart() -> None:
    project = make_map([[1.0, 1.0]], [0.0])
    assert torch.tensor(257.0).bfloat16() == 256
    outputs = project(torch.tensor([[256.0, 0.0], [256.0, 1.0]]).bfloat16())
    assert outputs.dtype == torch.float32
    assert outputs.tolist() == [[256.0], [257.0]]


def test_rounded_weights_give_float32_too() -> None:
    project = make_map([[256.0, 1.0]], [0.0]).bfloat16()
    assert project(torch.tensor([1.0, 1.0]).bfloat16()).tolist() == [257.0]


def test_the_gradient_passes_through_the_precision() -> None:
    project, inputs = make_map([[2.0, 3.0]], [0.0]), torch.tensor([[5.0, 7.0]]).bfloat16().requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.autograd.backward(project(inputs).sum())
    assert inputs.grad is not None
    assert (inputs.grad.dtype, inputs.grad.tolist()) == (torch.bfloat16, [[2.0, 3.0]])
    assert project.weight.grad is not None
    assert project.weight.grad.tolist() == [[5.0, 7.0]]


STATES = torch.tensor([[[[1.0, 2.0], [3.0, -1.0]], [[0.0, 1.0], [2.0, 2.0]], [[4.0, -2.0], [-1.0, 5.0]]]])
QUERIES = torch.tensor([[1.0, 2.0], [3.0, -1.0]])
SCORES = [[[[5.0, 1.0], [1.0, 10.0]], [[2.0, -1.0], [6.0, 4.0]], [[0.0, 14.0], [9.0, -8.0]]]]


def test_scores_are_the_products_of_every_layer_of_every_token_with_every_query() -> None:
    assert layer_scores(STATES, QUERIES).tolist() == SCORES


def test_scores_of_rounded_states_are_float32() -> None:
    scores = layer_scores(STATES.bfloat16(), QUERIES)  # products this small are whole in bfloat16
    assert (scores.dtype, scores.tolist()) == (torch.float32, SCORES)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        scores = layer_scores(STATES, QUERIES)
    assert (scores.dtype, scores.tolist()) == (torch.float32, SCORES)


def test_tokens_first_puts_the_channels_of_a_token_side_by_side() -> None:
    maps = torch.tensor([[[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]], [[9.0, 10.0], [11.0, 12.0]]]])
    expected = torch.tensor([[[1.0, 2.0, 5.0, 6.0, 9.0, 10.0], [3.0, 4.0, 7.0, 8.0, 11.0, 12.0]]])
    torch.testing.assert_close(tokens_first(maps), expected, rtol=EXACT, atol=EXACT)
