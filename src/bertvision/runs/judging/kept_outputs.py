"""The outputs of a model on a split and on held-out examples, saved so that they are encoded only once."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file
from torch import Tensor, tensor

from bertvision.errors import BertVisionError
from bertvision.evaluation.outputs import Outputs, SpanScores
from bertvision.tensor_files import save_tensors

OUTPUTS = "outputs.safetensors"


@dataclass(frozen=True, slots=True)
class ModelOutputs:
    """The outputs of a model.

    Attributes:
        split: on the split: scores of every token, or one row per example.
        held_out: on the held-out training examples; None without any.
    """

    split: Outputs
    held_out: Outputs | None = None


@dataclass(frozen=True, slots=True)
class RunOutputs:
    """The outputs of a run's models.

    Attributes:
        weights: fingerprint of their encoder.
        models: heads and the encoder's own output, by name.
    """

    weights: str
    models: dict[str, ModelOutputs]


def save_outputs(outputs: ModelOutputs, folder: Path) -> None:
    """Write outputs into an existing folder, in float32: 8 bytes per token for spans.

    Raises:
        WriteError: they cannot be written.
    """
    tensors = _tensors("split", outputs.split)
    if outputs.held_out is not None:
        tensors |= _tensors("held_out", outputs.held_out)
    save_tensors(folder / OUTPUTS, tensors)


def load_outputs(folder: Path) -> ModelOutputs:
    """The outputs in a folder.

    Raises:
        BertVisionError: the file is missing or damaged.
    """
    try:
        tensors = load_file(folder / OUTPUTS)
        held_out = _outputs("held_out", tensors) if any(name.startswith("held_out") for name in tensors) else None
        return ModelOutputs(_outputs("split", tensors), held_out)
    except (OSError, SafetensorError, KeyError) as error:
        raise BertVisionError(
            f"{folder / OUTPUTS} cannot be read ({error}). Remove the evaluation's folder, and evaluate again."
        ) from None


def _tensors(part: str, outputs: Outputs) -> dict[str, Tensor]:
    if isinstance(outputs, SpanScores):
        return {f"{part}.start": tensor(outputs.start), f"{part}.end": tensor(outputs.end)}
    return {f"{part}.rows": tensor(outputs)}


def _outputs(part: str, tensors: dict[str, NDArray[np.float32]]) -> Outputs:
    if f"{part}.rows" in tensors:
        return tensors[f"{part}.rows"]
    return SpanScores(tensors[f"{part}.start"], tensors[f"{part}.end"])
