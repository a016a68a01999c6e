"""Warnings about the user's own files where every row could be read, but a guess or a label may be wrong."""

import re
from collections.abc import Mapping

from bertvision.tasks.examples import Examples, Texts
from bertvision.tasks.own import MOST_CLASSES, OwnColumns, number_of
from bertvision.tasks.task import SquadLayout, Task

_NUMBER = re.compile(r"[-+]?\d+([.,]\d+)?\s*%?")
"""Numbers, and what people write for them."""

MISSING = ("nan", "na", "n/a", "<na>", "null")
"""Words, in lower case, that tables often have for a missing value."""


def own_notices(task: Task, columns: OwnColumns, splits: Mapping[str, Examples]) -> list[str]:
    """Notices about a guessed kind that may be wrong, and about labels that look like missing values.

    Args:
        task: the task that `own_task` made of the files.
        columns: the user's options.
        splits: the examples by split.
    """
    texts = {split: examples for split, examples in splits.items() if isinstance(examples, Texts)}
    if isinstance(task.layout, SquadLayout) or not texts:
        return []
    train = texts.get("train") or next(iter(texts.values()))
    notices = _guess_notices(task, train) if columns.kind is None else []
    missing = [word for word in task.labels if word.lower() in MISSING]
    if missing:
        notices.append(
            f"'{missing[0]}' is a label in column '{task.layout.label}' like any other. If it stands for a missing "
            "one, leave such rows out."
        )
    return notices


def _guess_notices(task: Task, train: Texts) -> list[str]:
    """At most one notice, if the labels are whole numbers, which could be classes as well as scores."""
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
