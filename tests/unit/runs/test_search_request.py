from typing import Any

import numpy as np
import pytest

from bertvision.errors import BertVisionError
from bertvision.runs.search_request import SearchRequest
from bertvision.runs.search_space import Point, parse_space
from bertvision.training.options import TuneOptions
from bertvision.training.plan import Plan


def request(**changes: Any) -> SearchRequest:  # noqa: ANN401 - any field
    return SearchRequest(task="sst2", space=parse_space({"head": {"layer_mix": {}}}), **changes)


def plan(windows: int, epochs: float) -> Plan:
    return Plan(np.ones(windows, dtype=np.int64), TuneOptions(epochs=epochs, batch=1))


def test_rungs_are_a_ninth_a_third_and_all_of_the_epochs() -> None:
    assert request(epochs=1.0).rung_epochs(plan(90, 1.0)) == {10 / 90: 1, 30 / 90: 3, 1.0: 9}
    assert request(epochs=4.0, rungs=2, reduction=2).rung_epochs(plan(10, 4.0)) == {2.0: 1, 4.0: 2}


def test_rungs_that_fall_on_one_step_are_one() -> None:
    assert request(epochs=1.0).rung_epochs(plan(2, 1.0)) == {0.5: 3, 1.0: 9}
    assert request(epochs=1.0).rung_epochs(plan(1, 1.0)) == {1.0: 9}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rungs": 0, "reduction": 1, "together": 0}, "--rungs is 0.*--reduction is 1.*--together is 0"),
        ({"held_out": 0.0}, "--held-out is 0, but trials are judged"),
        ({"source": "auto"}, "--from is 'auto', stream or store:DIR is expected"),
    ],
)
def test_values_that_cannot_work_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(BertVisionError, match=message):
        request(**changes).check()


def test_a_trial_of_tuning_has_the_settings_of_its_point_and_the_search_s_seed() -> None:
    point = Point(
        learning={"learn": "lora:4", "lr": 0.1, "dropout": "none"}, head="layer_mix", options={"dropout": 0.2}
    )
    asked = request(epochs=2.0, seed=5, batch=7).tuning(point, (0.5,))
    assert (asked.learn, asked.head, asked.head_options, asked.snapshots) == (
        "lora:4",
        "layer_mix",
        {"dropout": 0.2},
        (0.5,),
    )
    assert asked.options == TuneOptions(epochs=2.0, batch=7, seed=5, lr=0.1, dropout=None)


def test_machines_may_differ_in_where_their_data_are_and_in_nothing_that_counts() -> None:
    first = request(data="here", device="cpu").settings()
    assert first == request(data="there", device="cuda").settings()
    assert first != request(data="here", device="cpu", epochs=2.0).settings()
