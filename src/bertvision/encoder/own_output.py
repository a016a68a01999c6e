"""The output layers of a checkpoint that was fine-tuned elsewhere, for question answering or classification."""

from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from bertvision.encoder.tuned import find_tuned
from bertvision.errors import BertVisionError
from bertvision.pretrained import encoder_file
from bertvision.tasks.files import read_json
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
"""By `model_type`: names of the dense layer and of the last linear map, and the activation between them."""


@dataclass(frozen=True, slots=True)
class OwnOutput:
    """The output layers of a checkpoint, as one of our heads.

    Attributes:
        head: the head's name.
        options: of the head; see `build_head`.
        weights: its parameters, by name.
    """

    head: str
    options: dict[str, float | int | bool | str | tuple[int, ...] | None]
    weights: dict[str, Tensor]


def own_output(name: str, kind: TaskKind, outputs: int) -> OwnOutput | None:
    """The output layers of a checkpoint that was fine-tuned for a task of this kind.

    Args:
        name: the name of the encoder.
        kind: the kind of the task.
        outputs: number of classes of the task; of no effect for spans.

    Returns:
        None if there are no output layers for this kind, none that we know, or ones with another number of classes.

    Raises:
        BertVisionError: the config or the weights cannot be read.
    """
    if find_tuned(name) is not None:
        return None
    config, path = (encoder_file(name, file) for file in ("config.json", "model.safetensors"))
    if config is None or path is None:
        return None
    if kind == "spans":
        weights = _read(path, {"project": "qa_outputs"})
        return None if weights is None else OwnOutput("last_layer", {"dropout": 0.0}, weights)
    match read_json(config):
        case {"model_type": str(model_type)} if model_type in _CLASSIFIERS:
            dense, last, activation = _CLASSIFIERS[model_type]
        case _:
            return None
    weights = _read(path, {"dense": dense, "project": last})
    if weights is None or len(weights["project.bias"]) != outputs:
        return None
    return OwnOutput("pooled_output", {"activation": activation, "dropout": 0.1}, weights)


def _read(path: Path, modules: dict[str, str]) -> dict[str, Tensor] | None:
    """Weights and biases, by our names for their modules; None if any is missing in the file."""
    from safetensors import SafetensorError, safe_open  # noqa: PLC0415 - imports torch

    wanted = {f"{ours}.{part}": f"{theirs}.{part}" for ours, theirs in modules.items() for part in ("weight", "bias")}
    try:
        with safe_open(path, framework="pt") as file:
            if not set(file.keys()).issuperset(wanted.values()):
                return None
            return {ours: file.get_tensor(theirs).float() for ours, theirs in wanted.items()}
    except (OSError, SafetensorError) as error:
        raise BertVisionError(f"{path} cannot be read ({error}).") from None
