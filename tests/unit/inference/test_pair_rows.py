"""Two texts as one row: worked out by hand, whatever stands in padding, and whichever comes first."""

import math

import pytest
import torch
from torch import Tensor

from bertvision.encoder.states import HiddenStates
from bertvision.inference.pair_rows import PARTS, compare_rows, compare_tokens, read_texts
from bertvision.tasks.task import Pairs
from close import FLOAT32


def text(*tokens: list[list[float]], padding: int = 0, seed: int = 0) -> HiddenStates:
    """One text, (1, layers, tokens, width), from the tokens of each layer; with something in its padding."""
    states = torch.tensor(tokens)[None]
    noise = 100.0 * torch.randn(
        1, len(tokens), padding, states.shape[-1], generator=torch.Generator().manual_seed(seed)
    )
    mask = torch.arange(states.shape[2] + padding) < states.shape[2]
    return HiddenStates(torch.cat([states, noise], dim=2), mask[None])


def random(tokens: int, *, seed: int) -> HiddenStates:
    states = torch.randn(2, 3, tokens, 8, generator=torch.Generator().manual_seed(seed))
    return HiddenStates(states, torch.arange(tokens) < torch.tensor([[tokens], [tokens - 1]]))


def test_two_rows_of_length_1_are_compared_number_by_number() -> None:
    first, second = torch.tensor([[[4.0, -3.0]]]), torch.tensor([[[6.0, 8.0]]])  # 0.8, -0.6 and 0.6, 0.8
    expected = torch.tensor([[[0.2, 1.4, 0.48, -0.48]]])
    torch.testing.assert_close(compare_rows(first, second), expected, rtol=FLOAT32, atol=FLOAT32)
    assert torch.equal(compare_rows(first, second), compare_rows(second, first))


@pytest.mark.parametrize("padding", [(0, 0), (2, 0), (0, 3), (1, 2)])
def test_every_token_is_compared_with_the_nearest_of_the_other_text_in_the_same_layer(padding: tuple[int, int]) -> None:
    # in the lower layer directions are (1, 0) and (0, 1) beside (0.6, 0.8), so cosines are 0.6 and 0.8, and (0, 1)
    # counts e to the power of 30 · 0.2 as much as (1, 0); in the upper one the first token has the very same
    # counterpart, and the second is at right angles to it
    first = text([[2.0, 0.0], [0.0, 3.0]], [[0.0, 5.0], [4.0, 0.0]], padding=padding[0])
    second = text([[3.0, 4.0]], [[0.0, 7.0]], padding=padding[1], seed=1)
    found = compare_tokens(first, second, "mean").view(1, 2, 6, 2)
    wholes = compare_rows(torch.tensor([[[1.0, 1.5], [2.0, 2.5]]]), torch.tensor([[[3.0, 4.0], [0.0, 7.0]]]))
    torch.testing.assert_close(found[:, :, :2].flatten(2), wholes, rtol=FLOAT32, atol=FLOAT32)
    little = 1 / (1 + math.exp(30 * 0.2))
    agrees = 0.6 * little + 0.8 * (1 - little)
    # of the first text |(1, 0) - (0.6, 0.8)| and |(0, 1) - (0.6, 0.8)| are (0.5, 0.5) on average
    lower = [
        [(0.5 + 0.6 - little) / 2, (0.5 + 0.2 - little) / 2],
        [(0.3 + 0.6 * little) / 2, (0.4 + 0.8 * (1 - little)) / 2],
        [(1 - 0.6) / 2, (1 - 0.8) / 2],
        [(1 - agrees) * 0.6, (1 - agrees) * 0.8],
    ]
    upper = [[0.5 / 2, 0.5 / 2], [0.0, (0.5 + 1.0) / 2], [1.0 / 2, 0.0], [0.0, 0.0]]
    torch.testing.assert_close(found[0, :, 2:], torch.tensor([lower, upper]), rtol=FLOAT32, atol=FLOAT32)


def test_only_what_a_text_has_alone_knows_which_text_comes_first() -> None:
    first, second = random(5, seed=0), random(3, seed=1)
    one, two = (compare_tokens(*texts, "mean").view(2, 3, 6, 8) for texts in ((first, second), (second, first)))
    torch.testing.assert_close(one[:, :, :4], two[:, :, :4], rtol=FLOAT32, atol=FLOAT32)
    torch.testing.assert_close(one[:, :, 4:], two[:, :, 4:].flip(2), rtol=FLOAT32, atol=FLOAT32)
    assert not torch.allclose(one[:, :, 4], one[:, :, 5], atol=1e-2)


def test_a_text_and_itself_lack_nothing() -> None:
    tokens = 3.0 * torch.eye(8)[:4]  # at right angles to each other
    both = HiddenStates(tokens.expand(2, 3, 4, 8), torch.ones(2, 4, dtype=torch.bool))
    parts = compare_tokens(both, both, "cls").view(2, 3, 6, 8)
    for part in (0, 2, 4, 5):  # how far they are apart, as wholes and token by token, and what either lacks
        torch.testing.assert_close(parts[:, :, part], torch.zeros(2, 3, 8), rtol=FLOAT32, atol=FLOAT32)
    torch.testing.assert_close(parts[:, :, 1].sum(dim=2), torch.ones(2, 3), rtol=FLOAT32, atol=FLOAT32)


@pytest.mark.parametrize("pairs", ["together", "apart", "aligned"])
def test_a_row_has_as_many_parts_as_its_way_says(pairs: Pairs) -> None:
    texts = [random(4, seed=0), random(6, seed=1)][: 1 if pairs == "together" else 2]
    rows: Tensor = read_texts(texts, "mean", pairs)
    assert rows.shape == (2, 3, PARTS[pairs] * 8)


def test_two_counterparts_as_near_as_each_other_count_alike() -> None:
    first, second = text([[1.0, 0.0]]), text([[0.6, 0.8], [0.6, -0.8]])
    found = compare_tokens(first, second, "cls").view(6, 2)
    # the mean of both is (0.6, 0), so the first text's token is (0.4, 0) from it, and lacks 0.4 of itself there
    torch.testing.assert_close(found[4], torch.tensor([0.4, 0.0]), rtol=FLOAT32, atol=FLOAT32)
    nudged = compare_tokens(first, text([[0.6, 0.8], [0.6, -0.8 - 1e-6]]), "cls").view(6, 2)
    torch.testing.assert_close(nudged, found, rtol=FLOAT32, atol=FLOAT32)
