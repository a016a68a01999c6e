"""States in fewer bits, and back: float16, bfloat16, or 8 bits of what is left when each channel is standardised."""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from bertvision.errors import BertVisionError

Keep = Literal["fp16", "bf16", "int8"]
"""How states are kept."""

LARGEST_HALF = float(torch.finfo(torch.float16).max)
_INT8_MAX = 127
_BYTES = {"fp16": 2, "bf16": 2, "int8": 1}


@dataclass(frozen=True, slots=True)
class Statistics:
    """Mean and deviation of every channel of every layer over a sample of tokens, each (layers, width)."""

    mean: Tensor
    deviation: Tensor

    def to(self, device: torch.device) -> "Statistics":
        """The same on a device."""
        return Statistics(self.mean.to(device), self.deviation.to(device))


def bytes_per_token(keep: Keep, layers: int, width: int) -> int:
    """Bytes that one token takes in a store."""
    return layers * (width * _BYTES[keep] + (2 if keep == "int8" else 0))


def measure(states: Tensor) -> Statistics:
    """The statistics of some tokens, (tokens, layers, width)."""
    return Statistics(states.mean(dim=0), states.std(dim=0, correction=0).clamp(min=1e-6))


def fitting(states: Tensor, keep: Keep) -> Keep:
    """How states can be kept: as asked, or as bfloat16 where one of them is too large for float16.

    Raises:
        BertVisionError: a value is not finite.
    """
    low, high = (float(value) for value in states.aminmax()) if states.numel() else (0.0, 0.0)
    if not math.isfinite(high - low):
        raise BertVisionError("a state is not finite. Is the encoder whole?")
    return "bf16" if keep == "fp16" and max(high, -low) > LARGEST_HALF else keep


def encode(states: Tensor, keep: Keep, statistics: Statistics | None = None) -> dict[str, Tensor]:
    """States as they are kept, by name.

    Args:
        states: (tokens, layers, width), of which `fitting` says that they can be kept so.
        keep: how.
        statistics: for int8.

    Raises:
        BertVisionError: a value is too far from all that the statistics were measured on.
    """
    if keep == "bf16":
        return {"states": states.to(torch.bfloat16)}
    if keep == "fp16":
        return {"states": states.to(torch.float16)}
    if statistics is None:
        raise ValueError("int8 needs statistics")
    scaled = (states - statistics.mean) / statistics.deviation
    scales = (scaled.abs().amax(dim=-1, keepdim=True) / _INT8_MAX).clamp(min=1e-6).to(torch.float16)
    if not bool(scales.isfinite().all()):
        raise BertVisionError("a state is too far from those that int8 was measured on. Use --keep fp16.")
    steps = (scaled / scales.float()).round().clamp(-_INT8_MAX, _INT8_MAX)
    return {"states": steps.to(torch.int8), "scales": scales[..., 0]}


def decode(kept: dict[str, Tensor], statistics: Statistics | None = None, *, out: Tensor | None = None) -> Tensor:
    """Kept states as numbers to compute with, (tokens, layers, width).

    Args:
        kept: what `encode` made, on any device.
        statistics: for int8, on the same device.
        out: where to put them, strided as it may be, in any precision; None makes a new tensor in float32.
    """
    states = kept["states"]
    if "scales" in kept:
        if statistics is None:
            raise ValueError("int8 needs statistics")
        wide = out if out is not None and out.dtype == torch.float32 else None
        wide = torch.mul(states, kept["scales"].float()[..., None], out=wide)
        states = torch.addcmul(statistics.mean, wide, statistics.deviation, out=wide)
    if out is None:
        return states.float()
    return out if out is states else out.copy_(states)
