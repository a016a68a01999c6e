import json
from pathlib import Path
from typing import Any

import pytest

from bertvision.bench.lengths import SQUAD_WINDOWS
from bertvision.cli.main import main

Capture = pytest.CaptureFixture[str]

LARGE = {
    "model_type": "bert",
    "hidden_size": 1024,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "intermediate_size": 4096,
}


@pytest.fixture
def large(tmp_path: Path) -> str:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LARGE), encoding="utf-8")
    return str(path)


def cost(capsys: Capture, *words: str) -> dict[str, Any]:
    assert main(["cost", *words, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_squad_with_bert_large_takes_the_original_five_terabytes_and_us_half_a_minute(
    large: str, capsys: Capture
) -> None:
    found = cost(capsys, "--encoder", large, "--gpus", "1,8", "--learn", "full")
    assert found["windows"] == SQUAD_WINDOWS
    assert found["bytes"]["original: float32, padded to 386"] / 1e12 == pytest.approx(5.2, abs=0.05)
    rows = {(row["what"], row["gpus"]): row for row in found["rows"]}
    assert rows["frozen pass", 1]["seconds"] == pytest.approx(30.6, rel=0.01)
    assert rows["tune, full, 1 epoch", 1]["seconds"] == pytest.approx(124, rel=0.05)
    assert rows["tune, full, 1 epoch", 8]["seconds"] < rows["tune, full, 1 epoch", 1]["seconds"] / 7
    assert rows["frozen pass", 8]["gpu_hours"] == pytest.approx(8 * rows["frozen pass", 8]["seconds"] / 3600)


def test_ten_million_passages_over_64_gpus_take_half_a_minute(large: str, capsys: Capture) -> None:
    words = ["--encoder", large, "--passages", "10000000", "--gpus", "64", "--learn", "none", "--price", "3"]
    found = cost(capsys, *words)
    (row, *_) = found["rows"]
    assert row["seconds"] == pytest.approx(36.3, rel=0.01)
    assert row["dollars"] == pytest.approx(3 * row["gpu_hours"])
    assert row["waiting"] < 0.01
    assert not [row for row in found["rows"] if row["what"].startswith("tune")]


def test_the_table_says_what_it_assumes(capsys: Capture) -> None:
    words = ["--passages", "1000", "--lengths", "50", "--heads", "layer_mix,adapter_pool", "--gpus", "1,2"]
    assert main(["cost", *words, "--learn", "lora:8", "--epochs", "2", "--keep", "int8", "--disk", "5"]) == 0
    printed = capsys.readouterr().out
    for word in ("minilm, 1,000 windows", "extract, int8", "tune, lora:8, 2 epochs", "heads, streamed", "60.4%"):
        assert word in printed
    assert "Disks: 5 GB/s" in printed


def test_hardware_can_be_another(capsys: Capture) -> None:
    words = ["--passages", "1000", "--learn", "full", "--gpus", "16"]
    plain = cost(capsys, *words)
    fast = cost(capsys, *words, "--peak", "1580", "--utilisation", "0.604", "--link", "1")
    seconds = [{row["what"]: row["seconds"] for row in found["rows"]} for found in (plain, fast)]
    assert seconds[0]["frozen pass"] == pytest.approx(2 * seconds[1]["frozen pass"])
    assert seconds[1]["tune, full, 1 epoch"] > seconds[0]["tune, full, 1 epoch"]
    slow = cost(capsys, *words, "--hardware", "cpu")
    assert slow["rows"][0]["seconds"] > 1000 * plain["rows"][0]["seconds"]


def test_gradients_of_all_that_learns_are_exchanged_and_the_pooler_does_not(capsys: Capture) -> None:
    words = ["--passages", "512", "--gpus", "2", "--link", "0.001"]
    (*_, tuned) = cost(capsys, *words)["rows"]
    assert tuned["seconds"] == pytest.approx(4 * 22_566_146 / 1e6, abs=0.1)  # one step: half of them twice, 1 MB/s


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--task", "squad2", "--passages", "5"], "use one of them"),
        (["--lengths", "50"], "--lengths is about --passages"),
        (["--passages", "0"], "--passages is 0, at least 1 is expected"),
        (["--gpus", "1,2.5"], "--gpus is '1,2.5', whole numbers such as 1,8,64"),
        (["--gpus", "0"], "whole numbers such as 1,8,64"),
        (["--peak", "0"], "--peak is 0, more than 0 is expected"),
        (["--utilisation", "60"], "a share of at most 1 is expected"),
        (["--epochs", "nan"], "--epochs is nan, a finite number is expected"),
        (["--disk", "inf"], "--disk is inf, a finite number is expected"),
        (["--price", "nan"], "--price is nan, a finite number is expected"),
        (["--gpus", "nan"], "--gpus is 'nan', whole numbers such as 1,8,64 are expected"),
        (["--gpus", "8,inf"], "--gpus is '8,inf', whole numbers such as 1,8,64 are expected"),
        (["--price", "-1"], "--price is -1, at least 0 is expected"),
        (["--heads", "layermix"], "Did you mean 'layer_mix'"),
        (["--learn", "all"], "--learn is 'all'"),
        (["--encoder", "none.json"], "there is no such file"),
    ],
)
def test_what_does_not_fit_is_refused(words: list[str], said: str, capsys: Capture) -> None:
    assert main(["cost", *words]) == 2
    assert said in capsys.readouterr().err
