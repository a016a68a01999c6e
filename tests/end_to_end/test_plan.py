"""`bertvision plan`, and `bertvision fit --from auto`, as a user runs them."""

import json
from pathlib import Path

import pytest

from bertvision.cli.main import main
from bertvision.runs.planning import source as source_module
from tiny_plan import RATES
from tiny_run import save_tiny_encoder, write_labels, write_questions

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_tiny_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture
def options(encoder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What plan and fit are told alike, in a folder of their own."""
    monkeypatch.chdir(tmp_path)
    data = write_questions(tmp_path / "data")
    return [
        *("squad2", "--data", data, "--encoder", encoder, "--heads", "layer_mix,layer_mean", "--epochs", "5"),
        *("--length", "64", "--stride", "16", "--question", "24", "--batch", "8", "--device", "cpu"),
    ]


def test_every_candidate_is_told_with_what_it_costs_and_nothing_is_written(
    capsys: Capture, options: list[str], tmp_path: Path
) -> None:
    assert main(["plan", *options]) == 0
    output = capsys.readouterr()
    for word in ("stream", "store, fp16", "store, int8", "encode", "read", "heads", "in all", "disk", "memory", "→"):
        assert word in output.out
    assert "2 heads, 5 epochs" in output.out
    assert "The heads read layers 0..2, which are all there are" in output.out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data"]


def test_a_plan_as_json_has_its_choice_its_reasons_and_its_candidates(capsys: Capture, options: list[str]) -> None:
    assert main(["plan", *options, "--max-disk", "32KB", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["chosen"] == {"kind": "stream", "keep": None, "layers": None, "folder": None}
    assert plan["reasons"][0].endswith("no store fits.")
    assert [one["problem"] for one in plan["candidates"]] == [None, *["--max-disk allows 32 KB"] * 2]
    for one in plan["candidates"]:
        parts = one["encode"] + one["write"] + one["read"] + one["heads"]
        assert one["seconds"] == pytest.approx(parts)
        assert one["memory"] > 0


def test_labels_stay_in_memory(capsys: Capture, encoder: str, tmp_path: Path) -> None:
    data = write_labels(tmp_path)
    assert main(["plan", "sst2", "--data", data, "--encoder", encoder, "--length", "64", "--heads", "layer_mix"]) == 0
    output = capsys.readouterr().out
    assert "→ │ in memory" in output
    assert "States stay in memory: one row per text, encoded once" in output
    assert main(["plan", "sst2", "--data", data, "--encoder", encoder, "--length", "64", "--max-memory", "5KB"]) == 0
    output = " ".join(capsys.readouterr().out.split())
    assert "--max-memory allows 5 KB. Use --fraction 0.1" in output
    assert "→" not in output


def test_a_fit_tells_its_choice_and_does_it(
    capsys: Capture, options: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_module, "rough_rate", lambda *_: 1.0)
    monkeypatch.setattr(source_module, "measure_spans", lambda *_: RATES)
    run = ["--out", "run", "--max-disk", "1MB"]
    assert main(["fit", *options, *run, "--json"]) == 0
    output = capsys.readouterr()
    assert len(json.loads(output.out)) == 2
    assert "note: States are read from a store of fp16: about" in output.err
    assert "windows of train" in output.err
    assert json.loads((tmp_path / "run" / "plan.json").read_text(encoding="utf-8"))["chosen"]["kind"] == "store"
    assert not (tmp_path / "run" / "store").exists()
    asked = json.loads((tmp_path / "run" / "config.json").read_text(encoding="utf-8"))["request"]
    assert (asked["source"], asked["max_disk"], asked["max_memory"]) == ("auto", 1_000_000, None)
    assert main(["fit", *options, "--out", "streamed", "--from", "stream"]) == 0
    assert "States are" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["plan", "--max-disk", "much"], "--max-disk is 'much', a size such as 500MB or 20GB is expected"),
        (["plan", "--max-memory", "1 byte"], "--max-memory is '1 byte', a size such as"),
        (["plan", "--heads", "layermix"], "unknown head 'layermix'. Did you mean 'layer_mix'?"),
        (["plan", "--epochs", "0"], "--epochs is 0, more than 0 is expected"),
        (["plan", "--from", "stream"], "--from"),
        (["fit", "--max-memory", "1KB"], "--max-memory allows 1 KB. Use a smaller --batch. Or go on nevertheless"),
        (["fit", "--from", "disk"], "--from is 'disk', auto, stream or store:DIR is expected"),
    ],
)
def test_what_cannot_be_is_an_error_and_nothing_is_written(
    capsys: Capture, options: list[str], words: list[str], message: str, tmp_path: Path
) -> None:
    assert main([words[0], *options, *words[1:]]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert message in output.err
    assert "Traceback" not in output.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data"]


def test_help_names_the_limits(capsys: Capture) -> None:
    for command in ("plan", "fit"):
        assert main([command, "--help"]) == 0
        text = " ".join(capsys.readouterr().out.split())
        assert all(word in text for word in ("--max-disk", "--max-memory", "--heads", "--epochs", "--grid", "TASK"))
    assert "'auto' measures and chooses" in text
    assert "(default: auto)" in text
