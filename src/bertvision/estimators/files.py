"""A fitted estimator in a folder: its settings as JSON, its map as safetensors; never pickle."""

from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from torch import tensor

from bertvision.atomic import whole_folder, write_json
from bertvision.cards import read_card
from bertvision.encoder.load import fingerprint
from bertvision.errors import BertVisionError
from bertvision.estimators.rows import text_rows
from bertvision.provenance import package_version
from bertvision.tensor_files import load_tensors, save_tensors

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
    again = "Fit and save the estimator again, or copy it again."

    def build(card: dict[str, Any]) -> tuple[Any, str]:
        if card["estimator"] != kind.__name__:
            raise BertVisionError(f"{folder} holds a {card['estimator']}. Use {card['estimator']}.load.")
        settings = {"pairs": "apart"} | card["settings"]  # of estimators that were saved before texts could be aligned
        layers = settings["layers"]
        made: Any = kind(**settings | {"layers": None if layers is None else tuple(layers)})
        made.strength_ = card["strength"]
        if card["classes"] is not None:
            made.classes_ = np.array(card["classes"])
        return made, card["fingerprint"]

    estimator, expected = read_card(folder / CARD, build, format=FORMAT, otherwise=again)
    weights = load_tensors(folder / WEIGHTS, otherwise=again)
    estimator.coef_, estimator.intercept_ = (weights[name].numpy() for name in ("coef", "intercept"))
    estimator.n_features_in_ = estimator.coef_.shape[1]
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
