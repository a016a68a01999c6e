"""What the documents say is so: commands and code run, tables are those of the records, lists are complete."""

import os
import re
import shlex
import subprocess
import sys
from itertools import groupby, pairwise
from pathlib import Path
from types import ModuleType

import pytest

import bertvision
from bertvision.cli.commands import COMMANDS
from bertvision.cli.main import main
from conftest import ROOT, load_script

README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCUMENTS = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
]


PACKS = (ROOT / "docs" / "packs.md").read_text(encoding="utf-8")
HEADS = (ROOT / "docs" / "heads.md").read_text(encoding="utf-8")
SCALE = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")


def blocks(language: str, text: str = README) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


RUN = [block for text in (README, PACKS, SCALE) for block in blocks("sh", text) if "make " not in block]


@pytest.mark.no_cover  # each command has tests of its own, and watching them takes time
@pytest.mark.usefixtures("few_strengths")
@pytest.mark.parametrize("block", RUN)
def test_commands_of_the_readme_and_of_the_packs_and_scale_pages_run(
    block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Our own commands run in this process, since half of their time would go into importing PyTorch anew."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    for ours, lines in groupby(block.splitlines(), key=lambda line: line.startswith("bertvision ")):
        if not ours:
            subprocess.run(["bash", "-euc", "\n".join(lines)], check=True)
            continue
        for line in lines:
            assert main(shlex.split(line, comments=True)[1:]) == 0, f"{line}: {capsys.readouterr().err}"


def test_commands_of_the_readme_in_one_folder_do_not_get_in_each_others_way() -> None:
    """Each writes a folder of its own, and reads what one above it has written; also those within sentences."""
    written: list[str] = []
    for command in re.findall(r"\bbertvision (\w+ [^`\n]*)", README.partition("## Quality")[0]):
        words = command.split()
        made = [word for option, word in pairwise(words) if option in ("--out", "--store")]
        read = {re.sub("@.*", "", word) for word in words if re.match("(runs|packs|stores)/", word)} - set(made)
        assert read <= set(written), f"{command}: nothing above writes what it reads"
        written += made
    assert len(written) == len(set(written)), f"written twice: {sorted(written)}"
    assert len(written) > 10


def test_the_two_commands_of_the_readme_are_in_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for command in re.findall(r"^make (\w+)", blocks("sh")[0], flags=re.MULTILINE):
        assert f"\n{command}: install" in makefile


@pytest.mark.parametrize("block", blocks("python") + blocks("python", HEADS))
def test_python_of_the_readme_and_of_the_heads_page_runs(block: str, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", block], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def table() -> ModuleType:
    """bench/table.py, which is no part of the package."""
    return load_script("bench/table.py")


def test_the_tables_are_those_of_the_records(table: ModuleType) -> None:
    for document in sorted({place for place, _ in table.TABLES.values()}):
        text = (ROOT / document).read_text(encoding="utf-8")
        assert table.with_tables(document, text) == text, "run: make report"


def test_every_table_has_its_marks(table: ModuleType) -> None:
    for name, (document, _) in table.TABLES.items():
        assert f"<!-- {name} table: written by bench/table.py -->" in (ROOT / document).read_text(encoding="utf-8")


def test_the_plots_are_those_of_the_records(table: ModuleType) -> None:
    drawn = {path: text for name in table.SUITES for path, text in table.suite_plots(name).items()}
    assert set((ROOT / "docs" / "plots").glob("*")) == set(drawn), "run: make report"
    assert all(path.read_text(encoding="utf-8") == text for path, text in drawn.items()), "run: make report"


def test_every_speed_claim_was_met_when_it_was_measured() -> None:
    promised = re.findall(r"\| \*\*([\d.]+)\*\* .*? \| ([\d.]+) \|", README)
    assert len(promised) >= 3
    assert all(float(got) >= float(least) for got, least in promised)


def test_every_public_name_is_documented() -> None:
    api = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    assert [name for name in bertvision.__all__ if f"`{name}`" not in api] == []


def test_every_command_is_in_the_changelog() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert [name for name in COMMANDS if f"bertvision {name}" not in changelog] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", document.read_text(encoding="utf-8")):
        assert target.startswith("https://") or (document.parent / target).exists(), target


def test_the_reading_order_is_the_import_order() -> None:
    layers = load_script("tests/test_layers.py")
    section = README.partition("## Reading the code")[2]
    places = [section.index(f"`{part}") for part in layers.ORDER]
    assert places == sorted(places)
