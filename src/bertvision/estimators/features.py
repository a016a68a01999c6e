"""AllLayerFeatures: texts → their states of all layers, concatenated, as features for any scikit-learn estimator."""

from collections.abc import Iterable
from typing import Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted
from typing_extensions import override

from bertvision.device import Device
from bertvision.errors import BertVisionError
from bertvision.estimators.rows import TextRows, check_texts, text_rows
from bertvision.inference.pair_rows import PARTS
from bertvision.objectives import Pool
from bertvision.pretrained import BUILTIN_ENCODER

ComparedPairs = Literal["apart", "aligned"]
"""How the two texts of a pair, each encoded by itself, are compared."""


class AllLayerFeatures(TransformerMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """The pooled states of a frozen encoder's layers, concatenated: (texts, layers · width).

    Of a pair of texts, the features are absolute differences and products of the two texts' states, and if `aligned`
    also those of their tokens, and what each text has that the other lacks: 2 or 6 times as many numbers. A text, or
    aligned pair, is encoded once for all estimators of this process with the same encoder, so that folds and settings
    do not repeat the work.

    Example:
        >>> from bertvision import AllLayerFeatures
        >>> AllLayerFeatures().fit_transform(["a film", "a meal"]).shape
        (2, 2688)
    """

    def __init__(  # noqa: PLR0913 - scikit-learn wants every setting as an argument
        self,
        encoder: str = BUILTIN_ENCODER,
        *,
        layers: tuple[int, ...] | None = None,
        pool: Pool | None = None,
        pairs: ComparedPairs = "aligned",
        length: int = 384,
        device: Device = "auto",
    ) -> None:
        """Set the parameters; nothing is loaded before `fit`.

        Args:
            encoder: `minilm`, a folder, a hub name, a tuned run, or a pack.
            layers: numbers of the layers, ascending, 0 being the embedding output; None for all.
            pool: how the tokens of a text become one row, `cls` or `mean`; None takes what the encoder was trained
                with.
            pairs: `aligned` also compares the texts of a pair token by token; `apart` compares only their pooled
                states: a third of the numbers, and a text that is in many pairs is encoded once.
            length: maximum number of tokens of a text.
            device: `auto`, `cpu` or `cuda`.
        """
        self.encoder = encoder
        self.layers = layers
        self.pool = pool
        self.pairs = pairs
        self.length = length
        self.device = device

    @override
    def __sklearn_tags__(self) -> Tags:
        return text_tags(super().__sklearn_tags__())

    def fit(self, texts: Iterable[object], _targets: object = None) -> Self:
        """Load the encoder, and check parameters and texts; nothing is learned.

        Raises:
            BertVisionError: there is no such encoder or layer, a parameter has an invalid value, or an input is not a
                text or pair of texts.
        """
        _, second = check_texts(texts)
        if self.pairs not in get_args(ComparedPairs):
            raise BertVisionError(f"pairs is '{self.pairs}'; {' or '.join(get_args(ComparedPairs))} is expected.")
        if self.pool not in (None, *get_args(Pool)):
            raise BertVisionError(f"pool is '{self.pool}'; {' or '.join(get_args(Pool))} is expected, or None.")
        self.layers_ = self._checked_layers()
        self.width_ = self._text_rows().encoder.width * PARTS["together" if second is None else self.pairs]
        return self

    def get_feature_names_out(self, _input_features: object = None) -> NDArray[np.object_]:
        """Names of the features, such as `layer6_0`, the first one of layer 6; columns of pandas are named by them."""
        check_is_fitted(self)
        return np.array([f"layer{layer}_{number}" for layer in self.layers_ for number in range(self.width_)], object)

    def transform(self, texts: Iterable[object]) -> NDArray[np.float32]:
        """The features of texts or of pairs of texts, float32.

        Raises:
            BertVisionError: an input is not a text or pair of texts.
        """
        layers = self._checked_layers() if not hasattr(self, "layers_") else self.layers_
        rows = self._text_rows().rows(*check_texts(texts), pairs=self.pairs)[:, list(layers)]
        features: NDArray[np.float32] = rows.flatten(1).numpy()
        return features

    def _text_rows(self) -> TextRows:
        """The encoder and its rows, which all estimators with the same arguments share."""
        return text_rows(str(self.encoder), self.pool, self.length, self.device)

    def _checked_layers(self) -> tuple[int, ...]:
        depth = self._text_rows().encoder.depth
        layers = tuple(range(depth + 1)) if self.layers is None else tuple(np.atleast_1d(self.layers).tolist())
        exist = set(layers) <= set(range(depth + 1))
        if not layers or not exist or sorted(set(layers)) != list(layers):
            raise BertVisionError(
                f"layers are {self.layers}; some of 0 to {depth} of '{self.encoder}', in ascending order, are expected."
            )
        return layers


def text_tags(tags: Tags) -> Tags:
    """Tags that tell scikit-learn that inputs are texts, not arrays of numbers; changes `tags` in place."""
    tags.input_tags.string = True
    tags.input_tags.two_d_array = False
    return tags
