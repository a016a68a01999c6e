"""What every head keeps to, whatever it computes."""

import pytest
import torch
from torch import Tensor

from bertvision.heads import HEADS, Head, HeadShape, build_head
from close import EXACT, FLOAT32

SHAPE = HeadShape(layers=4, width=8, outputs=3)
MASK = torch.tensor([[True] * 6, [True] * 4 + [False] * 2])

pytestmark = pytest.mark.parametrize("name", HEADS)


def make(name: str, seed: int = 0) -> Head:
    torch.manual_seed(seed)
    return build_head(name, SHAPE).eval()


def make_states(seed: int = 1) -> Tensor:
    return torch.randn(2, 4, 6, 8, generator=torch.Generator().manual_seed(seed))


def read_by(head: Head, states: Tensor) -> Tensor:
    return states if head.reads is None else states[:, list(head.reads)]


def run(head: Head, states: Tensor, mask: Tensor = MASK) -> Tensor:
    outputs: Tensor = head(read_by(head, states), mask)
    return outputs


def check_close(got: Tensor, expected: Tensor, tolerance: float = FLOAT32) -> None:
    torch.testing.assert_close(got, expected, rtol=tolerance, atol=tolerance)


def test_there_is_one_output_row_per_token(name: str) -> None:
    assert run(make(name), make_states()).shape == (2, 6, 3)


def test_what_stands_in_padding_changes_nothing(name: str) -> None:
    head, states = make(name), make_states()
    other = torch.where(MASK[:, None, :, None], states, 1e3)
    check_close(run(head, other)[MASK], run(head, states)[MASK])
    check_close(run(head, states[1:, :, :4], MASK[1:, :4]), run(head, states)[1:, :4])


def test_examples_of_a_batch_do_not_see_each_other(name: str) -> None:
    head, states = make(name), make_states()
    for example in range(2):
        alone = run(head, states[example : example + 1], MASK[example : example + 1])
        check_close(alone[0][MASK[example]], run(head, states)[example][MASK[example]])


def test_tokens_of_a_token_wise_head_do_not_see_each_other(name: str) -> None:
    head, states = make(name), make_states()
    moved = states.clone()
    moved[0, :, 2] += 1.0
    changed = (run(head, moved) != run(head, states)).any(dim=-1)[0]
    assert bool(changed[2])
    assert changed.sum() == 1 or not head.token_wise


def test_every_parameter_gets_a_gradient(name: str) -> None:
    head = make(name)
    torch.autograd.backward(run(head, make_states())[MASK].square().sum())
    assert [key for key, value in head.named_parameters() if value.grad is None or not value.grad.any()] == []


def test_the_layers_it_reads_are_counted_from_the_end_and_there(name: str) -> None:
    reads = make(name).reads
    assert reads is None or all(-SHAPE.layers <= layer <= -1 for layer in reads)
    assert reads is None or list(reads) == sorted(set(reads))


def test_saved_and_loaded_it_gives_the_same_outputs(name: str) -> None:
    head, other = make(name), make(name, seed=5)
    assert not torch.equal(run(other, make_states()), run(head, make_states()))
    other.load_state_dict(head.state_dict())
    check_close(run(other, make_states()), run(head, make_states()), EXACT)


def test_the_same_seed_gives_the_same_head(name: str) -> None:
    check_close(run(make(name, seed=3), make_states()), run(make(name, seed=3), make_states()), EXACT)
