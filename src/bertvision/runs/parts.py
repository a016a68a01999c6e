"""The data of a run: load its tasks, hold out training examples, and hash both parts."""

import hashlib
from collections.abc import Iterable, Sequence

import numpy as np

from bertvision.errors import BertVisionError
from bertvision.runs.data_request import DataRequest
from bertvision.tasks.batches import example_groups, held_out_rows, subset_rows
from bertvision.tasks.examples import Examples, Questions
from bertvision.tasks.load import TaskData, load_task
from bertvision.tasks.own import OWN
from bertvision.tasks.windows import Windows


def training_split(loaded: TaskData) -> Examples:
    """The training split of a task.

    Raises:
        BertVisionError: there is none.
    """
    if "train" not in loaded.splits:
        raise BertVisionError(f"{loaded.task.name} has no train split here, so there is nothing to learn from.")
    return loaded.splits["train"]


def examples_digest(parts: Iterable[Windows | None]) -> str:
    """A hash of training and held-out windows with their targets: a resumed run refuses data that have changed."""
    digest = hashlib.sha256()
    for part in parts:
        if part is not None:
            tokens = (part.ids, part.bounds) if part.second is None else (part.ids, part.bounds, part.second.ids)
            for values in (*tokens, part.targets):
                digest.update(np.ascontiguousarray(values).tobytes())
    return digest.hexdigest()[:16]


def load_tasks(tasks: Sequence[str], request: DataRequest) -> dict[str, TaskData]:
    """The data of several tasks, by name; the request's columns apply to the task `own` only.

    Raises:
        BertVisionError: as `load_task`.
    """
    return {
        name: load_task(
            name, data=request.data, columns=request.columns if name == OWN else None, skip_bad=request.skip_bad
        )
        for name in tasks
    }


def split_train(train: Examples, *, fraction: float, held_out: float, seed: int) -> tuple[Examples, Examples | None]:
    """The training examples, and the held-out ones (None for a share of 0).

    No text is in both parts; of questions, no context, and where there are many articles no article.

    Args:
        train: a training split.
        fraction: share of it to use.
        held_out: share of the used examples to hold out.
        seed: seed of both random choices.

    Raises:
        BertVisionError: there are so few examples that one of the parts would be empty.
    """
    if fraction < 1.0:
        train = train.select(subset_rows(len(train), fraction, seed))
    if held_out == 0.0:
        return train, None
    held_rows = held_out_rows(train, held_out, seed)
    train_rows = np.setdiff1d(np.arange(len(train)), held_rows)
    if not len(train_rows) and len(train) > 1 and len(np.unique(example_groups(train)[0])) == 1:
        what = "context" if isinstance(train, Questions) else "text"
        raise BertVisionError(
            f"all {len(train)} training examples have the same {what}, and copies are held out together or not at all: "
            "nothing would be left to learn from. Use different ones."
        )
    if not len(train_rows) or not len(held_rows):
        raise BertVisionError(
            f"{len(train)} training examples are too few to learn from some and hold {held_out:g} of them out. "
            "Use more of them, or another --held-out."
        )
    return train.select(train_rows), train.select(held_rows)
