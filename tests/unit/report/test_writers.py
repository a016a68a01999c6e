"""The page, Markdown, LaTeX and cards: the same numbers, every text escaped, every number linked to its record."""

import json
import re
from html.parser import HTMLParser
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from bertvision.errors import BertVisionError
from bertvision.report.build import build_report
from bertvision.report.card import write_card
from bertvision.report.document import Cell, Record, Report, Section, Table, number_cell, slug, text_cell
from bertvision.report.groups import group_runs
from bertvision.report.html import write_html
from bertvision.report.latex import escape_latex, write_latex
from bertvision.report.markdown import code, plain, write_markdown
from bertvision.report.numbers import NOTHING
from bertvision.report.read_runs import read_runs
from report_files import (
    EVIL,
    evaluated,
    label_rows,
    label_run,
    labels_at,
    row_of,
    span_run,
    write,
    write_analysis,
    write_evaluation,
    write_fit,
    write_freeze,
    write_tuned,
)

VOID = {"meta", "link", "br", "input", "img"}


class Page(HTMLParser):
    """What a page holds: tags with attributes, texts, and whether all is closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    @override
    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    @override
    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    @override
    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """A report of everything there is."""
    folder = tmp_path_factory.mktemp("runs")
    runs = [label_run(folder / "labels"), span_run(folder / "spans"), write_tuned(folder / "tuned")]
    write_analysis(runs[0])
    return build_report(read_runs([*runs, write_freeze(folder / "freeze")]))


def evil_report() -> Report:
    cells = (text_cell(EVIL, model=EVIL, record="r1"), number_cell(0.25, "share", record="r1"))
    table = Table(key="t", title=EVIL, columns=(EVIL, "score"), rows=(cells,), note=EVIL)
    section = Section(key="s", title=EVIL, group=EVIL, text=(EVIL,), blocks=(table,))
    record = Record(key="r1", kind="run", path=EVIL, command=EVIL, facts={EVIL: EVIL}, provenance={"time": EVIL})
    return Report(title=EVIL, lead=EVIL, sections=(section,), records=(record,), models=(EVIL,))


def test_every_text_is_escaped_on_the_page() -> None:
    text = write_html(evil_report())
    page = Page(text)
    assert "<script>alert" not in text
    assert [tag for tag, _ in page.tags].count("script") == 1
    assert "".join(page.texts).count(EVIL) >= 11


def test_every_text_is_escaped_in_markdown() -> None:
    text = write_markdown(evil_report())
    outside = re.sub(r"(`+) .*? \1", "", text)
    assert not re.search(r"(?<!\\)<(?!a id=|/a>)", outside)
    for line in text.splitlines():
        if line.startswith("|"):
            assert len(re.findall(r"(?<!\\)\|", line)) == 3, line


def test_markdown_escapes_only_what_means_something() -> None:
    assert plain("- a_b <c>\n1. x") == r"\- a\_b \<c\> 1. x"
    assert plain("2) x") == r"2\) x"
    assert [plain(text) for text in ("39.2", "+0.2", "-1.5")] == ["39.2", "+0.2", "-1.5"]
    assert code("a `b` ``c``") == "``` a `b` ``c`` ```"


def test_every_text_is_escaped_in_latex() -> None:
    report = evil_report()
    text = write_latex(report.tables()[0], report)
    body = "\n".join(line for line in text.splitlines() if not line.startswith("%"))
    rows = body.partition("\\midrule")[2].partition("\\bottomrule")[0].strip()
    assert len(re.findall(r"(?<!\\)&", rows)) == 1
    assert escape_latex(r"50% of a_b & \c{}") == r"50\% of a\_b \& \textbackslash{}c\{\}"
    assert escape_latex("\N{MINUS SIGN}5.6 " + NOTHING) == "$-$5.6 --"


def test_all_forms_have_the_same_numbers(report: Report) -> None:
    page, markdown = write_html(report), write_markdown(report)
    tables = report.tables()
    assert len(tables) > 10
    shown = 0
    for table in tables:
        latex = write_latex(table, report)
        for row in table.rows:
            for cell in row:
                if isinstance(cell.order, float):
                    shown += 1
                    assert f">{cell.text.replace('<', '&lt;')}<" in page
                    assert f"[{plain(cell.text)}](#{cell.record})" in markdown
                    assert escape_latex(cell.text) in latex
    assert shown > 100


def test_every_number_links_to_a_record_with_its_command(report: Report) -> None:
    keys = {record.key for record in report.records}
    tables = report.tables() + [figure.table() for figure in report.figures()]
    numbers = [cell for table in tables for row in table.rows for cell in row if isinstance(cell.order, float)]
    assert numbers
    assert all(cell.record in keys for cell in numbers)
    page = Page(write_html(report))
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    targets = {
        str(attributes["href"])[1:] for tag, attributes in page.tags if tag == "a" and "#" in str(attributes["href"])
    }
    assert targets <= set(ids)
    texts = "".join(page.texts)
    assert all(record.command in texts for record in report.records if record.command is not None)


def test_the_page_asks_nobody_and_runs_nothing_but_its_own_script(report: Report) -> None:
    text = write_html(report)
    assert not re.search(r"https?:|@import|url\(", text)
    page = Page(text)
    assert not [tag for tag, attributes in page.tags if {"src", "style", "onclick"} & attributes.keys()]
    (policy,) = [a["content"] for tag, a in page.tags if tag == "meta" and a.get("http-equiv")]
    assert policy is not None
    assert policy.startswith("default-src 'none'; img-src data:; style-src 'sha256-")


def test_tables_can_be_read_by_ear(report: Report) -> None:
    page = Page(write_html(report))
    tags = [tag for tag, _ in page.tags]
    assert tags.count("caption") == tags.count("table")
    headers = [attributes for tag, attributes in page.tags if tag == "th"]
    assert all(attributes["scope"] in ("col", "row") for attributes in headers)
    assert all(a.get("aria-sort") == "none" for a in headers if a["scope"] == "col")
    assert {"main", "nav", "header", "footer"} <= set(tags)
    levels = [int(tag[1]) for tag in tags if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_a_head_has_one_colour_on_the_whole_page(report: Report) -> None:
    page = write_html(report)
    pattern = r'class="mark (\w+)">(?:(?!<svg).)*?</svg>(?:<[^>]*>)*(?:\d+-)?layer_mix<'
    assert len(set(re.findall(pattern, page))) == 1


def test_analyses_are_drawn(report: Report) -> None:
    (section,) = [section for section in report.sections if section.title.startswith("Analysis")]
    keys = {re.sub(r"-r\d+$", "", block.key) for block in section.blocks}
    assert {"figure-words", "second-answers", "contexts", "figure-calibration", "efficiency"} <= keys
    assert {"figure-confusion-000-layer-mix", "figure-confusion-own-output", "figure-labels"} <= keys
    assert {"figure-weights", "figure-attention", "figure-question", "figure-depth"} <= keys
    assert {"figure-histogram", "figure-scatter"} <= keys


def test_an_analysis_that_lacks_something_is_named(tmp_path: Path) -> None:
    run = write_fit(tmp_path / "fit")
    write_analysis(run, models=[{"name": "x"}])
    with pytest.raises(BertVisionError, match=r"analysis.json cannot be read \('.*' is missing\)\. Analyse again"):
        read_runs([run])


def test_an_analysis_of_an_earlier_version_that_said_less_is_refused(tmp_path: Path) -> None:
    run = write_fit(tmp_path / "fit")
    content = write_analysis(run)
    del content["fingerprints"]
    write(run / "analysis.json", content)
    with pytest.raises(
        BertVisionError, match=r"analysis.json cannot be read \('fingerprints' is missing\)\. Analyse again"
    ):
        read_runs([run])


def test_a_fault_of_our_own_is_no_fault_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = write_fit(tmp_path / "fit")
    write_analysis(run)
    found = read_runs([run])

    def fail(*_: object) -> None:
        raise TypeError("a fault of our own")

    monkeypatch.setattr("bertvision.report.analysed.confusion_plot", fail)
    with pytest.raises(TypeError, match="a fault of our own"):
        build_report(found)


def test_the_model_that_leads_is_chosen_by_held_out_examples(report: Report) -> None:
    (best,) = [table for table in report.tables() if table.key == "best"]
    first = {row[0].text: [cell.text for cell in row] for row in best.rows}
    labels = first["sst5, built-in set"]
    assert labels[1:7] == ["0.457", "0.357 to 0.557", "accuracy on dev", "000-layer_mix", "1,925", "+0.123"]
    assert first["squad2, built-in set"][1] == "62.3"  # at the fitted threshold, and not at the best on dev
    assert "fitted on held-out" in first["squad2, built-in set"][3]


def test_a_difference_stands_out_only_where_a_test_speaks_for_it(report: Report) -> None:
    (scores,) = [table for table in report.tables() if table.key == "scores-sst5-built-in-set"]
    place = scores.columns.index("against own output")
    assert [row[place].strong for row in scores.rows] == [True, False, False]


def test_a_run_that_was_not_evaluated_is_shown_by_its_leaderboard(tmp_path: Path) -> None:
    report = build_report(read_runs([write_fit(tmp_path / "fit")]), title="Mine")
    (best,) = [table for table in report.tables() if table.key == "best"]
    assert [cell.text for cell in best.rows[0]][1:5] == [
        "0.457",
        NOTHING,
        "accuracy, not evaluated yet",
        "000-layer_mix",
    ]
    assert report.title == "Mine"
    tuned = build_report(read_runs([write_tuned(tmp_path / "tuned")]))
    (best,) = [table for table in tuned.tables() if table.key == "best"]
    assert [cell.text for cell in best.rows[0]][1] == "0.350"


def test_a_card_says_what_machines_and_people_ask(tmp_path: Path) -> None:
    found = read_runs([label_run(tmp_path / "fit"), write_tuned(tmp_path / "tuned")])
    (group,) = group_runs(found)
    card = write_card(found.runs[0], group)
    front, _, body = card.removeprefix("---\n").partition("\n---\n")
    assert 'base_model: "sentence-transformers/all-MiniLM-L6-v2"' in front
    assert "pipeline_tag: text-classification" in front
    assert "            value: 0.457" in front
    assert f"bertvision fit sst5 --out {tmp_path}/fit" in body
    assert "| 000-layer\\_mix | 1,925 |" in body
    assert "columns" not in body  # nothing was asked for there
    assert "](#" not in body
    assert "Not evaluated yet" in write_card(found.runs[1], group)


def test_the_values_of_a_card_are_yaml(tmp_path: Path) -> None:
    yaml = pytest.importorskip("yaml")
    found = read_runs([label_run(tmp_path / "a: b")])
    front = write_card(found.runs[0], group_runs(found)[0]).split("---\n")[1]
    content = yaml.safe_load(front)
    assert content["model-index"][0]["name"] == "a: b"
    assert content["model-index"][0]["results"][0]["metrics"][0]["value"] == 0.457


def test_names_of_places_are_plain_and_unlike_each_other() -> None:
    assert slug("Runs/Heads@0.3") == "runs-heads-0-3"
    assert slug("a b", {"a-b", "a-b-2"}) == "a-b-3"
    assert slug("…") == "x"


def test_a_column_is_of_numbers_if_all_that_it_holds_are() -> None:
    rows = ((text_cell("a"), number_cell(1.0)), (text_cell("b"), number_cell(None)), (text_cell("c"), Cell(text="")))
    table = Table(key="t", title="t", columns=("a", "b"), rows=rows)
    assert [table.is_numeric(place) for place in (0, 1)] == [False, True]


def test_an_analysis_of_which_nothing_applies_shows_nothing(tmp_path: Path) -> None:
    run = write_fit(tmp_path / "fit")
    (model, *_) = write_analysis(run)["models"]
    kinds = ("question_types", "second_answers", "confusion", "tags", "histogram", "scatter", "calibration")
    model |= dict.fromkeys(kinds)
    empty: dict[str, Any] = {name: [] for name in ("layer_weights", "attention", "efficiency", "depth_sweeps")}
    write_analysis(run, models=[model], context_lengths=None, **empty)
    assert not [one for one in build_report(read_runs([run])).sections if one.title.startswith("Analysis")]


def test_only_the_best_of_many_models_are_drawn_and_the_own_output_with_them(tmp_path: Path) -> None:
    run = write_fit(tmp_path / "fit")
    rows = [evaluated(f"{n:03}-layer_mix", "layer_mix", labels_at(0.3), held_out=0.5 - n / 100) for n in range(20)]
    write_evaluation(run, [*rows, evaluated("own_output", "last_layer", labels_at(0.2), own=True, held_out=0.0)])
    (figure,) = [one for one in build_report(read_runs([run])).figures() if one.key.startswith("figure-models")]
    drawn = [row[0].text for row in figure.table().rows]
    assert drawn == [*(f"{n:03}-layer_mix" for n in range(16)), "own_output"]
    assert "The 16 best of 21 models" in figure.caption


def test_models_of_several_runs_are_told_apart_and_lead_to_their_own_records(tmp_path: Path) -> None:
    report = build_report(read_runs([label_run(tmp_path / "one"), label_run(tmp_path / "two")]))
    (figure,) = [one for one in report.figures() if one.key.startswith("figure-models")]
    paths = {record.key: record.path for record in report.records}
    for row in figure.table().rows:
        run, _, _ = row[0].text.partition(": ")
        assert paths[str(row[1].record)].startswith(f"{run}/evaluation")


def test_the_same_best_head_on_every_snapshot_gives_the_line_its_colour(tmp_path: Path) -> None:
    folder = write_freeze(tmp_path / "freeze")
    models = []
    for head in ("layer_mix", "last_layer"):
        table = json.loads((folder / "freeze_points.json").read_text(encoding="utf-8"))
        table["points"][0]["head"]["head"] = head
        write(folder / "freeze_points.json", table)
        (figure,) = [one for one in build_report(read_runs([folder])).figures() if "freeze" in one.key]
        models.append(figure.plot.legend()[1].model)
    assert models == ["layer_mix", "best head on it"]


def test_a_card_names_a_base_model_of_the_hub_alone(tmp_path: Path) -> None:
    lines = []
    for encoder in ("org/model", str(tmp_path), f"{tmp_path}/gone@1"):
        run = write_fit(tmp_path / "fit")
        config = json.loads((run / "config.json").read_text(encoding="utf-8"))
        config["request"]["encoder"] = encoder
        write(run / "config.json", config)
        found = read_runs([run])
        lines.append('base_model: "org/model"' in write_card(found.runs[0], group_runs(found)[0]))
    assert lines == [True, False, False]


def test_a_run_that_was_moved_keeps_its_evaluation(tmp_path: Path) -> None:
    moved = label_run(tmp_path / "fit").rename(tmp_path / "moved")
    found = read_runs([moved])
    assert "Not evaluated yet" not in write_card(found.runs[0], group_runs(found)[0])


def test_questions_without_a_dev_split_are_shown_by_held_out_scores(tmp_path: Path) -> None:
    run = write_fit(tmp_path / "fit", task="squad2")
    metrics = {"held_out_exact": 40.04, "held_out_f1": 41.25}
    write(run / "leaderboard.json", [row_of(number, "layer_mix", dict(metrics)) for number in range(2)])
    (table,) = [one for one in build_report(read_runs([run])).tables() if one.key.startswith("heads-")]
    assert table.columns[-2:] == ("held_out_exact", "held_out_f1")
    assert [cell.text for cell in table.rows[0][-2:]] == ["40.0", "41.2"]


def test_models_that_were_scored_on_several_splits_are_told_apart(tmp_path: Path) -> None:
    run = write_fit(tmp_path / "fit")
    for split in ("dev", "test"):
        write_evaluation(run, label_rows(), split=split)
    (figure,) = [one for one in build_report(read_runs([run])).figures() if one.key.startswith("figure-models")]
    labels = [row[0].text for row in figure.table().rows]
    assert len(set(labels)) == len(labels) == 6
    assert f"{run} on test: 000-layer_mix" in labels


def test_heads_of_one_name_have_curves_of_their_own_over_the_share_of_data(tmp_path: Path) -> None:
    run = write_fit(tmp_path / "fit")
    rows = [
        row_of(number, "adapter_pool", {"accuracy": size / 100 + share / 10}, options={"size": size}, fraction=share)
        for number, (size, share) in enumerate(product((32, 64), (0.5, 1.0)))
    ]
    write(run / "leaderboard.json", rows)
    (figure,) = [one for one in build_report(read_runs([run])).figures() if one.key.startswith("figure-data")]
    assert [(row[0].text, row[2].text) for row in figure.table().rows] == [
        ("adapter_pool size=32", "0.370"),
        ("adapter_pool size=32", "0.420"),
        ("adapter_pool size=64", "0.690"),
        ("adapter_pool size=64", "0.740"),
    ]
