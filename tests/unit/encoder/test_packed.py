"""Attention without padding, against a loop over windows, heads and tokens."""

import itertools
import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn.attention import varlen

from bertvision.encoder import packed
from bertvision.encoder.packed import PACKED, packed_attention, padded_bounds
from close import EXACT, FLOAT32

BOUNDS = [0, 3, 4, 9]


def looped(query: Tensor, key: Tensor, value: Tensor, scaling: float, reach: int) -> Tensor:
    """Attention from its definition: every token, its own window's tokens no further off than `reach`."""
    heads, tokens, width = query.shape[1:]
    output = torch.zeros(1, tokens, heads, width)
    for begin, end in itertools.pairwise(BOUNDS):
        for head in range(heads):
            for token in range(begin, end):
                seen = [other for other in range(begin, end) if abs(other - token) <= reach]
                scores = [float(query[0, head, token] @ key[0, head, other]) * scaling for other in seen]
                shares = [math.exp(score) / sum(map(math.exp, scores)) for score in scores]
                for share, other in zip(shares, seen, strict=True):
                    output[0, token, head] += share * value[0, head, other]
    return output


@pytest.mark.parametrize("scaling", [None, 0.7])
@pytest.mark.parametrize(("sliding_window", "reach"), [(None, 9), (1, 0), (3, 2)])
def test_a_token_sees_its_own_window_alone(scaling: float | None, sliding_window: int | None, reach: int) -> None:
    query, key, value = torch.randn(3, 1, 2, 9, 4, generator=torch.Generator().manual_seed(0))
    output, weights = packed_attention(
        nn.Identity(),
        query,
        key,
        value,
        None,
        scaling=scaling,
        window_bounds=torch.tensor(BOUNDS, dtype=torch.int32),
        window_longest=5,
        sliding_window=sliding_window,
        dropout=0.5,  # transformers passes it; packed attention has none
    )
    assert weights is None
    expected = looped(query, key, value, 0.5 if scaling is None else scaling, reach)  # 1 / √4
    torch.testing.assert_close(output, expected, rtol=FLOAT32, atol=FLOAT32)


@pytest.mark.parametrize("scaling", [None, 0.7])
@pytest.mark.parametrize(("sliding_window", "reach"), [(None, 9), (1, 0), (3, 2)])
def test_the_kernel_of_a_gpu_is_told_all_and_compiled_without_a_break(
    scaling: float | None, sliding_window: int | None, reach: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kernel(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        _bounds: Tensor,
        _key_bounds: Tensor,
        longest: int,
        _key_longest: int,
        *,
        scale: float | None = None,
        window_size: tuple[int, int] = (-1, -1),
    ) -> Tensor:
        assert longest == 5
        far = 9 if window_size == (-1, -1) else window_size[0]
        assert window_size in {(far, far), (-1, -1)}
        one, two, three = (rows.transpose(0, 1)[None] for rows in (query, key, value))
        return looped(one, two, three, 0.5 if scale is None else scale, far)[0]

    monkeypatch.setattr(varlen, "varlen_attn", kernel)
    query, key, value = torch.randn(3, 1, 2, 9, 4, generator=torch.Generator().manual_seed(0))
    bounds = torch.tensor(BOUNDS, dtype=torch.int32)
    output = packed.kernel_attention(query, key, value, bounds, 5, scaling, sliding_window)
    expected = looped(query, key, value, 0.5 if scaling is None else scaling, reach)
    torch.testing.assert_close(output, expected, rtol=FLOAT32, atol=FLOAT32)

    monkeypatch.setattr(varlen, "varlen_attn", lambda query, *_rest, **_more: query)
    compiled = torch.compile(packed.kernel_attention, backend="eager", fullgraph=True, dynamic=True)
    same = compiled(query, key, value, bounds, 5, scaling, sliding_window)  # a break would be an error
    torch.testing.assert_close(same, query.transpose(1, 2), rtol=EXACT, atol=EXACT)


def test_padding_is_a_window_of_its_own() -> None:
    mask = torch.tensor([[True, True, True, False], [True, True, True, True], [True, False, False, False]])
    bounds = padded_bounds(mask)
    assert bounds.dtype == torch.int32
    assert bounds.tolist() == [0, 3, 4, 8, 8, 9, 12]


@pytest.mark.parametrize("sliding_window", [None, 2])
def test_padded_windows_attend_by_bounds_as_each_does_alone(sliding_window: int | None) -> None:
    query, key, value = torch.randn(3, 2, 2, 5, 4, generator=torch.Generator().manual_seed(0))
    mask = torch.arange(5) < torch.tensor([3, 5])[:, None]
    output, _ = packed_attention(
        nn.Identity(), query, key, value, None, window_bounds=padded_bounds(mask), sliding_window=sliding_window
    )
    assert output.shape == (2, 5, 2, 4)
    for row, length in enumerate((3, 5)):
        mine = [tensor[row : row + 1, :, :length] for tensor in (query, key, value)]
        bounds = torch.tensor([0, length], dtype=torch.int32)
        alone, _ = packed_attention(
            nn.Identity(), mine[0], mine[1], mine[2], None, window_bounds=bounds, sliding_window=sliding_window
        )
        torch.testing.assert_close(output[row, :length], alone[0], rtol=FLOAT32, atol=FLOAT32)


def test_the_kernel_gets_padded_windows_as_one_row_and_one_dtype(monkeypatch: pytest.MonkeyPatch) -> None:
    def kernel(query: Tensor, key: Tensor, value: Tensor, *_rest: object, **_more: object) -> Tensor:
        assert query.shape == key.shape == value.shape == (10, 2, 4)
        assert query.dtype == key.dtype == value.dtype == torch.bfloat16
        return value

    monkeypatch.setattr(varlen, "varlen_attn", kernel)
    query, key, value = torch.randn(3, 2, 2, 5, 4, generator=torch.Generator().manual_seed(0))
    value = value.bfloat16()
    bounds = padded_bounds(torch.ones(2, 5, dtype=torch.bool))
    output = packed.kernel_attention(query, key, value, bounds, 5, None, None)
    torch.testing.assert_close(output, value.transpose(1, 2), rtol=EXACT, atol=EXACT)


def test_a_model_that_is_set_up_for_packed_windows_needs_their_bounds() -> None:
    tensor = torch.zeros(1, 1, 2, 4)
    with pytest.raises(ValueError, match="Identity was called without window bounds"):
        packed_attention(nn.Identity(), tensor, tensor, tensor, None)


def test_transformers_finds_it_by_its_name() -> None:
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS  # noqa: PLC0415 - only here

    assert ALL_ATTENTION_FUNCTIONS[PACKED] is packed_attention
