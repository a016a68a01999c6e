from pathlib import Path
from typing import Any

import pytest

from bertvision.errors import BertVisionError
from bertvision.runs.search_space import Choice, Point, Range, load_space, parse_space


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


MIX: dict[str, Any] = {"head": {"layer_mix": {}}}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"kind": "haeds"}, "unknown kind 'haeds'. Did you mean 'heads'"),
        ({"lrr": 0.1, **MIX}, "unknown name in a space of heads 'lrr'. Did you mean 'lr'"),
        ({"kind": "tune", "lern": "full"}, "unknown name in a space of tune 'lern'. Did you mean 'learn'"),
        ({"head": {"layermix": {}}}, "unknown head 'layermix'. Did you mean 'layer_mix'"),
        (
            {"head": {"layer_mix": {"dropuot": 0.1}}},
            "unknown option of head 'layer_mix' 'dropuot'. Did you mean 'dropout'",
        ),
        ({"lr": {"low": 1, "hihg": 2}, **MIX}, "unknown key of the range lr 'hihg'. Did you mean 'high'"),
        ({"layer_mix": {}}, r"'layer_mix' is a head. Its table is called \[head.layer_mix\]"),
        ({"seed": [0, 1], **MIX}, "the seed is never searched"),
        ({"head": {"layer_mix": {"seed": 1}}}, "the seed is never searched"),
        ({"kind": "tune", "epochs": [1, 2]}, "epochs are the same for all trials.*Use --epochs"),
        ({"lr": 1e-3}, "there is no head to choose"),
        ({"kind": "tune"}, "there is nothing to choose"),
        ({"head": ["layer_mix"]}, r"a table \[head.NAME\] for each head is expected"),
        ({"lr": [], **MIX}, "lr is an empty list"),
        ({"lr": [[1e-3]], **MIX}, r"lr has \[0.001\]"),
        ({"lr": "fast", **MIX}, "option lr is 'fast', a number is expected"),
        ({"lr": -1.0, **MIX}, "lr is -1, more than 0 and less than"),
        ({"warmup": {"low": 0.5, "high": 1.5}, **MIX}, "warmup is 1.5, at least 0 and less than 1"),
        ({"lr": {"low": 1e-2, "high": 1e-3}, **MIX}, "two numbers, low < high, are expected"),
        ({"lr": {"low": 1e-2}, **MIX}, "two numbers, low < high, are expected"),
        ({"schedule": {"low": "linear", "high": "cosine"}, **MIX}, "two numbers, low < high"),
        ({"weight_decay": {"low": 0.0, "high": 1.0, "log": True}, **MIX}, "log = true needs low > 0 and no step"),
        ({"lr": {"low": 0.1, "high": 0.2, "step": 0}, **MIX}, "step of the range lr is 0"),
        ({"head": {"adapter_pool": {"size": [16, 0]}}}, "head 'adapter_pool': option size is 0"),
        ({"head": {"adapter_pool": {"size": {"low": 1.5, "high": 4}}}}, "option size is 1.5, a whole number"),
        ({"head": {"layer_mix": {"layers": 3}}}, "option layers is 3, a word is expected"),
        ({"kind": "tune", "learn": ["lora:4", "lora"]}, "lora"),
        ({"kind": "tune", "dropout": 1.5}, "dropout is 1.5, at least 0 and less than 1"),
    ],
)
def test_what_is_wrong_is_said_with_the_nearest_right_name(content: dict[str, Any], message: str) -> None:
    with pytest.raises(BertVisionError, match=message):
        parse_space(content)


def test_a_file_is_named_in_its_errors(tmp_path: Path) -> None:
    file = tmp_path / "space.toml"
    with pytest.raises(BertVisionError, match=r"space.toml cannot be read as TOML"):
        load_space(file)
    file.write_text("lr = ", encoding="utf-8")
    with pytest.raises(BertVisionError, match=r"space.toml cannot be read as TOML"):
        load_space(file)
    file.write_text("[head.layer_mux]\n", encoding="utf-8")
    with pytest.raises(BertVisionError, match=r"space.toml: unknown head 'layer_mux'. Did you mean 'layer_mix'"):
        load_space(file)
    file.write_text("lr = [1e-3, 3e-3]\n[head.layer_mix]\n", encoding="utf-8")
    assert load_space(file).learning == {"lr": Choice(values=(1e-3, 3e-3))}
