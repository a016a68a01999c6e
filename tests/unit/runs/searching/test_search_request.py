from typing import Any

import pytest

from bertvision.errors import BertVisionError
from bertvision.runs.searching.search_file import parse_space
from bertvision.runs.searching.search_request import SearchRequest
from bertvision.runs.searching.search_space import Point
from bertvision.training.options import TuneOptions


def request(**changes: Any) -> SearchRequest:  # noqa: ANN401 - any field
    fields: dict[str, Any] = {"task": "sst2", "space": parse_space({"head": {"layer_mix": {}}})}
    return SearchRequest(**(fields | changes))


def several(space: dict[str, Any], **changes: Any) -> SearchRequest:  # noqa: ANN401 - any field
    return request(task="sst2, sts,squad2", space=parse_space({"kind": "multitask", **space}), **changes)


def test_rungs_are_a_ninth_a_third_and_all_of_the_epochs() -> None:
    assert request(epochs=1.0).rung_epochs(90) == {10 / 90: 1, 30 / 90: 3, 1.0: 9}
    assert request(epochs=4.0, rungs=2, reduction=2).rung_epochs(10) == {2.0: 1, 4.0: 2}


def test_rungs_that_fall_on_one_step_are_one() -> None:
    assert request(epochs=1.0).rung_epochs(2) == {0.5: 3, 1.0: 9}
    assert request(epochs=1.0).rung_epochs(1) == {1.0: 9}


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


def test_what_is_chosen_for_one_task_wins_over_what_is_for_all() -> None:
    tasks = {
        "sts": Point(learning={"cap": 9, "ask": "Alike?"}, head=None, options={}),
        "squad2": Point(learning={"cap": "none"}, head="last_layer", options={"dropout": 0.2}),
    }
    learning: dict[str, Any] = {"lr": 0.1, "input": "qa", "order": "temperature", "temperature": 3.0, "balance": True}
    point = Point(learning=learning, head="layer_mix", options={}, tasks=tasks)
    asked = several({"lr": 0.1}, seed=5, held_out=0.3).multitask(point, (0.5,))
    assert asked.tasks == ("sst2", "sts", "squad2")
    assert asked.heads_of == {"sst2": "layer_mix", "sts": "layer_mix", "squad2": "last_layer"}
    assert (asked.options_of, asked.caps, asked.questions) == (
        {"squad2": {"dropout": 0.2}},
        {"sts": 9},
        {"sts": "Alike?"},
    )
    assert (asked.input, asked.order, asked.temperature, asked.balance) == ("qa", "temperature", 3.0, True)
    assert (asked.options.lr, asked.options.seed, asked.held_out, asked.snapshots) == (0.1, 5, 0.3, (0.5,))
    plain = several({"lr": 0.1}).multitask(Point(learning={}, head=None, options={}))
    assert (plain.heads_of, plain.options_of, plain.caps, plain.input) == ({}, {}, {}, "apart")


def test_tasks_in_sequence_are_judged_when_all_have_had_their_turn() -> None:
    mixed = several({"order": "round-robin"}, epochs=3.0)
    assert mixed.rung_epochs(10) == {3 / 10: 1, 1.0: 3, 3.0: 9}
    for space in ({"lr": 0.1}, {"order": ["proportional", "sequence"]}):  # sequence is the default
        assert several(space, epochs=9.0).rung_epochs(10) == {1.0: 1, 3.0: 3, 9.0: 9}
        assert several(space, epochs=3.0).rung_epochs(10) == {1.0: 3, 3.0: 9}
        assert several(space, epochs=1.0).rung_epochs(10) == {1.0: 9}
        assert "none is pruned" in several(space, epochs=1.0).notices()[0]
    assert several({"lr": 0.1}, epochs=1.5).rung_epochs(10) == {1.0: 3, 1.5: 9}
    assert (
        several({"lr": 0.1}, epochs=1.5).notices()
        == several({"lr": 0.1}, epochs=2.0).notices()
        == mixed.notices()
        == request().notices()
        == []
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"epochs": float("nan")}, "--epochs is nan"),
        ({"epochs": float("inf")}, "--epochs is inf"),
        ({"epochs": -1.0}, "--epochs is -1"),
        ({"batch": 0}, "--batch is 0"),
        ({"fraction": 2.0}, "--fraction is 2"),
        ({"held_out": 1.0}, "--held-out is 1"),
    ],
)
def test_what_no_trial_could_learn_with_is_refused_at_once(options: dict[str, Any], said: str) -> None:
    with pytest.raises(BertVisionError, match=said):
        several({"lr": 0.1}, **options).check()


def test_several_tasks_and_their_space_belong_together() -> None:
    with pytest.raises(BertVisionError, match="sst2,sts are several tasks, which a space of kind multitask is for"):
        request(task="sst2,sts").check()
    with pytest.raises(BertVisionError, match="the space names quora, which is none of the tasks sst2, sts, squad2"):
        several({"task": {"quora": {"cap": 9}}}).check()
    with pytest.raises(BertVisionError, match="--pool is attention, cls or mean is expected in a search of kind multi"):
        several({"lr": 0.1}, pool="attention").check()
    several({"task": {"sts": {"cap": 9}}}).check()


def test_machines_may_differ_in_where_their_data_are_and_in_nothing_that_counts() -> None:
    first = request(data="here", device="cpu").settings()
    assert first == request(data="there", device="cuda").settings()
    assert first != request(data="here", device="cpu", epochs=2.0).settings()
