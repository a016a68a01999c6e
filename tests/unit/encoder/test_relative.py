"""MPNet's attention by the fast kernels."""

import copy

import torch
from torch import Tensor, nn
from transformers import AutoModel
from transformers.models.mpnet.modeling_mpnet import MPNetEncoder, MPNetSelfAttention

from bertvision.encoder.relative import speed_up_attention
from tiny_models import tiny_config

IDS = torch.tensor([[3, 4, 5, 6, 7, 8, 9], [3, 9, 5, 4, 1, 1, 1]])
MASK = torch.tensor([[1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0, 0]])


def models() -> tuple[nn.Module, nn.Module]:
    """transformers' own, and the same through the fast kernels."""
    torch.manual_seed(0)
    plain = AutoModel.from_config(tiny_config("mpnet")).eval()
    with torch.no_grad():
        plain.encoder.relative_attention_bias.weight.normal_()  # far from nothing, as after training
    fast = copy.deepcopy(plain)
    speed_up_attention(fast)
    return plain, fast


def states_of(model: nn.Module) -> Tensor:
    states: Tensor = model(input_ids=IDS, attention_mask=MASK, return_dict=True).last_hidden_state
    return states[MASK > 0]


def test_states_and_every_gradient_equal_those_of_transformers() -> None:
    plain, fast = models()
    found, expected = states_of(fast), states_of(plain)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    weights = torch.linspace(-1, 1, found.numel()).view_as(found)
    torch.autograd.backward([(states * weights).sum() for states in (found, expected)])
    for (name, mine), theirs in zip(fast.named_parameters(), plain.parameters(), strict=True):
        if name.startswith("pooler."):
            continue
        assert theirs.grad is not None, name
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-4, atol=1e-5, msg=name)


def test_half_of_the_bits_are_enough() -> None:
    plain, fast = models()
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        found = states_of(fast).float()
    torch.testing.assert_close(found, states_of(plain), rtol=0.05, atol=0.05)


def test_parameters_keep_their_names_and_no_scores_are_written() -> None:
    plain, fast = models()
    assert [name for name, _ in fast.named_parameters()] == [name for name, _ in plain.named_parameters()]
    kinds = {type(module) for module in fast.modules()}
    assert not kinds & {MPNetSelfAttention, MPNetEncoder}
