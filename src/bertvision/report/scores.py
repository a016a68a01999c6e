"""Tables and figures of evaluations and ensembles: scores with intervals, and differences with paired tests."""

from collections.abc import Iterator
from dataclasses import replace

from bertvision.evaluation.squad_metric import SHOWN
from bertvision.report.document import (
    Cell,
    Figure,
    Table,
    difference_cell,
    interval_cell,
    number_cell,
    text_cell,
    without_empty,
)
from bertvision.report.groups import ENSEMBLE, Group, colour_of, headline, threshold_words
from bertvision.report.numbers import Unit, metric_words, show_number
from bertvision.report.plots import Axis, Point, Ranges, Scatter
from bertvision.runs.judging.ensemble_record import EnsembleRecord
from bertvision.runs.judging.evaluate import best_first
from bertvision.runs.judging.evaluation_record import EvaluatedRow
from bertvision.runs.judging.judge import BEST, PairedTest, ScoresAt

MOST_ROWS = 16
"""Models in a figure, the best by held-out examples (and the own output); the table has all of them."""


def score_blocks(group: Group) -> Iterator[Table | Figure]:
    """Tables and figures of the evaluations and ensembles of a group."""
    if group.evaluations:
        yield _scores(group)
        yield from _figures(group)
    if group.ensembles:
        yield _ensembles(group)


def shown_metrics(group: Group) -> list[str]:
    """The metrics with a column in tables, the main one first; for questions a selection."""
    return [name for name in SHOWN if name in group.metrics] if group.unit == "percent" else group.metrics


def _scores(group: Group) -> Table:
    metrics = shown_metrics(group)
    columns = ["model", "run", "split", "parameters", "depth", "held out", "threshold", "threshold value"]
    columns += [metrics[0], "95 % interval", *metrics[1:], "against own output", "p"]
    rows = []
    for evaluation in group.evaluations:
        for row in evaluation.content.rows:
            for at, scores in row.scores.items():
                start = [
                    text_cell(row.name, model=colour_of(row)),
                    text_cell(evaluation.run, record=evaluation.key),
                    text_cell(evaluation.content.split),
                    number_cell(row.parameters, "count", record=evaluation.key),
                    number_cell(row.depth, "count", record=evaluation.key),
                    number_cell(row.held_out, group.unit, record=evaluation.key),
                ]
                rows.append(start + _score_cells(group, at, scores, split=evaluation.content.split, key=evaluation.key))
    kept_columns, kept_rows = without_empty(columns, rows, constant=("run", "split"))
    note = (
        "Models stand in the order of their score on held-out training examples: the first is the one you would have "
        "chosen without looking. Intervals are over resampled examples; a difference from the encoder's own output is "
        "bold where a paired test gives p < 0.05. Many models are many tests."
    )
    return Table(
        key=f"scores-{group.key}",
        title=f"Scores on {group.title}",
        columns=kept_columns,
        rows=kept_rows,
        note=note,
    )


def _score_cells(group: Group, at: str, scores: ScoresAt, *, split: str, key: str) -> list[Cell]:
    unit, metrics = group.unit, shown_metrics(group)
    main = scores.values[metrics[0]]
    named = threshold_words(at, split) if scores.threshold is not None else ""
    others = [scores.values.get(name) for name in metrics[1:]]
    return [
        text_cell(named),
        number_cell(scores.threshold, record=key),
        number_cell(main.value, unit, record=key, strong=at != BEST),
        interval_cell(main.low, main.high, unit, record=key),
        *(number_cell(None if other is None else other.value, unit, record=key) for other in others),
        *_compared(scores.against.get(metrics[0]), unit, key),
    ]


def _compared(compared: PairedTest | None, unit: Unit, key: str) -> list[Cell]:
    if compared is None or compared.value is None:
        return [number_cell(None), number_cell(None)]
    return [
        difference_cell(compared.value, unit, record=key, strong=compared.claimed),
        number_cell(compared.p, "p", record=key),
    ]


def _figures(group: Group) -> Iterator[Figure]:
    several = len(group.evaluations) > 1
    splits = len({evaluation.content.split for evaluation in group.evaluations})
    listed: list[tuple[str, EvaluatedRow, str]] = []
    for evaluation in group.evaluations:
        place = f"{evaluation.run} on {evaluation.content.split}" if splits > 1 else evaluation.run
        prefix = f"{place}: " if several else ""
        listed += [(prefix + row.name, row, evaluation.key) for row in evaluation.content.rows]
    listed.sort(key=lambda item: best_first(item[1]))
    shortened = listed[:MOST_ROWS] + [item for item in listed[MOST_ROWS:] if item[1].own]
    defined = [
        (Point(label=label, model=colour_of(row), x=main, y=0.0, low=value.low, high=value.high, record=key), row)
        for label, row, key in shortened
        for value in [headline(row)[1].values[group.main]]
        if (main := value.value) is not None
    ]
    if not defined:
        return
    at = threshold_words(headline(listed[0][1])[0], group.evaluations[0].content.split)
    axis = Axis(title=metric_words(group.main, group.unit, "" if at == "none" else f"threshold {at}"), unit=group.unit)
    record = None if several else group.evaluations[0].key
    owns = [point.x for point, row in defined if row.own]
    cut = f" The {MOST_ROWS} best of {len(listed)} models by held-out examples." if len(listed) > MOST_ROWS else ""
    dashed = " The dashed line is the encoder's own output." if len(owns) == 1 else ""
    points = tuple(point for point, _ in defined)
    yield Figure(
        key=f"figure-models-{group.key}",
        title="How good every model is",
        caption=f"Best first by held-out training examples; bars are 95 % intervals.{dashed}{cut}",
        plot=Ranges(x=axis, points=points, against=owns[0] if len(owns) == 1 else None),
        record=record,
    )
    priced = tuple(replace(point, x=float(row.parameters), y=point.x) for point, row in defined if row.parameters > 0)
    if len(priced) > 1:
        parameters = Axis(title="parameters of the head (log scale)", unit="count", log=True)
        yield Figure(
            key=f"figure-parameters-{group.key}",
            title="What quality costs in parameters",
            caption="Each mark is a model with its 95 % interval; the dashed line joins those that no smaller one "
            "matches.",
            plot=Scatter(x=parameters, y=axis, points=priced, front=True),
            record=record,
        )


def _ensembles(group: Group) -> Table:
    metrics = shown_metrics(group)
    columns = [
        "ensemble",
        "members",
        "held out",
        "threshold",
        "threshold value",
        metrics[0],
        "95 % interval",
        *metrics[1:],
    ]
    columns += ["against the best member", "p"]
    rows = []
    for ensemble in group.ensembles:
        record = ensemble.content
        for at, scores in record.ensemble.scores.items():
            start = [
                text_cell(f"{record.how}: {', '.join(record.runs)}", model=ENSEMBLE, record=ensemble.key),
                text_cell(_members(record)),
                number_cell(record.ensemble.held_out, group.unit, record=ensemble.key),
            ]
            rows.append(start + _score_cells(group, at, scores, split=record.split, key=ensemble.key))
    kept_columns, kept_rows = without_empty(columns, rows)
    return Table(
        key=f"ensembles-{group.key}",
        title=f"Ensembles on {group.title}",
        columns=kept_columns,
        rows=kept_rows,
        note="Compared with the member that is best on held-out training examples; weights stand behind the names.",
    )


def _members(record: EnsembleRecord) -> str:
    chosen = record.used
    listed = [f"{member.row.name} {show_number(member.weight, 'share')}" for member in chosen[:MOST_MEMBERS]]
    return ", ".join(listed) + (f" and {len(chosen) - MOST_MEMBERS} more" if len(chosen) > MOST_MEMBERS else "")


MOST_MEMBERS = 6
"""Members of an ensemble that the table names; of more, it gives the number."""
