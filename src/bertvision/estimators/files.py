"""A fitted estimator in a folder: its parameters as JSON, its weights as safetensors; never pickle."""

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
    """Write a fitted estimator; its folder appears only when it is complete.

    Raises:
        BertVisionError: the folder cannot be written or exists already, or a parameter does not fit into JSON.
    """
    if folder.exists():
        raise BertVisionError(f"{folder} is there already. Choose another folder, or remove it.")
    settings = estimator.get_params(deep=False) | {"encoder": str(estimator.encoder), "layers": _layers(estimator)}
    card = {
        "format": FORMAT,
        "version": package_version(),
        "estimator": type(estimator).__name__,
        # searches over arrays set NumPy's numbers
        "settings": {
            name: value.item() if isinstance(value, np.generic) else value for name, value in settings.items()
        },
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
    """Load a fitted estimator.

    Args:
        kind: its class.
        folder: that `save_linear` wrote.

    Raises:
        BertVisionError: it cannot be read, is of another class, or its encoder's weights have changed.
    """
    otherwise = "Fit and save the estimator again, or copy it again."

    def build(card: dict[str, Any]) -> tuple[Any, str]:
        if card["estimator"] != kind.__name__:
            raise BertVisionError(f"{folder} holds a {card['estimator']}. Use {card['estimator']}.load.")
        settings = {"pairs": "apart"} | card["settings"]  # estimators saved before there was `pairs`
        layers = settings["layers"]
        estimator: Any = kind(**settings | {"layers": None if layers is None else tuple(layers)})
        estimator.strength_ = card["strength"]
        if card["classes"] is not None:
            estimator.classes_ = np.array(card["classes"])
        return estimator, card["fingerprint"]

    estimator, expected = read_card(folder / CARD, build, format=FORMAT, otherwise=otherwise)
    weights = load_tensors(folder / WEIGHTS, otherwise=otherwise)
    estimator.coef_, estimator.intercept_ = (weights[name].numpy() for name in ("coef", "intercept"))
    estimator.n_features_in_ = estimator.coef_.shape[1]
    got = _fingerprint(estimator)
    if got != expected:
        raise BertVisionError(
            f"{folder} was fitted on encoder '{estimator.encoder}' with fingerprint {expected}; "
            f"the one here has {got}. Use the same weights."
        )
    loaded: E = estimator
    return loaded


def _layers(estimator: Any) -> list[int] | None:  # noqa: ANN401 - scikit-learn's estimators have no type
    """The parameter `layers` as a list for JSON, whatever the user gave; None for all."""
    if estimator.layers is None:
        return None
    layers: list[int] = np.atleast_1d(estimator.layers).tolist()
    return layers


def _fingerprint(estimator: Any) -> str:  # noqa: ANN401 - scikit-learn's estimators have no type
    return fingerprint(text_rows(str(estimator.encoder), estimator.pool, estimator.length, estimator.device).encoder)
