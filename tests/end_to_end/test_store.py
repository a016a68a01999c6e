"""`bertvision extract` and `bertvision store` as a user runs them."""

import json
import re
import shlex
from pathlib import Path

import pytest

from bertvision.cli.main import main
from folders import everything
from tiny_run import save_tiny_encoder, write_questions
from tiny_store import change_byte

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_tiny_encoder(tmp_path_factory.mktemp("encoder"), dropout=0.1)


@pytest.fixture
def command(encoder: str, tmp_path: Path) -> list[str]:
    """40 and 12 questions: a shard each."""
    data = write_questions(tmp_path / "data")
    windows = ["--length", "64", "--stride", "16", "--question", "24"]
    return [
        *("extract", "squad2", "--data", data, "--encoder", encoder, *windows, "--device", "cpu"),
        *("--store", str(tmp_path / "store")),
    ]


def fails(capsys: Capture, words: list[str]) -> str:
    """The message of a command that is to fail with exit code 2, one error and nothing on standard output."""
    capsys.readouterr()
    assert main(words) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.count("error:") == 1
    assert "Traceback" not in output.err
    return " ".join(output.err.rpartition("error: ")[2].split())


def test_what_was_extracted_is_told_as_json_and_told_again_by_info(
    capsys: Capture, command: list[str], encoder: str, tmp_path: Path
) -> None:
    assert main([*command, "--json"]) == 0
    output = capsys.readouterr()
    rows = json.loads(output.out)
    assert list(rows) == ["train", "dev"]
    expected = {"task": "squad2", "encoder": encoder, "windows": 40, "layers": "0..2", "width": 16, "keep": "fp16"}
    assert rows["train"].items() >= {**expected, "pool": None, "shards": 1}.items()
    sizes = {split: (tmp_path / "store" / split / "000000.safetensors").stat().st_size for split in rows}
    assert {split: row["bytes"] for split, row in rows.items()} == sizes
    assert "windows of train" in output.err
    assert main(["store", "info", str(tmp_path / "store"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == rows
    assert main(["store", "info", str(tmp_path / "store" / "dev"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"dev": rows["dev"]}


def test_tables_have_a_row_or_a_column_for_every_split(capsys: Capture, command: list[str], tmp_path: Path) -> None:
    assert main([*command, "--keep", "int8", "--layers", "1..2"]) == 0
    table = capsys.readouterr().out
    assert re.search(r"│ train +│ squad2 ", table)
    assert re.search(r"│ dev +│ squad2 ", table)
    assert main(["store", "info", str(tmp_path / "store")]) == 0
    table = capsys.readouterr().out
    assert re.search(r"┃ +┃ dev +┃ train +┃", table)
    assert re.search(r"│ keep +│ +int8 +│ +int8 +│", table)
    assert re.search(r"│ layers +│ +1\.\.2 +│ +1\.\.2 +│", table)
    assert re.search(r"│ windows +│ +12 +│ +40 +│", table)


def test_a_good_store_is_verified(capsys: Capture, command: list[str], tmp_path: Path) -> None:
    assert main(command) == 0
    capsys.readouterr()
    assert main(["store", "verify", str(tmp_path / "store")]) == 0
    assert "store: 2 shards of 2 splits are as they were written." in capsys.readouterr().err
    assert main(["store", "verify", str(tmp_path / "store"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"splits": ["dev", "train"], "shards": 2, "problems": []}


def test_damage_is_named_and_mended_by_the_same_command(capsys: Capture, command: list[str], tmp_path: Path) -> None:
    store = tmp_path / "store"
    assert main(command) == 0
    before = everything(store)
    change_byte(store / "dev" / "000000.safetensors")
    (store / "train" / "000000.safetensors").unlink()
    message = fails(capsys, ["store", "verify", str(store)])
    assert "dev/000000.safetensors has another checksum than when it was written; train/000000.safet" in message
    assert message.endswith("train/000000.safetensors is missing. Run the same extract again: it writes them anew.")
    assert main(["store", "verify", str(store), "--json"]) == 2
    output = capsys.readouterr()
    assert json.loads(output.out)["problems"] == [
        "dev/000000.safetensors has another checksum than when it was written",
        "train/000000.safetensors is missing",
    ]
    assert " ".join(output.err.split()) == f"error: {message}"
    assert main(command) == 0
    assert everything(store) == before
    assert main(["store", "verify", str(store)]) == 0


def test_a_store_that_is_not_finished_is_told(capsys: Capture, command: list[str], tmp_path: Path) -> None:
    assert main(command) == 0
    (tmp_path / "store" / "train" / "manifest.json").unlink()
    for word in ("info", "verify"):
        message = fails(capsys, ["store", word, str(tmp_path / "store")])
        assert "train has no manifest: it is not finished. Go on with the same `bertvision extract`." in message
        assert "nowhere is no store. Make one with" in fails(capsys, ["store", word, str(tmp_path / "nowhere")])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--max-disk", "10KB"],
            "--max-disk allows 10 KB, less than one shard (59.9 KB). Allow more, or use --keep",
        ),
        (["--max-disk", "some"], "--max-disk is 'some', a size such as 500MB or 20GB is expected"),
        (["--layers", "0..9"], "option layers is '0..9', such as 0..2 is expected"),
        (["--keep", "int4"], "--keep"),
        (["--length", "65"], "window length 65 exceeds the 64 tokens"),
        (["--encoder", "no/where"], "no/where"),
    ],
)
def test_what_cannot_be_is_an_error_and_nothing_is_written(
    capsys: Capture, command: list[str], words: list[str], message: str, tmp_path: Path
) -> None:
    assert message in fails(capsys, [*command, *words])
    assert not (tmp_path / "store").exists()


def test_the_command_in_the_message_makes_the_store_that_is_missed(
    capsys: Capture, command: list[str], tmp_path: Path
) -> None:
    assert main([*command, "--layers", "0..1", "--keep", "bf16"]) == 0
    options = command[1:-2]
    fit = ["fit", *options, "--heads", "layer_mix", "--batch", "8", "--out", str(tmp_path / "run")]
    message = fails(capsys, [*fit, "--from", f"store:{tmp_path / 'store'}"])
    assert "it has layers 0..1, 0..2 are asked for. Make one that does: bertvision extract squad2 " in message
    assert not (tmp_path / "run").exists()
    _, *words = shlex.split(message.partition("Make one that does: ")[2])
    assert main([*words, "--device", "cpu"]) == 0
    assert main([*fit, "--from", f"store:{tmp_path / 'store-2'}"]) == 0


def test_another_content_for_the_same_store_is_refused(capsys: Capture, command: list[str], tmp_path: Path) -> None:
    assert main(command) == 0
    before = everything(tmp_path / "store")
    assert "holds another store: keep is fp16, bf16 is asked for" in fails(capsys, [*command, "--keep", "bf16"])
    assert everything(tmp_path / "store") == before


def test_the_store_has_the_name_of_the_task_unless_told(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([*command[:-2], "--max-disk", "1MB"]) == 0
    assert sorted(path.name for path in (tmp_path / "stores" / "squad2").iterdir()) == ["dev", "train"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["extract"], ["--store", "--keep", "--layers", "--max-disk", "--max-disk 20GB"]),
        (["store", "info"], ["--json", "Show what a store holds"]),
        (["store", "verify"], ["--json", "every file of a store is as it was written"]),
    ],
)
def test_help_names_the_options(capsys: Capture, words: list[str], expected: list[str]) -> None:
    assert main([*words, "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert all(word in text for word in expected)
