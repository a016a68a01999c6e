"""Tables and figures of training: leaderboards, snapshots, and curves over steps, training data and tuning."""

import json
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from bertvision.analysis.curves import Curve, fit_curves, freeze_curve, less_data_curves
from bertvision.analysis.settings import different_settings, head_labels
from bertvision.evaluation.held_out import HELD_OUT_PREFIX
from bertvision.evaluation.squad_metric import SHOWN
from bertvision.report.document import Figure, Table, number_cell, text_cell, without_empty
from bertvision.report.groups import OWN_OUTPUT, Group, main_first
from bertvision.report.inputs import RunFacts
from bertvision.report.numbers import metric_words
from bertvision.report.plots import Axis, Lines, Point, Scatter

SCORES = (*SHOWN, "f1_fitted", "best_f1")
"""Logged metrics of questions with a column in tables."""

BEST_HEAD = "best head on it"
"""Label of the best head on each snapshot; drawn in the colour of a head if the same one is the best on all of them."""

MOST_LINES = 16
"""Lines in a figure, since more could not be told apart; those of the best heads by held-out examples are drawn."""


def training_blocks(group: Group) -> Iterator[Table | Figure]:
    """Tables and figures of the leaderboards and logs of a group."""
    fits = [run for run in group.runs if run.is_fit and run.leaderboard]
    tuned = [run for run in group.runs if not run.is_fit]
    if fits:
        yield _leaderboard(group, fits)
    if tuned:
        yield _snapshots(group, tuned)
    for run in fits:
        yield from _fit_curves(group, run)
        yield from _less_data(group, run)
    for run in tuned:
        yield from _losses(run)
    yield from _freeze(group)


def logged_metrics(group: Group, runs: Sequence[RunFacts]) -> list[str]:
    """Names of the logged metrics with a column in tables, the main one first."""
    names = list(dict.fromkeys(name for run in runs for metrics in run.metrics for name in metrics))
    reported = main_first([name for name in names if not name.startswith(HELD_OUT_PREFIX)] or names)
    shown = [name for name in SCORES if name in reported] if group.unit == "percent" else reported
    return shown or reported  # without a dev split, there are only held-out scores


def _leaderboard(group: Group, fits: Sequence[RunFacts]) -> Table:
    metrics = logged_metrics(group, fits)
    columns = ["head", "settings", "run", "rate", "seed", "share of data", "parameters", "seconds", "held out"]
    columns += metrics
    rows = [
        [
            text_cell(row["head"], model=row["head"]),
            text_cell(words),
            text_cell(run.name, record=run.key),
            text_cell("solved") if row.get("solved") else number_cell(row["lr"], record=run.key),
            number_cell(row["seed"], "count", record=run.key),
            number_cell(row["fraction"], record=run.key),
            number_cell(row["parameters"], "count", record=run.key),
            number_cell(row["seconds"], "seconds", record=run.key),
            number_cell(row["held_out"], group.unit, record=run.key, strong=True),
            *(number_cell(row["metrics"].get(name), group.unit, record=run.key) for name in metrics),
        ]
        for run in fits
        for row, words in zip(run.leaderboard, different_settings(run.leaderboard), strict=True)
    ]
    kept_columns, kept_rows = without_empty(columns, rows, constant=("run", "share of data"))
    return Table(
        key=f"heads-{group.key}",
        title=f"Heads fitted on {group.title}",
        columns=kept_columns,
        rows=kept_rows,
        note="All heads of a run were trained in one pass; seconds are a head's own. “Held out” judged which weights "
        "were kept; the other scores are on dev.",
    )


def time_figures(group: Group) -> Iterator[Figure]:
    """Scatter plot of score against training time of heads, if there are at least two."""
    fits = [run for run in group.runs if run.is_fit and run.leaderboard]
    if not fits:
        return
    name = next(iter(logged_metrics(group, fits)), "")
    points = tuple(
        Point(
            label=Path(row["folder"]).name,
            model=row["head"],
            x=row["seconds"],
            y=row["metrics"][name],
            record=run.key,
        )
        for run in fits
        for row in run.leaderboard
        if row["seconds"] > 0 and row["metrics"].get(name) is not None
    )
    if len(points) > 1:
        yield Figure(
            key=f"figure-seconds-{group.key}",
            title="What quality costs in training time",
            caption="Each mark is a head; the dashed line joins those that no faster one matches.",
            plot=Scatter(
                x=Axis(title="training time of the head (seconds, log scale)", unit="seconds", log=True),
                y=Axis(title=metric_words(name, group.unit), unit=group.unit),
                points=points,
                front=True,
            ),
            record=fits[0].key if len(fits) == 1 else None,
        )


def _snapshots(group: Group, tuned: Sequence[RunFacts]) -> Table:
    metrics = logged_metrics(group, tuned)
    columns = ["run", "learns", "trained parameters", "epochs", "steps", "held out", *metrics]
    rows = [
        [
            text_cell(run.name, model=OWN_OUTPUT, record=run.key),
            text_cell(run.request.get("learn", "")),
            number_cell(run.result.get("trainable"), "count", record=run.key),
            number_cell(line["snapshot"], record=run.key),
            number_cell(line["step"], "count", record=run.key),
            number_cell(line.get(group.held_out), group.unit, record=run.key, strong=True),
            *(number_cell(line.get(name), group.unit, record=run.key) for name in metrics),
        ]
        for run in tuned
        for line in run.lines
        if "snapshot" in line
    ]
    kept_columns, kept_rows = without_empty(columns, rows)
    return Table(
        key=f"snapshots-{group.key}",
        title=f"Encoders tuned on {group.title}",
        columns=kept_columns,
        rows=kept_rows,
        note="A row for each snapshot; scores are those of the encoder's own output.",
    )


def _fit_curves(group: Group, run: RunFacts) -> Iterator[Figure]:
    places = {Path(row["folder"]).name: row for row in run.leaderboard}
    names = [f"{number:03}-{spec['head']}" for number, spec in enumerate(run.request["heads"])]
    curves = fit_curves(run.lines, names)
    held_out = {name: -math.inf if row["held_out"] is None else row["held_out"] for name, row in places.items()}
    best = sorted(places, key=lambda name: -held_out[name])
    for what, listed, title in (
        ("loss", curves.losses, "training loss"),
        ("held-out", curves.scores, metric_words(f"held-out {group.main}", group.unit)),
    ):
        drawn = [curve for name in best for curve in listed if curve.name == name and len(curve.steps) > 1]
        if drawn:
            cut = f" The {MOST_LINES} best of {len(drawn)}." if len(drawn) > MOST_LINES else ""
            yield Figure(
                key=f"figure-{what}-{run.key}",
                title=f"How heads learned, {what}: {run.name}",
                caption=f"Heads that were trained; solved ones have no curve.{cut}",
                plot=Lines(
                    x=Axis(title="steps", unit="count"),
                    y=Axis(title=title, unit="number" if what == "loss" else group.unit),
                    points=_curve_points(drawn[:MOST_LINES], lambda name: str(places[name]["head"])),
                ),
                record=run.key,
            )


def _curve_points(curves: Sequence[Curve], colour: Callable[[str], str]) -> tuple[Point, ...]:
    return tuple(
        Point(label=curve.name, model=colour(curve.name), x=float(step), y=value)
        for curve in curves
        for step, value in zip(curve.steps, curve.values, strict=True)
    )


def _less_data(group: Group, run: RunFacts) -> Iterator[Figure]:
    metric = next(iter(logged_metrics(group, [run])), "")
    curves = [curve for curve in less_data_curves(run.leaderboard, metric) if len(curve.fractions) > 1]
    labels = head_labels((curve.head, json.loads(curve.options)) for curve in curves)
    points = tuple(
        Point(label=label, model=curve.head, x=share, y=score.mean, low=score.low, high=score.high)
        for curve, label in zip(curves, labels, strict=True)
        for share, score in zip(curve.fractions, curve.scores, strict=True)
    )
    if points:
        seeds = max(score.seeds for curve in curves for score in curve.scores)
        yield Figure(
            key=f"figure-data-{run.key}",
            title=f"What less data costs: {run.name}",
            caption=f"Mean over {seeds} seed{'s' * (seeds > 1)}"
            + ("; bands are 95 % intervals of the mean." if seeds > 1 else "."),
            plot=Lines(
                x=Axis(title="share of the training examples (0 to 1)"),
                y=Axis(title=metric_words(metric, group.unit), unit=group.unit),
                points=points,
            ),
            record=run.key,
        )


def _losses(run: RunFacts) -> Iterator[Figure]:
    lines = [line for line in run.lines if "loss" in line and "snapshot" not in line]
    if len(lines) > 1:
        yield Figure(
            key=f"figure-loss-{run.key}",
            title=f"How the encoder learned: {run.name}",
            caption="Mean training loss since the line before in the log.",
            plot=Lines(
                x=Axis(title="steps", unit="count"),
                y=Axis(title="training loss"),
                points=tuple(
                    Point(label="loss", model=OWN_OUTPUT, x=float(line["step"]), y=float(line["loss"]))
                    for line in lines
                ),
            ),
            record=run.key,
        )


def _freeze(group: Group) -> Iterator[Figure]:
    for freeze in group.freezes:
        heads = [point["head"]["metrics"] for point in freeze.content["points"] if point["head"] is not None]
        names = main_first([name for metrics in heads for name in metrics if not name.startswith(HELD_OUT_PREFIX)])
        if not names:
            continue
        metric = "f1_fitted" if "f1_fitted" in names else names[0]
        curve = freeze_curve(freeze.content, metric)
        points = [
            Point(label="own output", model=OWN_OUTPUT, x=epochs, y=value)
            for epochs, value in zip(curve.epochs, curve.own, strict=True)
            if value is not None
        ]
        chosen = sorted({name for name in curve.names if name is not None})
        points += [
            Point(label=BEST_HEAD, model=chosen[0] if len(chosen) == 1 else BEST_HEAD, x=epochs, y=value)
            for epochs, value in zip(curve.epochs, curve.heads, strict=True)
            if value is not None
        ]
        at = "there is none" if curve.freeze_point is None else f"{curve.freeze_point:g} epochs"
        yield Figure(
            key=f"figure-freeze-{freeze.key}",
            title=f"When more tuning stops paying: {freeze.run}",
            caption=f"Heads are chosen on held-out training examples, and so is the freeze point: {at}.",
            plot=Lines(
                x=Axis(title="tuning (epochs)"),
                y=Axis(title=metric_words(metric, group.unit), unit=group.unit),
                points=tuple(points),
            ),
            record=freeze.key,
        )
