"""Tables of sentence cells: best values bold, tests in words, nothing where nothing was measured."""

from typing import Any

from bertvision.bench.sentence_table import add_tests, sentences_markdown


def cell(method: str, accuracy: float, predictions: str, *, shots: int | None = None, seed: int = 0) -> dict[str, Any]:
    return {
        "settings": {"task": "sst2", "encoder": "minilm", "method": method, "shots": shots, "most": None},
        "seed": seed,
        "metrics": {"accuracy": accuracy},
        "seconds": {"encode": 2.0, "fit": 0.26, "predict": 1.0},
        "parameters": 1234,
        "examples": 2000,
        "predictions": predictions,
    }


RIGHT = "01" * 100
WRONG = "01" * 70 + "10" * 30
RECORD: dict[str, Any] = {
    "golds": {"sst2": RIGHT},
    "tests": [],
    "cells": [
        cell("last_layer", 0.7, WRONG),
        cell("layer_concat", 1.0, RIGHT),
        cell("layer_concat", 0.6, RIGHT, shots=8),
        cell("layer_concat", 0.7, RIGHT, shots=8, seed=1),
        cell("setfit", 0.5, RIGHT, shots=8),
        cell("embeddings", 0.7, RIGHT, shots=128),
    ],
}


def test_all_layers_are_tested_against_every_other_method_that_learnt_from_all_examples() -> None:
    (test,) = add_tests(RECORD)["tests"]
    assert (test["task"], test["against"], test["metric"]) == ("sst2", "last_layer", "accuracy")
    assert abs(test["value"] - 0.3) < 1e-9
    assert test["p"] < 0.01
    assert RECORD["tests"] == []


def test_the_tables_have_values_spreads_tests_and_seconds() -> None:
    tables = sentences_markdown(add_tests(RECORD))
    assert "| sst2, accuracy | 70.0 | **100.0** | +30.0, higher (0.001) |" in tables
    assert "| sst2, accuracy | 8 |  | **65.0 ± 7.1** |  | 50.0 |" in tables
    assert "| sst2, accuracy | 128 |  |  | **70.0** |  |" in tables
    assert "| sst2 | 2,000 | all layers, ours | 2.0 | 0.3 | 1.0 | 1,234 |" in tables


def test_without_few_examples_there_is_no_table_of_them() -> None:
    tables = sentences_markdown({**RECORD, "cells": RECORD["cells"][:2]})
    assert "Few examples" not in tables
    assert "| sst2, accuracy | 70.0 | **100.0** |  |" in tables
