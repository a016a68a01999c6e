"""The demo: commands that exist, in an order in which each finds what it needs."""

from importlib import import_module
from pathlib import Path

import pytest

from bertvision.cli import main as main_module
from bertvision.cli.commands import COMMANDS
from bertvision.cli.demo import Options, commands, run
from bertvision.cli.options import parse_options
from bertvision.heads import HEADS

Capture = pytest.CaptureFixture[str]


def test_every_command_of_the_demo_is_one_and_takes_its_options() -> None:
    for name, *rest in commands(Path("runs/demo")):
        command = COMMANDS[name]
        options = import_module(command.module).Options
        assert parse_options(options, rest, prog=name, summary=command.summary, examples=command.examples)


def test_the_demo_fits_every_head_but_convolutions_of_images() -> None:
    (words,) = [words for words in commands(Path("runs/demo")) if words[0] == "fit"]
    heads = words[words.index("--heads") + 1].split(",")
    left_out = [name for name, entry in HEADS.items() if "spans" in entry.kinds and name not in heads]
    assert set(heads) < set(HEADS)
    assert "context_conv" in heads
    assert {"conv", "pooled_adapter_inception", "pooled_adapter_xception", "pooled_adapter_ngram"} <= set(left_out)
    assert all("conv" in name or "ception" in name or "ngram" in name for name in left_out)


def test_the_demo_stops_at_the_first_command_that_fails(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ran: list[str] = []

    def record(words: list[str]) -> int:
        ran.append(words[0])
        return 2 if words[0] == fails else 0

    monkeypatch.setattr(main_module, "main", record)
    fails = "evaluate"
    assert run(Options(out=tmp_path)) == 2
    assert ran == ["tune", "fit", "evaluate"]
    assert "Done" not in capsys.readouterr().out
    fails = ""
    assert run(Options(out=tmp_path)) == 0
    assert ran[3:] == ["tune", "fit", "evaluate", "ensemble", "analyse", "report"]
    output = capsys.readouterr().out
    assert "$ bertvision evaluate" in output
    assert f"Look at {tmp_path / 'report' / 'index.html'}" in output
