"""METHODS: ways to label or score texts with a sentence encoder, each as its users would do it."""

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
from bertvision.runs.fitting.solve import solve_task
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
"""Strengths of ridge regression among which scikit-learn chooses."""

SETFIT_BATCH = 16

TRIPLET_STEPS = 20
"""Steps of tuning on triplets, however many there are."""

TRIPLET_BATCH = 32

FIRM = 100.0
"""Strength of the penalty on texts that the encoder was tuned on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a method is asked.

    Attributes:
        task: with labels or scores.
        train: examples that it may learn from.
        rows: those of them that it does learn from.
        dev: what it is to answer.
        vectors: vectors of texts.
        seed: seed of what is random.
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
        parameters: the parameters that were learned.
        encode_seconds: seconds of encoding the examples that it learned from.
        fit_seconds: seconds of learning.
        predict_seconds: seconds of encoding and answering the dev examples.
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


def triplets(question: Question) -> Reply:
    """Triplets tune `lora:8`, so that texts of one class come near each other in the last layer; it is read then."""
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
    # folds would choose too weak a penalty, since the encoder has seen all of them
    inputs, targets = torch.from_numpy(encode(learnt.texts)[:, -1]), torch.from_numpy(learnt.targets)
    weight, bias = solve_at(inputs, targets, strength=FIRM, kind="labels", outputs=question.task.outputs)
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
    "triplets": Method(title="triplets, then last layer, ours", answer=triplets, tunes=True),
    "setfit": Method(title="SetFit", answer=setfit, needs=("setfit", "datasets"), tunes=True),
}
"""Every method by name."""


def _solved(question: Question, layers: slice) -> Reply:
    train, encoded = question.vectors.layers(question.train)
    dev, answered = question.vectors.layers(question.dev)
    begin = time.perf_counter()
    found = _solve(question, train[question.rows][:, layers])
    fitted = time.perf_counter()
    predictions = _answers(question.task, found.weight, found.bias, dev[:, layers])
    return Reply(
        predictions=predictions,
        parameters=found.weight.numel() + found.bias.numel(),
        encode_seconds=encoded * len(question.rows) / len(question.train),
        fit_seconds=fitted - begin,
        predict_seconds=answered + time.perf_counter() - fitted,
    )


def _solve(question: Question, rows: Vectors) -> Solution:
    """A map of the examples that are learned from, (examples, layers, numbers)."""
    layout = row_layout(rows.shape[1], "together" if question.train.pairs is None else "aligned")
    groups, _ = example_groups(question.learnt)
    inputs = torch.from_numpy(rows).flatten(1)
    return solve_task(question.task, inputs, question.learnt.targets, layout=layout, groups=groups)


def _answers(task: Task, weight: Tensor, bias: Tensor, rows: Vectors) -> IntArray | FloatArray:
    """Class numbers or scores of examples, (examples, layers, numbers)."""
    outputs = rows.reshape(len(rows), -1) @ weight.numpy().T + bias.numpy()
    scores: FloatArray = outputs[:, 0].astype(np.float64)
    return scores if task.kind == "scores" else outputs.argmax(axis=1)


def _embedded(examples: Texts, vectors: VectorCache) -> tuple[Vectors, float]:
    """One embedding per example, of pairs how far they are apart and how far they agree, and seconds of encoding."""
    columns = [examples.texts] if examples.pairs is None else [examples.texts, examples.pairs]
    found = [vectors.embeddings(column) for column in columns]
    joined: Vectors = join_texts([torch.from_numpy(rows) for rows, _ in found]).numpy()
    return joined, sum(seconds for _, seconds in found)
