"""The settings of cells of the kinds `tune` and `plain`, with defaults: the keys of experiments/*.toml."""

from dataclasses import dataclass, field, replace
from typing import Any

from typing_extensions import override

from bertvision.bench.environment import BUILTIN_DATA, BenchEnvironment
from bertvision.encoder.learn import parse_learn
from bertvision.errors import BertVisionError, UnknownNameError
from bertvision.heads import HEADS
from bertvision.pretrained import BUILTIN_ENCODER
from bertvision.runs.request import TuneRequest
from bertvision.tasks.load import find_task
from bertvision.tasks.windows import WindowOptions
from bertvision.training.options import TuneOptions
from bertvision.training.schedule import Schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSettings:
    """Examples and encoder.

    Attributes:
        task: name of the task.
        data: `builtin`, or a folder below that of `--data`.
        encoder: name of the encoder; `--encoder` gives its path.
        length, stride, question: sizes of windows in tokens, see `WindowOptions`.
        fraction: share of the training examples to use.
        held_out: share of these to hold out for thresholds, the choice of models and ensembles.
    """

    task: str = "squad2"
    data: str = BUILTIN_DATA
    encoder: str = BUILTIN_ENCODER
    length: int = 384
    stride: int = 128
    question: int = 64
    fraction: float = 1.0
    held_out: float = 0.05

    @property
    def windows(self) -> WindowOptions:
        """How texts are cut into windows."""
        return WindowOptions(length=self.length, stride=self.stride, question=self.question)

    def data_fields(self, environment: BenchEnvironment) -> dict[str, Any]:
        """These settings as arguments of a request; `fraction` is not among them."""
        return {
            "task": self.task,
            "data": environment.find_data(self.data),
            "encoder": environment.find_encoder(self.encoder),
            "windows": self.windows,
            "held_out": self.held_out,
            "device": environment.device,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnSettings(TaskSettings):
    """Training of an encoder.

    Attributes:
        learn: which parameters are trained; see `parse_learn`.
        epochs: passes over the training examples.
        snapshots: epochs after which the model is measured; the end always is.
        lr: learning rate of the encoder; None for the default of `learn`.
        head_lr: learning rate of the output layer or head.
        batch: windows per step.
        schedule, warmup: learning-rate schedule, and the share of steps over which the rate rises.
    """

    learn: str = "full"
    epochs: float = 1.0
    snapshots: tuple[float, ...] = ()
    lr: float | None = None
    head_lr: float = 1e-3
    batch: int = 32
    schedule: Schedule = "linear"
    warmup: float = 0.06

    @property
    def fractions(self) -> list[float]:
        """All epochs after which the model is measured, in ascending order."""
        return sorted({*self.snapshots, self.epochs})

    @property
    def models(self) -> list[str]:
        """Names of the models in the result: epochs."""
        return [f"{fraction:g}" for fraction in self.fractions]

    def tuning(self, seed: int) -> TuneOptions:
        """These settings as options of a tuned run."""
        names = ("epochs", "lr", "head_lr", "batch", "schedule", "warmup")
        return TuneOptions(**{name: getattr(self, name) for name in names}, seed=seed)

    def check(self) -> None:
        """Refuse settings that cannot work, before anything is measured.

        Raises:
            BertVisionError: an unknown task or `learn`, a value that `TuneRequest` refuses, or a snapshot past the end.
        """
        find_task(self.task)
        parse_learn(self.learn)
        TuneRequest(
            task=self.task, learn=self.learn, options=self.tuning(0), fraction=self.fraction, held_out=self.held_out
        ).check()
        for epochs in self.snapshots:
            if not 0.0 < epochs <= self.epochs:
                raise BertVisionError(f"snapshots has {epochs:g}, more than 0 and at most {self.epochs:g} is expected.")


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneSettings(LearnSettings):
    """A tuned run.

    Attributes:
        head: name of the head that is trained with the encoder; None for the plain output layer.
        options: options of that head.
        dropout: dropout rate inside the encoder; None for the encoder's own.
        compile: whether to compile the encoder's layers.
    """

    head: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    dropout: float | None = None
    compile: bool = False

    def request(self, environment: BenchEnvironment, seed: int) -> TuneRequest:
        """The request for `tune`."""
        return TuneRequest(
            **self.data_fields(environment),
            learn=self.learn,
            options=replace(self.tuning(seed), dropout=self.dropout),
            snapshots=self.snapshots,
            fraction=self.fraction,
            compile=self.compile,
            head=self.head,
            head_options=self.options,
        )

    @override
    def check(self) -> None:
        """Refuse settings that cannot work, before anything is measured.

        Raises:
            BertVisionError: an unknown head, or anything that `LearnSettings` refuse.
        """
        LearnSettings.check(self)
        if self.head is not None and self.head not in HEADS:
            raise UnknownNameError("head", self.head, HEADS)


PLAIN_LEARN = ("full", "bitfit", "none")
"""Values of `learn` that the plain loop supports, besides lora:R."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainSettings(LearnSettings):
    """A usual training loop over transformers and PEFT; `learn` is full, lora:R, bitfit or none."""

    @override
    def check(self) -> None:
        """Refuse settings that cannot work, before anything is measured.

        Raises:
            BertVisionError: a `learn` that the plain loop does not support, or anything that `LearnSettings` refuse.
        """
        LearnSettings.check(self)
        if parse_learn(self.learn).lora is None and self.learn not in PLAIN_LEARN:
            raise BertVisionError(f"learn is '{self.learn}'; the plain loop knows lora:R, {', '.join(PLAIN_LEARN)}.")
