"""The options that tune, multitask and triplets share, and how their results are printed."""

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from typing_extensions import override

from bertvision.cli.options import GivenOptions
from bertvision.cli.output import print_json, print_table
from bertvision.cli.task_options import EncoderOptions, parse_numbers
from bertvision.training.options import RECIPE_LENGTHS, Recipe, TuneOptions, with_recipe

if TYPE_CHECKING:
    from bertvision.runs.tuning.tuning import TuneResult


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnOptions(EncoderOptions):
    """Options of every command that changes an encoder."""

    tuning: TuneOptions = field(default_factory=TuneOptions)

    learn: str = "full"
    """Parameters to train: full, top:K, top:K:strict, houlsby:D, houlsby:D+full, lora:R, bitfit, layernorm or none."""

    recipe: Recipe | None = None
    """Use the hyperparameters of one of the source documents; options that you give as well take precedence."""

    snapshots: str = ""
    """Epochs after which to save a snapshot, such as 0.1,0.3,1; one is always saved at the end."""

    fraction: float = 1.0
    """Share of the training examples to use."""

    held_out: float = 0.05
    """Share of the training examples to hold out for validation: for thresholds and early stopping, never to train."""

    pool: Literal["cls", "mean"] | None = None
    """How a text becomes one vector, for labels, tags and scores: 'cls' takes that of the first token, 'mean' the mean
    over tokens (default: as the encoder was trained)."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device; 'auto' uses a GPU if there is one."""

    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """Precision of computation; 'auto' is bfloat16 on a GPU and float32 elsewhere. Weights stay float32."""

    compile: bool = False
    """Compile the encoder's layers first. This takes a minute and pays off on a GPU with a large encoder: at batch 32,
    training at BERT-large's shape ran at 819 instead of 653 examples per second."""

    save_every: int | None = None
    """Steps between checkpoints for --resume (default: one per minute). Every snapshot saves one, too."""

    tracker: str | None = None
    """Report to an experiment tracker that Accelerate supports, such as tensorboard."""

    resume: bool = False
    """Continue an interrupted run."""

    json: bool = False
    """Print the result as JSON."""

    given: GivenOptions = field(default_factory=GivenOptions)

    @override
    def fields_of(self, task: str) -> dict[str, Any]:
        """As in the base class, with the recipe's window length unless the user gave one."""
        fields = super(LearnOptions, self).fields_of(task)
        if self.recipe is not None and "length" not in self.given:
            fields["windows"] = replace(self.windows, length=RECIPE_LENGTHS[self.recipe])
        return fields

    def learn_fields(self) -> dict[str, Any]:
        """The fields of a `LearnRequest` that these options set, besides those of `fields_of`."""
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
    """The result of a run for `--json`."""
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
    """The title of a result: the run and its trained parameters."""
    share = result.trainable / result.total
    return f"{result.run}: {result.trainable:,} of {result.total:,} parameters learned ({share:.2%})"


def print_result(result: "TuneResult", *, as_json: bool) -> None:
    """Print the result of a run for one task."""
    if as_json:
        print_json(result_as_json(result))
    else:
        print_table(result_title(result), ["metric", "value"], list(result.metrics.items()))
