"""By which examples finished runs are judged: the options that evaluate, ensemble and analyse share."""

from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitOptions:
    """The split, and where to compute."""

    data: str | None = None
    """Where the split is: a folder or file, 'hub', 'hub:NAME' or 'builtin' (default: the data of the run)."""

    split: str = "dev"
    """Which split to judge by; thresholds are fitted on the training examples that the run held out."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where to compute."""

    json: bool = False
    """Print the record as JSON."""

    def split_fields(self) -> dict[str, Any]:
        """As the functions behind the commands take them."""
        return {"data": self.data, "split": self.split, "device": self.device}


@dataclass(frozen=True, slots=True, kw_only=True)
class ResampledOptions(SplitOptions):
    """The split, and how often it is drawn from."""

    bootstrap: int = 1000
    """Resamples for 95 % intervals and for paired tests."""

    seed: int = 0
    """Of the resampling."""

    def resampled_fields(self) -> dict[str, Any]:
        """As the functions behind the commands take them."""
        return {**self.split_fields(), "resamples": self.bootstrap, "seed": self.seed}
