"""Figures of a run for several tasks: label counts before and after balancing, confusion matrices, scatter plots."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from bertvision.analysis.confusion import confusion
from bertvision.analysis.histograms import scatter
from bertvision.report.bars import Bars
from bertvision.report.document import Figure
from bertvision.report.groups import OWN_OUTPUT
from bertvision.report.heat import HeatMap
from bertvision.report.inputs import FileContent, reading
from bertvision.report.plots import Axis, Point, Scatter

SHOWN = {"train": "in train", "learnt": "learned in the first epoch", "dev": "in dev", "predicted": "predicted for dev"}
"""Labels in figures of the counts in a record, in their order."""


def label_blocks(file: FileContent[dict[str, Any]]) -> list[Figure]:
    """Figures of the labels and predictions of a run for several tasks.

    Raises:
        BertVisionError: a key is missing in its files.
    """
    with reading(file, "Make it again: bertvision multitask"):
        return [*_counts(file), *_predictions(file)]


def confusion_plot(labels: Sequence[str], counts: Sequence[Sequence[int]]) -> HeatMap:
    """Confusion matrix as a heat map; `counts` is (true labels, predicted labels)."""
    return HeatMap(
        rows_title="true label",
        columns_title="predicted label",
        labels=tuple(labels),
        columns=tuple(labels),
        values=tuple(tuple(float(count) for count in row) for row in counts),
    )


def scores_plot(label: str, model: str, golds: Sequence[float], predictions: Sequence[float]) -> Scatter:
    """Scatter plot of predicted against true scores."""
    points = [
        Point(label=label, model=model, x=gold, y=prediction)
        for gold, prediction in zip(golds, predictions, strict=True)
    ]
    return Scatter(x=Axis(title="true score"), y=Axis(title="predicted score"), points=tuple(points))


def _counts(file: FileContent[dict[str, Any]]) -> Iterator[Figure]:
    for task, counts in file.content["tasks"].items():
        places = list(dict.fromkeys(label for by_label in counts.values() for label in by_label))
        points = [
            Point(
                label=words,
                model=OWN_OUTPUT if name == "predicted" else name,
                x=float(places.index(label)),
                y=100.0 * count / max(sum(counts[name].values()), 1),
                record=file.key,
            )
            for name, words in SHOWN.items()
            for label, count in counts.get(name, {}).items()
        ]
        yield Figure(
            key=f"figure-balance-{task}-{file.key}",
            title=f"Labels of {task}, before and after balancing",
            caption="In percent of all that are there, are learned in one epoch, or are predicted.",
            plot=Bars(
                places=tuple(places),
                x_title="label or nearest whole score",
                y=Axis(title="examples (in %)", unit="percent"),
                points=tuple(points),
            ),
            record=file.key,
        )


def _predictions(file: FileContent[dict[str, Any]]) -> Iterator[Figure]:
    for task, content in file.content["predictions"].items():
        golds, predicted = np.array(content["gold"]), np.array(content["predicted"])
        if golds.ndim != 1 or not len(golds):
            continue  # tags have no confusion matrix
        if content["labels"]:
            title, name = f"What is taken for what in {task}", "confusion"
            caption = "Rows are true labels, columns predicted ones; a row is shaded by its own shares."
            plot: HeatMap | Scatter = confusion_plot(
                content["labels"], confusion(content["labels"], golds, predicted).counts
            )
        else:
            title, name, caption = f"Predicted against true scores of {task}", "scatter", ""
            sample = scatter(golds, predicted)
            plot = scores_plot("own output", OWN_OUTPUT, sample.golds, sample.predictions)
        key = f"figure-{name}-{task}-{file.key}"
        yield Figure(key=key, title=title, caption=caption, plot=plot, record=file.key)
