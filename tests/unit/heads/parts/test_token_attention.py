"""A learned query says which tokens of a text count."""

import math
from pathlib import Path

import pytest
import torch

from bertvision.encoder.states import HiddenStates
from bertvision.errors import BertVisionError
from bertvision.heads import HEADS, HeadShape, blank_head, build_head, count_parameters, load_head, save_head
from bertvision.heads.parts.token_attention import TokenAttention
from bertvision.training.states import StateBatch
from close import EXACT, FLOAT32

SHAPE = HeadShape(layers=3, width=4, outputs=2)
MASK = torch.tensor([[True, True, True], [True, True, False]])


def states() -> torch.Tensor:
    torch.manual_seed(0)
    return torch.randn(2, 3, 3, 4)


def test_it_starts_as_the_mean_over_real_tokens() -> None:
    some = states()
    rows = TokenAttention(3, 4)(some, MASK)
    torch.testing.assert_close(rows[0], some[0].mean(dim=1), rtol=FLOAT32, atol=FLOAT32)
    torch.testing.assert_close(rows[1], some[1, :, :2].mean(dim=1), rtol=FLOAT32, atol=FLOAT32)


def test_tokens_count_by_the_softmax_of_what_the_query_makes_of_them() -> None:
    pool = TokenAttention(2, 4)
    pool.query.data[1] = torch.tensor([2 * math.log(3), 0.0, 0.0, 0.0])  # over the root of the width: log 3
    some = torch.zeros(1, 2, 3, 4)
    some[0, :, :, 0] = torch.tensor([0.0, 1.0, 2.0])  # so that the second layer's tokens count 1 : 3 : 9
    some[0, :, :, 1] = torch.tensor([1.0, 2.0, 4.0])
    rows = pool(some, torch.ones(1, 3, dtype=torch.bool))
    torch.testing.assert_close(rows[0, 0], torch.tensor([1.0, 7 / 3, 0.0, 0.0]), rtol=FLOAT32, atol=FLOAT32)
    expected = torch.tensor([(3 + 18) / 13, (1 + 6 + 36) / 13, 0.0, 0.0])
    torch.testing.assert_close(rows[0, 1], expected, rtol=FLOAT32, atol=FLOAT32)


def test_padding_changes_nothing() -> None:
    pool = TokenAttention(3, 4)
    torch.nn.init.normal_(pool.query)
    some, other = states(), states()
    other[1, :, 2] = 1e4
    torch.testing.assert_close(pool(some, MASK), pool(other, MASK), rtol=EXACT, atol=EXACT)


BLANK = {name: blank_head(name, SHAPE) for name in HEADS}
ONE_TOKEN = [name for name, head in BLANK.items() if head.token_wise and count_parameters(head) < 100_000]
"""But for those that take seconds."""


@pytest.mark.parametrize("name", ONE_TOKEN)
def test_every_head_of_single_tokens_learns_with_it(name: str) -> None:
    head = build_head(name, SHAPE, {"tokens": "attention"}).eval()
    assert head.token_pool is not None
    assert count_parameters(head) == count_parameters(build_head(name, SHAPE)) + head.token_pool.query.numel()
    torch.nn.init.normal_(head.token_pool.query)
    batch = StateBatch(HiddenStates(states(), MASK))
    outputs, mask = batch.read(head, "cls")
    assert outputs.shape == (2, 1, 2)
    assert mask.tolist() == [[True], [True]]
    torch.autograd.backward(outputs.square().sum())
    assert head.token_pool.query.grad is not None
    assert head.token_pool.query.grad.isfinite().all()


def test_it_is_saved_and_loaded_with_its_head(tmp_path: Path) -> None:
    head = build_head("layer_mix", SHAPE, {"tokens": "attention"}).eval()
    assert head.token_pool is not None
    torch.nn.init.normal_(head.token_pool.query)
    save_head(head, tmp_path)
    again = load_head(tmp_path)
    assert again.options == head.options
    assert again.options["tokens"] == "attention"
    batch = StateBatch(HiddenStates(states(), MASK))
    torch.testing.assert_close(batch.read(again, "cls")[0], batch.read(head, "cls")[0], rtol=EXACT, atol=EXACT)


def test_a_head_without_it_has_no_such_option() -> None:
    head = build_head("layer_mix", SHAPE)
    assert head.token_pool is None
    assert "tokens" not in head.options


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("layer_mix", "mean", "head 'layer_mix': option tokens is 'mean', attention is expected"),
        ("ladder", "attention", "head 'ladder' looks at neighbouring tokens. Leave tokens=attention out"),
    ],
)
def test_what_cannot_be_is_refused(name: str, value: str, message: str) -> None:
    with pytest.raises(BertVisionError, match=message):
        build_head(name, SHAPE, {"tokens": value})
