"""Notices about how a user's own files were read: no row is bad, but something may be wrong."""

import re
from collections.abc import Mapping

from bertvision.tasks.examples import Examples, Texts
from bertvision.tasks.own import MOST_CLASSES, OwnColumns, number_of
from bertvision.tasks.task import SquadLayout, Task

_NUMBER = re.compile(r"[-+]?\d+([.,]\d+)?\s*%?")
"""Numbers, and what people write for them."""

MISSING = ("nan", "na", "n/a", "<na>", "null")
"""Words that tables often have where there is nothing."""


def own_notices(task: Task, columns: OwnColumns, splits: Mapping[str, Examples]) -> list[str]:
    """Notices about guesses that may be wrong, and about labels that look like missing values.

    Args:
        task: as it was made of the files.
        columns: what the user said of them.
        splits: the examples that were read.
    """
    texts = {split: examples for split, examples in splits.items() if isinstance(examples, Texts)}
    if isinstance(task.layout, SquadLayout) or not texts:
        return []
    train = texts.get("train") or next(iter(texts.values()))
    found = _guesses(task, train) if columns.kind is None else []
    odd = [word for word in task.labels if word.lower() in MISSING]
    if odd:
        found.append(
            f"'{odd[0]}' is a label in column '{task.layout.label}' like any other. If it stands for a missing one, "
            "leave such rows out."
        )
    return found


def _guesses(task: Task, train: Texts) -> list[str]:
    """Notices where whole numbers could be either classes or scores."""
    column = task.layout.label if not isinstance(task.layout, SquadLayout) else None
    if task.kind == "scores" and len(train) and all(float(score).is_integer() for score in train.targets):
        count = f"more than {MOST_CLASSES} different whole numbers"
        return [f"column '{column}' has {count}: they are taken as scores. If they name classes: --kind labels"]
    if task.kind == "labels" and column == "score" and all(number_of(word) is not None for word in task.labels):
        count = f"{len(task.labels)} different whole numbers"
        return [f"column 'score' has {count}: they are taken as labels. Or else: --kind scores"]
    return _almost_scores(task.labels, column) if task.kind == "labels" else []


def _almost_scores(labels: tuple[str, ...], column: str | int | None) -> list[str]:
    """A notice where values that are no numbers, such as '0,5', have made labels of what may be scores."""
    words = [word for word in labels if number_of(word) is None]
    numbers = [word for word in labels if _NUMBER.fullmatch(word)]
    finer = len(labels) > MOST_CLASSES or any(not word.lstrip("+-").isdigit() for word in numbers)
    if not words or not finer or 2 * len(numbers) <= len(labels):
        return []
    count = f"its {len(labels)} different values are taken as labels"
    then = "If they are scores, write them as in 0.5, and use --kind scores"
    return [f"'{words[0]}' in column '{column}' is no number: {count}. {then}"]
