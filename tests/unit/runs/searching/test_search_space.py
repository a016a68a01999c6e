from typing import Any

from bertvision.runs.searching.search_file import parse_space
from bertvision.runs.searching.search_space import Choice, Point, Range


class Largest:
    """Chooses the last, or the largest, of everything, and notes it."""

    def __init__(self) -> None:
        self.chosen: dict[str, Any] = {}

    def suggest_categorical(self, name: str, choices: tuple[Any, ...]) -> Any:  # noqa: ANN401 - as Optuna's
        self.chosen[name] = choices[-1]
        return choices[-1]

    def suggest_int(self, name: str, low: int, high: int, *, step: int = 1, log: bool = False) -> int:
        assert (low, step, log) == (8, 8, False)
        self.chosen[name] = high
        return high

    def suggest_float(
        self, name: str, low: float, high: float, *, step: float | None = None, log: bool = False
    ) -> float:
        assert (low, step, log) == (1e-4, None, True)
        self.chosen[name] = high
        return high


HEADS: dict[str, Any] = {
    "lr": {"low": 1e-4, "high": 1, "log": True},
    "warmup": 0.1,
    "head": {"layer_mix": {}, "adapter_pool": {"size": {"low": 8, "high": 64, "step": 8}, "skip": [True, False]}},
}


def test_lists_tables_and_plain_values_are_choices_ranges_and_single_values() -> None:
    space = parse_space(HEADS)
    assert space.kind == "heads"
    assert space.learning == {"lr": Range(low=1e-4, high=1.0, log=True), "warmup": Choice(values=(0.1,))}
    assert space.heads["adapter_pool"] == {
        "size": Range(low=8, high=64, step=8),
        "skip": Choice(values=(True, False)),
    }


def test_what_is_suggested_is_what_a_point_is_made_of() -> None:
    space, trial = parse_space(HEADS), Largest()
    space.suggest(trial)
    assert trial.chosen == {
        "lr": 1.0,
        "warmup": 0.1,
        "head": "adapter_pool",
        "adapter_pool.size": 64,
        "adapter_pool.skip": False,
    }
    assert space.point(trial.chosen) == Point(
        learning={"lr": 1.0, "warmup": 0.1}, head="adapter_pool", options={"size": 64, "skip": False}
    )


def test_a_space_of_tuning_has_what_learns_and_may_have_no_head() -> None:
    space = parse_space({"kind": "tune", "learn": ["lora:4", "top:1"], "batch": {"low": 8, "high": 16}})
    assert space.learning["learn"] == Choice(values=("lora:4", "top:1"))
    assert space.point({"learn": "top:1", "batch": 8}).head is None


def test_what_is_chosen_for_one_task_of_several_has_its_name() -> None:
    space = parse_space(
        {
            "kind": "multitask",
            "input": ["apart", "qa"],
            "head": {"layer_mean": {}},
            "task": {"sts": {"cap": [9, "none"]}, "squad2": {"head": {"adapter_pool": {"skip": [True]}}}},
        }
    )
    trial = Largest()
    space.suggest(trial)
    assert trial.chosen == {
        "input": "qa",
        "head": "layer_mean",
        "sts.cap": "none",
        "squad2.head": "adapter_pool",
        "squad2.adapter_pool.skip": True,
    }
    point = space.point(trial.chosen)
    assert (point.learning, point.head) == ({"input": "qa"}, "layer_mean")
    assert point.tasks == {
        "sts": Point(learning={"cap": "none"}, head=None, options={}),
        "squad2": Point(learning={}, head="adapter_pool", options={"skip": True}),
    }
