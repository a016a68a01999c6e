"""bench/tables_of_goals.py: what is reached and missed, from records made up by hand."""

from typing import Any

import pytest

from bertvision.bench.compare import Measured, measured_cells
from bertvision.errors import BertVisionError
from suite_record import entry, model, record
from tables_of_goals import (
    LOOP,
    MISSED,
    OURS,
    PACKS,
    REACHED,
    STEPS,
    TABLE_SECONDS,
    ablation_table,
    curve,
    curve_table,
    goals_table,
    whole_table,
)

GOOD, MIDDLE, POOR = (" ".join(["1"] * right + ["0"] * (100 - right)) for right in (90, 75, 60))
RIGHT = " ".join("01" * 50)
WRONG = " ".join("01" * 30 + "10" * 20)


def told(outcomes: str, **more: float) -> dict[str, Any]:
    """A model whose F1 is that of its outcomes."""
    found: dict[str, Any] = model(float(outcomes.count("1")), outcomes=outcomes, **more)
    return found


def rival(ours: str, *, fast: float = 10.0, learnt: int = 2) -> list[dict[str, Any]]:
    """The plain loop takes 20 and 40 s, and is mediocre; ours takes `fast` seconds, and is as good as told."""
    slow = {"1": told(POOR, epochs=1, seconds=20), "2": told(MIDDLE, epochs=2, seconds=40)}
    quick = {
        "1": told(MIDDLE, epochs=1, seconds=fast / 2),
        "2": told(ours, epochs=2, seconds=fast) | {"parameters": learnt},
    }
    changed: dict[str, dict[str, Any]] = {}
    for _, words, _ in STEPS:
        cell, _, name = words.partition(":")
        changed.setdefault(cell, {})[name] = told(MIDDLE, held_out=40)
    changed |= {LOOP: slow, OURS: quick, "full": {"2": told(GOOD) | {"parameters": 100}}}
    changed[PACKS] |= {"own_output@2": told(MIDDLE, held_out=50)}
    return [entry(name, "heads" if "heads" in name else "tune", 0, models) for name, models in changed.items()]


def heads(late: str, early: str, joined: str, *, seconds: float = 60.0) -> list[dict[str, Any]]:
    """One small head, better with 0.3 epochs than its encoder by as much as told, and an ensemble."""
    models: dict[str, Any] = {}
    for tuned, head in (("0.3", early), ("1", late)):
        models[f"own_output@{tuned}"] = told(POOR)
        models[f"layer_mix@{tuned}"] = told(head, held_out=70) | {"head_parameters": 1}
        models[f"ladder@{tuned}"] = told(GOOD, held_out=60) | {"head_parameters": 90}
        models |= {f"{way}@{tuned}": told(joined if way == "mean" else POOR, held_out=50) for way in ("max", "greedy")}
        models[f"mean@{tuned}"] = told(joined, held_out=80)
    encoder = entry("encoder", "tune", 0, {"2": told(MIDDLE)}, total=1000)
    return [encoder | {"seconds": seconds}, entry("heads", "heads", 0, models) | {"seconds": seconds}]


def sentences(last: str) -> list[dict[str, Any]]:
    whole = {"layer_concat": told(RIGHT), "last_layer": told(last)}
    found = entry("sst2", "sentences", 0, whole, golds=RIGHT)
    found["settings"] = {"task": "sst2", "encoder": "mpnet", "methods": ["last_layer"], "per_class": None}
    return [found]


def cells_of(*entries: dict[str, Any]) -> list[Measured]:
    content = record(*entries)
    for planned in content["plan"]:
        planned["settings"] = next(one["settings"] for one in entries if one["name"] == planned["name"])
    return measured_cells(content)


def verdicts(*entries: dict[str, Any]) -> list[str]:
    return [line.split("|")[-2].strip() for line in goals_table(cells_of(*entries)).splitlines()[2:]]


def test_everything_can_be_reached() -> None:
    found = verdicts(*heads(GOOD, GOOD, GOOD), *rival(GOOD), *sentences(WRONG))
    assert len(found) == 12
    ensembles = slice(8, 11)  # these are no better than the best single model
    assert set(found[:8] + found[11:]) == {REACHED}
    assert set(found[ensembles]) == {MISSED}


def test_everything_can_be_missed() -> None:
    found = verdicts(*heads(POOR, POOR, POOR, seconds=TABLE_SECONDS), *rival(POOR), *sentences(RIGHT))
    assert [found[4], found[5], found[6]] == [MISSED] * 3  # less F1 than the loop at its end
    assert set(found[:4] + found[7:]) == {MISSED}


def test_an_ensemble_that_held_out_questions_choose_can_be_better() -> None:
    found = verdicts(*heads(MIDDLE, MIDDLE, GOOD), *rival(MIDDLE), *sentences(WRONG))
    assert found[8:11] == [REACHED, REACHED, MISSED]
    assert found[4:7] == [MISSED, REACHED, MISSED]  # level with the loop at its end, and much faster


def test_a_large_pack_does_not_count() -> None:
    found = verdicts(*heads(GOOD, GOOD, GOOD), *rival(GOOD, learnt=3), *sentences(WRONG))
    assert found[4:6] == [MISSED, MISSED]


def test_ours_is_the_latest_snapshot_that_takes_no_longer() -> None:
    one, two = curve(cells_of(*rival(GOOD, fast=18.0)))
    assert [(moment.full.epochs, moment.half.epochs) for moment in (one, two)] == [("2", "1"), ("2", "2")]
    assert (one.full.test.value, one.half.test.value, two.full.test.value) == pytest.approx((30.0, 15.0, 15.0))
    first = curve_table(cells_of(*rival(GOOD, fast=18.0))).splitlines()[2]
    assert first.startswith("| 1: 60.0 | 20.0 s | 2: 90.0 | 18.0 s | +30.0 (")


def test_a_loop_that_is_faster_than_ours_is_no_comparison() -> None:
    with pytest.raises(BertVisionError, match=r"no snapshot of lora takes 10\.0 s or less"):
        curve(cells_of(*rival(GOOD, fast=30.0)))


def test_every_change_has_its_difference() -> None:
    first, second, third, *rest = ablation_table(cells_of(*rival(GOOD))).splitlines()[2:]
    assert first.endswith("| 70.0 | 75.0 |  |  | 40.0 s |")
    assert "| 0.0 (0.0 to 0.0) | no difference |" in second
    assert "| +15.0 (" in third
    assert len(rest) == len(STEPS) - 3


def test_what_is_not_measured_is_named() -> None:
    with pytest.raises(BertVisionError, match="'plain lora:2' is not measured"):
        ablation_table([])
    with pytest.raises(BertVisionError, match="'plain lora' is not measured"):
        curve_table([])


def test_the_whole_table_takes_the_mean_of_the_seeds_that_were_timed() -> None:
    first = heads(GOOD, GOOD, GOOD)
    second, untimed = (
        [one | {"seed": seed, "seconds": took} for one in first] for seed, took in ((1, 90.0), (2, None))
    )
    goal = whole_table(cells_of(*first, *second, *untimed))
    assert (goal.measured, goal.so) == ("150 s", REACHED)
    with pytest.raises(BertVisionError, match="'encoder' and 'heads' were not timed with the same seed"):
        whole_table(cells_of(*untimed))
