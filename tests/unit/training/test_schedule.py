import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertvision.training.schedule import Schedule, rate_factor
from close import FLOAT64

SCHEDULES: list[Schedule] = ["constant", "linear", "cosine", "restarts"]


def curve(schedule: Schedule, total: int, *, warmup: float = 0.0) -> list[float]:
    return [rate_factor(step, total, schedule=schedule, warmup=warmup) for step in range(total)]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_warm_up_rises_evenly_and_ends_at_the_full_rate(schedule: Schedule) -> None:
    # two of ten steps rise: a third, two thirds, then the whole
    assert curve(schedule, 10, warmup=0.2)[:3] == pytest.approx([1 / 3, 2 / 3, 1], abs=FLOAT64)


def test_a_constant_rate_stays() -> None:
    assert curve("constant", 5) == [1, 1, 1, 1, 1]


def test_a_linear_rate_falls_by_the_same_at_every_step() -> None:
    assert curve("linear", 4) == pytest.approx([1, 0.75, 0.5, 0.25], abs=FLOAT64)
    # after two steps of warm-up, eight are left to fall in
    assert curve("linear", 10, warmup=0.2)[2:5] == pytest.approx([1, 7 / 8, 6 / 8], abs=FLOAT64)


def test_a_cosine_rate_is_half_way_down_in_the_middle() -> None:
    # cosines of 0, 60, 90 and 120 degrees: 1, 1/2, 0, -1/2
    factors = curve("cosine", 6)
    assert [factors[0], factors[2], factors[3], factors[4]] == pytest.approx([1, 0.75, 0.5, 0.25], abs=FLOAT64)


def test_restarts_begin_anew() -> None:
    assert curve("restarts", 8)[::2] == pytest.approx([1, 0.5, 1, 0.5], abs=FLOAT64)
    assert curve("restarts", 8) == pytest.approx(curve("cosine", 4) * 2, abs=FLOAT64)


def test_a_run_of_warm_up_alone_never_reaches_the_full_rate() -> None:
    assert curve("linear", 3, warmup=0.99)[:3] == pytest.approx([1 / 3.97, 2 / 3.97, 3 / 3.97], abs=FLOAT64)


def test_a_warm_up_may_end_between_two_steps() -> None:
    # the warm-up takes 8.5 of 10 steps: the last step is 0.5 after its end, and 1.5 are left to fall in
    assert curve("linear", 10, warmup=0.85)[8:] == pytest.approx([9 / 9.5, 1 - 0.5 / 1.5], abs=FLOAT64)


def test_there_is_no_warm_up_unless_it_is_asked_for() -> None:
    assert rate_factor(0, 10, schedule="constant") == 1


@settings(max_examples=60)
@given(schedule=st.sampled_from(SCHEDULES), total=st.integers(1, 300), warmup=st.floats(0, 0.99))
def test_a_factor_is_never_negative_nor_more_than_one(schedule: Schedule, total: int, warmup: float) -> None:
    factors = curve(schedule, total, warmup=warmup)
    assert all(0 <= factor <= 1 for factor in factors)
    assert factors[0] > 0
