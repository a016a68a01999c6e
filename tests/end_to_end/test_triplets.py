"""`bertvision triplets` as a user runs it."""

import json
from pathlib import Path

import pytest

from bertvision.cli.main import main
from bertvision.runs.fitting.solve import TUNED_STRENGTH
from tiny_run import read_lines, save_tiny_encoder, write_several

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    root = tmp_path_factory.mktemp("all")
    encoder, data = save_tiny_encoder(root / "encoder"), write_several(root / "data")
    return ["--encoder", encoder, "--data", data, "--length", "64", "--device", "cpu", "--tasks", "sst2,quora"]


def test_a_table_shows_distances_before_and_after(capsys: Capture, words: list[str], tmp_path: Path) -> None:
    more = ["--loss", "margin", "--margin", "2", "--cap", "quora=9", "--held-out", "0.2"]
    assert main(["triplets", *words, *more, "--out", str(tmp_path / "near")]) == 0
    table = capsys.readouterr().out
    rows = [[cell.strip() for cell in line.split("│")[1:4]] for line in table.splitlines() if line.startswith("│")]
    assert [row[:2] for row in rows] == [["quora", "before"], ["quora", "after"], ["sst2", "before"], ["sst2", "after"]]
    assert rows[0][2] == "9"
    asked = json.loads((tmp_path / "near" / "config.json").read_text(encoding="utf-8"))["request"]
    assert (asked["loss"], asked["margin"], asked["caps"]) == ("margin", 2.0, {"quora": 9})


def test_json_tells_distances_and_the_run_is_an_encoder(capsys: Capture, words: list[str], tmp_path: Path) -> None:
    near = str(tmp_path / "near")
    assert main(["triplets", *words, "--held-out", "0.2", "--json", "--out", near]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert list(printed["distances"]["after"]["dev"]) == ["sst2", "quora"]
    assert printed["snapshots"] == [f"{near}@1"]
    more = ["--encoder", near, "--learn", "none", "--json", "--out", str(tmp_path / "run")]
    assert main(["multitask", *words, *more]) == 0
    assert list(json.loads(capsys.readouterr().out)["metrics"]) == ["sst2", "quora"]


def test_a_few_texts_of_ones_own_tune_an_encoder_and_are_labelled_on_it(
    capsys: Capture, words: list[str], tmp_path: Path
) -> None:
    few, near = tmp_path / "few.csv", str(tmp_path / "near")
    rows = [f"{filler} {word},{word}" for word in ("good", "bad") for filler in ("a", "the", "film", "is", "it")]
    few.write_text("\n".join(["text,label", *rows]) + "\n", encoding="utf-8")
    own = [*words[:2], "--data", str(few), *words[4:8]]
    learn = ["--loss", "in-batch", "--learn", "lora:2", "--epochs", "3", "--held-out", "0", "--out", near]
    assert main(["triplets", "--tasks", "own", *own, *learn]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"{near}: ")
    assert "│" not in shown  # there is nothing to measure distances on, and no table of nothing
    heads = ["--heads", "last_layer,layer_concat", "--json", "--out", str(tmp_path / "run")]
    assert main(["fit", "own", "--encoder", near, *own[2:], *heads]) == 0
    assert {row["head"] for row in json.loads(capsys.readouterr().out)} == {"last_layer", "layer_concat"}
    # folds of texts that the encoder has learned from would choose too weak a penalty
    assert strengths(tmp_path / "run") == [TUNED_STRENGTH] * 2
    others = tmp_path / "others.csv"
    others.write_text(few.read_text(encoding="utf-8"), encoding="utf-8")
    elsewhere = [*own[2:3], str(others), *own[4:], *heads[:-1], str(tmp_path / "other")]
    assert main(["fit", "own", "--encoder", near, *elsewhere]) == 0
    assert TUNED_STRENGTH not in strengths(tmp_path / "other")


def strengths(run: Path) -> list[float]:
    return [line["strength"] for line in read_lines(run) if "strength" in line]


def test_an_unknown_loss_is_an_error(capsys: Capture, words: list[str], tmp_path: Path) -> None:
    assert main(["triplets", *words, "--loss", "cosine", "--out", str(tmp_path / "near")]) == 2
    assert "'cosine' is not one of document, margin, in-batch" in capsys.readouterr().err
