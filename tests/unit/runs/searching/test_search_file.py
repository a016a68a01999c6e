import math
from pathlib import Path
from typing import Any

import pytest

from bertvision.errors import BertVisionError
from bertvision.runs.searching.search_file import load_space, parse_space
from bertvision.runs.searching.search_space import Choice

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
        ({"lr": {"low": 0.1, "high": 0.2, "step": math.nan}, **MIX}, "step of the range lr is nan"),
        ({"lr": {"low": 0.1, "high": 0.2, "step": math.inf}, **MIX}, "step of the range lr is inf"),
        ({"head": {"adapter_pool": {"size": [16, 0]}}}, "head 'adapter_pool': option size is 0"),
        ({"head": {"adapter_pool": {"size": {"low": 1.5, "high": 4}}}}, "option size is 1.5, a whole number"),
        ({"head": {"layer_mix": {"layers": 3}}}, "option layers is 3, a word is expected"),
        ({"kind": "tune", "learn": ["lora:4", "lora"]}, "lora"),
        ({"kind": "tune", "dropout": 1.5}, "dropout is 1.5, at least 0 and less than 1"),
        ({"kind": "tune", "order": "sequence"}, "unknown name in a space of tune 'order'"),
        ({"kind": "tune", "task": {"sst2": {"cap": 1}}}, "unknown name in a space of tune 'task'"),
        ({"kind": "multitask"}, "there is nothing to choose"),
        ({"kind": "multitask", "inptu": "qa"}, "name in a space of multitask 'inptu'. Did you mean 'input'"),
        ({"kind": "multitask", "order": "random"}, "option order is 'random', one of sequence, round-robin"),
        ({"kind": "multitask", "temperature": [0.0]}, "option temperature is 0.0, a number more than 0"),
        ({"kind": "multitask", "seed": 1}, "the seed is never searched"),
        ({"kind": "multitask", "task": {"sst7": {"cap": 1}}}, "unknown task 'sst7'. Did you mean 'sst"),
        ({"kind": "multitask", "task": {"sst2": 7}}, r"a table \[task.NAME\] for a task is expected"),
        (
            {"kind": "multitask", "task": {"sst2": {"cpa": 1}}},
            "task 'sst2': unknown name in .* 'cpa'. Did you mean",
        ),
        ({"kind": "multitask", "task": {"sst2": {"cap": 0}}}, "task 'sst2': option cap is 0, .* at least 1"),
        ({"kind": "multitask", "task": {"sst2": {"ask": 5}}}, "task 'sst2': option ask is 5, a word is expected"),
        ({"kind": "multitask", "task": {"sst2": {"head": {"mix": {}}}}}, "task 'sst2': unknown head 'mix'"),
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
