import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertvision.errors import BertVisionError
from bertvision.training.options import TuneOptions
from bertvision.training.plan import Plan

LENGTHS = np.random.default_rng(0).integers(5, 60, size=50)


def steps(begin: int = 0, **options: float) -> list[tuple[int, list[int]]]:
    plan = Plan(LENGTHS, TuneOptions(**options))  # type: ignore[arg-type]  # names of numbers only
    return [(step, rows.tolist()) for step, rows in plan.steps_from(begin)]


@settings(max_examples=30)
@given(windows=st.integers(1, 70), batch=st.integers(1, 20), epochs=st.integers(1, 3), seed=st.integers(0, 5))
def test_every_window_is_learnt_once_per_epoch(windows: int, batch: int, epochs: int, seed: int) -> None:
    plan = Plan(LENGTHS.repeat(2)[:windows], TuneOptions(batch=batch, epochs=epochs, seed=seed))
    made = list(plan.steps_from(0))
    assert [step for step, _ in made] == list(range(plan.total))
    assert plan.total == epochs * plan.per_epoch == epochs * math.ceil(windows / batch)
    for epoch in range(epochs):
        rows = [rows for step, rows in made if step // plan.per_epoch == epoch]
        assert sorted(np.concatenate(rows).tolist()) == list(range(windows))


def test_the_same_seed_gives_the_same_plan_and_another_seed_or_epoch_another() -> None:
    first = steps(batch=8, epochs=2, seed=3)
    assert first == steps(batch=8, epochs=2, seed=3)
    assert first != steps(batch=8, epochs=2, seed=4)
    assert [rows for _, rows in first[:7]] != [rows for _, rows in first[7:]]


@pytest.mark.parametrize("begin", [0, 1, 6, 7, 8, 13, 14])
def test_a_plan_goes_on_where_it_was_left(begin: int) -> None:
    assert steps(begin, batch=8, epochs=2) == steps(batch=8, epochs=2)[begin:]


def test_a_part_of_an_epoch_is_rounded_to_whole_steps_and_is_never_nothing() -> None:
    assert len(steps(batch=5, epochs=0.5)) == 5
    assert len(steps(batch=5, epochs=1.26)) == 13
    assert len(steps(batch=5, epochs=0.01)) == 1


def test_snapshots_are_taken_after_their_share_of_an_epoch() -> None:
    plan = Plan(LENGTHS, TuneOptions(batch=5, epochs=2))
    assert plan.snapshot_steps([0.1, 0.3, 1, 1.5, 2]) == {1: 0.1, 3: 0.3, 10: 1, 15: 1.5, 20: 2}
    assert plan.snapshot_steps([0.001]) == {1: 0.001}
    assert plan.snapshot_steps([]) == {}


@pytest.mark.parametrize("fraction", [0, -0.5, 2.1, math.nan, math.inf, -math.inf])
def test_a_snapshot_outside_the_run_is_refused(fraction: float) -> None:
    plan = Plan(LENGTHS, TuneOptions(batch=5, epochs=2))
    expected = rf"--snapshots has {fraction:g}; more than 0 and at most the 2 epochs of the run is expected"
    with pytest.raises(BertVisionError, match=expected):
        plan.snapshot_steps([1, fraction])


def test_two_snapshots_on_one_step_are_refused() -> None:
    plan = Plan(LENGTHS, TuneOptions(batch=5, epochs=1))
    expected = r"--snapshots 0\.3 and 0\.31 fall on the same step 3 of 10 per epoch\. Leave one out"
    with pytest.raises(BertVisionError, match=expected):
        plan.snapshot_steps([0.3, 0.31, 1])


def test_the_user_is_told_which_option_was_wrong() -> None:
    plan = Plan(np.full(40, 5), TuneOptions(epochs=1, batch=4))
    with pytest.raises(BertVisionError, match=r"^--validate has 2; "):
        plan.snapshot_steps([2], option="--validate")
    with pytest.raises(BertVisionError, match=r"^--validate 0\.3 and 0\.31 fall on the same step 3 of 10"):
        plan.snapshot_steps([0.3, 0.31], option="--validate")


def test_groups_never_share_a_batch_and_are_learnt_in_turn() -> None:
    groups = np.arange(50) % 3
    plan = Plan(LENGTHS, TuneOptions(batch=4, epochs=2, seed=1), groups=groups)
    assert plan.per_epoch == 5 + 5 + 4  # 17, 17 and 16 windows
    made = [rows for _, rows in plan.steps_from(0)]
    for epoch in (made[:14], made[14:]):
        assert sorted(np.concatenate(epoch).tolist()) == list(range(50))
        order = [set(groups[rows].tolist()) for rows in epoch]
        assert all(len(some) == 1 for some in order)
        numbers = [some.pop() for some in order]
        assert numbers != sorted(numbers)
    assert [rows.tolist() for rows in made[:14]] != [rows.tolist() for rows in made[14:]]


def test_one_group_is_as_none() -> None:
    options = TuneOptions(batch=8, epochs=2, seed=3)
    made = [rows.tolist() for _, rows in Plan(LENGTHS, options, groups=np.full(50, 7)).steps_from(0)]
    assert made == [rows for _, rows in steps(batch=8, epochs=2, seed=3)]
