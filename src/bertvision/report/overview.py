"""The first section of the report: the best model of every task, and a table of all runs."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from bertvision.report.document import Cell, Section, Table, difference_cell, interval_cell, number_cell, text_cell
from bertvision.report.groups import OWN_OUTPUT, Group, colour_of, headline, threshold_words
from bertvision.report.inputs import FileContent, ReportInputs, RunFacts
from bertvision.runs.judging.evaluate import best_first
from bertvision.runs.judging.evaluation_record import EvaluatedRow, EvaluationRecord

COLUMNS = ("task", "score", "95 % interval", "metric", "model", "parameters", "against own output", "held out", "run")


def overview_section(groups: Sequence[Group], inputs: ReportInputs) -> Section:
    """The first section."""
    best = [row for group in groups for row in _best(group)]
    blocks: list[Table] = []
    if best:
        title = "The model you would choose, task by task"
        note = (
            "Chosen by held-out training examples, never by the split that is scored. A difference is bold where a "
            "paired test speaks for it (p < 0.05)."
        )
        blocks.append(Table(key="best", title=title, columns=COLUMNS, rows=tuple(best), note=note, cards=True))
    if inputs.runs:
        blocks.append(_runs(groups))
    return Section(key="overview", title="Overview", blocks=tuple(blocks))


def _best(group: Group) -> Iterator[tuple[Cell, ...]]:
    """The row of a task's best model by held-out score: from evaluations, else leaderboards, else tuned runs."""
    evaluated = [(row, file.content, file.key) for file in group.evaluations for row in file.content.rows]
    if evaluated:
        yield _evaluated(group, *min(evaluated, key=lambda triple: best_first(triple[0])))
        return
    fitted = [(row, run) for run in group.runs for row in run.leaderboard if row["held_out"] is not None]
    if fitted:
        row, run = max(fitted, key=lambda pair: (pair[0]["held_out"], -pair[0]["parameters"]))
        model = text_cell(Path(row["folder"]).name, model=row["head"], record=run.key)
        held_out = number_cell(row["held_out"], group.unit, record=run.key)
        yield _logged(group, run, row["metrics"].get(group.main), model, row["parameters"], held_out)
        return
    tuned = [run for run in group.runs if not run.is_fit]
    if tuned:
        run = max(tuned, key=lambda run: _or_least(run.result["metrics"].get(group.held_out)))
        model = text_cell(OWN_OUTPUT, model=OWN_OUTPUT, record=run.key)
        main = run.result["metrics"].get(group.main)
        held_out = number_cell(run.result["metrics"].get(group.held_out), group.unit, record=run.key)
        yield _logged(group, run, main, model, run.result.get("trainable"), held_out)


def _or_least(score: float | None) -> float:
    return -math.inf if score is None else score


def _evaluated(group: Group, row: EvaluatedRow, record: EvaluationRecord, key: str) -> tuple[Cell, ...]:
    at, scores = headline(row)
    main = scores.values[group.main]
    compared = scores.against.get(group.main)
    threshold = f", threshold {threshold_words(at, record.split)}" if scores.threshold is not None else ""
    return (
        text_cell(group.title),
        number_cell(main.value, group.unit, record=key, strong=True),
        interval_cell(main.low, main.high, group.unit, record=key),
        text_cell(f"{group.main} on {record.split}{threshold}"),
        text_cell(row.name, model=colour_of(row), record=key),
        number_cell(row.parameters, "count", record=key),
        number_cell(None)
        if compared is None
        else difference_cell(compared.value, group.unit, record=key, strong=compared.claimed),
        number_cell(row.held_out, group.unit, record=key),
        text_cell(record.run, record=key),
    )


def _logged(  # noqa: PLR0913, PLR0917 - the cells of a row
    group: Group, run: RunFacts, score: float | None, model: Cell, parameters: float | None, held_out: Cell
) -> tuple[Cell, ...]:
    return (
        text_cell(group.title),
        number_cell(score, group.unit, record=run.key, strong=True),
        interval_cell(None, None, group.unit),
        text_cell(f"{group.main}, not evaluated yet"),
        model,
        number_cell(parameters, "count", record=run.key),
        number_cell(None),
        held_out,
        text_cell(run.name, record=run.key),
    )


def _runs(groups: Sequence[Group]) -> Table:
    rows = [
        (
            text_cell(run.name, record=run.key),
            text_cell("fit" if run.is_fit else "tuned"),
            text_cell(group.title),
            text_cell(run.request.get("encoder", "")),
            text_cell(f"{len(run.leaderboard)} heads" if run.is_fit else run.request.get("learn", "")),
            number_cell(len([e for e in group.evaluations if is_evaluation_of(e, run)]), "count", record=run.key),
            text_cell(str(run.provenance.get("time", ""))[:10]),
            Cell(text="card", order=run.name, file=f"cards/{run.place}/README.md"),
        )
        for group in groups
        for run in group.runs
    ]
    columns = ("run", "kind", "task", "encoder", "what learned", "evaluations", "made on", "model card")
    return Table(key="runs", title="All runs", columns=columns, rows=tuple(rows), note="")


def is_evaluation_of(evaluation: FileContent[EvaluationRecord], run: RunFacts) -> bool:
    """Whether an evaluation is of a run; decided by folder, since the name in the record may be an old one."""
    return Path(run.name) in evaluation.path.parents
