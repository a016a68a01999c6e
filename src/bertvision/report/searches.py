"""Tables and figures of a search: every trial, how the best got better, and parameter importance."""

from collections.abc import Iterator, Mapping
from typing import Any

from bertvision.report.bars import Bars
from bertvision.report.document import Cell, Figure, Table, number_cell, text_cell, without_empty
from bertvision.report.found import FileContent, reading
from bertvision.report.groups import OWN_OUTPUT
from bertvision.report.numbers import Unit, metric_words
from bertvision.report.plots import Axis, Point, Scatter
from bertvision.tasks.load import TASKS

ALL = "all"
"""The parameter importance in all trials, and not among those of one head."""


def search_blocks(found: FileContent[dict[str, Any]]) -> list[Table | Figure]:
    """What a search says about its trials.

    Raises:
        BertVisionError: it lacks something.
    """
    with reading(found, "Make it again: its command once more."):
        return [_trials(found), *_history(found), *_importance(found)]


def _unit(found: FileContent[dict[str, Any]]) -> Unit:
    objective, task = found.content["objective"], TASKS.get(str(found.content["task"]))
    spans = objective.endswith("best_f1") if task is None else task.kind == "spans"
    return "percent" if spans else "share"


def _trials(found: FileContent[dict[str, Any]]) -> Table:
    rows, best = found.content["trials"], found.content["best"] or {}
    names = list(dict.fromkeys(name for row in rows for name in row["parameters"]))
    columns = ["trial", "state", found.content["objective"], "judged", "seconds", *names, "failure"]
    cells = [
        [
            number_cell(row["trial"], "count", record=found.key, strong=row["trial"] == best.get("trial")),
            text_cell(row["state"]),
            number_cell(row["value"], _unit(found), record=found.key),
            number_cell(len(row["rungs"]), "count"),
            number_cell(row["seconds"], "seconds", record=found.key),
            *(_cell(row["parameters"].get(name)) for name in names),
            text_cell(row["failure"] or ""),
        ]
        for row in rows
    ]
    kept, listed = without_empty(columns, cells)
    return Table(
        key=f"trials-{found.key}",
        title=f"What was tried: {found.run}",
        columns=kept,
        rows=listed,
        note=f"The best stands out: {_dev(best)}. Held-out training examples judged trials, pruned ones for the last "
        "time where they stopped.",
    )


def _dev(best: Mapping[str, Any]) -> str:
    """The scores of the best on dev, in words."""
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


def _history(found: FileContent[dict[str, Any]]) -> Iterator[Figure]:
    heads = {row["trial"]: row["parameters"].get("head") for row in found.content["trials"]}
    points = tuple(
        Point(
            label=f"trial {line['trial']}",
            model=heads[line["trial"]] or OWN_OUTPUT,
            x=float(line["trial"]),
            y=line["value"],
        )
        for line in found.content["history"]
    )
    if points:
        pruned = len(heads) - len(points)
        yield Figure(
            key=f"figure-history-{found.key}",
            title=f"How the search went: {found.run}",
            caption="Each mark is a trial that went to its end; the dashed line joins those that were the best so far."
            + (f" {pruned} more were pruned, or still run." if pruned else ""),
            plot=Scatter(
                x=Axis(title="trial", unit="count"),
                y=Axis(title=metric_words(found.content["objective"], _unit(found)), unit=_unit(found)),
                points=points,
                front=True,
            ),
            record=found.key,
        )


def _importance(found: FileContent[dict[str, Any]]) -> Iterator[Figure]:
    for group, shares in found.content["importance"].items():
        named = {name.removeprefix(f"{group}."): share for name, share in shares.items()}
        yield Figure(
            key=f"figure-importance-{group.replace('.', '-')}-{found.key}",
            title=f"Parameter importance {'in all trials' if group == ALL else f'for {group}'}: {found.run}",
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
            record=found.key,
        )
