"""`bertvision run glue` as a user runs it."""

import json
import shutil
from pathlib import Path

import pytest

from bertvision.cli.main import main
from tiny_run import save_tiny_encoder, write_labels

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    """SST-2, MNLI and STS-B are there; RTE has a dev file alone."""
    glue = tmp_path / "glue"
    write_labels(glue / "SST-2", train=40)
    (glue / "STS-B").mkdir()
    (glue / "MNLI").mkdir()
    for split, count in (("train", 40), ("dev", 12)):
        rows = [f"{n}\tgood a b\t{'good' if n % 3 else 'bad'} a\t{n % 3}.5" for n in range(count)]
        text = "index\tsentence1\tsentence2\tscore\n" + "\n".join(rows) + "\n"
        (glue / "STS-B" / f"{split}.tsv").write_text(text, encoding="utf-8")
    labels = ("entailment", "neutral", "contradiction")
    for name in ("train", "dev_matched", "dev_mismatched"):
        rows = [f"{n}\ta {'bcd'[n % 3]} {name[-1]}\tgood\t{labels[n % 3]}" for n in range(24)]
        text = "index\tsentence1\tsentence2\tgold_label\n" + "\n".join(rows) + "\n"
        (glue / "MNLI" / f"{name}.tsv").write_text(text, encoding="utf-8")
    (glue / "RTE").mkdir()
    (glue / "RTE" / "dev.tsv").write_text("index\tsentence1\tsentence2\tlabel\n0\ta\tb\tentailment\n", encoding="utf-8")
    return [
        *("run", "glue", "--data", str(glue), "--encoder", save_tiny_encoder(tmp_path / "encoder"), "--length", "64"),
        *("--heads", "last_layer,layer_mix", "--held-out", "0.2", "--bootstrap", "100", "--device", "cpu"),
        *("--batch", "8", "--out", str(tmp_path / "run")),
    ]


def test_every_task_that_is_there_is_tuned_fitted_and_evaluated(
    capsys: Capture, command: list[str], tmp_path: Path
) -> None:
    words = [*command, "--learn", "layernorm", "--epochs", "0.5"]
    assert main([*words, "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record == json.loads((tmp_path / "run" / "glue.json").read_text(encoding="utf-8"))
    tasks = {row["task"]: row for row in record["tasks"]}
    assert list(tasks) == ["sst2", "stsb", "mnli"]
    assert record["missing"]["rte"] == "no train file is there"
    assert set(record["missing"]) == {"cola", "mrpc", "qqp", "qnli", "rte", "wnli"}
    assert list(tasks["stsb"]["best"]["values"]) == ["pearson", "spearman"]
    assert list(tasks["mnli"]["best"]["values"]) == ["accuracy", "accuracy_dev_mismatched"]
    for row in record["tasks"]:
        values = row["best"]["values"].values()
        assert row["best"]["mean"] == pytest.approx(sum(values) / len(values))
        assert row["own"]["name"] == "own_output"
    means = [row["best"]["mean"] for row in record["tasks"]]
    assert record["average"] == pytest.approx(sum(means) / 3)
    evaluated = json.loads(
        (tmp_path / "run" / "sst2" / "heads" / "evaluation" / "dev" / "evaluation.json").read_text(encoding="utf-8")
    )
    chosen = next(row for row in evaluated["rows"] if not row["own"])  # best by held-out examples
    assert tasks["sst2"]["best"]["name"] == chosen["name"]
    assert tasks["sst2"]["best"]["values"]["accuracy"] == 100 * chosen["scores"]["plain"]["values"]["accuracy"]["value"]

    # the folder stands for its runs in a report; an evaluation is of one of them
    assert main(["report", str(tmp_path / "run"), "--out", str(tmp_path / "report")]) == 0
    assert "6 runs, 4 evaluations" in capsys.readouterr().out  # MNLI has two dev splits
    assert main(["evaluate", str(tmp_path / "run")]) == 2
    assert f"holds several runs. Name one of them: {tmp_path}/run/mnli/heads" in capsys.readouterr().err

    # a finished task is not done again, one that is not finished is
    (tmp_path / "run" / "mnli" / "task.json").unlink()
    shutil.rmtree(tmp_path / "run" / "sst2" / "heads")
    assert main(words) == 0
    output = capsys.readouterr()
    assert "3 GLUE tasks" in " ".join(output.out.split())
    assert "Missing: cola (no file is there)" in output.out
    assert not (tmp_path / "run" / "sst2" / "heads").exists()
    again = json.loads((tmp_path / "run" / "glue.json").read_text(encoding="utf-8"))
    assert again["tasks"] == record["tasks"]
    assert main([*words, "--seed", "1"]) == 2
    assert "was asked for something else: tuning.seed was 0, is 1" in capsys.readouterr().err


def test_nothing_is_tuned_where_nothing_learns(capsys: Capture, command: list[str], tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "glue" / "MNLI")
    assert main([*command, "--learn", "none"]) == 0
    table = capsys.readouterr().out
    assert "average" in table
    assert not list((tmp_path / "run").glob("*/tuned"))
    assert json.loads((tmp_path / "run" / "glue.json").read_text(encoding="utf-8"))["own_average"] is None


def test_what_is_missing_is_said(capsys: Capture, tmp_path: Path) -> None:
    assert main(["run", "glue"]) == 2
    assert "--data DIR is missing" in capsys.readouterr().err
    assert main(["run", "glue", "--data", str(tmp_path / "nowhere"), "--out", str(tmp_path / "run")]) == 2
    assert capsys.readouterr().err.endswith(
        "nowhere does not exist. A folder with CoLA, SST-2, MRPC and so on is expected.\n"
    )
    assert main(["run", "glue", "--data", str(tmp_path), "--out", str(tmp_path / "run")]) == 2
    assert "holds no GLUE task with a train and a dev file. cola: no file is there" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_too_few_resamples_are_refused_before_anything_is_tuned(
    capsys: Capture, command: list[str], tmp_path: Path
) -> None:
    assert main([*command, "--bootstrap", "10"]) == 2
    assert "10 resamples were asked for" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
