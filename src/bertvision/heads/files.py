"""A head in a folder: its weights as safetensors, and JSON that says what it is."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from bertvision.atomic import write_json
from bertvision.cards import read_card
from bertvision.errors import BertVisionError
from bertvision.heads.build import build_head
from bertvision.heads.head import Head, HeadOptions, HeadShape
from bertvision.provenance import package_version
from bertvision.tensor_files import load_tensors, save_tensors
from bertvision.typed_json import from_json

FORMAT = 1
CARD, WEIGHTS = "head.json", "head.safetensors"
_RETIRED = {"mix"}
"""Options in the cards of earlier versions that no longer exist; a separate head has replaced each."""
_ADDED: dict[str, HeadOptions] = {
    "pooled_adapter_inception": {"stride": 2},
    "pooled_adapter_xception": {"strides": (3,)},
}
"""Options that the cards of earlier versions lack, with the value that those versions used."""


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
        BertVisionError: there is no head, a file is damaged, or the shape differs.
    """
    name, saved, options = read_card(folder / CARD, _card, format=FORMAT)
    weights = load_tensors(folder / WEIGHTS)
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


def _card(card: dict[str, Any]) -> tuple[str, HeadShape, dict[str, Any]]:
    """Name, shape and options of a head."""
    name = str(card["head"])
    kept = {key: value for key, value in card["options"].items() if key not in _RETIRED}
    return name, from_json(HeadShape, card["shape"]), {**_ADDED.get(name, {}), **kept}
