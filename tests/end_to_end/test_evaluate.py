"""`bertvision evaluate` and `bertvision ensemble` as a user runs them: tune, fit, evaluate, join."""

import json
from pathlib import Path

import pytest

from bertvision.cli.main import main
from tiny_run import save_tiny_encoder, tiny_request, words, write_labels, write_questions

Capture = pytest.CaptureFixture[str]

SHORT = ["--length", "64", "--stride", "16", "--question", "24", "--batch", "8", "--device", "cpu"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tuned run, and fits of heads on both of its snapshots."""
    folder = tmp_path_factory.mktemp("runs")
    encoder, data = save_tiny_encoder(folder / "encoder"), write_questions(folder / "data", train=60)
    request = tiny_request("squad2", data, encoder, snapshots=(1.0,), epochs=2, held_out=0.2)
    assert main(words(request, folder / "tuned")) == 0
    fit = ["fit", "squad2", "--data", data, "--heads", "layer_mix,last_layer", "--held-out", "0.2", *SHORT]
    for snapshot in ("1", "2"):
        out = ["--encoder", f"{folder}/tuned@{snapshot}", "--out", f"{folder}/fit{snapshot}"]
        assert main([*fit, *out]) == 0
    return folder


def test_scores_are_printed_as_json_and_written(capsys: Capture, place: Path) -> None:
    capsys.readouterr()
    assert main(["evaluate", f"{place}/fit1", "--device", "cpu", "--bootstrap", "100", "--seed", "3", "--json"]) == 0
    output = capsys.readouterr()
    record = json.loads(output.out)
    folder = place / "fit1" / "evaluation" / "dev"
    assert record == json.loads((folder / "evaluation.json").read_text(encoding="utf-8"))
    assert (record["resamples"], record["seed"], record["own"]) == (100, 3, "own_output")
    assert record["command"] == f"bertvision evaluate {place}/fit1 --split dev --bootstrap 100 --seed 3"
    assert {row["name"] for row in record["rows"]} == {"000-layer_mix", "001-last_layer", "own_output"}
    assert "note:" in output.err
    given = [str(folder / "own_output" / name) for name in ("predictions.json", "no_answer.json")]
    score = ["score", "squad2", f"{place}/data/dev.json", given[0], "--na-prob", given[1], "--na-threshold", "0"]
    assert main([*score, "--json"]) == 0
    own = next(row for row in record["rows"] if row["own"])
    assert json.loads(capsys.readouterr().out)["f1"] == own["scores"]["zero"]["values"]["f1"]["value"]


def test_the_paper_s_answers_are_scored_by_the_paper_s_scorer(capsys: Capture, place: Path) -> None:
    assert main(["evaluate", f"{place}/fit1", "--device", "cpu", "--bootstrap", "100"]) == 0
    gold, answers = f"{place}/data/dev.json", place / "fit1/evaluation/dev/own_output/paper_answers.json"
    score = ["score", "squad2", gold, str(answers), "--scorer", "paper"]
    capsys.readouterr()
    assert main([*score, "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    said = json.loads(answers.read_text(encoding="utf-8"))
    paragraphs = [article["paragraphs"][0] for article in json.loads(Path(gold).read_text(encoding="utf-8"))["data"]]
    right = {one["qas"][0]["id"]: "" if one["qas"][0]["is_impossible"] else "gold" for one in paragraphs}
    assert values["exact"] == pytest.approx(100 * sum(said[key] == text for key, text in right.items()) / len(right))
    assert (values["total"], values["missing"], values["extra"]) == (len(right), 0, 0)
    answers.unlink()
    assert main(score) == 2
    assert "paper_answers.json" in capsys.readouterr().err


def test_a_table_names_every_threshold(capsys: Capture, place: Path) -> None:
    capsys.readouterr()
    assert main(["evaluate", f"{place}/tuned@1", "--device", "cpu"]) == 0
    shown = capsys.readouterr().out
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in shown.splitlines() if line.startswith("│")]
    assert [row[4].split(",")[0] for row in rows] == ["0", "fitted", "best on dev"]
    assert [bool(row[3]) for row in rows] == [True, False, False]  # the loss knows no threshold
    assert [row[0] for row in rows] == ["own_output", "", ""]
    assert f"{place}/tuned/evaluation/at-1/dev" in shown.replace("\n", "")


def test_a_table_of_labels_begins_with_the_task_s_first_metric(capsys: Capture, place: Path, tmp_path: Path) -> None:
    data, out = write_labels(tmp_path / "data"), str(tmp_path / "fit")
    fit = ["fit", "own", "--data", data, "--text", "sentence", "--heads", "layer_mix", "--length", "64", "--out", out]
    assert main([*fit, "--encoder", f"{place}/encoder", "--held-out", "0.2", "--device", "cpu"]) == 0
    capsys.readouterr()
    assert main(["evaluate", out, "--device", "cpu"]) == 0
    header = next(line for line in capsys.readouterr().out.splitlines() if "model" in line)
    names = [cell.strip() for cell in header.split("┃")[1:-1]]
    assert names == ["model", "parameters", "held out", "loss", "accuracy", "95 % interval", "f1", "matthews"]


def test_what_cannot_be_is_an_error_and_nothing_is_written(capsys: Capture, place: Path) -> None:
    before = sorted(place.rglob("*"))
    for more, message in {
        (f"{place}/fit3",): "holds no run",
        (f"{place}/fit2", "--split", "test"): "has no split 'test' here; there is: dev",
        (f"{place}/fit2", "--bootstrap", "3"): "3 resamples were asked for",
    }.items():
        capsys.readouterr()
        assert main(["evaluate", *more, "--device", "cpu"]) == 2
        output = capsys.readouterr()
        assert output.out == ""
        assert message in " ".join(output.err.split())
    assert sorted(place.rglob("*")) == before


def test_an_ensemble_is_printed_and_written(capsys: Capture, place: Path, tmp_path: Path) -> None:
    runs = [f"{place}/fit1", f"{place}/fit2"]
    capsys.readouterr()
    command = ["ensemble", *runs, "--how", "max", "--heads", "last_layer,own_output", "--device", "cpu"]
    assert main([*command, "--out", str(tmp_path / "max"), "--bootstrap", "100", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record == json.loads((tmp_path / "max" / "ensemble.json").read_text(encoding="utf-8"))
    assert record["runs"] == runs
    assert len(record["members"]) == 4
    assert main(["ensemble", *runs, "--how", "greedy", "--device", "cpu"]) == 0
    shown = capsys.readouterr().out
    weights = [float(line.split()[1]) for line in shown.splitlines() if line.startswith("weight ")]
    assert sum(weights) == pytest.approx(1, abs=0.01)
    assert f"greedy of {len(weights)} member" in shown
    assert main(["ensemble", runs[0], "--heads", "nobody"]) == 2
    assert "unknown member 'nobody'" in capsys.readouterr().err
