"""States in fewer bits, and back."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from bertvision.errors import BertVisionError
from bertvision.store.codec import Keep, Statistics, bytes_per_token, decode, encode, measure, precision_for

KEEPS: list[Keep] = ["fp16", "bf16", "int8"]


def realistic(tokens: int = 200, layers: int = 3, width: int = 384) -> Tensor:
    """Channels of very different sizes and means, a few far out, as encoders have them."""
    random = torch.Generator().manual_seed(0)
    gains = torch.randn(layers, width, generator=random).exp()
    gains[:, 5] *= 20
    means = 2 * torch.randn(layers, width, generator=random)
    means[:, 7] = 80
    return torch.randn(tokens, layers, width, generator=random) * gains + means


def test_float16_keeps_eleven_bits() -> None:
    kept = encode(torch.tensor([[[1.0, -0.5, 2049.0, 1.0001]]]), "fp16")
    assert kept.keys() == {"states"}
    assert kept["states"].dtype == torch.float16
    assert decode(kept).tolist() == [[[1.0, -0.5, 2048.0, 1.0]]]


def test_bfloat16_keeps_eight_bits_and_takes_large_values() -> None:
    kept = encode(torch.tensor([[[1.0, 257.0, 259.0, 2.0**100]]]), "bf16")
    assert kept["states"].dtype == torch.bfloat16
    assert decode(kept).tolist() == [[[1.0, 256.0, 260.0, 2.0**100]]]


def test_int8_keeps_127_steps_of_the_standardised_state_and_one_scale_per_token_and_layer() -> None:
    statistics = Statistics(torch.full((1, 3), 1.0), torch.full((1, 3), 2.0))
    # (states - 1) / 2 is 127/64, -1, 1/2, and half of that: steps of 1/64 and of 1/128
    states = torch.tensor([[[1 + 127 / 32, -1.0, 2.0]], [[1 + 127 / 64, 0.0, 1.5]]])
    kept = encode(states, "int8", statistics)
    assert kept["states"].dtype == torch.int8
    assert kept["scales"].dtype == torch.float16
    assert kept["states"].tolist() == [[[127, -64, 32]], [[127, -64, 32]]]
    assert kept["scales"].tolist() == [[1 / 64], [1 / 128]]
    assert torch.equal(decode(kept, statistics), states)


def test_a_step_of_int8_is_rounded_to_the_nearest() -> None:
    statistics = Statistics(torch.zeros(1, 3), torch.ones(1, 3))
    states = torch.tensor([[[-127.0, 3.4, 3.6]]])
    assert decode(encode(states, "int8", statistics), statistics).tolist() == [[[-127.0, 3.0, 4.0]]]


def test_a_token_at_the_mean_of_every_channel_stays_there() -> None:
    statistics = Statistics(torch.tensor([[3.0, -4.0]]), torch.ones(1, 2))
    states = torch.tensor([[[3.0, -4.0]]])
    assert torch.equal(decode(encode(states, "int8", statistics), statistics), states)


@pytest.mark.parametrize(("keep", "most"), [("fp16", 1e-3), ("bf16", 5e-3), ("int8", 1.5e-2)])
def test_the_relative_error_is_small_for_every_layer(keep: Keep, most: float) -> None:
    states = realistic()
    statistics = measure(states[:64]) if keep == "int8" else None
    back = decode(encode(states, keep, statistics), statistics)
    assert back.dtype == torch.float32
    centred = states - states.mean(dim=0)  # a large mean must not hide an error
    errors = (back - states).norm(dim=(0, 2)) / (centred if keep == "int8" else states).norm(dim=(0, 2))
    assert errors.min() > 0
    assert errors.max() < most


def test_no_channel_of_int8_is_lost_beside_a_large_one() -> None:
    states = realistic()
    statistics = measure(states)
    errors = decode(encode(states, "int8", statistics), statistics) - states
    assert float((errors.std(dim=0) / states.std(dim=0)).max()) < 0.02


@settings(max_examples=40)
@given(st.lists(st.floats(-60000, 60000, width=32), min_size=4, max_size=4))
def test_keeping_twice_is_keeping_once(values: list[float]) -> None:
    states = torch.tensor(values).reshape(1, 2, 2)
    for keep in ("fp16", "bf16"):
        once = decode(encode(states, keep))
        assert torch.equal(decode(encode(once, keep)), once)


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan")])
@pytest.mark.parametrize("keep", KEEPS)
def test_a_value_that_is_not_finite_is_refused(value: float, keep: Keep) -> None:
    states = torch.zeros(2, 2, 3)
    states[1, 0, 2] = value
    with pytest.raises(BertVisionError, match="a state is not finite"):
        precision_for(states, keep)


@pytest.mark.parametrize("value", [65505.0, -1e5])
def test_values_too_large_for_float16_are_kept_in_bfloat16(value: float) -> None:
    states = torch.zeros(2, 2, 3)
    states[1, 0, 2] = value
    assert [precision_for(states, keep) for keep in KEEPS] == ["bf16", "bf16", "int8"]
    assert [precision_for(states.clamp(-65504, 65504), keep) for keep in KEEPS] == KEEPS
    back = decode(encode(states, "bf16"))
    assert float(back[1, 0, 2]) == pytest.approx(value, rel=2**-8)


def test_int8_has_no_room_for_a_value_far_from_all_that_was_measured() -> None:
    statistics = measure(torch.ones(4, 1, 2))
    with pytest.raises(BertVisionError, match=r"too far from those that int8 was measured on\. Use --keep fp16"):
        encode(torch.full((1, 1, 2), 100.0), "int8", statistics)


def test_no_tokens_are_no_error() -> None:
    states = torch.zeros(0, 2, 3)
    assert encode(states, precision_for(states, "fp16"))["states"].shape == (0, 2, 3)


@pytest.mark.parametrize("keep", KEEPS)
def test_bytes_per_token_are_those_of_the_tensors(keep: Keep) -> None:
    states = torch.randn(10, 3, 8)
    kept = encode(states, keep, measure(states))
    assert sum(value.nbytes for value in kept.values()) == 10 * bytes_per_token(keep, 3, 8)


def test_bytes_per_token_of_a_known_encoder() -> None:
    # 7 layers of width 384
    assert [bytes_per_token(keep, 7, 384) for keep in KEEPS] == [5376, 5376, 2702]


def test_statistics_are_mean_and_deviation_of_every_channel() -> None:
    found = measure(torch.tensor([[[1.0, 5.0]], [[3.0, 5.0]]]))
    assert found.mean.tolist() == [[2.0, 5.0]]
    assert found.deviation[0, 0] == 1.0
    assert 0 < found.deviation[0, 1] < 1e-5  # nothing is divided by 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("keep", KEEPS)
def test_states_are_decoded_into_strided_memory_of_any_precision(keep: Keep, dtype: torch.dtype) -> None:
    states = realistic(tokens=5, width=8)
    statistics = measure(states)
    kept = encode(states, keep, statistics)
    memory = torch.full((3, 7, 8), 9.0, dtype=dtype)
    out = decode(kept, statistics, out=memory[:, 1:6].transpose(0, 1))
    assert out.data_ptr() == memory[:, 1].data_ptr()
    assert torch.equal(memory[:, 1:6], decode(kept, statistics).transpose(0, 1).to(dtype))
    assert (memory[:, [0, 6]] == 9).all()


def test_int8_without_statistics_is_a_mistake_of_ours() -> None:
    states = torch.ones(1, 1, 2)
    with pytest.raises(ValueError, match="int8 needs statistics"):
        encode(states, "int8")
    with pytest.raises(ValueError, match="int8 needs statistics"):
        decode(encode(states, "int8", Statistics(torch.zeros(1, 2), torch.ones(1, 2))))
