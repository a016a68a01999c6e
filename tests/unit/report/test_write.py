"""A report appears when it is whole, replaces only a report, and is the same for the same runs."""

import threading
from pathlib import Path

import pytest

from bertvision.atomic import write_text
from bertvision.errors import BertVisionError
from bertvision.report import write as module
from bertvision.report.write import write_report
from folders import everything
from report_files import label_run, write_fit
from two_at_once import while_writing


def test_a_report_is_a_page_markdown_tables_and_cards(tmp_path: Path) -> None:
    run = label_run(tmp_path / "fit")
    result = write_report([run], tmp_path / "report", title="Moods")
    assert sorted(result.files) == sorted(everything(result.folder))
    assert {"index.html", "report.md", "tables/best.tex", "tables/scores-sst5-built-in-set.tex"} <= set(result.files)
    (card,) = [name for name in result.files if name.startswith("cards/")]
    assert card.endswith("-fit/README.md")
    assert "<h1>Moods</h1>" in result.page.read_text(encoding="utf-8")


def test_the_same_runs_give_the_same_report_and_it_replaces_the_older_one(tmp_path: Path) -> None:
    run = write_fit(tmp_path / "fit")
    out = write_report([run], tmp_path / "report").folder
    before = everything(out)
    (out / "tables" / "old.tex").write_text("", encoding="utf-8")
    write_report([run], out)
    assert everything(out) == before


@pytest.mark.parametrize("name", ["index.html", "notes.txt"])
def test_what_is_no_report_is_left_alone(tmp_path: Path, name: str) -> None:
    (tmp_path / "report").mkdir()
    (tmp_path / "report" / name).write_text("mine", encoding="utf-8")
    with pytest.raises(BertVisionError, match=r"is there already and is no report. Use another --out"):
        write_report([write_fit(tmp_path / "fit")], tmp_path / "report")
    assert everything(tmp_path / "report") == {name: b"mine"}


def test_a_report_that_cannot_be_written_leaves_the_older_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = write_fit(tmp_path / "fit")
    out = write_report([run], tmp_path / "report").folder
    before = everything(tmp_path)

    def full(path: Path, _text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        raise BertVisionError(f"{path} cannot be written: No space left on device.")

    monkeypatch.setattr(module, "write_text", full)
    with pytest.raises(BertVisionError, match="No space left"):
        write_report([run], out)
    assert everything(tmp_path) == before
    assert not list(tmp_path.glob(".*"))


def test_two_reports_into_one_folder_are_written_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, others = write_fit(tmp_path / "fit"), list[threading.Thread]()

    def write(path: Path, text: str) -> None:
        if not others and path.name == "report.md":
            others.append(threading.Thread())  # the second one starts no third
            others[0] = while_writing(lambda: write_report([run], tmp_path / "report", title="second"))
        write_text(path, text)

    monkeypatch.setattr(module, "write_text", write)
    result = write_report([run], tmp_path / "report", title="first")
    others[0].join()
    assert "<h1>second</h1>" in result.page.read_text(encoding="utf-8")
    assert set(everything(result.folder)) == set(result.files)


def test_a_report_does_not_replace_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = write_fit(tmp_path / "fit")
    out = write_report([run], tmp_path / "report").folder
    before = everything(tmp_path)
    monkeypatch.chdir(out)
    with pytest.raises(BertVisionError, match=r"the report \. cannot be written: it is the working directory"):
        write_report([run], ".")
    assert everything(tmp_path) == before
