"""Curves: loss and score over steps, score over the share of training data, and score over a run's snapshots."""

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bertvision.analysis.seeds import SeedMean, seed_means
from bertvision.errors import BertVisionError, UnknownNameError

Training = tuple[float, str]
"""Learning rate of a head, and its other training options as JSON."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Values over the steps of a run.

    Attributes:
        name: of the values, such as a metric.
        steps: (points,) number of steps done.
        values: (points,) value after these steps.
    """

    name: str
    steps: tuple[int, ...]
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class LearningCurves:
    """The learning curves of a run.

    Attributes:
        losses: training loss: one curve for a tuned run, one for each head of a fit.
        scores: score of a tuned run's snapshots, or of each head on held-out examples.
    """

    losses: tuple[Curve, ...]
    scores: tuple[Curve, ...]


@dataclass(frozen=True, slots=True)
class DataCurve:
    """The score of a head over the share of training examples.

    Attributes:
        head: its name.
        options: its options as JSON.
        fractions: (points,) shares of the training examples, ascending.
        scores: (points,) score at each share, over seeds.
        rates: (points,) learning rate at each share, chosen by held-out score.
    """

    head: str
    options: str
    fractions: tuple[float, ...]
    scores: tuple[SeedMean, ...]
    rates: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FreezeCurve:
    """Scores of a run's snapshots; None where there is no value.

    Attributes:
        epochs: (snapshots,) epochs of tuning.
        own: (snapshots,) score of the run's own output.
        heads: (snapshots,) score of the best head on each, chosen by held-out score.
        names: (snapshots,) name of this head.
        held_out: (snapshots,) its held-out score.
        freeze_point: epochs after which more tuning gained no more than the tolerance.
    """

    epochs: tuple[float, ...]
    own: tuple[float | None, ...]
    heads: tuple[float | None, ...]
    names: tuple[str | None, ...]
    held_out: tuple[float | None, ...]
    freeze_point: float | None


def tune_curves(lines: Iterable[Mapping[str, Any]], metric: str) -> LearningCurves:
    """Training loss, and a metric of the snapshots, from the lines of a tuned run's `metrics.jsonl`.

    Raises:
        UnknownNameError: no snapshot has the metric, but some have others.
    """
    lines = list(lines)
    snapshots = [line for line in lines if "snapshot" in line]
    _check_metric(metric, snapshots, without=("step", "snapshot"))
    loss = _curve("loss", [(line["step"], line["loss"]) for line in lines if "loss" in line and "snapshot" not in line])
    score = _curve(metric, [(line["step"], line.get(metric)) for line in snapshots])
    return LearningCurves((loss,), (score,))


def fit_curves(lines: Iterable[Mapping[str, Any]], names: Sequence[str]) -> LearningCurves:
    """Training loss and held-out score of every trained head, from the lines of a fit's `metrics.jsonl`.

    Args:
        lines: lines of the log.
        names: names of the heads, by number.

    Raises:
        BertVisionError: a line is about a head without a name.
    """
    losses: dict[int, list[tuple[int, float | None]]] = defaultdict(list)
    scores: dict[int, list[tuple[int, float | None]]] = defaultdict(list)
    for line in lines:
        for number, loss in line.get("losses", {}).items():
            losses[int(number)].append((line["step"], loss))
        if "validated" in line:
            scores[line["head"]].append((line["step"], line["score"]))
    highest = max([*losses, *scores], default=-1)
    if highest >= len(names):
        raise BertVisionError(f"the log tells of head {highest}, and {len(names)} names were given; one for each.")
    return LearningCurves(
        tuple(_curve(names[number], points) for number, points in sorted(losses.items())),
        tuple(_curve(names[number], points) for number, points in sorted(scores.items())),
    )


def less_data_curves(leaderboard: Sequence[Mapping[str, Any]], metric: str) -> tuple[DataCurve, ...]:
    """A metric over the share of training examples, averaged over seeds, for every head with its options.

    Of several learning rates and other training options, those with the best mean held-out score are taken at each
    share, never the best on dev.

    Args:
        leaderboard: rows of a fit.
        metric: one of the rows' metrics.

    Raises:
        UnknownNameError: no row has the metric, but some have others.
    """
    _check_metric(metric, [row["metrics"] for row in leaderboard])
    heads: dict[tuple[str, str], dict[float, dict[Training, list[Mapping[str, Any]]]]] = {}
    for row in leaderboard:
        if row["metrics"].get(metric) is not None:
            trainings = heads.setdefault((row["head"], json.dumps(row["options"], sort_keys=True)), {})
            training = row["lr"], json.dumps(row.get("training"))  # older leaderboards do not tell the latter
            trainings.setdefault(row["fraction"], {}).setdefault(training, []).append(row)
    curves = []
    for (head, options), fractions in heads.items():
        chosen = {fraction: _best_training(fractions[fraction]) for fraction in sorted(fractions)}
        scores = [
            seed_means(np.array([[row["metrics"][metric]] for row in fractions[fraction][training]], dtype=np.float64))[
                0
            ]
            for fraction, training in chosen.items()
        ]
        curves.append(
            DataCurve(head, options, tuple(chosen), tuple(scores), tuple(rate for rate, _ in chosen.values()))
        )
    return tuple(curves)


def differing_options(several: Sequence[Mapping[str, object]], options: Mapping[str, object]) -> list[str]:
    """Those of a head's options in which heads of the same name differ, in words.

    Args:
        several: options of every head of that name.
        options: options of one of them.
    """
    return [f"{name} {value}" for name, value in options.items() if any(one.get(name) != value for one in several)]


def freeze_curve(table: Mapping[str, Any], metric: str) -> FreezeCurve:
    """A metric over the snapshots of a tuned run, from the contents of `freeze_points.json`.

    Raises:
        UnknownNameError: no snapshot has the metric, but some have others.
    """
    points = table["points"]
    own = [point["own"] or {} for point in points]
    heads = [{} if point["head"] is None else point["head"]["metrics"] for point in points]
    _check_metric(metric, [*own, *heads])
    freeze = table["freeze_point"]
    return FreezeCurve(
        epochs=tuple(point["epochs"] for point in points),
        own=tuple(metrics.get(metric) for metrics in own),
        heads=tuple(metrics.get(metric) for metrics in heads),
        names=tuple(None if point["head"] is None else point["head"]["head"] for point in points),
        held_out=tuple(point["held_out"] for point in points),
        freeze_point=None if freeze is None else freeze["epochs"],
    )


def _best_training(trainings: Mapping[Training, Sequence[Mapping[str, Any]]]) -> Training:
    """The training options with the best mean held-out score; of equal ones those with the smallest learning rate."""

    def rank(training: Training) -> tuple[float, float]:
        held_out = [row["held_out"] for row in trainings[training]]
        return (-math.inf if None in held_out else float(np.mean(held_out))), -training[0]

    return max(trainings, key=rank)


def _curve(name: str, points: Iterable[tuple[int, float | None]]) -> Curve:
    """A curve of the points whose value is finite, by step."""
    kept = sorted((step, value) for step, value in points if value is not None and math.isfinite(value))
    return Curve(name, tuple(step for step, _ in kept), tuple(value for _, value in kept))


def _check_metric(metric: str, rows: Sequence[Mapping[str, Any]], without: Sequence[str] = ()) -> None:
    """Check that a row has the metric, unless no row has any; keys in `without` are no metrics."""
    known = {name for metrics in rows for name in metrics if name not in without}
    if known and metric not in known:
        raise UnknownNameError("metric", metric, known)
