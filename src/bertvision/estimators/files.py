"""A fitted estimator in a folder: its settings as JSON, its map as safetensors; never pickle."""

import json
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file
from torch import tensor

from bertvision.atomic import whole_folder, write_json
from bertvision.encoder.load import fingerprint
from bertvision.errors import BertVisionError
from bertvision.estimators.rows import text_rows
from bertvision.provenance import package_version
from bertvision.tensor_files import save_tensors

FORMAT = 2
CARD, WEIGHTS = "estimator.json", "estimator.safetensors"

E = TypeVar("E")


def save_linear(estimator: Any, folder: Path) -> None:  # noqa: ANN401 - scikit-learn's estimators have no type
    """Write a fitted estimator; the folder appears whole or not at all.

    Raises:
        BertVisionError: it cannot be written, or something stands there already.
    """
    if folder.exists():
        raise BertVisionError(f"{folder} is there already. Choose another folder, or remove it.")
    changed = {"encoder": str(estimator.encoder), "layers": _layers(estimator)}  # as JSON can hold them
    card = {
        "format": FORMAT,
        "version": package_version(),
        "estimator": type(estimator).__name__,
        "settings": estimator.get_params(deep=False) | changed,
        "strength": float(estimator.strength_),
        "classes": estimator.classes_.tolist() if hasattr(estimator, "classes_") else None,
        "fingerprint": _fingerprint(estimator),
    }
    try:
        with whole_folder(folder, "the estimator", otherwise="Make room, or use another folder.") as part:
            save_tensors(part / WEIGHTS, {"coef": tensor(estimator.coef_), "intercept": tensor(estimator.intercept_)})
            write_json(part / CARD, card)
    except TypeError as error:  # a setting that JSON cannot hold
        raise BertVisionError(f"{folder} cannot be written ({error}).") from None


def load_linear(kind: type[E], folder: Path) -> E:
    """A fitted estimator of a kind.

    Raises:
        BertVisionError: there is none that can be read, it is of another kind, or its encoder has other weights here.
    """
    try:
        card = json.loads((folder / CARD).read_text(encoding="utf-8"))
        weights = load_file(folder / WEIGHTS)
        if card["format"] != FORMAT:
            raise BertVisionError(f"{folder} has format {card['format']}, {FORMAT} is expected.")
        name = card["estimator"]
        if name != kind.__name__:
            raise BertVisionError(f"{folder} holds a {name}. Use {name}.load.")
        settings = {"pairs": "apart"} | card["settings"]  # of estimators that were saved before texts could be aligned
        layers = settings["layers"]
        estimator: Any = kind(**settings | {"layers": None if layers is None else tuple(layers)})
        estimator.coef_, estimator.intercept_ = weights["coef"], weights["intercept"]
        estimator.strength_, estimator.n_features_in_ = card["strength"], weights["coef"].shape[1]
        if card["classes"] is not None:
            estimator.classes_ = np.array(card["classes"])
        expected = card["fingerprint"]
    except (OSError, ValueError, LookupError, TypeError, SafetensorError) as error:
        raise BertVisionError(f"{folder} holds no estimator that can be read ({error}).") from None
    got = _fingerprint(estimator)
    if got != expected:
        raise BertVisionError(
            f"{folder} was fitted on encoder '{estimator.encoder}' with fingerprint {expected}; "
            f"the one here has {got}. Use the same weights."
        )
    found: E = estimator
    return found


def _layers(estimator: Any) -> list[int] | None:  # noqa: ANN401 - as above
    """The layers that were asked for, as plain numbers; None for all."""
    if estimator.layers is None:
        return None
    layers: list[int] = np.atleast_1d(estimator.layers).tolist()
    return layers


def _fingerprint(estimator: Any) -> str:  # noqa: ANN401 - as above
    return fingerprint(text_rows(str(estimator.encoder), estimator.pool, estimator.length, estimator.device).encoder)
