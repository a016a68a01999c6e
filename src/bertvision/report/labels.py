"""Figures of a run for several tasks: how often labels are there, learned and predicted, and what passes for what."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from bertvision.analysis.confusion import confusion
from bertvision.analysis.histograms import scatter
from bertvision.report.bars import Bars
from bertvision.report.document import Figure
from bertvision.report.found import FileContent, reading
from bertvision.report.groups import OWN_OUTPUT
from bertvision.report.heat import HeatMap
from bertvision.report.plots import Axis, Point, Scatter

SHOWN = {"train": "in train", "learnt": "learned in the first epoch", "dev": "in dev", "predicted": "predicted for dev"}
"""Counts of labels, in words."""


def label_blocks(found: FileContent[dict[str, Any]]) -> list[Figure]:
    """What a run for several tasks says about its labels and scores.

    Raises:
        BertVisionError: it lacks something.
    """
    with reading(found, "Make it again: bertvision multitask"):
        return [*_counts(found), *_predictions(found)]


def confusion_plot(labels: Sequence[str], counts: Sequence[Sequence[int]]) -> HeatMap:
    """What is taken for what."""
    return HeatMap(
        rows_title="true label",
        columns_title="predicted label",
        labels=tuple(labels),
        columns=tuple(labels),
        values=tuple(tuple(float(count) for count in row) for row in counts),
    )


def scores_plot(label: str, model: str, golds: Sequence[float], predictions: Sequence[float]) -> Scatter:
    """Predicted against true scores."""
    points = [Point(label=label, model=model, x=gold, y=said) for gold, said in zip(golds, predictions, strict=True)]
    return Scatter(x=Axis(title="true score"), y=Axis(title="predicted score"), points=tuple(points))


def _counts(found: FileContent[dict[str, Any]]) -> Iterator[Figure]:
    for task, counts in found.content["tasks"].items():
        places = list(dict.fromkeys(label for some in counts.values() for label in some))
        points = [
            Point(
                label=said,
                model=OWN_OUTPUT if name == "predicted" else name,
                x=float(places.index(label)),
                y=100.0 * count / max(sum(counts[name].values()), 1),
                record=found.key,
            )
            for name, said in SHOWN.items()
            for label, count in counts.get(name, {}).items()
        ]
        yield Figure(
            key=f"figure-balance-{task}-{found.key}",
            title=f"Labels of {task}, before and after balancing",
            caption="In percent of all that are there, are learned in one epoch, or are predicted.",
            plot=Bars(
                places=tuple(places),
                x_title="label or nearest whole score",
                y=Axis(title="examples (in %)", unit="percent"),
                points=tuple(points),
            ),
            record=found.key,
        )


def _predictions(found: FileContent[dict[str, Any]]) -> Iterator[Figure]:
    for task, said in found.content["predictions"].items():
        golds, given = np.array(said["gold"]), np.array(said["predicted"])
        if golds.ndim != 1 or not len(golds):
            continue  # several tags of each text
        if said["labels"]:
            title, name = f"What is taken for what in {task}", "confusion"
            caption = "Rows are true labels, columns predicted ones; a row is shaded by its own shares."
            plot: HeatMap | Scatter = confusion_plot(said["labels"], confusion(said["labels"], golds, given).counts)
        else:
            title, name, caption = f"Predicted against true scores of {task}", "scatter", ""
            drawn = scatter(golds, given)
            plot = scores_plot("own output", OWN_OUTPUT, drawn.golds, drawn.predictions)
        key = f"figure-{name}-{task}-{found.key}"
        yield Figure(key=key, title=title, caption=caption, plot=plot, record=found.key)
