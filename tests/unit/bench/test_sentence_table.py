"""Tables of sentence cells: best values bold, spreads, costs, and a dash where nothing was measured."""

from typing import Any

from bertvision.bench.sentence_table import sentences_markdown
from bertvision.report.numbers import NOTHING
from suite_record import PROVENANCE

RIGHT = " ".join("01" * 100)
WRONG = " ".join("01" * 70 + "10" * 30)


def model(accuracy: float, outcomes: str = RIGHT) -> dict[str, Any]:
    return {
        "seconds": 2.26,
        "encode_seconds": 2.0,
        "scores": {"plain": {"accuracy": accuracy}},
        "inference_seconds": 0.0104,
        "held_out": None,
        "outcomes": outcomes,
    }


def cell(name: str, models: dict[str, Any], *, per_class: int | None = None, seed: int = 0) -> dict[str, Any]:
    return {
        "name": name,
        "kind": "sentences",
        "settings": {"task": "sst2", "encoder": "minilm", "methods": list(models), "per_class": per_class},
        "seed": seed,
        "seconds": 60.0,
        "dirty": False,
        "result": {"models": models, "examples": 2000 if per_class is None else 2 * per_class, "golds": RIGHT},
        "provenance": PROVENANCE,
    }


def record(*cells: dict[str, Any]) -> dict[str, Any]:
    plan = {one["name"]: {key: one[key] for key in ("name", "kind", "settings")} for one in cells}
    return {
        "about": "Which is better?",
        "plan": list(plan.values()),
        "pairs": [{"first": "all:layer_concat", "second": "all:last_layer"}],
        "cells": {str(number): one for number, one in enumerate(cells)},
    }


WHOLE = cell("all", {"last_layer": model(0.7, WRONG), "layer_concat": model(1.0)})
FEW = [cell("8", {"layer_concat": model(value)}, per_class=8, seed=seed) for seed, value in enumerate((-0.6, -0.7))]
SETFIT = cell("8 setfit", {"setfit": model(-0.75)}, per_class=8)


def test_tables_have_values_spreads_and_costs_with_a_column_for_each_method() -> None:
    text = sentences_markdown(record(WHOLE, *FEW, SETFIT))
    assert text.startswith("Which is better?\n\n**minilm, all training examples**")
    assert "| sst2, accuracy | 2,000 | 70.0 | **100.0** |" in text
    assert "| sst2, accuracy | 8 | 16 | **\N{MINUS SIGN}65.0 ± 7.1** | \N{MINUS SIGN}75.0 |" in text
    cost = "2.0 + 0.3 s, 10.4 ms"
    assert f"| sst2, accuracy | {NOTHING} | 2,000 | {cost} | {cost} | {NOTHING} |" in text
    assert "2 seeds; H200; 4 minutes in all; commit 01234567." in text
    assert text.endswith("Fewer seeds: `8 setfit` 1.\n\nWithout any randomness, so measured once: `all`.")


def test_what_the_suite_compares_is_tested_by_the_first_metric() -> None:
    text = sentences_markdown(record(WHOLE))
    assert "| `all:layer_concat` | `all:last_layer` | +30.0 | " in text
    assert "few examples" not in text


def test_cells_with_changes_that_no_commit_has_are_marked_and_unknown_seconds_left_out() -> None:
    text = sentences_markdown(record(WHOLE | {"dirty": True, "seconds": None}, SETFIT))
    assert "| sst2, accuracy† | 2,000 |" in text
    assert "| sst2, accuracy | 8 | 16 |" in text
    assert "seed; H200; commit" in text


def test_cells_of_other_kinds_are_left_to_other_tables() -> None:
    assert "Not measured" not in sentences_markdown(record(WHOLE, SETFIT | {"kind": "tune"}))
    assert "8 setfit" not in sentences_markdown(record(WHOLE, SETFIT | {"kind": "tune"}))
