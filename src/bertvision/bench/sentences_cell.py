"""The kind `sentences`: our solved heads on a frozen encoder, compared with embeddings + scikit-learn and SetFit."""

from importlib.util import find_spec
from typing import Any

import numpy as np

from bertvision.bench.environment import BenchEnvironment
from bertvision.bench.measured import FLOAT32, Model, pack_golds
from bertvision.bench.outcomes import pack_outcomes
from bertvision.bench.sentence_methods import METHODS, Question, Reply
from bertvision.bench.sentence_settings import SentenceSettings
from bertvision.bench.sentence_vectors import VectorCache
from bertvision.errors import BertVisionError, MissingExtraError
from bertvision.evaluation.score import score_targets
from bertvision.heads import HEADS
from bertvision.provenance import package_version
from bertvision.runs.judging.judge import PLAIN
from bertvision.runs.watch import tell
from bertvision.tasks.examples import FloatArray, IntArray, Texts
from bertvision.tasks.load import TaskData, load_task


def measure_sentences(settings: SentenceSettings, seed: int, environment: BenchEnvironment) -> dict[str, Any]:
    """Train every method on the same training examples, and score it on dev.

    Raises:
        BertVisionError: data or encoder cannot be loaded, or there is no train or dev split.
        MissingExtraError: a method needs a package that is not installed; nothing was measured.
    """
    needed = {package: name for name in settings.methods for package in METHODS[name].needs}
    for package, name in needed.items():
        if find_spec(package) is None:
            raise MissingExtraError(f"method '{name}'", package, "bench")
    loaded = load_task(settings.task, data=environment.find_data(settings.data))
    train, dev = (_texts(loaded, split) for split in ("train", "dev"))
    train = train.select(sample_rows(len(train), settings.most))
    encoder = environment.find_encoder(settings.encoder)
    vectors = VectorCache(
        environment.work / settings.vectors,
        encoder,
        length=settings.length,
        device=environment.device,
        show=environment.show,
    )
    rows = sample_per_class(train.targets, settings.per_class, seed)
    question = Question(task=loaded.task, train=train, rows=rows, dev=dev, vectors=vectors, seed=seed)
    models = {}
    for name in settings.methods:
        tell(environment.show, f"{name} learns from {len(rows):,} examples …")
        models[name] = _result(question, name, METHODS[name].answer(question))
    return {
        "models": models,
        "examples": len(rows),
        "golds": pack_golds(loaded.task, dev),
        "packages": {package: package_version(package) for package in needed},
        "weights": vectors.weights,
    }


def sample_rows(rows: int, most: int | None) -> IntArray:
    """A random sample of at most `most` row numbers, the same for every seed, in ascending order; None takes all."""
    sample: IntArray = np.sort(np.random.default_rng(0).permutation(rows)[:most])
    return sample


def sample_per_class(targets: IntArray | FloatArray, per_class: int | None, seed: int) -> IntArray:
    """A random sample of row numbers, `per_class` for each class or rounded score, ascending; None takes all."""
    if per_class is None:
        return np.arange(len(targets))
    random = np.random.default_rng(seed)
    classes = np.rint(targets).astype(np.int64)
    samples = [random.permutation(np.flatnonzero(classes == one))[:per_class] for one in np.unique(classes)]
    return np.sort(np.concatenate(samples))


def _texts(loaded: TaskData, split: str) -> Texts:
    if split not in loaded.splits:
        raise BertVisionError(f"{loaded.task.name} has no {split} split here, so that nothing can be judged.")
    examples = loaded.splits[split]
    if not isinstance(examples, Texts):
        raise TypeError("sentences are texts")
    return examples


def _result(question: Question, name: str, reply: Reply) -> Model:
    """The result of a method; `held_out` is None, since penalties are chosen by cross-validation."""
    scores = score_targets(question.task, question.dev.targets, reply.predictions).values
    return {
        "epochs": None,
        "seconds": round(reply.encode_seconds + reply.fit_seconds, 3),
        "encode_seconds": round(reply.encode_seconds, 3),
        "parameters": int(reply.parameters),
        "bytes": FLOAT32 * int(reply.parameters),
        "held_out": None,
        "scores": {PLAIN: {metric: round(float(scores[metric]), 4) for metric in question.task.metrics}},
        "thresholds": {},
        "head": name if name in HEADS else None,
        "inference_seconds": round(reply.predict_seconds / len(question.dev), 7),
        "outcomes": pack_outcomes(reply.predictions),
    }
