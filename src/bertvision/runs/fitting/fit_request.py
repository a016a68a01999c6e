"""FitRequest: the settings of a fit of heads on a frozen encoder."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bertvision.encoder.snapshot import split_snapshot
from bertvision.errors import refuse
from bertvision.heads.options import ATTENTION
from bertvision.runs.data_request import DataRequest
from bertvision.tasks.task import Pairs, Pool, Task
from bertvision.training.options import TuneOptions
from bertvision.training.trainee import HeadSpec

AUTO, STREAM, STORE = "auto", "stream", "store:"
WHOLE = "whole"
"""Name of the run of a cross-fit that was tuned on all folds."""

FEWEST_FOLDS = 2
"""With one fold, its encoder would have no training examples."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FitRequest(DataRequest):
    """The settings of a fit.

    Attributes:
        heads: the heads, with their training options.
        epochs: passes over the training examples.
        batch: windows per optimiser step.
        seed: seed of data order, of the choice of held-out examples and of subsets.
        validate: epochs after which heads are scored on held-out examples; they always are at the end, too.
        held_out: share of the used training examples to hold out.
        pool: how tokens are pooled, for labels, tags and scores; `attention` gives every head a learned attention
            pooling, None pools as the encoder was trained.
        pairs: how pairs of texts are encoded; `auto` takes `aligned` for encoders trained on sentences, and `together`
            for others.
        source: where states come from: `stream` computes them for every batch, `store:DIR` reads them, `auto` measures
            and chooses.
        max_disk: most bytes that a store made by `auto` may take; None sets no limit but the disk's.
        max_memory: most bytes of states in memory with `auto`; None sets no limit but the machine's.
        cross_fit: number of folds K; `encoder` is then the folder of a cross-fit, and the states of every training
            example come from the encoder that was tuned without its fold. None uses one encoder for all.
        solve: solve convex heads instead of training them, for labels, tags and scores.
        class_weights: weight the loss so that all classes have the same total weight.
        device: `auto`, `cpu` or `cuda`.
        dtype: `auto` computes in bfloat16 on a GPU, and in float32 on a CPU.
        compile: compile the encoder's layers, and the steps that heads repeat for every layer, with `torch.compile`.
    """

    heads: tuple[HeadSpec, ...] = ()
    epochs: float = 1.0
    batch: int = 32
    seed: int = 0
    validate: tuple[float, ...] = ()
    held_out: float = 0.1
    pool: Pool | Literal["attention"] | None = None
    pairs: Pairs | Literal["auto"] = "auto"
    source: str = AUTO
    max_disk: int | None = None
    max_memory: int | None = None
    cross_fit: int | None = None
    solve: bool = True
    class_weights: bool = False
    device: Literal["auto", "cpu", "cuda"] = "auto"
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    compile: bool = False

    @property
    def largest(self) -> float:
        """The largest share of the training examples that any head uses: the share that the run uses."""
        return max(spec.fraction for spec in self.heads)

    @property
    def main_encoder(self) -> str:
        """The encoder for held-out and dev examples: of a cross-fit, the one tuned on all folds."""
        return self.encoder if self.cross_fit is None else fold_encoder(self.encoder, WHOLE)

    @property
    def fractions(self) -> list[float]:
        """Epochs after which heads are scored, in order; the last one is the end of training."""
        return sorted({*self.validate, self.epochs})

    @property
    def store(self) -> Path | None:
        """The folder of the store that states are read from; None for other sources."""
        return Path(self.source.removeprefix(STORE)) if self.source.startswith(STORE) else None

    def reads_rows(self, task: Task) -> bool:
        """Whether heads read one pooled row per text, so that all states fit into memory, instead of every token."""
        return task.kind != "spans" and self.pool != ATTENTION

    def plan(self) -> TuneOptions:
        """The options that determine the batches of every step; see `StepPlan`."""
        return TuneOptions(epochs=self.epochs, batch=self.batch, seed=self.seed)

    def check(self) -> None:
        """Refuse values that cannot work, all at once.

        Raises:
            BertVisionError: naming every option with its value.
        """
        problems = []
        if not self.heads:
            problems.append("no head was asked for")
        if not 0.0 < self.epochs < float("inf"):
            problems.append(f"--epochs is {self.epochs:g}, more than 0 is expected")
        if self.batch < 1:
            problems.append(f"--batch is {self.batch}, at least 1 is expected")
        if self.seed < 0:
            problems.append(f"--seed is {self.seed}, at least 0 is expected")
        if not 0.0 < self.held_out < 1.0:
            problems.append(f"--held-out is {self.held_out:g}, more than 0 and less than 1 is expected")
        if self.source not in (AUTO, STREAM) and (not self.source.startswith(STORE) or self.source == STORE):
            problems.append(f"--from is '{self.source}', auto, stream or store:DIR is expected")
        if self.cross_fit is not None and self.cross_fit < FEWEST_FOLDS:
            problems.append(f"--cross-fit is {self.cross_fit}, at least {FEWEST_FOLDS} is expected")
        if self.cross_fit is not None and self.source.startswith(STORE):
            problems.append(f"--from is '{self.source}', a cross-fit needs stream: a store holds one encoder's states")
        problems += [problem for spec in self.heads for problem in spec.problems()]
        refuse(problems)


def fold_encoder(encoder: str, name: str | int) -> str:
    """The encoder of one run of a cross-fit: `RUN` and 3 give `RUN/fold-3`, `RUN@0.3` and `whole` `RUN/whole@0.3`."""
    run, snapshot = split_snapshot(encoder)
    return f"{run / (name if isinstance(name, str) else f'fold-{name}')}{snapshot}"
