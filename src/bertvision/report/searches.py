"""Tables and figures of a search: all trials, best score over time, and parameter importance."""

from collections.abc import Iterator, Mapping
from typing import Any

from bertvision.report.bars import Bars
from bertvision.report.document import Cell, Figure, Table, number_cell, text_cell, without_empty
from bertvision.report.groups import OWN_OUTPUT
from bertvision.report.inputs import FileContent, reading
from bertvision.report.numbers import Unit, metric_words
from bertvision.report.plots import Axis, Point, Scatter
from bertvision.tasks.load import TASKS

ALL = "all"
"""Key of the parameter importance over all trials; the other keys are heads."""


def search_blocks(search: FileContent[dict[str, Any]]) -> list[Table | Figure]:
    """Table and figures of the trials of a search.

    Raises:
        BertVisionError: a key is missing in its file.
    """
    with reading(search, "Make it again: its command once more."):
        return [_trials(search), *_history(search), *_importance(search)]


def _unit(search: FileContent[dict[str, Any]]) -> Unit:
    objective, task = search.content["objective"], TASKS.get(str(search.content["task"]))
    spans = objective.endswith("best_f1") if task is None else task.kind == "spans"
    return "percent" if spans else "share"


def _trials(search: FileContent[dict[str, Any]]) -> Table:
    rows, best = search.content["trials"], search.content["best"] or {}
    names = list(dict.fromkeys(name for row in rows for name in row["parameters"]))
    columns = ["trial", "state", search.content["objective"], "judged", "seconds", *names, "failure"]
    cells = [
        [
            number_cell(row["trial"], "count", record=search.key, strong=row["trial"] == best.get("trial")),
            text_cell(row["state"]),
            number_cell(row["value"], _unit(search), record=search.key),
            number_cell(len(row["rungs"]), "count"),
            number_cell(row["seconds"], "seconds", record=search.key),
            *(_cell(row["parameters"].get(name)) for name in names),
            text_cell(row["failure"] or ""),
        ]
        for row in rows
    ]
    kept, listed = without_empty(columns, cells)
    return Table(
        key=f"trials-{search.key}",
        title=f"What was tried: {search.run}",
        columns=kept,
        rows=listed,
        note=f"The best stands out: {_dev(best)}. Held-out training examples judged trials, pruned ones for the last "
        "time where they stopped.",
    )


def _dev(best: Mapping[str, Any]) -> str:
    """The scores of the best trial on dev as text."""
    if not best:
        return "none was completed"
    scores = best["dev"]
    if scores is None:
        return "others still run, so that it was not scored on dev yet"
    return "on dev " + (", ".join(f"{name} {value:.4g}" for name, value in scores.items()) or "there is nothing")


def _cell(value: Any) -> Cell:  # noqa: ANN401 - whatever a space has
    if isinstance(value, bool):
        return text_cell(str(value).lower())
    return number_cell(value) if isinstance(value, int | float) else text_cell("" if value is None else value)


def _history(search: FileContent[dict[str, Any]]) -> Iterator[Figure]:
    heads = {row["trial"]: row["parameters"].get("head") for row in search.content["trials"]}
    points = tuple(
        Point(
            label=f"trial {line['trial']}",
            model=heads[line["trial"]] or OWN_OUTPUT,
            x=float(line["trial"]),
            y=line["value"],
        )
        for line in search.content["history"]
    )
    if points:
        pruned = len(heads) - len(points)
        yield Figure(
            key=f"figure-history-{search.key}",
            title=f"How the search went: {search.run}",
            caption="Each mark is a trial that went to its end; the dashed line joins those that were the best so far."
            + (f" {pruned} more were pruned, or still run." if pruned else ""),
            plot=Scatter(
                x=Axis(title="trial", unit="count"),
                y=Axis(title=metric_words(search.content["objective"], _unit(search)), unit=_unit(search)),
                points=points,
                front=True,
            ),
            record=search.key,
        )


def _importance(search: FileContent[dict[str, Any]]) -> Iterator[Figure]:
    for group, shares in search.content["importance"].items():
        named = {name.removeprefix(f"{group}."): share for name, share in shares.items()}
        yield Figure(
            key=f"figure-importance-{group.replace('.', '-')}-{search.key}",
            title=f"Parameter importance {'in all trials' if group == ALL else f'for {group}'}: {search.run}",
            caption="Shares of the differences between trials at their first rung, by fANOVA.",
            plot=Bars(
                places=tuple(named),
                x_title="what was chosen",
                y=Axis(title="share of the differences (0 to 1)", unit="share"),
                points=tuple(
                    Point(label="importance", model=OWN_OUTPUT if group == ALL else group, x=float(place), y=share)
                    for place, share in enumerate(named.values())
                ),
            ),
            record=search.key,
        )
