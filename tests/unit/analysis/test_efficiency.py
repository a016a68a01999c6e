import json
from dataclasses import asdict

import pytest

from bertvision.analysis.efficiency import CostRow, efficiency, efficiency_table, pareto_front
from bertvision.errors import BertVisionError

PRINTED = 0.005
"""Two digits after the point."""

DOCUMENT_001 = (
    CostRow(name="L12", f1=76.3, parameters=108_311_810, training_seconds=255 * 60.0),
    CostRow(name="L6", f1=75.2, parameters=42_548_738, training_seconds=218 * 60.0),
    CostRow(name="L3", f1=72.5, parameters=21_294_338, training_seconds=203 * 60.0),
    CostRow(name="L1", f1=65.9, parameters=7_124_738, training_seconds=193 * 60.0),
    CostRow(name="L0", f1=53.1, parameters=39_938, training_seconds=188 * 60.0),
    CostRow(name="L0-A64", f1=69.8, parameters=2_417_664, training_seconds=203 * 60.0, inference_seconds=154.8),
    CostRow(name="L0-A768", f1=75.0, parameters=28_388_354, training_seconds=253 * 60.0, inference_seconds=188.8),
)


def test_the_documents_figure_is_reproduced() -> None:
    assert efficiency(75.2, 42_548_738) == pytest.approx(3.30, abs=PRINTED)


def test_it_is_points_above_50_by_powers_of_ten() -> None:
    assert efficiency(80.0, 1000) == pytest.approx(10.0)
    assert efficiency(44.0, 100) == pytest.approx(-3.0)


def test_a_model_is_on_the_front_if_no_other_beats_it() -> None:
    # L1 has more parameters than L0-A64 and is worse; L3 costs as many minutes and is better
    assert pareto_front(DOCUMENT_001, "parameters") == ("L0", "L0-A64", "L3", "L0-A768", "L6", "L12")
    assert pareto_front(DOCUMENT_001, "training_seconds") == ("L0", "L1", "L3", "L6", "L12")
    assert pareto_front(DOCUMENT_001[::-1], "training_seconds") == ("L0", "L1", "L3", "L6", "L12")


def test_models_that_nobody_measured_are_left_out() -> None:
    assert pareto_front(DOCUMENT_001, "inference_seconds") == ("L0-A64", "L0-A768")
    assert pareto_front(DOCUMENT_001[:5], "inference_seconds") == ()


def test_the_same_quality_for_more_is_beaten_and_equal_models_are_not() -> None:
    rows = [CostRow(name=name, f1=f1, parameters=cost) for name, f1, cost in (("a", 60, 9), ("b", 60, 5), ("c", 60, 5))]
    assert pareto_front(rows, "parameters") == ("b", "c")


def test_the_table_says_what_each_model_is_best_at_and_turns_into_json() -> None:
    table = efficiency_table(DOCUMENT_001)
    assert [row.cost.name for row in table] == [row.name for row in DOCUMENT_001]
    assert {row.cost.name: row.best_at for row in table} == {
        "L12": ("parameters", "training_seconds"),
        "L6": ("parameters", "training_seconds"),
        "L3": ("parameters", "training_seconds"),
        "L1": ("training_seconds",),
        "L0": ("parameters", "training_seconds"),
        "L0-A64": ("parameters", "inference_seconds"),
        "L0-A768": ("parameters", "inference_seconds"),
    }
    assert max(table, key=lambda row: row.efficiency).cost.name == "L0-A768"  # 25 / 7.453 = 3.35
    assert json.loads(json.dumps(asdict(table[1]), allow_nan=False))["efficiency"] == pytest.approx(3.30, abs=PRINTED)


def test_numbers_and_names_that_cannot_be_are_refused() -> None:
    with pytest.raises(BertVisionError, match="1 parameters have no logarithm to divide by"):
        efficiency(60.0, 1)
    with pytest.raises(BertVisionError, match="F1 is 101; 0 to 100 percent is expected"):
        efficiency(101.0, 10)
    with pytest.raises(BertVisionError, match="two models are called 'L6'"):
        efficiency_table([*DOCUMENT_001, DOCUMENT_001[1]])
    with pytest.raises(BertVisionError, match=r"unknown cost 'parameter'\. Did you mean 'parameters'"):
        pareto_front(DOCUMENT_001, "parameter")  # type: ignore[arg-type]  # the point of the test
