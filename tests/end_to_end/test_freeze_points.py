"""`bertvision fit --snapshots` as a user runs it: tune, then find the freeze point."""

import json
from pathlib import Path

import pytest

from bertvision.cli.main import main
from tiny_run import save_tiny_encoder, tiny_request, words, write_questions

Capture = pytest.CaptureFixture[str]

SHORT = ["--length", "64", "--stride", "16", "--question", "24", "--batch", "8", "--device", "cpu"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two snapshots, tuned on half of the data with another seed than the default."""
    folder = tmp_path_factory.mktemp("tuned")
    encoder, data = save_tiny_encoder(folder / "encoder"), write_questions(folder / "data", train=60)
    request = tiny_request("squad2", data, encoder, snapshots=(0.5,), fraction=0.8, held_out=0.3, seed=2)
    assert main(words(request, folder / "run")) == 0
    return folder / "run"


def command(run: Path, out: Path, *more: str) -> list[str]:
    data = str(run.parent / "data")
    heads = ["--heads", "layer_mix,last_layer"]
    return ["fit", "squad2", "--data", data, "--encoder", str(run), *heads, *SHORT, "--out", str(out), *more]


def test_the_freeze_points_are_printed_and_written(capsys: Capture, run: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    capsys.readouterr()
    assert main(command(run, out, "--snapshots", "0.5,1", "--json")) == 0
    output = capsys.readouterr()
    table = json.loads(output.out)
    assert table == json.loads((out / "freeze_points.json").read_text(encoding="utf-8"))
    assert [point["snapshot"] for point in table["points"]] == ["0.5", "1"]
    assert "note:" in output.err
    asked = json.loads((out / "at-0.5" / "config.json").read_text(encoding="utf-8"))["request"]
    assert (asked["held_out"], asked["seed"], asked["heads"][0]["fraction"]) == (0.3, 2, 0.8)  # the run's own

    assert main(command(run, out, "--snapshots", "all", "--resume", "--tolerance", "0.99")) == 0
    shown = capsys.readouterr().out
    assert "tuning beyond 0.5 epochs gained" in " ".join(shown.split())
    rows = [line for line in shown.splitlines() if line.startswith("│")]
    assert len(rows) == 2
    assert ["freeze here" in row for row in rows] == [True, False]
    assert table["points"][0]["head"]["head"] in rows[0]


def test_heads_on_one_snapshot_are_judged_by_what_its_run_held_out(capsys: Capture, run: Path, tmp_path: Path) -> None:
    assert main([*command(run, tmp_path / "out"), "--encoder", f"{run}@0.5"]) == 0
    asked = json.loads((tmp_path / "out" / "config.json").read_text(encoding="utf-8"))["request"]
    assert (asked["held_out"], asked["seed"], asked["heads"][0]["fraction"]) == (0.3, 2, 0.8)
    told = " ".join(capsys.readouterr().err.split())
    assert "unless you say otherwise: --fraction 0.8 --held-out 0.3 --seed 2." in told
    assert "may flatter" not in told
    assert main(["plan", *command(run, tmp_path / "out")[1:], "--json"]) == 0
    assert "squad2: examples are divided as" in capsys.readouterr().err
    assert main([*command(run, tmp_path / "other"), "--seed", "0"]) == 0
    told = " ".join(capsys.readouterr().err.split())
    assert "may flatter" in told
    assert "Use --held-out 0.3 --seed 2 --fraction 0.8." in told


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--snapshots", "0.4"], "has no snapshot at 0.4; it has 0.5, 1."),
        (["--snapshots", "some"], "--snapshots is 'some', numbers such as"),
        (["--snapshots", "all", "--seed", "0"], "Use --held-out 0.3 --seed 2 --fraction 0.8."),
        (["--snapshots", "all", "--encoder", "minilm"], "minilm is no tuned run with snapshots"),
    ],
)
def test_what_cannot_be_is_an_error_and_nothing_is_written(
    capsys: Capture, run: Path, more: list[str], message: str, tmp_path: Path
) -> None:
    capsys.readouterr()
    assert main(command(run, tmp_path / "out", *more)) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert message in " ".join(output.err.split())
    assert not (tmp_path / "out").exists()
