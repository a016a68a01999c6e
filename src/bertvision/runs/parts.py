"""What every run does first: load its tasks, and hold some training examples out."""

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
    """What a task has to learn from.

    Raises:
        BertVisionError: there is nothing.
    """
    if "train" not in loaded.splits:
        raise BertVisionError(f"{loaded.task.name} has no train split here, so there is nothing to learn from.")
    return loaded.splits["train"]


def examples_digest(parts: Iterable[Windows | None]) -> str:
    """A hash of what is learned and of what is held out, answers included: a run that goes on knows its data by it."""
    digest = hashlib.sha256()
    for part in parts:
        if part is not None:
            rows = (part.ids, part.bounds) if part.second is None else (part.ids, part.bounds, part.second.ids)
            for values in (*rows, part.targets):
                digest.update(np.ascontiguousarray(values).tobytes())
    return digest.hexdigest()[:16]


def load_tasks(tasks: Sequence[str], request: DataRequest) -> dict[str, TaskData]:
    """The data of several tasks, by name; columns are those of the user's own files.

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
    """What is learned from, and what is held out: by article or context for questions, so that none is in both.

    Args:
        train: a training split.
        fraction: share of it to use.
        held_out: share of that to hold out; 0 holds nothing out.
        seed: seed of both choices.

    Raises:
        BertVisionError: there are too few examples.
    """
    if fraction < 1.0:
        train = train.select(subset_rows(len(train), fraction, seed))
    if held_out == 0.0:
        return train, None
    kept = held_out_rows(train, held_out, seed)
    rest = np.setdiff1d(np.arange(len(train)), kept)
    if not len(rest) and len(train) > 1 and len(np.unique(example_groups(train)[0])) == 1:
        what = "context" if isinstance(train, Questions) else "text"
        raise BertVisionError(
            f"all {len(train)} training examples have the same {what}, and copies are held out together or not at all: "
            "nothing would be left to learn from. Use different ones."
        )
    if not len(rest) or not len(kept):
        raise BertVisionError(
            f"{len(train)} training examples are too few to learn from some and hold {held_out:g} of them out. "
            "Use more of them, or another --held-out."
        )
    return train.select(rest), train.select(kept)
