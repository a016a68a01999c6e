"""Which heads of a run are seeds of each other."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from bertvision.runs.analysing.analyse_layers import seed_groups
from bertvision.runs.judging.subject import Subject


@pytest.mark.parametrize(
    "changes", [{"warmup": 0.3}, {"schedule": "cosine"}, {"clip": 0.0}, {"weight_decay": 0.1}, {"lr": 0.1}]
)
def test_heads_that_were_trained_otherwise_are_no_seeds_of_each_other(changes: dict[str, Any]) -> None:
    plain = {"head": "layer_mix", "options": {"norm": False}, "lr": 1e-3, "fraction": 1.0, "schedule": "linear"}
    heads = {"0": {**plain, "seed": 1}, "1": {**plain, "seed": 0}, "2": {**plain, "seed": 0, **changes}}
    subject = cast("Subject", SimpleNamespace(run=SimpleNamespace(heads=heads)))
    assert [group.models for group in seed_groups(subject, {})] == [("1", "0"), ("2",)]
