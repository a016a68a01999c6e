"""build_report: the results of runs → sections of tables and figures."""

from collections.abc import Iterator

from bertvision.provenance import package_version
from bertvision.report.analysed import analysis_blocks
from bertvision.report.document import Figure, Report, Section, Table
from bertvision.report.groups import Group, all_models, group_runs
from bertvision.report.inputs import ReportInputs
from bertvision.report.labels import label_blocks
from bertvision.report.overview import overview_section
from bertvision.report.scores import score_blocks
from bertvision.report.searches import search_blocks
from bertvision.report.training import time_figures, training_blocks

READING = (
    "Every number leads to its record: the file that it stands in, the command that made it, and where it was made.",
    (
        "“Held out” are training examples that nobody learned from. They choose weights, thresholds and models, so "
        "that the split that is scored is never looked at before. The threshold “best on” a split has seen its "
        "answers: it is a bound, not a result."
    ),
    (
        "Intervals hold the number in 95 of 100 draws of as many examples. Two models differ where a paired test on "
        "the same draws gives p < 0.05; of twenty comparisons without any difference one will look like one."
    ),
    "Scores of questions are in percent; other scores are parts of 1. The same head has the same colour everywhere.",
)

NAMED_TASKS = 3
"""The heading names at most this many tasks; if there are more, it gives their number."""


def build_report(inputs: ReportInputs, *, title: str = "") -> Report:
    """Make the report of all results; an empty title names the tasks."""
    groups = group_runs(inputs)
    sections = [overview_section(groups, inputs)]
    sections += [section for group in groups for section in _task_sections(group)]
    sections.append(Section(key="reading", title="How to read this", text=READING))
    counted = [(len(inputs.runs), "run"), (len(inputs.evaluations), "evaluation"), (len(inputs.ensembles), "ensemble")]
    counts = [f"{count:,} {word}{'s' * (count != 1)}" for count, word in counted if count]
    if inputs.searches:
        counts.append(f"{len(inputs.searches):,} search{'es' * (len(inputs.searches) != 1)}")
    tasks = list(dict.fromkeys(group.task for group in groups))
    what = ", ".join(tasks) if len(tasks) <= NAMED_TASKS else f"{len(tasks)} tasks"
    lead = f"{', '.join(counts)} on {', '.join(tasks)}"
    version = package_version()
    return Report(
        title=title or f"Results on {what}",
        lead=f"{lead}. Made by BERTVision{f' {version}' if version else ''}.",
        sections=tuple(sections),
        records=tuple(inputs.records),
        models=all_models(inputs),
    )


def _task_sections(group: Group) -> Iterator[Section]:
    """Sections of a group: scores, training, searches, labels and analyses, as far as there are any."""
    parts: list[tuple[str, str, list[Table | Figure]]] = [
        ("scores", "Scores", [*score_blocks(group), *time_figures(group)]),
        ("training", "Training", list(training_blocks(group))),
    ]
    parts += [(f"search-{search.key}", f"Search of {search.run}", search_blocks(search)) for search in group.searches]
    parts += [
        (f"labels-{counts.key}", f"Labels of {counts.run}", list(label_blocks(counts))) for counts in group.labels
    ]
    parts += [
        (f"analysis-{analysis.key}", f"Analysis of {analysis.run}", analysis_blocks(analysis, group.unit))
        for analysis in group.analyses
    ]
    for name, title, blocks in parts:
        if blocks:
            yield Section(key=f"{name}-of-{group.key}", title=title, group=group.title, blocks=tuple(blocks))
