"""Figures of labels of a run for several tasks."""

from pathlib import Path
from typing import Any

import pytest

from bertvision.errors import BertVisionError
from bertvision.report.bars import Bars
from bertvision.report.heat import HeatMap
from bertvision.report.inputs import FileContent
from bertvision.report.labels import label_blocks
from bertvision.report.plots import Scatter

COUNTS = {"train": {"bad": 30, "good": 10}, "learnt": {"bad": 5, "good": 5}, "dev": {"bad": 1, "good": 3}}
SAID = {"labels": ["bad", "good"], "gold": [0, 1, 1, 1], "predicted": [0, 0, 1, 1]}


def sourced(**content: Any) -> FileContent[dict[str, Any]]:  # noqa: ANN401 - any field
    return FileContent(key="r1", run="run", path=Path("run/labels.json"), content=content)


def test_counts_are_shares_of_what_was_there_learnt_and_predicted() -> None:
    counts = COUNTS | {"predicted": {"bad": 2, "good": 2}}
    (figure,) = label_blocks(sourced(tasks={"sst2": counts}, predictions={}))
    assert isinstance(figure.plot, Bars)
    assert figure.plot.places == ("bad", "good")
    found = {(p.label, figure.plot.places[int(p.x)]): p.y for p in figure.plot.points}
    assert found["in train", "bad"] == 75
    assert found["learned in the first epoch", "bad"] == 50
    assert found["in dev", "good"] == 75
    assert found["predicted for dev", "good"] == 50


def test_labels_have_a_map_and_scores_a_scatter_and_tags_neither() -> None:
    scores = {"labels": [], "gold": [0.0, 2.5], "predicted": [0.5, 2.0]}
    tags = {"labels": ["a", "b"], "gold": [[0, 1]], "predicted": [[1, 1]]}
    said = {"sst2": SAID, "sts": scores, "moods": tags}
    first, second = label_blocks(sourced(tasks={}, predictions=said))
    assert isinstance(first.plot, HeatMap)
    assert first.plot.values == ((1.0, 0.0), (1.0, 2.0))
    assert isinstance(second.plot, Scatter)
    assert [(p.x, p.y) for p in second.plot.points] == [(0.0, 0.5), (2.5, 2.0)]


def test_a_file_that_lacks_something_is_named() -> None:
    with pytest.raises(BertVisionError, match=r"run/labels.json cannot be read \(KeyError: 'predictions'\). Make it "):
        label_blocks(sourced(tasks={"sst2": COUNTS}))
