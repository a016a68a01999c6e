"""The output that a fine-tuned checkpoint already has, for question answering or classification."""

import json
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from bertvision.encoder.tuned import find_tuned
from bertvision.errors import BertVisionError
from bertvision.pretrained import encoder_file
from bertvision.tasks.task import TaskKind

_CLASSIFIERS = {
    "bert": ("bert.pooler.dense", "classifier", "tanh"),
    "albert": ("albert.pooler", "classifier", "tanh"),
    "roberta": ("classifier.dense", "classifier.out_proj", "tanh"),
    "xlm-roberta": ("classifier.dense", "classifier.out_proj", "tanh"),
    "mpnet": ("classifier.dense", "classifier.out_proj", "tanh"),
    "electra": ("classifier.dense", "classifier.out_proj", "gelu"),
    "deberta-v2": ("pooler.dense", "classifier", "gelu"),
    "distilbert": ("pre_classifier", "classifier", "relu"),
}
"""By `model_type`: names of the dense layer and of the last map, and the activation between them."""


@dataclass(frozen=True, slots=True)
class OwnOutput:
    """A checkpoint's output as one of our heads.

    Attributes:
        head: the head's name.
        options: what it is built with.
        weights: its parameters, by name.
    """

    head: str
    options: dict[str, float | int | bool | str | tuple[int, ...] | None]
    weights: dict[str, Tensor]


def own_output(name: str, kind: TaskKind, outputs: int) -> OwnOutput | None:
    """The output of a checkpoint that was fine-tuned for a task of this kind; None if it has none.

    Args:
        name: the name of the encoder.
        kind: the kind of the task.
        outputs: numbers that the task needs per row; a checkpoint with another number of labels does not fit.

    Raises:
        BertVisionError: the weights cannot be read.
    """
    if find_tuned(name) is not None:
        return None
    config, path = (encoder_file(name, file) for file in ("config.json", "model.safetensors"))
    if config is None or path is None:
        return None
    model_type = json.loads(config.read_text(encoding="utf-8")).get("model_type")
    if kind == "spans":
        found = _read(path, {"project": "qa_outputs"})
        return None if found is None else OwnOutput("last_layer", {"dropout": 0.0}, found)
    if model_type not in _CLASSIFIERS:
        return None
    dense, last, activation = _CLASSIFIERS[model_type]
    found = _read(path, {"dense": dense, "project": last})
    if found is None or len(found["project.bias"]) != outputs:
        return None
    return OwnOutput("pooled_output", {"activation": activation, "dropout": 0.1}, found)


def _read(path: Path, modules: dict[str, str]) -> dict[str, Tensor] | None:
    """Weights and biases of some modules, under our names; None if one is not there."""
    from safetensors import SafetensorError, safe_open  # noqa: PLC0415 - imports torch

    wanted = {f"{ours}.{part}": f"{theirs}.{part}" for ours, theirs in modules.items() for part in ("weight", "bias")}
    try:
        with safe_open(path, framework="pt") as file:
            there = set(file.keys())
            if not there.issuperset(wanted.values()):
                return None
            return {ours: file.get_tensor(theirs).float() for ours, theirs in wanted.items()}
    except (OSError, SafetensorError) as error:
        raise BertVisionError(f"{path} cannot be read ({error}).") from None
