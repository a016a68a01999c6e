import pytest
import torch
from torch import Tensor, nn

from bertvision.heads.random_stream import RandomStream

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def draw(stream: RandomStream, count: int = 4, device: str = "cpu") -> list[float]:
    with stream:
        numbers: Tensor = torch.rand(count, device=device)
    return numbers.tolist()


def draw_and_fail(stream: RandomStream, count: int) -> None:
    with stream:
        torch.rand(count)
        raise RuntimeError("inside")


def test_what_others_draw_changes_nothing() -> None:
    torch.manual_seed(1)
    stream = RandomStream(0)
    alone = [draw(stream), draw(stream)]
    torch.manual_seed(2)
    stream = RandomStream(0)
    first = draw(stream)
    torch.rand(100)
    torch.manual_seed(3)
    assert [first, draw(stream)] == alone
    assert alone[0] != alone[1]


def test_others_draw_what_they_would_have_drawn_without_it() -> None:
    torch.manual_seed(5)
    expected = torch.rand(6).tolist()
    torch.manual_seed(5)
    stream = RandomStream(9)
    drawn = torch.rand(2).tolist()
    draw(stream)
    drawn += torch.rand(2).tolist()
    draw(stream, 100)
    drawn += torch.rand(2).tolist()
    assert drawn == expected


def test_a_stream_goes_on_where_it_stopped() -> None:
    stream = RandomStream(4)
    assert draw(stream, 3) + draw(stream, 2) == draw(RandomStream(4), 5)


def test_a_stream_draws_what_torch_draws_after_the_same_seed() -> None:
    torch.manual_seed(6)
    assert draw(RandomStream(6)) == torch.rand(4).tolist()
    assert draw(RandomStream(7)) != draw(RandomStream(6))


def test_streams_inside_each_other_do_not_mix() -> None:
    outer, inner = RandomStream(0), RandomStream(1)
    with outer:
        first = torch.rand(2).tolist()
        assert draw(inner, 2) == draw(RandomStream(1), 2)
        first += torch.rand(2).tolist()
    assert first == draw(RandomStream(0))
    assert draw(inner, 2) == draw(RandomStream(1))[2:]


def test_a_stream_goes_on_from_a_state_that_was_kept() -> None:
    stream, other = RandomStream(0), RandomStream(1)
    draw(stream, 3)
    kept = [state.clone() for state in stream.state]
    expected = draw(stream)
    other.state = kept
    assert draw(other) == expected
    assert draw(stream) == draw(other)


def test_a_state_that_was_kept_does_not_move_with_the_stream() -> None:
    stream = RandomStream(0)
    kept = stream.state
    expected = draw(stream)
    stream.state = kept
    assert draw(stream) == expected


def test_an_error_inside_leaves_torch_as_it_was() -> None:
    stream = RandomStream(0)
    torch.manual_seed(5)
    expected = torch.get_rng_state()
    with pytest.raises(RuntimeError, match="inside"):
        draw_and_fail(stream, 3)
    assert torch.equal(torch.get_rng_state(), expected)
    assert draw(stream, 2) == draw(RandomStream(0), 5)[3:]


def test_two_heads_side_by_side_drop_what_each_would_have_dropped_alone() -> None:
    def dropped(streams: list[RandomStream]) -> list[list[bool]]:
        kept: list[list[bool]] = [[] for _ in streams]
        for _ in range(3):
            for stream, mine in zip(streams, kept, strict=True):
                with stream:
                    mine.extend((nn.functional.dropout(torch.ones(20), 0.5) == 0).tolist())
        return kept

    together = dropped([RandomStream(0), RandomStream(1)])
    assert together == [*dropped([RandomStream(0)]), *dropped([RandomStream(1)])]
    assert together[0] != together[1]


def test_the_processor_named_as_a_device_is_nothing_special() -> None:
    assert draw(RandomStream(0, torch.device("cpu"))) == draw(RandomStream(0))
    assert len(RandomStream(0, torch.device("cpu")).state) == 1


@needs_gpu
def test_on_a_gpu_both_devices_have_a_stream_of_their_own() -> None:
    device = torch.device("cuda")
    stream, again = RandomStream(0, device), RandomStream(0, device)
    assert len(stream.state) == 2
    for place in ("cpu", "cuda"):
        torch.cuda.manual_seed(3)
        expected = torch.rand(4, device=device).tolist()
        torch.cuda.manual_seed(3)
        first = draw(stream, 4, place)
        assert torch.rand(4, device=device).tolist() == expected
        assert draw(again, 4, place) == first
    kept = stream.state
    expected = draw(stream, 4, "cuda")
    stream.state = kept
    assert draw(stream, 4, "cuda") == expected
