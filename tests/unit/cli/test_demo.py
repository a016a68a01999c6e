"""The demo: commands that exist, in an order in which each finds what it needs."""

from importlib import import_module
from pathlib import Path

import pytest

from bertvision.cli import main as main_module
from bertvision.cli.commands import COMMANDS
from bertvision.cli.demo import HEADS_FILE, Options, commands, heads_toml, run
from bertvision.cli.options import parse_options
from bertvision.errors import BertVisionError
from bertvision.heads import HEADS, HeadShape, blank_head, count_parameters
from bertvision.heads.conv import Conv
from bertvision.heads.inception import Inception
from bertvision.heads.xception import Xception
from bertvision.pack_files import builtin_pack, find_pack
from bertvision.runs.fitting.head_specs import parse_heads
from bertvision.training.trainee import HeadSpec

Capture = pytest.CaptureFixture[str]


def test_every_command_of_the_demo_is_one_and_takes_its_options() -> None:
    for name, *rest in commands(Path("runs/demo")):
        command = COMMANDS[name]
        options = import_module(command.module).Options
        assert parse_options(options, rest, prog=name, summary=command.summary, examples=command.examples)


def test_the_demo_fits_every_head_that_reads_questions(tmp_path: Path) -> None:
    (words,) = [words for words in commands(tmp_path) if words[0] == "fit"]
    heads = tmp_path / HEADS_FILE
    assert words[words.index("--heads") + 1] == str(heads)
    heads.write_text(heads_toml(), encoding="utf-8")
    specs = parse_heads(str(heads), "spans", HeadSpec(head="last_layer"))
    assert [spec.head for spec in specs] == [name for name, entry in HEADS.items() if "spans" in entry.kinds]
    changed = {spec.head: spec.options for spec in specs if spec.options}
    images = (Conv, Inception, Xception)
    assert list(changed) == [spec.head for spec in specs if issubclass(HEADS[spec.head].head, images)]
    shape = HeadShape(layers=7, width=384, outputs=2)
    for name, options in changed.items():
        whole, small = (count_parameters(blank_head(name, shape, chosen)) for chosen in ({}, options))
        assert small < whole / 10


def test_the_demo_begins_with_the_shipped_pack_and_judges_by_what_neither_command_learnt_from() -> None:
    tune, fit = commands(Path("runs/demo"))[:2]
    assert find_pack(tune[tune.index("--encoder") + 1]) == builtin_pack()
    parts = [words[words.index("--fraction") : words.index("--out")] for words in (tune, fit)]
    assert parts[0] == parts[1] == ["--fraction", "0.7", "--held-out", "0.3"]


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(BertVisionError, match=r"--out .*file cannot be written .* Use another folder"):
        run(Options(out=tmp_path / "file"))


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
