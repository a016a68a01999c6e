"""`bertvision tune --cross-fit` and `bertvision fit --cross-fit` as a user runs them."""

import json
from pathlib import Path

import pytest

from bertvision.cli.main import main
from tiny_run import save_tiny_encoder, tiny_request, words, write_questions

Capture = pytest.CaptureFixture[str]

SHORT = ["--length", "64", "--stride", "16", "--question", "24", "--batch", "8", "--device", "cpu"]


def test_tune_the_folds_then_fit_heads_on_them(capsys: Capture, tmp_path: Path) -> None:
    encoder, data = save_tiny_encoder(tmp_path / "encoder"), write_questions(tmp_path / "data", train=60)
    run = tmp_path / "folds"
    request = tiny_request("squad2", data, encoder, held_out=0.2, seed=3)
    assert main(words(request, run, "--cross-fit", "3", "--json")) == 0
    printed = json.loads(capsys.readouterr().out)
    assert list(printed) == ["fold-0", "fold-1", "fold-2", "whole"]
    assert printed["fold-1"]["snapshots"] == [f"{run / 'fold-1'}@1"]
    assert printed["fold-0"]["steps"] < printed["whole"]["steps"]
    assert main(words(request, run, "--cross-fit", "3", "--resume")) == 0
    table = capsys.readouterr().out
    assert "3 folds and the whole" in " ".join(table.split())
    assert [line.split("│")[1].strip() for line in table.splitlines() if line.startswith("│")] == list(printed)

    command = ["fit", "squad2", "--data", data, "--encoder", str(run), "--heads", "layer_mix,last_layer", *SHORT]
    assert main([*command, "--cross-fit", "3", "--out", str(tmp_path / "out"), "--json"]) == 0
    board = json.loads(capsys.readouterr().out)
    assert {row["head"] for row in board} == {"layer_mix", "last_layer"}
    asked = json.loads((tmp_path / "out" / "config.json").read_text(encoding="utf-8"))["request"]
    assert (asked["cross_fit"], asked["held_out"], asked["seed"]) == (3, 0.2, 3)  # as it was tuned

    # the same questions, asked for something else
    answerable = ["fit", "answerable", *command[2:]]
    assert main([*answerable, "--cross-fit", "3", "--out", str(tmp_path / "two"), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 2

    wrong = [
        (["--cross-fit", "2"], "--cross-fit is 2, but"),
        (["--cross-fit", "3", "--seed", "0"], "Use --held-out 0.2 --seed 3 --fraction 1."),
        (["--cross-fit", "3", "--snapshots", "all"], "--cross-fit takes one snapshot"),
        (["--cross-fit", "3", "--encoder", encoder], "holds no whole cross-fit"),
    ]
    for more, message in wrong:
        assert main([*command, *more, "--out", str(tmp_path / "not")]) == 2
        output = capsys.readouterr()
        assert output.out == ""
        assert message in " ".join(output.err.split())
        assert not (tmp_path / "not").exists()
