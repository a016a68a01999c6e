"""The kind `plain`: a usual training loop over transformers and PEFT, scored as our runs are, on the same windows."""

from typing import Any, final

import numpy as np

from bertvision.bench.environment import BenchEnvironment
from bertvision.bench.measured import FLOAT32, Model, pack_golds, rounded
from bertvision.bench.outcomes import pack_outcomes
from bertvision.bench.plain_rival import (
    PlainOptions,
    PlainSteps,
    merged,
    plain_model,
    plain_scores,
    plain_training,
)
from bertvision.bench.settings import PlainSettings
from bertvision.device import choose_device
from bertvision.encoder.load import fingerprint, load_encoder
from bertvision.errors import BertVisionError, DivergedError
from bertvision.evaluation.outputs import Outputs, all_finite, merge_rows, predicted_targets, split_scores
from bertvision.evaluation.squad_metric import SHOWN
from bertvision.inference.stopwatch import least_seconds
from bertvision.pretrained import locate_encoder
from bertvision.runs.judging.judge import FITTED, ZERO, Judge, Verdict
from bertvision.runs.judging.measure_inference import EXAMPLES
from bertvision.runs.parts import split_train, training_split
from bertvision.runs.watch import tell
from bertvision.tasks.examples import Examples, FloatArray, IntArray
from bertvision.tasks.load import load_task
from bertvision.tasks.part import Part
from bertvision.tasks.task import Task
from bertvision.tasks.tokenizer import TextTokenizer
from bertvision.tasks.windows import Windows, build_windows
from bertvision.training.options import default_rate

FORWARD_BATCH = {"cpu": 16, "cuda": 256}
"""Windows per batch of predictions, by device."""


def measure_plain(settings: PlainSettings, seed: int, environment: BenchEnvironment) -> dict[str, Any]:
    """Train with the usual loop, and score the model after every fraction of an epoch asked for.

    Raises:
        BertVisionError: data or encoder cannot be loaded, or there is no dev split.
        DivergedError: the model's scores are not finite.
    """
    run = _PlainRun(settings, seed, environment)
    rate = settings.lr if settings.lr is not None else default_rate(settings.learn)
    options = PlainOptions(
        lr=rate,
        head_lr=settings.head_lr,
        batch=settings.batch,
        schedule=settings.schedule,
        warmup=settings.warmup,
        seed=seed,
    )
    tell(environment.show, f"training {settings.learn} with the plain loop …")
    plain_training(
        run.model,
        run.task,
        run.train,
        options,
        run.device,
        fractions=settings.fractions,
        measure=run.measure,
    )
    return run.result()


@final
class _PlainRun:
    """A model that the usual loop trains, with its data and results.

    Attributes:
        task: its task.
        model: transformers model with an output for the task.
        device: device of the model.
        train: windows of the training examples.
    """

    def __init__(self, settings: PlainSettings, seed: int, environment: BenchEnvironment) -> None:
        """Load data and model.

        Raises:
            BertVisionError: data or encoder cannot be loaded, or there is no dev split.
        """
        loaded = load_task(settings.task, data=environment.find_data(settings.data))
        if "dev" not in loaded.splits:
            raise BertVisionError(f"{settings.task} has no dev split here, so that nothing can be judged.")
        learnt, held_out = split_train(
            training_split(loaded), fraction=settings.fraction, held_out=settings.held_out, seed=seed
        )
        encoder = environment.find_encoder(settings.encoder)
        tokenizer = TextTokenizer.load(encoder)

        def part(examples: Examples) -> Part:
            return Part(examples=examples, windows=build_windows(loaded.task, examples, tokenizer, settings.windows))

        self.task = loaded.task
        self.device = choose_device(environment.device)
        self.model = plain_model(locate_encoder(encoder), loaded.task, settings.learn, seed)
        self.train: Windows = part(learnt).windows
        self._weights = fingerprint(load_encoder(encoder))
        self._trainable = sum(value.numel() for value in self.model.parameters() if value.requires_grad)
        self._total = sum(value.numel() for value in self.model.parameters())
        self._show = environment.show
        self._batch = FORWARD_BATCH[self.device.type]
        dev = loaded.splits["dev"]
        timed = np.arange(min(len(dev), EXAMPLES[self.device.type]))
        self._timed = part(dev.select(timed))
        self._judge = Judge(loaded.task, part(dev), None if held_out is None else part(held_out))
        self._models: dict[str, Model] = {}
        self._cost: dict[str, Any] = {}

    def measure(self, steps: PlainSteps) -> None:
        """Score the model in its present state.

        Raises:
            DivergedError: the model's scores are not finite.
        """
        tell(self._show, f"scoring {steps.epochs:g} epochs …")
        held_out = self._judge.held_out
        verdict = self._judge.judge(
            self._scores(self._judge.split), None if held_out is None else self._scores(held_out)
        )
        self._models[f"{steps.epochs:g}"] = {
            "epochs": steps.epochs,
            "seconds": round(steps.seconds, 3),
            "parameters": self._trainable,
            "bytes": FLOAT32 * self._trainable,
            **_verdict_scores(self.task, verdict),
        }
        self._cost = {"first_step_seconds": round(steps.first, 3), "peak_bytes": steps.peak}

    def result(self) -> dict[str, Any]:
        """The result of the cell; inference is timed here, with LoRA weights merged."""
        self.model = merged(self.model)
        self._scores(self._timed)  # warm-up: the first pass is slower
        seconds = least_seconds(lambda: self._scores(self._timed), self.device) / len(self._timed.examples)
        for model in self._models.values():
            model["inference_seconds"] = round(seconds, 7)
        return {
            "models": self._models,
            "golds": pack_golds(self.task, self._judge.split.examples),
            "trainable": self._trainable,
            "total": self._total,
            **self._cost,
            "weights": self._weights,
        }

    def _scores(self, part: Part) -> Outputs:
        rows = plain_scores(self.model, self.task, part.windows, self._batch, self.device)
        scores = split_scores(rows) if self.task.kind == "spans" else merge_rows(self.task, part.windows, rows)
        if not all_finite(scores):
            raise DivergedError("scores of the plain loop are not finite. Use a smaller lr.")
        return scores


def _verdict_scores(task: Task, verdict: Verdict) -> Model:
    """The scores of a model, in the form of `row_scores`, and its outcomes."""
    names = SHOWN if task.kind == "spans" else task.metrics
    scores = {
        at: {metric: rounded(one.values[metric]) for metric in names if metric in one.values}
        for at, one in verdict.scorings.items()
    }
    return {
        "held_out": rounded(verdict.held_out),
        "scores": scores,
        "thresholds": {at: rounded(value) for at, value in verdict.thresholds.items() if value is not None},
        "loss": rounded(verdict.loss),
        "head": None,
        "outcomes": pack_outcomes(_outcomes(task, verdict)),
    }


def _outcomes(task: Task, verdict: Verdict) -> FloatArray | IntArray:
    """For each example, F1 of a question, at the fitted threshold if there is one, or else at 0; or the prediction."""
    if verdict.answers is not None:
        at = next(name for name in (FITTED, ZERO, *verdict.thresholds) if name in verdict.thresholds)
        return verdict.answers.scores_at(verdict.thresholds[at]).f1
    if not isinstance(verdict.predictions, np.ndarray):
        raise TypeError("only questions have answers")
    return predicted_targets(task, verdict.predictions)
