"""`bertvision search` as a user runs it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bertvision.cli.main import main
from tiny_run import save_tiny_encoder, write_labels, write_several

Capture = pytest.CaptureFixture[str]

SPACE = """
lr = { low = 1e-3, high = 1e-1, log = true }
[head.layer_mix]
dropout = [0.0, 0.2]
[head.adapter_pool]
size = { low = 2, high = 6 }
"""


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    (tmp_path / "space.toml").write_text(SPACE, encoding="utf-8")
    encoder = save_tiny_encoder(tmp_path / "encoder")
    data = write_labels(tmp_path / "data", train=60)
    return [
        *("search", "sst2", "--data", data, "--encoder", encoder, "--space", str(tmp_path / "space.toml")),
        *("--length", "64", "--epochs", "2", "--batch", "8", "--held-out", "0.3", "--device", "cpu"),
        *("--together", "3", "--out", str(tmp_path / "run")),
    ]


def test_a_search_prints_its_trials_and_what_counted_and_where_the_best_is(
    capsys: Capture, command: list[str], tmp_path: Path
) -> None:
    assert main([*command, "--trials", "6"]) == 0
    table = capsys.readouterr().out
    lines = table.splitlines()
    assert "6 trials, best first by held_out_accuracy" in " ".join(table.split())
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in lines if line.startswith("│")]
    assert [cell[1] for cell in cells] == sorted(cell[1] for cell in cells)  # complete ones first
    assert any(line.startswith("Parameter importance in all trials: ") for line in lines)
    assert lines[-1].startswith(f"Trial {cells[0][0]} is in {tmp_path / 'run' / 'best'}; on dev: accuracy ")
    assert main([*command, "--trials", "6", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record == json.loads((tmp_path / "run" / "trials.json").read_text(encoding="utf-8"))
    assert main(["evaluate", str(tmp_path / "run" / "best"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"][0]["held_out"] == record["best"]["value"]


def test_two_processes_share_the_trials_of_one_sqlite_file(command: list[str], tmp_path: Path) -> None:
    words = [sys.executable, "-m", "bertvision", *command, "--trials", "12", "--json"]
    both = [subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    for one in both:
        _, errors = one.communicate(timeout=240)
        assert one.returncode == 0, errors
    record = json.loads((tmp_path / "run" / "trials.json").read_text(encoding="utf-8"))
    assert [row["trial"] for row in record["trials"]] == list(range(12))
    assert {row["state"] for row in record["trials"]} <= {"complete", "pruned"}
    assert record["best"]["dev"] is not None
    assert len({str(row["parameters"]) for row in record["trials"]}) > 6  # they did not try the same
    groups = sorted(path.name for path in (tmp_path / "run" / "groups").iterdir())
    assert groups == ["0000", "0003", "0006", "0009"]


def test_several_jobs_share_the_trials(command: list[str], tmp_path: Path) -> None:
    words = [sys.executable, "-m", "bertvision", *command, "--trials", "4", "--jobs", "2"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "4 trials, best first" in " ".join(done.stdout.split())
    assert len(list((tmp_path / "run" / "groups").iterdir())) == 2


SEVERAL = """
kind = "multitask"
lr = { low = 1e-4, high = 1e-1, log = true }
order = ["round-robin", "temperature"]
balance = [false, true]

[head.layer_mix]
dropout = [0.0, 0.2]

[head.last_layer]

[task.sts]
cap = [9, "none"]
"""


@pytest.mark.slow
def test_two_processes_search_for_several_tasks_and_a_report_shows_what_counted(
    capsys: Capture, tmp_path: Path
) -> None:
    (tmp_path / "space.toml").write_text(SEVERAL, encoding="utf-8")
    encoder, data = save_tiny_encoder(tmp_path / "encoder"), write_several(tmp_path / "data")
    command = [
        *("search", "sst2,sts", "--data", data, "--encoder", encoder, "--space", str(tmp_path / "space.toml")),
        *("--length", "64", "--batch", "8", "--held-out", "0.3", "--rungs", "2", "--reduction", "2"),
        *("--device", "cpu", "--trials", "6", "--out", str(tmp_path / "run")),
    ]
    words = [sys.executable, "-m", "bertvision", *command]
    both = [subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    for one in both:
        _, errors = one.communicate(timeout=240)
        assert one.returncode == 0, errors
    assert main(command) == 0  # there is nothing left to do
    printed = " ".join(capsys.readouterr().out.split())
    assert "6 trials, best first by held_out_mean" in printed
    assert "sts.cap=" in printed
    assert "on dev: sst2.accuracy" in printed
    record = json.loads((tmp_path / "run" / "trials.json").read_text(encoding="utf-8"))
    assert [row["trial"] for row in record["trials"]] == list(range(6))
    assert {row["state"] for row in record["trials"]} <= {"complete", "pruned"}
    assert {row["provenance"]["command"].split()[1] for row in record["trials"]} == {"search"}
    assert main(["report", str(tmp_path / "run"), "--out", str(tmp_path / "report")]) == 0
    assert "1 run, 1 search on sst2,sts" in capsys.readouterr().out
    page = (tmp_path / "report" / "index.html").read_text(encoding="utf-8")
    for title in ("What was tried", "How the search went", "Parameter importance in all trials", "Labels of sst2"):
        assert f">{title}" in page


def test_without_the_extra_it_is_said_what_to_install(
    capsys: Capture, command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith(("optuna", "bertvision.runs.searching.search"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert main(command) == 2
    assert (
        "a search needs the package 'optuna'. Install it: pip install 'bertvision[search]'" in capsys.readouterr().err
    )


def test_wrong_words_are_answered_before_anything_is_made(capsys: Capture, command: list[str], tmp_path: Path) -> None:
    (tmp_path / "space.toml").write_text("[head.layer_mx]\n", encoding="utf-8")
    assert main(command) == 2
    assert "space.toml: unknown head 'layer_mx'. Did you mean 'layer_mix'?" in capsys.readouterr().err
    assert main(["search", "sst2"]) == 2
    assert "--space FILE.toml is missing" in capsys.readouterr().err
    (tmp_path / "space.toml").write_text('kind = "multitask"\n[task.sts]\ncap = 9\n', encoding="utf-8")
    assert main(command) == 2
    assert "the space names sts, which is none of the tasks sst2" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
