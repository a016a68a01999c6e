"""`bertvision pack`, `answer` and `predict` as a user runs them."""

import io
import json
import os
from pathlib import Path
from typing import Any

import pytest

from bertvision.amounts import in_bytes
from bertvision.cli.main import main
from bertvision.packs.multi_task import MultiTask
from bertvision.packs.pack import Pack
from bertvision.packs.question_answerer import QuestionAnswerer
from bertvision.packs.text_models import TextClassifier
from tiny_run import save_tiny_encoder, tiny_request, words, write_labels, write_questions

Capture = pytest.CaptureFixture[str]

SHORT = ["--length", "64", "--stride", "16", "--question", "24", "--batch", "8", "--device", "cpu"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tuned run, heads fitted on it, labels fitted on the same encoder, and packs of all of them."""
    folder = tmp_path_factory.mktemp("packs")
    encoder, data = save_tiny_encoder(folder / "encoder"), write_questions(folder / "data", train=60)
    labels = write_labels(folder / "labels")
    request = tiny_request("squad2", data, encoder, learn="top:2", epochs=15, held_out=0.2)
    assert main(words(request, folder / "tuned")) == 0
    fit = ["--encoder", f"{folder}/tuned", "--heads", "layer_mix,last_layer", "--held-out", "0.2", *SHORT]
    assert main(["fit", "squad2", "--data", data, *fit, "--out", f"{folder}/fit"]) == 0
    assert main(["fit", "sst2", "--data", labels, *fit, "--out", f"{folder}/mood"]) == 0
    for run, out, more in [
        ("tuned", "own", ["--keep", "float32"]),
        ("fit", "both", ["--heads", "layer_mix,last_layer", "--keep", "float32"]),
        ("mood", "labels", ["--licence", "cc0-1.0", "--keep", "float32"]),
    ]:
        assert main(["pack", f"{folder}/{run}", "--out", f"{folder}/packs/{out}", "--device", "cpu", *more]) == 0
    return folder


def read(path: Path) -> Any:  # noqa: ANN401 - JSON
    return json.loads(path.read_text(encoding="utf-8"))


def test_pack_tells_what_it_made(capsys: Capture, place: Path, tmp_path: Path) -> None:
    capsys.readouterr()
    assert main(["pack", f"{place}/tuned", "--out", f"{tmp_path}/pack", "--device", "cpu"]) == 0
    output = capsys.readouterr()
    size = in_bytes(Pack.load(tmp_path / "pack").bytes)
    assert f"{tmp_path}/pack: squad2 over {place}/encoder, {size}" in output.out
    assert "changed in the encoder: top:2; heads: own_output" in output.out
    assert "no-answer threshold" in output.out
    assert "the card says licence 'other'" in output.err
    assert main(["pack", f"{place}/fit", "--out", f"{tmp_path}/pack", "--heads", "layer_mix", "--json"]) == 0
    card = json.loads(capsys.readouterr().out)
    assert (card["heads"], card["learn"], card["address"]) == (["000-layer_mix"], ["top:2"], None)
    assert card["bytes"] == Pack.load(tmp_path / "pack").bytes


@pytest.mark.parametrize(
    ("pack", "run", "model"), [("own", "tuned/evaluation/at-15", "own_output"), ("both", "fit", "")]
)
def test_predictions_score_as_the_card_says(
    capsys: Capture, place: Path, tmp_path: Path, *, pack: str, run: str, model: str
) -> None:
    out, gold = tmp_path / "answers.json", f"{place}/data/dev.json"
    assert (
        main(["predict", "squad2", gold, "--pack", f"{place}/packs/{pack}", "--out", str(out), "--device", "cpu"]) == 0
    )
    capsys.readouterr()
    assert main(["score", "squad2", gold, str(out), "--json"]) == 0
    scored = json.loads(capsys.readouterr().out)
    card = Pack.load(place / "packs" / pack).card
    assert scored["f1"] == card.scores["f1"]
    if model:  # to the last bit what the evaluation wrote
        assert read(out) == read(place / run / "dev" / model / "answers.json")
        expected = read(place / run / "dev" / model / "no_answer.json")
        assert read(tmp_path / "answers.no_answer.json") == pytest.approx(expected, abs=1e-4)


def test_labels_are_predicted_as_they_were_evaluated(capsys: Capture, place: Path, tmp_path: Path) -> None:
    pack, out = place / "packs" / "labels", tmp_path / "labels.tsv"
    gold = f"{place}/labels/dev.tsv"
    capsys.readouterr()
    assert main(["predict", "sst2", gold, "--pack", str(pack), "--out", str(out), "--device", "cpu", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"examples": 12, "resumed": 0, "files": [str(out)]}
    assert main(["score", "sst2", gold, str(out), "--json"]) == 0
    card = Pack.load(pack).card
    assert json.loads(capsys.readouterr().out)["accuracy"] == card.scores["accuracy"]
    assert card.licence == "cc0-1.0"


def test_answer_finds_the_file_and_the_place(capsys: Capture, place: Path, tmp_path: Path) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()
    for number in range(5):
        (folder / f"{number}.txt").write_text("a b c d e f g h " * 3, encoding="utf-8")
    text = "a b c d gold e f g"
    (folder / "it.txt").write_text(text, encoding="utf-8")
    (folder / "image.bin").write_bytes(b"\xff\xfe")
    capsys.readouterr()
    ask = ["answer", "where is gold ?", "--pack", f"{place}/packs/own", "--device", "cpu"]
    assert main([*ask, "--context", str(folder), "--passages", "3", "--json"]) == 0
    output = capsys.readouterr()
    found = json.loads(output.out)
    assert list(found) == ["answer", "score", "start", "end", "file", "alternatives"]
    assert (found["answer"], found["file"]) == ("gold", str(folder / "it.txt"))
    assert text[found["start"] : found["end"]] == "gold"
    assert 0.0 < found["score"] <= 1.0
    assert len(found["alternatives"]) == 2
    assert list(found["alternatives"][0]) == ["answer", "score", "start", "end", "file"]
    assert "3 of 6 passages were read" in output.err
    assert "1 file without text in UTF-8 left out" in output.err
    assert main([*ask, "--context", str(folder / "it.txt"), "--top", "1"]) == 0
    assert capsys.readouterr().out.startswith("gold  (")


def stdin_of(content: bytes, encoding: str = "utf-8") -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(content), encoding=encoding)


def test_standard_input_is_read_as_files_are_whatever_the_locale(
    capsys: Capture, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = ["answer", "where is it ?", "--context", "-", "--pack", f"{place}/packs/own", "--device", "cpu", "--json"]
    capsys.readouterr()
    monkeypatch.setattr("sys.stdin", stdin_of(b"\xef\xbb\xbf" + "é gold a".encode(), encoding="latin-1"))
    assert main(ask) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["answer"], found["start"], found["end"]) == ("gold", 2, 6)
    monkeypatch.setattr("sys.stdin", stdin_of(b"a\ngold caf\xe9"))
    assert main(ask) == 2
    assert "standard input:2: not UTF-8 (byte 0xe9). Convert the file" in capsys.readouterr().err


def test_an_answer_without_spaces_is_cut_where_people_read_it(capsys: Capture, place: Path, tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text("x" * 1000, encoding="utf-8")
    ask = ["answer", "where is it ?", "--context", f"{tmp_path}/long.txt", "--pack", f"{place}/packs/own"]
    capsys.readouterr()
    assert main([*ask, "--device", "cpu"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any("xxx …  (" in line for line in lines)
    assert max(map(len, lines)) < 500
    assert main([*ask, "--device", "cpu", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["alternatives"][0]["answer"]) == 1000


def test_answer_says_when_there_is_none(capsys: Capture, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", stdin_of(b"a b c d e f g h"))
    capsys.readouterr()
    ask = ["answer", "where is it ?", "--context", "-", "--pack", f"{place}/packs/own", "--device", "cpu", "--json"]
    assert main(ask) == 0
    found = json.loads(capsys.readouterr().out)
    assert [found[name] for name in ("answer", "start", "end", "file")] == [None, None, None, None]
    assert found["alternatives"][0]["file"] == "-"


def test_packs_of_one_tuned_encoder_share_a_pass(place: Path) -> None:
    both = MultiTask.from_pretrained([place / "packs" / "own", place / "packs" / "labels"], device="cpu")
    got = both("a b good gold c", question="where is it ?")
    assert got["squad2"]["answer"] == "gold"
    (alone,) = TextClassifier.from_pretrained(place / "packs" / "labels", device="cpu")("a b good gold c")
    assert got["sst2"] == pytest.approx(alone)
    ask = QuestionAnswerer.from_pretrained(place / "packs" / "own", device="cpu")
    assert ask(question="where is it ?", context="a b good gold c")["answer"] == "gold"


def test_a_pack_is_an_encoder_to_fit_on_and_to_tune_further(capsys: Capture, place: Path, tmp_path: Path) -> None:
    pack, data = f"{place}/packs/own", ["squad2", "--data", f"{place}/data", "--held-out", "0.2", *SHORT]
    fit = ["--encoder", pack, "--heads", "last_layer", "--out", f"{tmp_path}/fit"]
    assert main(["fit", *data, *fit]) == 0
    assert main(["evaluate", f"{tmp_path}/fit", "--device", "cpu"]) == 0
    tune = ["--encoder", pack, "--learn", "top:1", "--epochs", "1", "--lr", "1e-6", "--head-lr", "1e-6"]
    assert main(["tune", *data, *tune, "--out", f"{tmp_path}/tuned"]) == 0
    capsys.readouterr()
    assert main(["pack", f"{tmp_path}/tuned", "--out", f"{tmp_path}/pack", "--device", "cpu", "--json"]) == 0
    card = json.loads(capsys.readouterr().out)
    assert card["learn"] == ["top:2", "top:1"]
    assert card["scores"]["f1"] == Pack.load(pack).card.scores["f1"]  # it was good already, and hardly moved


def test_one_table_of_one_s_own_is_judged_by_what_was_held_out_of_it(
    capsys: Capture, place: Path, tmp_path: Path
) -> None:
    table = tmp_path / os.fsdecode(b"caf\xe9.tsv")  # a name that is not UTF-8
    table.write_bytes((place / "labels" / "train.tsv").read_bytes())
    fit = ["fit", "own", "--data", str(table), "--text", "sentence", "--heads", "layer_mix,last_layer"]
    more = ["--encoder", f"{place}/encoder", "--held-out", "0.2", *SHORT]
    assert main([*fit, *more, "--out", f"{tmp_path}/run"]) == 0
    leaderboard = {row["head"]: row["held_out"] for row in read(tmp_path / "run" / "leaderboard.json")}
    capsys.readouterr()
    assert main(["evaluate", f"{tmp_path}/run", "--device", "cpu", "--json"]) == 0
    output = capsys.readouterr()
    record = json.loads(output.out)
    assert (record["split"], record["examples"]) == ("held_out", 8)
    assert "--split held_out" in record["command"]
    assert {row["head"]: row["scores"]["plain"]["values"]["accuracy"]["value"] for row in record["rows"]} == leaderboard
    assert "what the run held out of it judges, 8 examples" in " ".join(output.err.split())
    pack = ["pack", f"{tmp_path}/run", "--out", f"{tmp_path}/pack", "--device", "cpu"]
    assert main(pack) == 0
    assert f"held_out: accuracy {max(leaderboard.values()):.4g}" in capsys.readouterr().out
    readme = (tmp_path / "pack" / "README.md").read_text("utf-8")
    assert "- scores: of the held-out examples, by which" in readme
    assert "- source: caf?.tsv" in readme
    assert main([*pack, "--heads", "layer_mix,last_layer"]) == 0  # their mean is judged by the same examples
    other = tmp_path / "other.tsv"
    other.write_bytes((place / "labels" / "dev.tsv").read_bytes())
    for split, code in (("dev", 2), ("train", 0)):
        capsys.readouterr()
        assert main(["evaluate", f"{tmp_path}/run", "--data", str(other), "--split", split, "--device", "cpu"]) == code
    assert "train, 12 examples" in " ".join(capsys.readouterr().out.split())


def test_questions_without_a_dev_split_are_not_judged_and_it_is_said_what_to_do(
    capsys: Capture, place: Path, tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "train.json").write_bytes((place / "data" / "train.json").read_bytes())
    fit = ["--encoder", f"{place}/encoder", "--heads", "last_layer", "--held-out", "0.2", *SHORT]
    assert main(["fit", "squad2", "--data", f"{tmp_path}/data", *fit, "--out", f"{tmp_path}/run"]) == 0
    for command in (["evaluate", f"{tmp_path}/run"], ["pack", f"{tmp_path}/run", "--out", f"{tmp_path}/pack"]):
        capsys.readouterr()
        assert main([*command, "--device", "cpu"]) == 2
        said = " ".join(capsys.readouterr().err.split())
        assert "the run's data have a train split alone; held-out questions fit the threshold" in said
        assert "--data DIR, or a file of other examples: --data FILE --split train" in said
        judged = ["--data", f"{place}/data", "--device", "cpu"]
        assert main([*command, *judged]) == 0


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("answer where? --context x.txt", "x.txt does not exist"),
        ("answer where?", "--context is missing"),
        ("answer where? --context {place}/labels/dev.tsv --pack {place}/packs/labels", "bertvision predict sst2 FILE"),
        ("answer where? --context {place}/labels/dev.tsv --pack {place}/none", "holds no pack"),
        (
            "predict sst2 x.json --pack {place}/packs/own",
            "is for squad2, not for sst2. Say: bertvision predict squad2 x.json …, or name another pack with --pack.",
        ),
        ("predict own x.csv --pack {place}/packs/labels", "Say: bertvision predict sst2 x.csv …"),
        ("predict squat2 x.json", "Did you mean 'squad2'?"),
        ("pack {place}/fit --heads layermix --out {place}/no", "unknown head 'layermix'. Did you mean"),
        ("pack {place}/labels --out {place}/no", "holds no run"),
        ("pack {place}/mood --out {place}/data", "is there already and is no pack"),
    ],
)
def test_mistakes_are_answered_with_what_to_do(capsys: Capture, place: Path, command: str, message: str) -> None:
    capsys.readouterr()
    assert main(command.format(place=place).split()) == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_a_table_with_a_column_of_another_name_is_predicted_as_the_help_says(place: Path, tmp_path: Path) -> None:
    (tmp_path / "reviews.csv").write_text('review,stars\ngood a b,5\n"bad, c",1\n', encoding="utf-8")
    files = [f"{tmp_path}/reviews.csv", "--out", f"{tmp_path}/labels.tsv"]
    assert main(["predict", "sst2", *files, "--text", "review", "--pack", f"{place}/packs/labels"]) == 0
    lines = (tmp_path / "labels.tsv").read_text(encoding="utf-8").splitlines()
    words = [one["label"] for one in TextClassifier.from_pretrained(f"{place}/packs/labels")(["good a b", "bad, c"])]
    assert lines[1:] == [f"{row}\t{word}" for row, word in enumerate(words)]


def test_without_a_shipped_pack_answer_says_what_to_do(
    capsys: Capture, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bertvision.pack_files.BUILTIN_PACKS", tmp_path)
    ask = ["answer", "where is it ?", "--context", f"{place}/labels/dev.tsv", "--device", "cpu"]
    assert main(ask) == 2
    assert "Name one with --pack" in capsys.readouterr().err
    Pack.load(place / "packs" / "own").save_pretrained(tmp_path / "qa-minilm")
    assert main(ask) == 0
