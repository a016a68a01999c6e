"""Sentences on a frozen encoder: our solved heads beside embeddings + scikit-learn and SetFit, one cell at a time."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bertvision.bench.sentence_methods import METHODS, Question, VectorCache
from bertvision.errors import BertVisionError, UnknownNameError
from bertvision.evaluation.bootstrap import paired_difference
from bertvision.evaluation.score import score_targets
from bertvision.pretrained import BUILTIN_ENCODER
from bertvision.tasks.examples import Examples, FloatArray, IntArray, Texts
from bertvision.tasks.load import find_task, load_task
from bertvision.tasks.task import Task

RESAMPLES = 2000
"""Draws of a paired test."""

BUILTIN_DATA = "builtin"


@dataclass(frozen=True, slots=True, kw_only=True)
class SentenceSettings:
    """A cell.

    Attributes:
        task: with labels or scores of texts or pairs of texts.
        data: `builtin`, or a folder.
        encoder: a sentence encoder.
        method: one of `METHODS`.
        shots: examples of each class to learn from, or of scores that are near the same whole number; None takes all.
        most: most training examples; None takes all.
    """

    task: str = "sst2"
    data: str = BUILTIN_DATA
    encoder: str = BUILTIN_ENCODER
    method: str = "layer_concat"
    shots: int | None = None
    most: int | None = None

    def check(self) -> None:
        """Refuse what cannot work, before anything is measured.

        Raises:
            BertVisionError: naming the word.
        """
        if find_task(self.task).kind not in ("labels", "scores"):
            raise BertVisionError(
                f"task is '{self.task}'; one with labels or scores of texts is expected, such as sst2."
            )
        if self.method not in METHODS:
            raise UnknownNameError("method", self.method, METHODS)
        for name in ("shots", "most"):
            value = getattr(self, name)
            if value is not None and value < 2:
                raise BertVisionError(f"{name} is {value}; 2 or more are expected.")


def measure_sentences(settings: SentenceSettings, seed: int, cache: Path) -> dict[str, Any]:
    """Learn from some training examples, and answer the dev examples.

    Args:
        settings: what is measured.
        seed: which examples, where not all are taken, and of SetFit.
        cache: folder of vectors that were encoded before.

    Returns:
        As JSON can hold it: `metrics`, `seconds` (`encode`, `fit`, `predict`), `parameters`, how many `examples` were
        learnt from, and `predictions` of all dev examples, for paired tests.

    Raises:
        BertVisionError: something does not fit, or a package is missing.
    """
    settings.check()
    loaded = load_task(settings.task, data=settings.data)
    train, dev = (_texts(loaded.splits[split]) for split in ("train", "dev"))
    if settings.most is not None:
        train = train.select(some_rows(len(train), settings.most))
    rows = few_rows(train.targets, settings.shots, seed)
    vectors = VectorCache(cache, settings.encoder)
    question = Question(task=loaded.task, train=train, rows=rows, dev=dev, vectors=vectors, seed=seed)
    reply = METHODS[settings.method](question)
    scoring = score_targets(loaded.task, dev.targets, reply.predictions)
    names = ("encode", "fit", "predict")
    return {
        "metrics": scoring.values,
        "seconds": {name: round(getattr(reply, f"{name}_seconds"), 3) for name in names},
        "parameters": int(reply.parameters),
        "examples": len(rows),
        "predictions": pack_predictions(reply.predictions),
    }


def some_rows(rows: int, most: int) -> IntArray:
    """So many rows at most, the same ones for everybody, in ascending order."""
    found: IntArray = np.sort(np.random.default_rng(0).permutation(rows)[:most])
    return found


def few_rows(targets: IntArray | FloatArray, shots: int | None, seed: int) -> IntArray:
    """So many rows of each class, or of scores near the same whole number; all for None; ascending."""
    if shots is None:
        return np.arange(len(targets))
    random = np.random.default_rng(seed)
    classes = np.rint(targets).astype(np.int64)
    found = [random.permutation(np.flatnonzero(classes == one))[:shots] for one in np.unique(classes)]
    return np.sort(np.concatenate(found))


def pack_predictions(predictions: IntArray | FloatArray) -> str | list[float]:
    """Class numbers as one digit each, scores to three places."""
    if np.issubdtype(predictions.dtype, np.integer):
        return "".join(map(str, predictions.tolist()))
    return [round(value, 3) for value in predictions.tolist()]


def unpack_predictions(packed: str | list[float]) -> IntArray | FloatArray:
    """What `pack_predictions` packed."""
    if isinstance(packed, str):
        return np.array([int(digit) for digit in packed], dtype=np.int64)
    return np.array(packed, dtype=np.float64)


def paired_tests(
    task: Task, golds: IntArray | FloatArray, ours: str | list[float], theirs: str | list[float]
) -> dict[str, dict[str, float]]:
    """By metric: how much better ours is than theirs on the same examples, its interval, and p."""
    first, second = (score_targets(task, golds, unpack_predictions(packed)) for packed in (ours, theirs))
    found = paired_difference(first.metric, second.metric, len(golds), resamples=RESAMPLES)
    return {
        name: {"value": one.value, "low": one.interval.low, "high": one.interval.high, "p": one.p}
        for name, one in found.items()
    }


def _texts(examples: Examples) -> Texts:
    if not isinstance(examples, Texts):
        raise BertVisionError("these examples are questions; texts are expected.")
    return examples
