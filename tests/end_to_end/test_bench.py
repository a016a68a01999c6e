"""`bertvision bench` as a user runs it, with an encoder and questions that take a second."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bertvision.bench.compare import measured_cells
from bertvision.bench.suite import load_suite
from bertvision.bench.tables import suite_markdown
from bertvision.cli.main import main
from tiny_run import save_tiny_encoder, write_labels, write_questions

Capture = pytest.CaptureFixture[str]

SUITE = """
about = "small"
[defaults]
data = "squad2"
encoder = "tiny"
length = 64
stride = 16
question = 24
held_out = 0.2
batch = 8
epochs = 1.0
snapshots = [0.5]
lr = 5e-3

[[cell]]
name = "tuned"
kind = "tune"
learn = "lora:2"

[[cell]]
name = "heads"
kind = "heads"
on = "tuned"
at = [0.5, 1.0]
heads = ["last_layer", "adapter_pool size=4 skip=true"]
ensembles = ["mean", "greedy"]

[[cell]]
name = "top"
kind = "tune"
learn = "top:1"

[[cell]]
name = "together"
kind = "ensemble"
of = ["tuned", "top"]

[[cell]]
name = "plain"
kind = "plain"
learn = "lora:2"

[[cell]]
name = "untuned"
kind = "heads"
heads = ["layer_mix", "last_layer"]
ensembles = []

[[cell]]
name = "labels"
kind = "tune"
task = "sst2"
data = "sst2"
head = "layer_mix"

[[cell]]
name = "plain labels"
kind = "plain"
task = "sst2"
data = "sst2"

[[cell]]
name = "films {per_class}"
kind = "sentences"
task = "sst2"
data = "sst2"
methods = ["last_layer", "layer_concat"]
each = { per_class = [5, 8] }

[[cell]]
name = "films setfit"
kind = "sentences"
task = "sst2"
data = "sst2"
methods = ["setfit"]

[[compare]]
first = "heads:greedy"
second = "plain:1"

[[compare]]
first = "together:mean"
second = "tuned:1"

[[compare]]
first = "films {per_class}:layer_concat"
second = "labels:1"
each = { per_class = [5, 8] }
"""


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setitem(sys.modules, "setfit", None)  # as where it is not installed
    write_questions(tmp_path / "data" / "squad2", train=60)
    write_labels(tmp_path / "data" / "sst2")
    (tmp_path / "small.toml").write_text(SUITE, encoding="utf-8")
    encoder = save_tiny_encoder(tmp_path / "encoder")
    places = ["--data", str(tmp_path / "data"), "--encoder", f"tiny={encoder}", "--device", "cpu"]
    places += ["--results", str(tmp_path / "results"), "--work", str(tmp_path / "work")]
    return ["bench", str(tmp_path / "small.toml"), *places]


def read(tmp_path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((tmp_path / "results" / "small.json").read_text(encoding="utf-8"))
    return content


def test_a_suite_is_measured_cell_by_cell(capsys: Capture, command: list[str], tmp_path: Path) -> None:
    assert main([*command, "--seeds", "1", "--dry-run"]) == 0
    assert "Left: 11. The same command goes on with tuned, seed 0." in capsys.readouterr().out
    assert not (tmp_path / "results").exists()

    assert main([*command, "--seeds", "1", "--json"]) == 0
    printed = capsys.readouterr()
    told = json.loads(printed.out)
    assert (told["left"], [cell["name"] for cell in told["cells"]]) == (
        1,
        [cell.name for cell in load_suite(tmp_path / "small.toml").cells],
    )
    assert "films setfit, seed 0: skipped. method 'setfit' needs the package 'setfit'. Install it" in printed.err
    assert not (tmp_path / "work").exists()
    record = read(tmp_path)
    cells = {cell["name"]: cell["result"] for cell in record["cells"].values()}
    suite = load_suite(tmp_path / "small.toml")
    for cell in suite.cells[:-1]:
        assert set(cells[cell.name]["models"]) == set(cell.settings.models), cell.name
    for name, result in cells.items():
        assert result["weights"] == cells["tuned"]["weights"], name
        for model in result["models"].values():
            outcomes = [float(word) for word in model["outcomes"].split()]
            assert len(outcomes) == 12
            if result.get("golds") is not None:
                golds = [float(word) for word in result["golds"].split()]
                right = sum(said == gold for said, gold in zip(outcomes, golds, strict=True))
                assert model["scores"]["plain"]["accuracy"] == pytest.approx(right / 12, abs=1e-4)
            else:
                assert model["scores"]["fitted"]["f1"] == pytest.approx(100 * sum(outcomes) / 12, abs=0.05)
                assert model["held_out"] is not None
            assert model["inference_seconds"] > 0

    tuned, heads, plain = (cells[name]["models"] for name in ("tuned", "heads", "plain"))
    assert 0 < cells["tuned"]["first_step_seconds"] < tuned["0.5"]["seconds"] < tuned["1"]["seconds"]
    assert cells["tuned"]["trainable"] == cells["plain"]["trainable"] == tuned["1"]["parameters"]
    same = ("scores", "held_out", "loss", "outcomes", "parameters", "bytes", "seconds")
    for at in ("0.5", "1"):
        assert [heads[f"own_output@{at}"][key] for key in same] == [tuned[at][key] for key in same]
    own = heads["own_output@1"]
    # a head adds its pass to the tuning, and its numbers to what the encoder learnt
    head = heads["adapter_pool size=4 skip=true@1"]
    assert head["seconds"] > tuned["1"]["seconds"]
    assert head["parameters"] == tuned["1"]["parameters"] - own["head_parameters"] + head["head_parameters"]
    assert heads["mean"]["members"] == 6
    assert heads["mean"]["seconds"] > heads["mean@1"]["seconds"] > head["seconds"]
    learnt = cells["heads"]["trainable"]
    assert heads["mean"]["parameters"] == 2 * learnt + heads["mean"]["head_parameters"]
    assert cells["untuned"]["models"]["layer_mix@0"]["parameters"] == 16 * 2 + 2 + 3 + 1  # map, weights, scale
    assert plain["1"]["bytes"] == 4 * plain["1"]["parameters"]
    assert cells["labels"]["models"]["1"]["scores"].keys() == {"plain"}
    assert cells["plain labels"]["golds"] == cells["labels"]["golds"]
    judged = [cells[name]["models"] for name in ("tuned", "plain", "untuned", "labels", "plain labels")]
    assert all(model["loss"] > 0 for models in judged for model in models.values())
    assert heads["mean"]["loss"] is heads["greedy@1"]["loss"] is None
    check_tables(record)
    assert [cell.name for cell in measured_cells(record)] == [cell.name for cell in suite.cells]


def check_tables(record: dict[str, Any]) -> None:
    """That every task has its tables, and every comparison its row."""
    text = suite_markdown(record)
    assert "**sst2, tiny**" in text
    assert "`heads:greedy` | `plain:1`" in text
    assert text.count("loss on dev") == 2  # of questions and of labels
    assert "`together:mean` | `tuned:1`" in text
    assert "`films 8:layer_concat` | `labels:1`" in text


def test_heads_that_learn_for_several_epochs_tell_their_scores_after_each(command: list[str], tmp_path: Path) -> None:
    longer = SUITE.replace('kind = "heads"\non = "tuned"', 'kind = "heads"\nhead_epochs = 3.0\non = "tuned"')
    (tmp_path / "small.toml").write_text(longer, encoding="utf-8")
    assert main([*command, "--seeds", "1", "--only", "tuned,heads,untuned"]) == 0
    record = read(tmp_path)
    cells = {cell["name"]: cell["result"]["models"] for cell in record["cells"].values()}
    curves = {name: model["held_out_curve"] for name, model in cells["heads"].items() if "held_out_curve" in model}
    words = ("last_layer", "adapter_pool size=4 skip=true")
    assert set(curves) == {f"{name}@{at}" for name in words for at in ("0.5", "1")}
    for name, curve in curves.items():
        assert [at for at, _ in curve] == [1, 2, 3]
        # the best is kept
        assert cells["heads"][name]["held_out"] == pytest.approx(max(score for _, score in curve), abs=1e-4)
    assert not any("held_out_curve" in model for model in cells["untuned"].values())
    assert suite_markdown(record).count("Held out, after each epoch:\n\n| cell | model | 1 | 2 | 3 |") == 1


def test_an_ensemble_of_tuned_runs_costs_what_they_cost(command: list[str], tmp_path: Path) -> None:
    assert main([*command, "--seeds", "1", "--only", "tuned,top,together"]) == 0
    cells = {cell["name"]: cell["result"]["models"] for cell in read(tmp_path)["cells"].values()}
    together, mean = cells["together"], cells["together"]["mean"]
    members = together["lora:2"], together["top:1"]
    for member, own in zip(members, (cells["tuned"]["1"], cells["top"]["1"]), strict=True):
        assert {**member, "inference_seconds": 0.0} == {**own, "inference_seconds": 0.0}
    assert mean["members"] == len(members)
    for key in ("parameters", "bytes", "seconds", "inference_seconds"):
        assert mean[key] == pytest.approx(sum(member[key] for member in members)), key
    assert together["greedy"]["held_out"] >= max(member["held_out"] for member in members)


def test_it_goes_on_where_it_was_and_keeps_runs_that_are_asked_for(
    capsys: Capture, command: list[str], tmp_path: Path
) -> None:
    assert main([*command, "--seeds", "2", "--only", "tuned", "--max-minutes", "0.0001"]) == 0
    assert "Left: 1" in capsys.readouterr().out  # of the first nothing was known
    first = read(tmp_path)["cells"]
    assert main([*command, "--seeds", "1", "--only", "tuned,heads", "--keep"]) == 0
    assert "2 of 2 measured" in capsys.readouterr().out
    record = read(tmp_path)
    assert {key: record["cells"][key] for key in first} == first
    assert [(cell["name"], cell["seed"]) for cell in record["cells"].values()] == [("tuned", 0), ("heads", 0)]
    [board] = (tmp_path / "work").glob("heads-*/at-1/leaderboard.json")
    # whoever judges reads dev, not the fit
    assert not any("f1" in row["metrics"] for row in json.loads(board.read_text(encoding="utf-8")))
    # the tuned run was removed before, and made again for the heads
    assert sorted(path.name.partition("-")[0] for path in (tmp_path / "work").iterdir()) == ["heads", "tune"]


def test_the_same_seed_gives_the_same_answers_and_another_gives_others(command: list[str], tmp_path: Path) -> None:
    found = []
    for folder, seeds in (("one", "2"), ("two", "1")):
        assert main([*command, "--seeds", seeds, "--only", "plain", "--results", str(tmp_path / folder)]) == 0
        cells = json.loads((tmp_path / folder / "small.json").read_text(encoding="utf-8"))["cells"]
        found.append({cell["seed"]: cell["result"]["models"]["1"]["thresholds"] for cell in cells.values()})
    assert found[0][0] == found[1][0] != found[0][1]


def test_cells_of_other_records_are_joined_and_busy_machines_keep_no_seconds(
    capsys: Capture, command: list[str], tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    assert main([*command, "--seeds", "1", "--only", "plain", "--untimed", "--results", str(elsewhere)]) == 0
    other = elsewhere / "small.json"
    capsys.readouterr()
    assert main([*command, "--seeds", "1", "--only", "plain,labels", "--join", str(other), "--dry-run"]) == 0
    assert "1 of 2 measured" in capsys.readouterr().out
    assert not (tmp_path / "results").exists()
    assert main([*command, "--seeds", "1", "--only", "plain,labels", "--join", str(other)]) == 0
    assert "2 of 2 measured" in capsys.readouterr().out
    cells = {cell["name"]: cell for cell in read(tmp_path)["cells"].values()}
    assert (cells["plain"]["seconds"], cells["plain"]["result"]["models"]["1"]["seconds"]) == (None, None)
    assert cells["labels"]["seconds"] > 0
    assert suite_markdown(read(tmp_path))  # tables do without
    assert main([*command, "--join", str(tmp_path / "small.toml")]) == 2


def test_a_plain_loop_that_diverges_is_a_result(capsys: Capture, command: list[str], tmp_path: Path) -> None:
    path = tmp_path / "small.toml"
    path.write_text(SUITE.replace("lr = 5e-3", "lr = 1e30"), encoding="utf-8")
    assert main([*command, "--seeds", "1", "--only", "plain"]) == 0
    assert "plain, seed 0: its loss was not finite any more; the record says so" in capsys.readouterr().err
    [cell] = read(tmp_path)["cells"].values()
    assert cell["result"]["diverged"] == "scores of the plain loop are not finite. Use a smaller lr."


def test_what_is_wrong_is_said(capsys: Capture, command: list[str], tmp_path: Path) -> None:
    assert main([*command, "--only", "tunes"]) == 2
    assert "unknown cell 'tunes'. Did you mean 'tuned'?" in capsys.readouterr().err
    assert main([*command, "--seeds", "0"]) == 2
    assert "--seeds is 0, at least 1 is expected" in capsys.readouterr().err
    assert main([*command, "--first-seed", "-1"]) == 2
    assert "--first-seed is -1, at least 0 is expected" in capsys.readouterr().err
    for minutes in ("0", "-1", "nan"):
        assert main([*command, "--max-minutes", minutes]) == 2
        assert f"--max-minutes is {minutes}, more than 0 is expected" in capsys.readouterr().err
    assert main(["bench", str(tmp_path / "small.toml"), "--results", str(tmp_path / "results")]) == 2
    assert "the suite needs the data 'squad2'. Say where they are: --data DIR" in capsys.readouterr().err
    assert main([*command, "--encoder", "tiny"]) == 2
    assert (
        "--encoder is 'tiny', a name and a value such as minilm=models/minilm are expected" in capsys.readouterr().err
    )
    assert not (tmp_path / "results").exists()


def test_it_needs_no_package_of_the_extras() -> None:
    names = ("datasets", "optuna", "sqlalchemy", "fastapi", "uvicorn", "onnxruntime", "sentence_transformers", "setfit")
    blocked = f"sys.modules.update(dict.fromkeys({names}))"
    code = f"import sys; {blocked}; import bertvision.cli.bench, bertvision.bench.run, bertvision.bench.tables"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_help_says_that_other_records_are_files(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--help"]) == 0
    assert "--join FILE" in capsys.readouterr().out
