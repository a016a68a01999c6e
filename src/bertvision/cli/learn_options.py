"""How an encoder learns: the options that every command which changes one shares."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from bertvision.cli.options import Given
from bertvision.cli.output import print_json, print_table
from bertvision.cli.task_options import EncoderOptions, parse_numbers
from bertvision.training.options import Recipe, TuneOptions, with_recipe

if TYPE_CHECKING:
    from bertvision.runs.tuning.tuning import TuneResult


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnOptions(EncoderOptions):
    """Options of every command that changes an encoder."""

    tuning: TuneOptions = field(default_factory=TuneOptions)

    learn: str = "full"
    """What learns: full, top:K, top:K:strict, houlsby:D, houlsby:D+full, lora:R, bitfit, layernorm or none."""

    recipe: Recipe | None = None
    """Settings of one of the source documents; options given beside it win."""

    snapshots: str = ""
    """Epochs after which to keep a snapshot, such as 0.1,0.3,1; the end is always kept."""

    fraction: float = 1.0
    """Share of the training examples to use."""

    held_out: float = 0.05
    """Share of the training examples that nobody learns from: thresholds and early stopping look at them."""

    pool: Literal["cls", "mean"] | None = None
    """Which row stands for a text, for labels, tags and scores (default: what the encoder was trained with)."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where to compute."""

    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """Precision of the computation: 'auto' is bfloat16 on a GPU, float32 elsewhere; weights stay float32."""

    compile: bool = False
    """Compile the encoder's layers first: takes a minute, and pays on a GPU for a large encoder: at batch 32 steps of
    BERT-large's shape made 819 examples a second instead of 653."""

    save_every: int | None = None
    """Steps between checkpoints for --resume (default: one a minute, and one at every snapshot)."""

    tracker: str | None = None
    """Report to an experiment tracker that Accelerate knows, such as tensorboard."""

    resume: bool = False
    """Go on with a run that was interrupted."""

    json: bool = False
    """Print JSON."""

    given: Given = field(default_factory=Given)

    def learn_fields(self) -> dict[str, Any]:
        """As a request has them."""
        return {
            "learn": self.learn,
            "options": with_recipe(self.tuning, self.recipe, self.given),
            "snapshots": parse_numbers("--snapshots", self.snapshots),
            "fraction": self.fraction,
            "held_out": self.held_out,
            "pool": self.pool,
            "device": self.device,
            "dtype": self.dtype,
            "compile": self.compile,
            "save_every": self.save_every,
            "tracker": self.tracker,
        }


def result_as_json(result: "TuneResult") -> dict[str, object]:
    """What came out of a run."""
    return {
        "run": str(result.run),
        "trainable": result.trainable,
        "total": result.total,
        "steps": result.steps,
        "processes": result.processes,
        "snapshots": [f"{result.run}@{snapshot.folder.name}" for snapshot in result.snapshots],
        "metrics": result.metrics,
    }


def result_title(result: "TuneResult") -> str:
    """What learnt."""
    share = result.trainable / result.total
    return f"{result.run}: {result.trainable:,} of {result.total:,} parameters learnt ({share:.2%})"


def print_result(result: "TuneResult", *, as_json: bool) -> None:
    """What came out of a run with one table of metrics."""
    if as_json:
        print_json(result_as_json(result))
    else:
        print_table(result_title(result), ["metric", "value"], list(result.metrics.items()))
