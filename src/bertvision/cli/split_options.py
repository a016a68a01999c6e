"""The options that evaluate, ensemble and analyse share: the split, the device, and bootstrap resampling."""

from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitOptions:
    """The split, and where to compute."""

    data: str | None = None
    """Data set with the split: a folder or file, 'hub', 'hub:NAME' or 'builtin' (default: the data of the run)."""

    split: str = "dev"
    """Split to evaluate on; thresholds are fitted on the training examples that the run held out."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device; 'auto' uses a GPU if there is one."""

    json: bool = False
    """Print the record as JSON."""

    def split_fields(self) -> dict[str, Any]:
        """The keyword arguments of `evaluate`, `ensemble` and `analyse` that these options set."""
        return {"data": self.data, "split": self.split, "device": self.device}


@dataclass(frozen=True, slots=True, kw_only=True)
class ResampledOptions(SplitOptions):
    """The split, where to compute, and bootstrap resampling."""

    bootstrap: int = 1000
    """Bootstrap resamples for 95 % intervals and paired tests."""

    seed: int = 0
    """Random seed of the resampling."""

    def resampled_fields(self) -> dict[str, Any]:
        """The keyword arguments of `evaluate` and `ensemble` that these options set."""
        return {**self.split_fields(), "resamples": self.bootstrap, "seed": self.seed}
