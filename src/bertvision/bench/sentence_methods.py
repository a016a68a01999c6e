"""METHODS: ways to classify or score texts with a sentence encoder, ours and those of other libraries."""

import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bertvision.bench.sentence_vectors import VectorCache, Vectors
from bertvision.inference.pair_rows import join_texts, row_layout
from bertvision.runs.fitting.solve import TUNED_STRENGTH, solve_task
from bertvision.runs.tuning.triplet_request import TripletRequest
from bertvision.runs.tuning.triplets import tune_triplets
from bertvision.tasks.batches import example_groups
from bertvision.tasks.examples import FloatArray, IntArray, Texts
from bertvision.tasks.own import OWN
from bertvision.tasks.task import Task
from bertvision.tasks.windows import WindowOptions
from bertvision.training.options import TuneOptions
from bertvision.training.solve import Solution, solve_at

ALPHAS = np.logspace(-3, 3, 13)
"""Penalties of ridge regression among which scikit-learn chooses by cross-validation."""

SETFIT_BATCH = 16

TRIPLET_STEPS = 20
"""Steps of tuning on triplets, however many triplets there are."""

TRIPLET_BATCH = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The input of a method.

    Attributes:
        task: a task with labels or scores.
        train: all training examples, of which `rows` are used; their vectors are cached together.
        rows: (used,) numbers of the training examples to use.
        dev: examples to predict.
        vectors: cache of the texts' vectors.
        seed: seed of the methods that tune the encoder.
    """

    task: Task
    train: Texts
    rows: IntArray
    dev: Texts
    vectors: VectorCache
    seed: int

    @property
    def learnt(self) -> Texts:
        """The training examples to use."""
        return self.train.select(self.rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The output of a method.

    Attributes:
        predictions: (dev examples,) class numbers or scores.
        parameters: number of trained parameters.
        encode_seconds: seconds of encoding the training examples used; 0 where that is part of `fit_seconds`.
        fit_seconds: seconds of training.
        predict_seconds: seconds of encoding the dev examples and predicting.
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

    train, encoded = _embedded(question.train, question.vectors)
    dev, answered = _embedded(question.dev, question.vectors)
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
    """SetFit with its defaults: contrastive tuning of the encoder for an epoch, then logistic regression."""
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


def triplets(question: Question) -> Reply:
    """Tuning `lora:8` on triplets of texts of the same and of other classes, then our solved head on the last layer."""
    learnt = question.learnt
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        rows = zip(learnt.texts, learnt.targets.tolist(), strict=True)
        lines = [json.dumps({"text": text, "label": question.task.labels[label]}) + "\n" for text, label in rows]
        data, run = Path(folder, "few.jsonl"), Path(folder, "near")
        data.write_text("".join(lines), encoding="utf-8")
        per_epoch = -(-len(lines) // TRIPLET_BATCH)
        options = TuneOptions(epochs=TRIPLET_STEPS / per_epoch, batch=TRIPLET_BATCH, seed=question.seed)
        request = TripletRequest(
            task=OWN,
            data=str(data),
            encoder=question.vectors.encoder,
            windows=WindowOptions(length=question.vectors.length),
            loss="in-batch",
            learn="lora:8",
            held_out=0.0,
            options=options,
            device=question.vectors.asked,
        )
        tuned = tune_triplets(request, run)
        encode = question.vectors.reader(str(run))
    # cross-validation would choose too weak a penalty, since the encoder was tuned on the held-out folds, too
    inputs, targets = torch.from_numpy(encode(learnt.texts)[:, -1]), torch.from_numpy(learnt.targets)
    weight, bias = solve_at(inputs, targets, strength=TUNED_STRENGTH, kind="labels", outputs=question.task.outputs)
    fitted = time.perf_counter()
    predictions = _answers(question.task, weight, bias, encode(question.dev.texts)[:, -1:])
    return Reply(
        predictions=predictions,
        parameters=tuned.trainable + weight.numel() + bias.numel(),
        encode_seconds=0.0,
        fit_seconds=fitted - begin,
        predict_seconds=time.perf_counter() - fitted,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """A method and its requirements.

    Attributes:
        title: title in tables.
        answer: function that trains on the training examples and predicts the dev examples.
        needs: optional packages that it needs.
        tunes: whether it tunes the encoder, so that it depends on the seed; such methods support only labels of single
            texts.
    """

    title: str
    answer: Callable[[Question], Reply]
    needs: tuple[str, ...] = ()
    tunes: bool = False


METHODS: dict[str, Method] = {
    "last_layer": Method(title="last layer, ours", answer=last_layer),
    "layer_concat": Method(title="all layers, ours", answer=layer_concat),
    "embeddings": Method(title="embeddings + scikit-learn", answer=embeddings, needs=("sentence_transformers",)),
    "triplets": Method(title="triplets, then last layer, ours", answer=triplets, tunes=True),
    "setfit": Method(title="SetFit", answer=setfit, needs=("setfit", "datasets"), tunes=True),
}
"""Every method by name."""


def _solved(question: Question, layers: slice) -> Reply:
    """Our solved head on some layers of the frozen encoder."""
    train, encoded = question.vectors.layers(question.train)
    dev, answered = question.vectors.layers(question.dev)
    begin = time.perf_counter()
    solution = _solve(question, train[question.rows][:, layers])
    fitted = time.perf_counter()
    predictions = _answers(question.task, solution.weight, solution.bias, dev[:, layers])
    return Reply(
        predictions=predictions,
        parameters=solution.weight.numel() + solution.bias.numel(),
        encode_seconds=encoded * len(question.rows) / len(question.train),
        fit_seconds=fitted - begin,
        predict_seconds=answered + time.perf_counter() - fitted,
    )


def _solve(question: Question, rows: Vectors) -> Solution:
    """The linear map fitted on the training examples used; `rows` are theirs, (examples, layers, parts · width)."""
    layout = row_layout(rows.shape[1], "together" if question.train.pairs is None else "aligned")
    groups, _ = example_groups(question.learnt)
    inputs = torch.from_numpy(rows).flatten(1)
    return solve_task(question.task, inputs, question.learnt.targets, layout=layout, groups=groups)


def _answers(task: Task, weight: Tensor, bias: Tensor, rows: Vectors) -> IntArray | FloatArray:
    """Predicted class numbers or scores, (examples,), from rows (examples, layers, parts · width)."""
    outputs = rows.reshape(len(rows), -1) @ weight.numpy().T + bias.numpy()
    scores: FloatArray = outputs[:, 0].astype(np.float64)
    return scores if task.kind == "scores" else outputs.argmax(axis=1)


def _embedded(examples: Texts, vectors: VectorCache) -> tuple[Vectors, float]:
    """Embeddings of texts, or absolute differences and products of those of pairs, one row each; and seconds."""
    columns = [examples.texts] if examples.pairs is None else [examples.texts, examples.pairs]
    encoded = [vectors.embeddings(column) for column in columns]
    joined: Vectors = join_texts([torch.from_numpy(rows) for rows, _ in encoded]).numpy()
    return joined, sum(seconds for _, seconds in encoded)
