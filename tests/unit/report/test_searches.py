"""What a report says of a search."""

from pathlib import Path
from typing import Any

import pytest

from bertvision.errors import BertVisionError
from bertvision.report.bars import Bars
from bertvision.report.document import Figure, Table
from bertvision.report.inputs import FileContent
from bertvision.report.plots import Scatter
from bertvision.report.read_runs import read_runs
from bertvision.report.searches import search_blocks
from bertvision.report.write import write_report
from report_files import write, write_fit, write_search


def sourced(folder: Path, **changes: Any) -> FileContent[dict[str, Any]]:  # noqa: ANN401 - any field
    (found,) = read_runs([write_search(folder, **changes)]).searches
    return found


def test_trials_their_history_and_what_counted_are_shown(tmp_path: Path) -> None:
    table, history, everything, of_head = search_blocks(sourced(tmp_path / "run"))
    assert isinstance(table, Table)
    assert table.columns[:4] == ("trial", "state", "held_out_mean", "judged")
    assert [row[0].strong for row in table.rows] == [False, False, True]
    assert "on dev sst2.accuracy 0.75" in table.note
    assert "tokens do not fit" in [cell.text for cell in table.rows[1]]
    assert isinstance(history, Figure)
    assert isinstance(history.plot, Scatter)
    assert [(p.x, p.y, p.model) for p in history.plot.points] == [(0.0, 0.5, "layer_mix"), (2.0, 0.7, "own output")]
    assert history.plot.front
    assert "1 more were pruned" in history.caption
    for figure, title, places in (
        (everything, "Parameter importance in all trials", ("lr", "sts.cap")),
        (of_head, "Parameter importance for layer_mix", ("dropout",)),
    ):
        assert isinstance(figure, Figure)
        assert isinstance(figure.plot, Bars)
        assert figure.title.startswith(title)
        assert figure.plot.places == places


def test_a_search_is_read_with_its_best_run_and_stands_on_the_page(tmp_path: Path) -> None:
    folder = write_search(tmp_path / "run")
    write_fit(folder / "best", task="sst2,sts")
    result = write_report([folder], tmp_path / "report")
    assert "1 run, 1 search on sst2,sts" in result.report.lead
    page = result.page.read_text(encoding="utf-8")
    assert "How the search went" in page
    assert "bertvision search sst2,sts" in page


def test_a_search_that_still_runs_or_found_nothing_has_no_figures(tmp_path: Path) -> None:
    (table,) = search_blocks(sourced(tmp_path / "run", best=None, history=[], importance={}))
    assert isinstance(table, Table)
    assert "none was completed" in table.note
    unscored = {"trial": 2, "value": 0.7, "dev": None}
    assert "was not scored on dev yet" in str(search_blocks(sourced(tmp_path / "two", best=unscored))[0])


@pytest.mark.parametrize("changes", [{"format": 9}, {"trials": 7}, {"trials": [{"trial": 0}]}])
def test_a_record_of_another_form_is_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    with pytest.raises(BertVisionError, match=r"trials.json is no record of a search of format 1. Make it again"):
        read_runs([write_search(tmp_path / "run", **changes)])


def test_a_record_that_lacks_something_is_named(tmp_path: Path) -> None:
    found = sourced(tmp_path / "run")
    del found.content["importance"]
    with pytest.raises(BertVisionError, match=r"trials.json cannot be read \(KeyError: 'importance'\). Make it again"):
        search_blocks(found)


def test_a_search_without_a_trial_is_told_from_a_run(tmp_path: Path) -> None:
    write(tmp_path / "run" / "config.json", {"format": 2, "request": {"task": "sst2", "space": {}}, "weights": ""})
    with pytest.raises(BertVisionError, match=r"is a search without a trial. Go on with it"):
        read_runs([tmp_path / "run"])
