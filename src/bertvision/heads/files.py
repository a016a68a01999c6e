"""A head in a folder: its weights as safetensors, and JSON that says what it is."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file

from bertvision.atomic import write_json
from bertvision.errors import BertVisionError
from bertvision.heads.build import build_head
from bertvision.heads.head import Head, HeadOptions, HeadShape
from bertvision.provenance import package_version
from bertvision.tensor_files import save_tensors

FORMAT = 1
CARD, WEIGHTS = "head.json", "head.safetensors"
_RETIRED = {"mix"}
"""Options that cards of earlier versions name: what they chose is a head of its own now."""
_ADDED: dict[str, HeadOptions] = {
    "pooled_adapter_inception": {"stride": 2},
    "pooled_adapter_xception": {"strides": (3,)},
}
"""What cards of earlier versions do not name, and what those versions did."""


def save_head(head: Head, folder: Path) -> None:
    """Write a head into a folder that is there.

    Raises:
        WriteError: it cannot be written.
    """
    weights = {name: value.detach().cpu().contiguous() for name, value in head.state_dict().items()}
    save_tensors(folder / WEIGHTS, weights)
    card = {
        "format": FORMAT,
        "version": package_version(),
        "head": head.name,
        "options": head.options,
        "shape": asdict(head.full_shape),
    }
    write_json(folder / CARD, card)


def load_head(folder: Path, *, shape: HeadShape | None = None) -> Head:
    """The head that a folder holds, in evaluation mode.

    Args:
        folder: where `save_head` wrote it.
        shape: what it is to be used with; None takes the head's own.

    Raises:
        BertVisionError: there is none, it is not whole, or it has another shape.
    """
    try:
        card = json.loads((folder / CARD).read_text(encoding="utf-8"))
        weights = load_file(folder / WEIGHTS)
        _check_format(card, folder / CARD)
        name, saved = card["head"], HeadShape(**card["shape"])
        kept = {key: value for key, value in card["options"].items() if key not in _RETIRED}
        options = {**_ADDED.get(name, {}), **kept}
    except (OSError, ValueError, LookupError, TypeError, AttributeError, SafetensorError) as error:
        raise BertVisionError(f"{folder} holds no head that can be read ({error}).") from None
    if shape is not None and shape != saved:
        raise BertVisionError(
            f"{folder} holds a head for {saved}; {shape} were asked for. Use its own encoder and task."
        )
    head = build_head(name, saved, options)
    try:
        head.load_state_dict(weights)
    except RuntimeError as error:
        raise BertVisionError(f"{folder / WEIGHTS} does not fit {folder / CARD} ({error}).") from None
    return head.eval()


def _check_format(card: dict[str, Any], path: Path) -> None:
    if card["format"] != FORMAT:
        raise BertVisionError(
            f"{path} has format {card['format']}, {FORMAT} is expected; it was made by version {card['version']}, "
            f"this is {package_version()}."
        )
