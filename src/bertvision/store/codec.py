"""Encoding of states in a store: float16, bfloat16, or 8-bit quantisation of standardised channels."""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from bertvision.errors import BertVisionError

Keep = Literal["fp16", "bf16", "int8"]
"""The precision of a store."""

LARGEST_HALF = float(torch.finfo(torch.float16).max)
_INT8_MAX = 127
_BYTES = {"fp16": 2, "bf16": 2, "int8": 1}


@dataclass(frozen=True, slots=True)
class Statistics:
    """Mean and standard deviation of every channel of every layer over a sample of tokens, each (layers, width)."""

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


def precision_for(states: Tensor, keep: Keep) -> Keep:
    """The precision that can represent these states: `keep`, or bfloat16 if float16 would overflow.

    Raises:
        BertVisionError: a value is not finite.
    """
    low, high = (float(value) for value in states.aminmax()) if states.numel() else (0.0, 0.0)
    if not math.isfinite(high - low):
        raise BertVisionError("a state is not finite. Is the encoder whole?")
    return "bf16" if keep == "fp16" and max(high, -low) > LARGEST_HALF else keep


def encode(states: Tensor, keep: Keep, statistics: Statistics | None = None) -> dict[str, Tensor]:
    """Encode states.

    Args:
        states: (tokens, layers, width).
        keep: a precision that can represent them, see `precision_for`.
        statistics: for int8.

    Returns:
        By name: `states`, (tokens, layers, width); for int8 also `scales`, (tokens, layers), the size of a quantisation
        step.

    Raises:
        BertVisionError: a value is too large to be quantised with these statistics.
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
    """Decode states, (tokens, layers, width).

    Args:
        kept: the result of `encode`, on any device.
        statistics: for int8, on the same device.
        out: tensor to write to, of any strides and floating-point type; None creates one in float32.
    """
    states = kept["states"]
    if "scales" in kept:
        if statistics is None:
            raise ValueError("int8 needs statistics")
        scaled = out if out is not None and out.dtype == torch.float32 else None
        scaled = torch.mul(states, kept["scales"].float()[..., None], out=scaled)
        states = torch.addcmul(statistics.mean, scaled, statistics.deviation, out=scaled)
    if out is None:
        return states.float()
    return out if out is states else out.copy_(states)
