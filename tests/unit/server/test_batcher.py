"""Jobs that gather are computed together; what was accepted is computed; a bad one spoils no other."""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from bertvision.errors import BertVisionError
from bertvision.server.batcher import Batcher
from bertvision.server.limits import Limits, RefusedError

SECONDS = 10.0


@dataclass(frozen=True)
class Number:
    value: int
    characters: int = 1
    alone: bool = False


class Gate:
    """Doubles numbers, and keeps what it was given; the first call waits until it is opened."""

    def __init__(self) -> None:
        self.seen: list[list[int]] = []
        self.entered = threading.Event()
        self.opened = threading.Event()

    def __call__(self, jobs: Sequence[Number]) -> list[int]:
        self.seen.append([job.value for job in jobs])
        self.entered.set()
        assert self.opened.wait(SECONDS)
        if any(job.value < 0 for job in jobs):
            raise ValueError("negative")
        return [2 * job.value for job in jobs]


def started(gate: Gate, limits: Limits) -> Batcher[Number, int]:
    """A batcher that is busy with the number 0."""
    batcher: Batcher[Number, int] = Batcher(gate, limits)
    batcher.start()
    batcher.submit(Number(0))
    assert gate.entered.wait(SECONDS)
    return batcher


def test_what_gathers_while_the_model_is_busy_is_computed_in_one_pass() -> None:
    gate, told = Gate(), list[int]()
    batcher = started(gate, Limits(wait_ms=0))
    batcher.on_pass = told.append
    futures = [batcher.submit(Number(value)) for value in range(1, 11)]
    assert len(batcher) == 10
    gate.opened.set()
    assert [future.result(SECONDS) for future in futures] == [2 * value for value in range(1, 11)]
    assert gate.seen == [[0], list(range(1, 11))]
    assert told == [10]
    batcher.close()


def test_a_pass_has_no_more_jobs_and_characters_than_allowed() -> None:
    gate = Gate()
    batcher = started(gate, Limits(batch=3, batch_characters=10, wait_ms=0))
    sizes = [1, 1, 1, 1, 8, 4, 50, 1]
    futures = [batcher.submit(Number(value, size)) for value, size in enumerate(sizes, start=1)]
    gate.opened.set()
    for future in futures:
        future.result(SECONDS)
    batcher.close()
    # three jobs; 1 + 8 characters; 4, since 50 more are too many; 50 alone; the rest
    assert gate.seen == [[0], [1, 2, 3], [4, 5], [6], [7], [8]]


def test_jobs_that_are_computed_alone_come_last_and_the_others_do_not_wait_for_them() -> None:
    gate, done = Gate(), list[list[bool]]()
    batcher = started(gate, Limits(wait_ms=0))
    numbers = [Number(1, alone=True), Number(2), Number(3, alone=True), Number(4)]
    futures = [batcher.submit(number) for number in numbers]
    batcher.on_pass = lambda _jobs: done.append([future.done() for future in futures])
    gate.opened.set()
    batcher.close()
    assert gate.seen == [[0], [2, 4], [1], [3]]
    assert done == [[False] * 4, [False, True, False, True], [True, True, False, True]]
    assert [future.result(0) for future in futures] == [2, 4, 6, 8]


def test_an_idle_model_waits_a_little_for_more() -> None:
    gate = Gate()
    gate.opened.set()
    batcher: Batcher[Number, int] = Batcher(gate, Limits(batch=2, wait_ms=5000))
    batcher.start()
    begin = time.monotonic()
    futures = [batcher.submit(Number(value)) for value in (1, 2)]
    assert [future.result(SECONDS) for future in futures] == [2, 4]
    assert gate.seen == [[1, 2]]
    assert time.monotonic() - begin < 4  # a full pass waits no longer
    batcher.close()


def test_a_full_queue_refuses() -> None:
    gate = Gate()
    batcher = started(gate, Limits(queue=2))
    futures = [batcher.submit(Number(value)) for value in (1, 2)]
    with pytest.raises(RefusedError, match="2 requests are waiting already") as caught:
        batcher.submit(Number(3))
    assert (caught.value.status, caught.value.retry_after) == (429, 1)
    gate.opened.set()
    assert [future.result(SECONDS) for future in futures] == [2, 4]
    assert batcher.submit(Number(3)).result(SECONDS) == 6  # it recovers
    batcher.close()


def test_closing_computes_what_was_accepted_and_refuses_the_rest() -> None:
    gate = Gate()
    batcher = started(gate, Limits(batch=2))
    futures = [batcher.submit(Number(value)) for value in range(5)]
    closing = threading.Thread(target=batcher.close)
    closing.start()
    while not batcher.closing:
        time.sleep(0.001)
    with pytest.raises(RefusedError, match="being stopped") as caught:
        batcher.submit(Number(9))
    assert caught.value.status == 503
    gate.opened.set()
    closing.join(SECONDS)
    assert [future.result(0) for future in futures] == [0, 2, 4, 6, 8]


def test_a_job_that_fails_spoils_no_other() -> None:
    gate = Gate()
    batcher = started(gate, Limits())
    futures = [batcher.submit(Number(value)) for value in (1, -1, 2)]
    gate.opened.set()
    assert [futures[0].result(SECONDS), futures[2].result(SECONDS)] == [2, 4]
    with pytest.raises(ValueError, match="negative"):
        futures[1].result(SECONDS)
    batcher.close()


def test_a_job_that_nobody_waits_for_is_left_out() -> None:
    gate = Gate()
    batcher = started(gate, Limits())
    first, second = (batcher.submit(Number(value)) for value in (1, 2))
    assert first.cancel()
    gate.opened.set()
    assert second.result(SECONDS) == 4
    batcher.close()
    assert gate.seen == [[0], [2]]


@pytest.mark.parametrize("name", ["body_bytes", "text_characters", "queue", "seconds", "batch", "batch_characters"])
def test_limits_below_one_are_refused(name: str) -> None:
    with pytest.raises(BertVisionError, match=f"--{name.replace('_', '-')} is 0, at least 1 is expected"):
        Limits(**{name: 0})


def test_waiting_may_be_zero_but_no_less() -> None:
    assert Limits(wait_ms=0).wait_ms == 0
    with pytest.raises(BertVisionError, match="--wait-ms is -1, at least 0 is expected"):
        Limits(wait_ms=-1)
    with pytest.raises(BertVisionError, match="--seconds is nan"):
        Limits(seconds=float("nan"))


@pytest.mark.parametrize("name", ["seconds", "wait_ms"])
def test_limits_without_end_are_refused(name: str) -> None:
    with pytest.raises(BertVisionError, match=f"--{name.replace('_', '-')} is inf, a finite number is expected"):
        Limits(**{name: float("inf")})  # type: ignore[arg-type]  # one of the two floats
