"""TuneOptions: hyper-parameters of fine-tuning, their limits, and the settings of the source documents."""

import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, Literal

from bertvision.errors import refuse
from bertvision.training.schedule import LARGEST_RATE, Schedule

HEAD_TRAINING = ("lr", "schedule", "warmup", "weight_decay", "clip")
"""The training options of a head in a row of a leaderboard, besides its seed and its share of the data."""

LARGEST_SEED = 2**63 - 1
"""What torch takes at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneOptions:
    """How to tune."""

    epochs: float = 1.0
    """Passes over the training examples; fractions such as 0.3 are fine."""

    batch: int = 32
    """Batch size: windows per optimiser step."""

    accumulate: int = 1
    """Gradient accumulation: compute each batch in this many parts, to save memory; the batch size stays the same."""

    lr: float | None = None
    """Learning rate of the encoder (default: 1e-3 for lora, houlsby, bitfit and layernorm, 2e-4 for top:K, 1e-4 for
    full and houlsby:D+full)."""

    head_lr: float = 1e-3
    """Learning rate of the head."""

    schedule: Schedule = "linear"
    """Learning rate schedule after the warmup; 'restarts' is a cosine that restarts once."""

    warmup: float = 0.06
    """Share of the steps in which the learning rate rises."""

    weight_decay: float = 0.01
    """Weight decay; not applied to biases, LayerNorms and mixing weights."""

    clip: float = 1.0
    """Largest gradient norm; 0 turns clipping off."""

    dropout: float | None = None
    """Dropout inside the encoder (default: the encoder's own)."""

    class_weights: bool = False
    """Weight the loss so that all classes count the same, however rare; for tasks with one label per text."""

    patience: int | None = None
    """Early stopping: stop after this many snapshots without a better score on the held-out examples (default:
    never)."""

    seed: int = 0
    """Random seed of data order, held-out examples, dropout and the head's initial weights."""

    def check(self) -> None:
        """Check all values.

        Raises:
            BertVisionError: some are invalid; the message names all of them.
        """
        refuse(self.problems())

    def problems(self) -> list[str]:
        """One message for every option with an invalid value."""
        whole = {"--batch": (self.batch, 1), "--accumulate": (self.accumulate, 1), "--seed": (self.seed, 0)}
        if self.patience is not None:
            whole["--patience"] = self.patience, 1
        rates = {"--lr": self.lr, "--head-lr": self.head_lr}
        others = {"--weight-decay": self.weight_decay, "--clip": self.clip}
        shares = {"--warmup": self.warmup, "--dropout": self.dropout}
        listed = [
            f"{name} is {value}, at least {least} is expected"
            for name, (value, least) in whole.items()
            if value < least
        ]
        if self.seed > LARGEST_SEED:
            listed.append(f"--seed is {self.seed}, at most {LARGEST_SEED} is expected")
        if not 0 < self.epochs < math.inf:
            listed.append(f"--epochs is {self.epochs:g}, more than 0 is expected")
        listed += [
            f"{name} is {value:g}, more than 0 and less than {LARGEST_RATE:g} is expected"
            for name, value in rates.items()
            if value is not None and not 0 < value < LARGEST_RATE
        ]
        listed += [
            f"{name} is {value:g}, at least 0 is expected"
            for name, value in others.items()
            if not 0 <= value < math.inf
        ]
        listed += [
            f"{name} is {value:g}, at least 0 and less than 1 is expected"
            for name, value in shares.items()
            if value is not None and not 0 <= value < 1
        ]
        return listed


def default_rate(learn: str) -> float:
    """The encoder's default peak learning rate; the fewer parameters are trained, the larger it is.

    Those of full, top and lora were the best of two to four candidates on held-out questions; see results/.
    """
    if learn == "full" or learn.endswith("+full"):
        return 1e-4
    return 2e-4 if learn.startswith("top:") and learn != "top:0" else 1e-3


Recipe = Literal["bertvision", "hulburd", "silva", "minbert"]

RECIPES: dict[Recipe, TuneOptions] = {
    # BERT-large, Adam at a constant rate, hence snapshots that compare with each other
    "bertvision": TuneOptions(
        epochs=6, batch=4, lr=1e-5, head_lr=1e-5, schedule="constant", warmup=0.0, weight_decay=0.0, clip=0.0
    ),
    "hulburd": TuneOptions(epochs=3, batch=8, lr=5e-5, head_lr=5e-5, schedule="linear", warmup=0.1),
    "silva": TuneOptions(epochs=2, batch=8, lr=3e-5, head_lr=3e-5, schedule="linear", warmup=0.0),
    "minbert": TuneOptions(
        epochs=50, batch=8, lr=1e-5, head_lr=1e-5, schedule="constant", warmup=0.0, weight_decay=0.0, dropout=0.1
    ),
}
"""The settings of the source documents; see docs/recipes.md for where each value comes from."""

RECIPE_LENGTHS: dict[Recipe, int] = {"bertvision": 386, "hulburd": 384, "silva": 384, "minbert": 512}
"""Tokens of a window in the source documents; 512 for 758, which is more than BERT takes."""


def with_recipe(options: TuneOptions, recipe: Recipe | None, given: Collection[str] = ()) -> TuneOptions:
    """A recipe's settings, overridden by the options that the user gave.

    Args:
        options: those of the user, and defaults.
        recipe: whose settings take the place of the defaults; None leaves them.
        given: names of the options that the user gave.
    """
    if recipe is None:
        return options
    chosen: dict[str, Any] = {
        name: getattr(options, name) for name in TuneOptions.__dataclass_fields__ if name in given
    }
    return replace(RECIPES[recipe], **chosen)
