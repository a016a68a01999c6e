import json
import math
from dataclasses import asdict
from typing import Any

import pytest

from bertvision.analysis.curves import (
    Curve,
    FreezeCurve,
    fit_curves,
    freeze_curve,
    less_data_curves,
    tune_curves,
)
from bertvision.errors import BertVisionError
from close import FLOAT32, about

TUNED: list[dict[str, Any]] = [
    {"step": 10, "loss": 2.0, "lr": 1e-4},
    {"step": 12, "snapshot": 0.5, "f1": 40.0, "held_out_f1": 50.0},
    {"step": 20, "loss": 1.0, "lr": 5e-5},
    {"step": 24, "snapshot": 1.0, "f1": 60.0, "held_out_f1": None},
]


def test_a_tuned_run_has_its_loss_and_a_metric_of_its_snapshots() -> None:
    found = tune_curves(TUNED, "f1")
    assert found.losses == (Curve("loss", (10, 20), (2.0, 1.0)),)
    assert found.scores == (Curve("f1", (12, 24), (40.0, 60.0)),)


def test_a_point_without_a_value_is_left_out() -> None:
    assert tune_curves(TUNED, "held_out_f1").scores == (Curve("held_out_f1", (12,), (50.0,)),)


def test_a_run_without_snapshots_has_a_loss_alone() -> None:
    found = tune_curves(TUNED[:1], "f1")
    assert (found.losses[0].values, found.scores[0].values) == ((2.0,), ())


def test_every_trained_head_of_a_fit_has_its_curves() -> None:
    lines: list[dict[str, Any]] = [
        {"step": 0, "head": 1, "strength": 0.1, "loss": 9.0},  # solved, not trained
        {"step": 5, "losses": {"0": 3.0, "2": 4.0}},
        {"step": 8, "validated": 0.5, "head": 0, "score": 20.0, "kept": True},
        {"step": 8, "validated": 0.5, "head": 2, "score": None, "kept": False},
        {"step": 9, "dropped": 2, "reason": "its loss is NaN"},
        {"step": 10, "losses": {"0": 2.0, "2": math.nan}},
        {"step": 16, "validated": 1.0, "head": 0, "score": 30.0, "kept": True},
    ]
    found = fit_curves(lines, ["mix", "concat", "conv"])
    assert found.losses == (Curve("mix", (5, 10), (3.0, 2.0)), Curve("conv", (5,), (4.0,)))
    assert found.scores == (Curve("mix", (8, 16), (20.0, 30.0)), Curve("conv", (), ()))
    with pytest.raises(BertVisionError, match="the log tells of head 2, and 2 names were given"):
        fit_curves(lines, ["mix", "concat"])


def row(fraction: float, f1: float | None, held_out: float | None, **others: Any) -> dict[str, Any]:  # noqa: ANN401
    plain = {"head": "mix", "options": {"layers": "0..2"}, "lr": 1e-3, "seed": 0}
    return {**plain, "fraction": fraction, "metrics": {"f1": f1}, "held_out": held_out, **others}


def test_less_data_gives_a_curve_over_shares_in_ascending_order_with_means_over_seeds() -> None:
    board = [row(1.0, 60.0, 61.0), row(0.1, 30.0, 31.0), row(0.1, 40.0, 41.0, seed=1)]
    (found,) = less_data_curves(board, "f1")
    assert (found.head, found.options, found.fractions) == ("mix", '{"layers": "0..2"}', (0.1, 1.0))
    assert [(point.mean, point.seeds) for point in found.scores] == [(35.0, 2), (60.0, 1)]
    # spread √50, error 5, t with one degree of freedom 12.7062
    assert found.scores[0].high == about(35.0 + 5 * 12.7062, FLOAT32)
    assert json.loads(json.dumps(asdict(found), allow_nan=False))["scores"][1]["low"] is None


def test_the_learning_rate_is_chosen_on_held_out_examples_for_all_seeds_together() -> None:
    board = [
        *(row(0.1, 70.0, held_out, seed=seed) for seed, held_out in enumerate((50.0, 10.0))),  # better on dev
        *(row(0.1, 20.0, held_out, seed=seed, lr=3e-3) for seed, held_out in enumerate((40.0, 41.0))),
        row(0.1, 90.0, None, lr=1e-2),  # nobody judged it
    ]
    (found,) = less_data_curves(board, "f1")
    assert (found.scores[0].mean, found.rates) == (20.0, (3e-3,))
    (equal,) = less_data_curves([row(0.1, 80.0, 50.0, lr=1e-2), row(0.1, 70.0, 50.0)], "f1")
    assert equal.rates == (1e-3,)


def test_other_training_options_are_no_seeds() -> None:
    board = [row(0.1, 70.0, 50.0, warmup=0.1, schedule="linear"), row(0.1, 20.0, 60.0, warmup=0.1, schedule="cosine")]
    (found,) = less_data_curves(board, "f1")
    assert [(point.mean, point.seeds) for point in found.scores] == [(20.0, 1)]


def test_heads_and_options_have_curves_of_their_own_and_undefined_values_none() -> None:
    board = [row(1.0, 1.0, 1.0), row(1.0, 2.0, 1.0, options={}), row(1.0, 3.0, 1.0, head="conv"), row(0.5, None, 1.0)]
    found = less_data_curves(board, "f1")
    assert [(curve.head, curve.options, curve.fractions) for curve in found] == [
        ("mix", '{"layers": "0..2"}', (1.0,)),
        ("mix", "{}", (1.0,)),
        ("conv", '{"layers": "0..2"}', (1.0,)),
    ]


TABLE: dict[str, Any] = {
    "freeze_point": {"snapshot": "0.3", "epochs": 0.3, "best_later": "1", "gained_beyond": 0.1},
    "points": [
        {"epochs": 0.1, "own": None, "head": None, "held_out": None},
        {
            "epochs": 0.3,
            "own": {"f1": 33.9},
            "head": {"head": "mix", "metrics": {"f1": 43.8}},
            "held_out": 45.0,
        },
        {"epochs": 1.0, "own": {"f1": 44.8}, "head": {"head": "conv", "metrics": {"f1": 51.0}}, "held_out": 45.1},
    ],
}


def test_the_freeze_curve_has_a_point_for_each_snapshot_and_turns_into_json() -> None:
    found = freeze_curve(TABLE, "f1")
    assert found == FreezeCurve(
        epochs=(0.1, 0.3, 1.0),
        own=(None, 33.9, 44.8),
        heads=(None, 43.8, 51.0),
        names=(None, "mix", "conv"),
        held_out=(None, 45.0, 45.1),
        freeze_point=0.3,
    )
    assert json.loads(json.dumps(asdict(found), allow_nan=False))["own"] == [None, 33.9, 44.8]
    assert freeze_curve({**TABLE, "freeze_point": None}, "f1").freeze_point is None


def test_a_metric_that_nobody_has_is_answered_with_those_there_are() -> None:
    for ask in (
        lambda: tune_curves(TUNED, "f2"),
        lambda: less_data_curves([row(1.0, 1.0, 1.0)], "f2"),
        lambda: freeze_curve(TABLE, "f2"),
    ):
        with pytest.raises(BertVisionError, match=r"unknown metric 'f2'\. Known: f1"):
            ask()
