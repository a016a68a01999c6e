import re
from dataclasses import replace

import pytest
import torch

from bertvision.encoder.states import HiddenStates


def test_the_embedding_output_counts_as_a_layer() -> None:
    hidden = HiddenStates(torch.zeros(2, 4, 5, 3), torch.ones(2, 5, dtype=torch.bool), torch.zeros(2, 3))
    assert hidden.layers == 4


def some_states() -> HiddenStates:
    """Two examples, three layers, two tokens, width two; the second example has one token."""
    return HiddenStates(
        torch.arange(24.0).reshape(2, 3, 2, 2),
        torch.tensor([[True, True], [True, False]]),
        torch.tensor([[0.5, 0.25], [-0.5, -0.25]]),
        torch.tensor([[False, True], [False, False]]),
    )


def test_the_pooled_vector_becomes_the_lowest_layer_of_every_token() -> None:
    before = some_states()
    after = before.with_pooled()
    assert (before.layers, after.layers) == (3, 4)
    assert after.states[:, 0].tolist() == [[[0.5, 0.25]] * 2, [[-0.5, -0.25]] * 2]
    assert torch.equal(after.states[:, 1:], before.states)
    assert after.mask is before.mask
    assert after.context is before.context


def test_a_pooled_vector_that_is_not_there_cannot_become_a_layer() -> None:
    with pytest.raises(ValueError, match="there is no pooled vector to add"):
        replace(some_states(), pooled=None).with_pooled()


def test_every_token_gets_the_whole_pooled_vector() -> None:
    states, mask = torch.zeros(1, 2, 4, 3), torch.ones(1, 4, dtype=torch.bool)  # more tokens than numbers
    whole = HiddenStates(states, mask, pooled=torch.tensor([[1.0, 2.0, 3.0]])).with_pooled().states
    assert whole[0, 0].tolist() == [[1.0, 2.0, 3.0]] * 4


def test_gradients_reach_the_pooled_vector() -> None:
    pooled = torch.zeros(2, 2, requires_grad=True)
    torch.autograd.backward(replace(some_states(), pooled=pooled).with_pooled().states.sum())
    assert pooled.grad is not None
    assert pooled.grad.tolist() == [[2.0, 2.0], [2.0, 2.0]]  # once for each token


@pytest.mark.parametrize("shape", [(2,), (2, 3), (1, 2), (2, 2, 2)])
def test_a_context_of_other_tokens_is_refused(shape: tuple[int, ...]) -> None:
    expected = rf"the context has shape {re.escape(str(shape))}, \(2, 2\) is expected"
    with pytest.raises(ValueError, match=expected):
        replace(some_states(), context=torch.zeros(shape, dtype=torch.bool))


@pytest.mark.parametrize(
    ("states", "mask", "pooled", "message"),
    [
        ((2, 5, 3), (2, 5), None, r"states have shape \(2, 5, 3\), \(batch, layers, tokens, width\) is expected"),
        ((2, 4, 5, 3), (2, 4), None, r"the mask has shape \(2, 4\), \(2, 5\) is expected"),
        ((2, 4, 5, 3), (5,), None, r"the mask has shape \(5,\), \(2, 5\) is expected"),
        ((2, 4, 5, 3), (2, 5), (2, 4), r"the pooled vector has shape \(2, 4\), \(2, 3\) is expected"),
        ((2, 4, 5, 3), (2, 5), (1, 3), r"the pooled vector has shape \(1, 3\), \(2, 3\) is expected"),
    ],
)
def test_tensors_that_do_not_belong_together_are_refused(
    states: tuple[int, ...], mask: tuple[int, ...], pooled: tuple[int, ...] | None, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        HiddenStates(
            torch.zeros(states), torch.ones(mask, dtype=torch.bool), None if pooled is None else torch.zeros(pooled)
        )


def test_a_mask_of_numbers_is_refused() -> None:
    with pytest.raises(ValueError, match=r"the mask is torch\.int64, torch\.bool is expected"):
        HiddenStates(torch.zeros(2, 4, 5, 3), torch.ones(2, 5, dtype=torch.int64))
