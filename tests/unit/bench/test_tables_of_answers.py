"""bench/tables_of_answers.py: ours against each alternative, from records made up by hand."""

from typing import Any

import pytest

from bertvision.bench.compare import measured_cells
from bertvision.errors import BertVisionError
from suite_record import entry, model, record
from tables_of_answers import ANSWERS, answers_table

BETTER, WORSE = " ".join(["1"] * 100), " ".join(["1"] * 50 + ["0"] * 50)


def measured(seeds: dict[str, int]) -> list[dict[str, Any]]:
    """All models of the table: ours with F1 100, the others with 50, each seed one more than the last."""
    better = {one.first for one in ANSWERS}
    cells: dict[str, dict[str, str]] = {}
    for words in {one for answer in ANSWERS for one in (answer.first, answer.second)}:
        cell, _, name = words.partition(":")
        cells.setdefault(cell, {})[name] = BETTER if words in better else WORSE
    return [
        entry(
            cell,
            "heads" if "heads" in cell else "tune",
            seed,
            {
                name: model(seed + (80 if outcomes == BETTER else 40), seconds=10 + 2 * seed, outcomes=outcomes)
                for name, outcomes in models.items()
            },
        )
        for cell, models in cells.items()
        for seed in range(seeds.get(cell, 2))
    ]


def test_a_row_has_both_scores_the_difference_and_what_both_cost() -> None:
    first, *rest = answers_table(measured_cells(record(*measured({})))).splitlines()[2:]
    assert len(rest) == len(ANSWERS) - 1
    assert first == (
        "| `lora:16` | `lora:16`, plain loop | 80.5 / 40.5 | +50.0 (+40.0 to +60.0) | +50.0, +50.0 | higher "
        "| 11.0 / 11.0 | 8.2 / 8.2 | 2 / 2 |"
    )


def test_scores_are_of_the_seeds_that_both_have_and_costs_of_all() -> None:
    first, *_ = answers_table(measured_cells(record(*measured({"plain lora": 1})))).splitlines()[2:]
    assert "| 80.0 / 40.0 |" in first
    assert "| +50.0 | higher | 11.0 / 10.0 |" in first


def test_a_model_that_is_not_measured_is_named() -> None:
    with pytest.raises(BertVisionError, match="'lora:2' and 'plain lora:2' are not measured"):
        answers_table([])
