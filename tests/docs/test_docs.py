"""What the documents say is so: commands and code run, tables are those of the records, lists are complete."""

import os
import re
import shlex
import subprocess
import sys
from importlib import import_module
from itertools import groupby, pairwise
from pathlib import Path
from types import ModuleType

import pytest

import bertvision
from bertvision import HEADS, TASKS
from bertvision.bench.compare import measured_cells
from bertvision.bench.suite import load_suite
from bertvision.cli.commands import COMMANDS
from bertvision.cli.main import main
from bertvision.cli.options import parse_options
from bertvision.errors import BertVisionError
from conftest import ROOT, load_script

README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCUMENTS = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
]


def page(name: str) -> str:
    """The text of a page of docs/."""
    return (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")


PAGES = {"README": README} | {
    name: page(name)
    for name in ("data", "fitting", "heads", "multitask", "packs", "scale", "search", "speed", "tuning", "tutorial")
}
"""Whose commands and code are run."""


def blocks(language: str, text: str = README) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


def commands(text: str) -> list[list[str]]:
    """The words of every command of ours that a text shows with a dollar sign; what follows a # is for people."""
    shown = "".join(blocks("console", text)).replace("\\\n", " ")
    return [
        shlex.split(line, comments=True)
        for line in re.findall(r"^\$ (?:\w+=\S+ )?bertvision (.*)$", shown, re.MULTILINE)
    ]


RUN = {
    name: found for name, text in PAGES.items() if (found := [one for one in blocks("sh", text) if "make " not in one])
}


@pytest.mark.no_cover  # each command has tests of its own, and watching them takes time
@pytest.mark.usefixtures("few_strengths")
@pytest.mark.parametrize("name", RUN)
def test_commands_of_a_page_run_one_after_the_other_in_one_folder(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Our own commands run in this process, since half of their time would go into importing PyTorch anew."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    for ours, lines in groupby("".join(RUN[name]).splitlines(), key=lambda line: line.startswith("bertvision ")):
        if not ours:
            subprocess.run(["bash", "-euc", "\n".join(lines)], check=True)
            continue
        for line in lines:
            assert main(shlex.split(line, comments=True)[1:]) == 0, f"{line}: {capsys.readouterr().err}"


@pytest.mark.no_cover
def test_the_first_example_prints_what_the_readme_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    first, *asked = blocks("console")[0].split("$ ")[1:]
    subprocess.run(["bash", "-euc", first], check=True)
    assert len(asked) == 3
    for command in asked:
        line, _, printed = command.partition("\n")
        assert main(shlex.split(line)[1:]) == 0
        assert capsys.readouterr().out == printed


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_commands_that_are_only_shown_can_be_parsed(document: Path) -> None:
    for words in commands(document.read_text(encoding="utf-8")):
        name = next(name for name in (" ".join(words[:2]), words[0]) if name in COMMANDS)
        options = import_module(COMMANDS[name].module).Options
        parse_options(options, words[len(name.split()) :], prog=name, summary="", examples=())


def test_commands_are_shown_where_they_are_run_or_parsed() -> None:
    """Those in a block without a language would escape both."""
    for document in DOCUMENTS:
        text = re.sub(r"```\w+\n.*?```", "", document.read_text(encoding="utf-8"), flags=re.DOTALL)
        assert not re.search(r"^\s*\$? ?bertvision \w+ ", text, re.MULTILINE), document.name


@pytest.mark.parametrize("name", RUN)
def test_commands_of_a_page_do_not_get_in_each_others_way(name: str) -> None:
    """Each writes a folder of its own, and reads what one above it has written."""
    written: list[str] = []
    for command in re.findall(r"^bertvision (\w+ .*)", "".join(RUN[name]), flags=re.MULTILINE):
        words = command.split()
        made = [word for option, word in pairwise(words) if option in ("--out", "--store")]
        read = {re.sub("@.*", "", word) for word in words if re.match("(runs|packs|stores)/", word)} - set(made)
        assert read <= set(written), f"{command}: nothing above writes what it reads"
        written += made
    assert len(written) == len(set(written)), f"written twice: {sorted(written)}"


def test_many_commands_are_run() -> None:
    """So that the tests above cannot pass for want of any."""
    assert sum(len(re.findall("^bertvision ", "".join(found), re.MULTILINE)) for found in RUN.values()) > 40
    assert sum(len(commands(document.read_text(encoding="utf-8"))) for document in DOCUMENTS) > 15


def test_every_command_and_every_page_is_found_from_the_readme() -> None:
    for path in (ROOT / "docs").glob("*.md"):
        assert f"(docs/{path.name})" in README, path.name
    text = "".join(document.read_text(encoding="utf-8") for document in DOCUMENTS if document.name != "CHANGELOG.md")
    assert [name for name in COMMANDS if f"bertvision {name}" not in text] == []


def test_counts_in_words_are_right() -> None:
    assert f"{in_words(len(HEADS))} heads" in README
    assert f"{in_words(len(TASKS))} tasks" in README
    assert f"{in_words(len(TASKS))} are known by name" in PAGES["data"]
    assert f"… {len(HEADS)} in all" in (ROOT / "docs" / "flow.svg").read_text(encoding="utf-8")


def in_words(count: int) -> str:
    """Sixteen, thirty-eight: the counts that documents begin a sentence with."""
    return {16: "Sixteen", 38: "Thirty-eight"}[count]


def test_the_two_commands_of_the_readme_are_in_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for command in re.findall(r"^make (\w+)", blocks("sh")[0], flags=re.MULTILINE):
        assert f"\n{command}: install" in makefile


@pytest.mark.parametrize(
    "block", [block for name in ("README", "data", "heads") for block in blocks("python", PAGES[name])]
)
def test_python_of_the_readme_and_of_the_pages_of_data_and_heads_runs(block: str, tmp_path: Path) -> None:
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


def test_what_a_suite_asks_for_now_and_no_record_has_is_told(table: ModuleType) -> None:
    for name in table.SUITES:
        record = table.suite_record(name)
        suite = load_suite(ROOT / "experiments" / f"{name}.toml")
        assert [one["name"] for one in record["plan"]] == [one.name for one in suite.cells]
        absent = [one.name for one in measured_cells(record) if not one.entries]
        told = re.findall(r"^Not measured yet: (.*)\.$", table.suite_tables(name), re.MULTILINE)
        assert told == ([", ".join(f"`{one}`" for one in absent)] if absent else [])


def test_every_table_has_its_marks(table: ModuleType) -> None:
    for name, (document, _) in table.TABLES.items():
        assert f"<!-- {name} table: written by bench/table.py -->" in (ROOT / document).read_text(encoding="utf-8")


def test_a_page_that_lacks_a_mark_is_refused_and_not_cut_off(table: ModuleType) -> None:
    begin, end = "<!-- answers table: written by bench/table.py -->", "<!-- end of answers table -->"
    for text in (f"{begin}\n\nWhat follows.", f"{end}\n\nWhat follows."):
        with pytest.raises(BertVisionError, match=r"docs/benchmarks\.md lacks a mark of the table .answers."):
            table.with_tables("docs/benchmarks.md", text)


def test_a_rate_is_chosen_by_the_seed_that_all_rates_have(table: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other seeds hold out other questions, whose scores say nothing about the rate."""
    scores = {"zero": 1.0, "fitted": 2.0, "best": 3.0, "bytes": 4e6}
    held_out = [("tuning", 1e-3, 80.0), ("tuning", 2e-3, 79.0), ("rival", 1e-3, 70.0)]
    runs = [scores | {"suite": suite, "learn": "lora:16", "lr": lr, "held_out": at} for suite, lr, at in held_out]
    monkeypatch.setattr(table, "tuning_runs", lambda: runs)
    assert table.quality_table().splitlines()[2:] == ["| lora:16 | 0.001 | 2 | 2 | 1.0 | 2.0 | 3.0 | 4 MB |"]


def test_the_plots_are_those_of_the_records(table: ModuleType) -> None:
    drawn = table.all_plots()
    assert set((ROOT / "docs" / "plots").glob("*")) == set(drawn), "run: make report"
    assert all(path.read_text(encoding="utf-8") == text for path, text in drawn.items()), "run: make report"


def test_every_speed_claim_was_met_when_it_was_measured() -> None:
    for text, rows in ((README, 10), (PAGES["speed"], 20)):
        promised = re.findall(r"\| \*\*([\d.]+)\*\* [^|]*\| ([\d.]+) \|", text)
        assert len(promised) >= rows
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


def anchors(text: str) -> set[str]:
    """What the headings of a page are called in links, as GitHub does it."""
    titles = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_to_a_heading_find_it(document: Path) -> None:
    for target, heading in re.findall(r"\]\(([^):#]*)#([^)]+)\)", document.read_text(encoding="utf-8")):
        place = document.parent / target if target else document
        assert heading in anchors(place.read_text(encoding="utf-8")), f"{target}#{heading}"


def test_the_reading_order_is_the_import_order() -> None:
    layers = load_script("tests/test_layers.py")
    section = README.partition("## Reading the code")[2]
    places = [section.index(f"`{part}") for part in layers.ORDER]
    assert places == sorted(places)
