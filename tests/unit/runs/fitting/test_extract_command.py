"""The command that makes a store, in words to copy."""

import shlex
from pathlib import Path

import pytest

from bertvision.cli.extract import Options
from bertvision.cli.options import parse_options
from bertvision.runs.fitting.extract import ExtractRequest
from bertvision.runs.fitting.extract_command import extract_command
from bertvision.tasks.own import OwnColumns
from bertvision.tasks.windows import WindowOptions


def parsed(command: str) -> tuple[ExtractRequest, Path | None]:
    """What a command asks for, read as the command line reads it."""
    program, name, *words = shlex.split(command)
    assert (program, name) == ("bertvision", "extract")
    options = parse_options(Options, words, prog="bertvision extract", summary="", examples=[])
    request = ExtractRequest(
        task=options.task,
        data=options.data.data,
        columns=options.columns,
        skip_bad=options.data.skip_bad,
        windows=options.windows,
        encoder=options.encoder,
        keep=options.keep,
        layers=options.layers,
        pool=options.pool,
        dtype=options.dtype,
    )
    return request, options.store


def test_the_command_asks_for_just_that(tmp_path: Path) -> None:
    for request in (
        ExtractRequest(task="squad2"),
        ExtractRequest(
            task="own",
            data="my data/here.csv",
            columns=OwnColumns(text="a text", label="y", kind="scores", delimiter=";", no_header=True),
            skip_bad=True,
            windows=WindowOptions(length=100, stride=20, question=30),
            encoder="runs/tuned@0.3",
            keep="int8",
            layers="2..5",
            pool="mean",
            dtype="bfloat16",
        ),
    ):
        assert parsed(extract_command(request, tmp_path / "store")) == (request, tmp_path / "store-2")


def test_the_store_gets_a_name_that_nothing_has_yet(tmp_path: Path) -> None:
    (tmp_path / "store-2").mkdir()
    (tmp_path / "store-3").touch()
    assert extract_command(ExtractRequest(task="sst2"), tmp_path / "store").endswith(f" --store {tmp_path}/store-4")


def test_a_store_in_the_working_directory_has_that_one_s_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "store" / "train").mkdir(parents=True)
    for place, path in (("store", "."), ("store/train", "..")):
        monkeypatch.chdir(tmp_path / place)
        assert extract_command(ExtractRequest(task="sst2"), Path(path)).endswith(f" --store {tmp_path}/store-2")
