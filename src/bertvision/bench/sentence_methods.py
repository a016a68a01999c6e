"""METHODS: ways to label or score texts with a sentence encoder, each as its users would do it."""

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from bertvision.bench.sentence_vectors import VectorCache, Vectors
from bertvision.runs.solve import solve_task
from bertvision.runs.states import join_texts
from bertvision.tasks.batches import example_groups
from bertvision.tasks.examples import FloatArray, IntArray, Texts
from bertvision.tasks.task import Task
from bertvision.training.linear_problem import Layout

ALPHAS = np.logspace(-3, 3, 13)
"""Strengths of ridge regression among which scikit-learn chooses."""

SETFIT_BATCH = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a method is asked.

    Attributes:
        task: with labels or scores.
        train: examples that it may learn from.
        rows: those of them that it does learn from.
        dev: what it is to answer.
        vectors: of texts.
        seed: of what is random.
    """

    task: Task
    train: Texts
    rows: IntArray
    dev: Texts
    vectors: VectorCache
    seed: int

    @property
    def learnt(self) -> Texts:
        """The examples that it learns from."""
        return self.train.select(self.rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a method says of the dev examples.

    Attributes:
        predictions: class numbers or scores.
        parameters: that were learnt.
        encode_seconds: of the examples that it learnt from.
        fit_seconds: of learning.
        predict_seconds: of the dev examples, encoded and answered.
    """

    predictions: IntArray | FloatArray
    parameters: int
    encode_seconds: float
    fit_seconds: float
    predict_seconds: float


def last_layer(question: Question) -> Reply:
    """Our solved head on the last layer."""
    return _solved(question, slice(-1, None))


def layer_concat(question: Question) -> Reply:
    """Our solved head on all layers."""
    return _solved(question, slice(None))


def embeddings(question: Question) -> Reply:
    """Embeddings of sentence-transformers, then logistic or ridge regression of scikit-learn with cross-validation."""
    from sklearn.linear_model import LogisticRegressionCV, RidgeCV  # noqa: PLC0415 - takes seconds to import

    train, encoded = _inputs(question.train, question.vectors.embeddings)
    dev, answered = _inputs(question.dev, question.vectors.embeddings)
    model: Any = RidgeCV(alphas=ALPHAS)
    if question.task.kind == "labels":
        model = LogisticRegressionCV(l1_ratios=(0.0,), scoring="accuracy", max_iter=1000, use_legacy_attributes=False)
    begin = time.perf_counter()
    model.fit(train[question.rows], question.train.targets[question.rows])
    fitted = time.perf_counter()
    predictions = model.predict(dev)
    return Reply(
        predictions=predictions,
        parameters=model.coef_.size + np.size(model.intercept_),
        encode_seconds=encoded * len(question.rows) / len(question.train),
        fit_seconds=fitted - begin,
        predict_seconds=answered + time.perf_counter() - fitted,
    )


def setfit(question: Question) -> Reply:
    """SetFit with its defaults: pairs of texts tune the encoder for an epoch, then logistic regression."""
    from datasets import Dataset  # noqa: PLC0415 - an extra
    from setfit import SetFitModel, Trainer, TrainingArguments  # noqa: PLC0415

    learnt = question.learnt
    model = SetFitModel.from_pretrained(question.vectors.place, device=question.vectors.device)
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        options = TrainingArguments(
            output_dir=folder,
            batch_size=SETFIT_BATCH,
            num_epochs=1,
            seed=question.seed,
            report_to="none",
            save_strategy="no",
            show_progress_bar=False,
        )
        rows = Dataset.from_dict({"text": learnt.texts, "label": learnt.targets.tolist()})
        Trainer(model=model, args=options, train_dataset=rows).train()
    fitted = time.perf_counter()
    predictions = np.asarray(model.predict(question.dev.texts, show_progress_bar=False)).astype(np.int64)
    return Reply(
        predictions=predictions,
        parameters=sum(one.numel() for one in model.model_body.parameters()) + model.model_head.coef_.size,
        encode_seconds=0.0,
        fit_seconds=fitted - begin,
        predict_seconds=time.perf_counter() - fitted,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """A method.

    Attributes:
        title: for tables.
        answer: what it says of the dev examples.
        needs: packages that not every installation has.
        tunes: whether it tunes the encoder, with a seed, which it does for labels of single texts alone.
    """

    title: str
    answer: Callable[[Question], Reply]
    needs: tuple[str, ...] = ()
    tunes: bool = False


METHODS: dict[str, Method] = {
    "last_layer": Method(title="last layer, ours", answer=last_layer),
    "layer_concat": Method(title="all layers, ours", answer=layer_concat),
    "embeddings": Method(title="embeddings + scikit-learn", answer=embeddings, needs=("sentence_transformers",)),
    "setfit": Method(title="SetFit", answer=setfit, needs=("setfit", "datasets"), tunes=True),
}
"""Every method by name."""


def _solved(question: Question, layers: slice) -> Reply:
    train, encoded = _inputs(question.train, question.vectors.layers, layers)
    dev, answered = _inputs(question.dev, question.vectors.layers, layers)
    begin = time.perf_counter()
    layout = Layout(layers=train.shape[1], compared=question.train.pairs is not None)
    inputs = torch.from_numpy(train[question.rows]).flatten(1)
    groups, _ = example_groups(question.learnt)
    found = solve_task(question.task, inputs, question.learnt.targets, layout=layout, groups=groups)
    fitted = time.perf_counter()
    outputs = dev.reshape(len(dev), -1) @ found.weight.numpy().T + found.bias.numpy()
    scores: FloatArray = outputs[:, 0].astype(np.float64)
    return Reply(
        predictions=scores if question.task.kind == "scores" else outputs.argmax(axis=1),
        parameters=found.weight.numel() + found.bias.numel(),
        encode_seconds=encoded * len(question.rows) / len(question.train),
        fit_seconds=fitted - begin,
        predict_seconds=answered + time.perf_counter() - fitted,
    )


def _inputs(
    examples: Texts,
    encode: Callable[[Sequence[str]], tuple[Vectors, float]],
    layers: slice | None = None,
) -> tuple[Vectors, float]:
    """One row per example, or one for each layer, and the seconds of encoding.

    Of pairs it is how far they are apart, and how far they agree.
    """
    columns = [examples.texts] if examples.pairs is None else [examples.texts, examples.pairs]
    found = [encode(column) for column in columns]
    rows = [torch.from_numpy(vectors if layers is None else vectors[:, layers]) for vectors, _ in found]
    joined: Vectors = join_texts(rows).numpy()
    return joined, sum(seconds for _, seconds in found)
