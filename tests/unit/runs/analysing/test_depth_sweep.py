"""Prefix heads of one kind become one sweep: score, share of the encoder, and seconds by depth."""

from collections.abc import Mapping
from typing import Any

import pytest

from bertvision.runs.analysing.depth_sweep import depth_sweeps
from bertvision.runs.judging.measure_inference import InferenceSeconds
from close import FLOAT64

SECONDS = InferenceSeconds(
    examples=8, device="cpu", encoder={0: 0.5, 1: 2.0, 2: 3.5, 4: 7.0}, heads={f"{n}": 1.0 for n in range(9)}
)


def row(name: str, depth: int, score: float | None, **changes: object) -> Mapping[str, Any]:
    known = {"head": "layer_mix", "lr": 1e-3, "fraction": 1.0, "seed": 0, "depth": depth, "score": score}
    return {**known, "name": name, "options": {"gate": "softmax", "layers": f"0..{depth}"}, **changes}


def test_points_hold_the_share_of_layers_and_of_seconds() -> None:
    (sweep,) = depth_sweeps([row("2", 2, 60.0), row("0", 0, 20.0), row("1", 1, 50.0)], SECONDS, layers=4)
    assert (sweep.head, sweep.options, sweep.lr) == ("layer_mix", {"gate": "softmax"}, 1e-3)
    assert [point.depth for point in sweep.points] == [0, 1, 2]
    assert [point.models for point in sweep.points] == [("0",), ("1",), ("2",)]
    assert [point.cost_share for point in sweep.points] == [0.0, 0.25, 0.5]
    assert [point.seconds for point in sweep.points] == [1.5, 3.0, 4.5]
    # the whole encoder and the deepest head take 7 + 1 seconds
    assert [point.seconds_share for point in sweep.points] == [1.5 / 8, 3.0 / 8, 4.5 / 8]
    assert sweep.cumulative is not None
    # 30 of 40 points come from layer 1, 10 from layer 2
    assert sweep.cumulative.expected_layer == pytest.approx(1.25, rel=FLOAT64)


def test_seeds_are_joined_and_other_rates_and_options_are_other_sweeps() -> None:
    rows = [row("0", 1, 50.0), row("1", 1, 54.0, seed=1), row("2", 2, 60.0, seed=1), row("3", 2, 62.0)]
    rows += [row("4", 1, 10.0, lr=0.1), row("5", 2, 11.0, lr=0.1)]
    rows += [row("6", 2, 11.0, options={"gate": "sparse", "layers": "0..2"})]  # alone: no sweep
    rows += [row("7", 2, 11.0, options={"gate": "softmax", "layers": "1..2"})]  # begins elsewhere
    rows += [row("8", 1, 1.0, warmup=0.5)]  # trained otherwise: no seed of the others
    plain, fast = depth_sweeps(rows, SECONDS, layers=4)
    assert [point.models for point in plain.points] == [("0", "1"), ("3", "2")]
    means = [point.score.mean for point in plain.points if point.score is not None]
    assert means == [52.0, 61.0]
    assert fast.lr == 0.1


@pytest.mark.parametrize(
    "rows",
    [
        [row("0", 0, 1.0), row("2", 2, 2.0)],  # no head for layer 1
        [row("0", 1, 1.0), row("2", 2, 2.0, seed=3)],  # other seeds
        [row("0", 1, 1.0), row("2", 2, None)],  # no score
    ],
)
def test_gains_need_every_depth_with_the_same_seeds_and_a_score(rows: list[Mapping[str, Any]]) -> None:
    (sweep,) = depth_sweeps(rows, SECONDS, layers=4)
    assert sweep.cumulative is None
    assert len(sweep.points) == 2
    assert (sweep.points[1].score is None) == (rows[1]["score"] is None)


def test_a_head_that_nobody_timed_has_no_seconds() -> None:
    (sweep,) = depth_sweeps([row("0", 1, 1.0), row("unknown", 2, 2.0)], SECONDS, layers=4)
    assert [point.seconds for point in sweep.points] == [3.0, None]
    assert [point.seconds_share for point in sweep.points] == [None, None]


def test_heads_that_differ_in_other_training_options_are_other_sweeps() -> None:
    rows = [row(f"{depth}", depth, 50.0 + depth, clip=1.0) for depth in (1, 2)]
    rows += [row(f"{depth + 4}", depth, 10.0 + depth, clip=0.0) for depth in (1, 2)]
    clipped, free = depth_sweeps(rows, SECONDS, layers=4)
    assert [point.models for point in clipped.points] == [("1",), ("2",)]
    assert [point.models for point in free.points] == [("5",), ("6",)]
