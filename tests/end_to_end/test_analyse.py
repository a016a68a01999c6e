"""`bertvision analyse` as a user runs it: tune, fit prefix heads and heads that attend, analyse."""

import json
from pathlib import Path

import pytest

from bertvision.cli.main import main
from tiny_run import save_tiny_encoder, tiny_request, words, write_labels, write_questions, write_scores, write_tags

Capture = pytest.CaptureFixture[str]

SHORT = ["--length", "64", "--stride", "16", "--question", "24", "--batch", "8", "--held-out", "0.2", "--device", "cpu"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tuned run, and fits on both of its snapshots, with two shares of the data and a head for every depth."""
    folder = tmp_path_factory.mktemp("runs")
    encoder, data = save_tiny_encoder(folder / "encoder"), write_questions(folder / "data", train=60, dev=30)
    request = tiny_request("squad2", data, encoder, snapshots=(1.0,), epochs=2, held_out=0.2)
    assert main(words(request, folder / "tuned")) == 0
    fit = ["fit", "squad2", "--data", data, "--encoder", f"{folder}/tuned", "--snapshots", "all", *SHORT]
    grid = ["--heads", "layer_mix,dot_attention", "--grid", "layers=0..0,0..1,0..2", "--fraction", "0.5,1"]
    assert main([*fit, *grid, "--from", "stream", "--out", f"{folder}/fits"]) == 0
    return folder


def test_the_record_is_printed_as_json_and_written(capsys: Capture, place: Path) -> None:
    capsys.readouterr()
    run = place / "fits" / "at-1"
    assert main(["analyse", str(run), "--device", "cpu", "--question", "dev3", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record == json.loads((run / "analysis.json").read_text(encoding="utf-8"))
    assert record["command"] == f"bertvision analyse {run} --split dev --question dev3"
    assert (run / record["errors"]).read_text(encoding="utf-8").startswith("id,text,golds,")
    assert len(record["depth_sweeps"]) == 4  # two heads, two shares of the data
    assert all(sweep["cumulative"]["depths"] == [0, 1, 2] for sweep in record["depth_sweeps"])


def test_tables_show_what_there_is(capsys: Capture, place: Path) -> None:
    capsys.readouterr()
    assert main(["analyse", f"{place}/fits/at-1", "--device", "cpu", "--question", "dev3"]) == 0
    shown = capsys.readouterr().out
    for title in (
        "fits/at-1: squad2 dev, 30 examples, best first by held-out examples",
        "Question types",
        "Context lengths",
        "Learned layer weights",
        "Attention over layers, mean over dev",
        "Attention over layers for dev3",
        "Depth sweep of layer_mix, lr 0.001, 0.5 of the examples",
        "Depth sweep of dot_attention, lr 0.001, 1 of the examples",
        "Less data",
        "dot_attention layers=0..1",
        "Snapshots: freeze point",
        "What quality costs: inference over 16 examples on cpu",
    ):
        assert title in " ".join(shown.split())
    assert "analysis.json and errors-" in shown


KINDS = {
    "labels": (
        write_labels,
        ["--text", "sentence"],
        ["Labels by 000-layer_mix", "true \\ given", "What quality costs"],
    ),
    "tags": (write_tags, [], ["Tags by 000-layer_mix", "precision"]),
    "scores": (write_scores, [], ["Scores by 000-layer_mix", "predictions beyond the limits of own"]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_other_kinds_have_tables_of_their_own(capsys: Capture, place: Path, tmp_path: Path, kind: str) -> None:
    write, named, titles = KINDS[kind]
    data, out = write(tmp_path / "data"), str(tmp_path / "fit")
    fit = ["fit", "own", "--data", data, *named, "--heads", "layer_mix", "--encoder", f"{place}/encoder", "--out", out]
    assert main([*fit, *SHORT]) == 0
    capsys.readouterr()
    assert main(["analyse", out, "--device", "cpu"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert all(title in shown for title in titles)
    assert "Question types" not in shown


def test_what_cannot_be_is_an_error_and_nothing_is_written(capsys: Capture, place: Path) -> None:
    before = sorted(place.rglob("*"))
    for more, message in {
        (f"{place}/fits",): "holds several runs. Name one of them",
        (f"{place}/fits/at-2", "--split", "test"): "has no split 'test' here; there is: dev",
        (f"{place}/fits/at-2", "--question", "dev99"): "dev has no example of that id. Did you mean 'dev9'?",
    }.items():
        capsys.readouterr()
        assert main(["analyse", *more, "--device", "cpu"]) == 2
        output = capsys.readouterr()
        assert output.out == ""
        assert message in " ".join(output.err.split())
    assert sorted(place.rglob("*")) == before
