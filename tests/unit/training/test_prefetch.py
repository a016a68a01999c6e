"""Batches made in the background."""

import threading
from collections.abc import Iterator
from contextlib import closing

import pytest
import torch

from bertvision.training.prefetch import prefetch


def background() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("prefetch")]


@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_everything_comes_in_order_and_the_thread_ends(count: int) -> None:
    assert list(prefetch(lambda number: number * number, range(count))) == [n * n for n in range(count)]
    assert background() == []


def test_one_is_made_while_the_caller_works_on_the_last_and_no_more() -> None:
    made = [threading.Event() for _ in range(5)]
    taken: list[int] = []

    def make(number: int) -> int:
        assert threading.current_thread().name.startswith("prefetch")
        taken.append(number)
        made[number].set()
        return number

    with closing(prefetch(make, range(5))) as batches:
        for number in batches:
            if number < 4:
                assert made[number + 1].wait(10)  # while this one is still in use
            assert taken == list(range(min(number + 2, 5)))


def test_an_error_comes_in_its_turn_as_it_is() -> None:
    error = LookupError("the third")

    def make(number: int) -> int:
        if number == 2:
            raise error
        return number

    seen = []
    with pytest.raises(LookupError) as caught:  # noqa: PT012 - what was seen before counts
        for number in prefetch(make, range(9)):
            seen.append(number)  # noqa: PERF402
    assert caught.value is error
    assert seen == [0, 1]
    assert background() == []


def test_an_error_in_what_is_to_be_made_comes_as_it_is() -> None:
    def items() -> Iterator[int]:
        yield 0
        raise KeyError("plan")

    with pytest.raises(KeyError, match="plan"):
        list(prefetch(lambda number: number, items()))
    assert background() == []


def test_leaving_early_ends_the_thread() -> None:
    def leave() -> None:
        with closing(prefetch(lambda number: number, range(10**9))) as batches:
            for number in batches:
                if number == 3:
                    raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        leave()
    assert background() == []


def test_the_thread_has_one_core_and_everybody_else_as_many_as_before() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        for cores in prefetch(lambda _: torch.get_num_threads(), range(2)):
            assert (cores, torch.get_num_threads()) == (1, 3)
        later: list[int] = []
        thread = threading.Thread(target=lambda: later.append(torch.get_num_threads()))
        thread.start()
        thread.join()
        assert later == [3]
    finally:
        torch.set_num_threads(before)
