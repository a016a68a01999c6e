"""AllLayerFeatures: texts → the states of all layers side by side, for any estimator of scikit-learn."""

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
"""How the two texts of a pair, each encoded by itself, become one row."""


class AllLayerFeatures(TransformerMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """The states of a frozen encoder's layers, side by side: (texts, layers · width).

    A pair of texts becomes how far they are apart and how far they agree, number by number, as wholes and, if
    `aligned`, token by token, and what each has that the other lacks: 2 or 6 times as many numbers. States of a text,
    or of an aligned pair, are computed once for all estimators of this process with the same encoder, so that folds
    and settings cost nothing.

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
        """Choose the states.

        Args:
            encoder: `minilm`, a folder, a hub name, a tuned run, or a pack.
            layers: numbers of the layers, ascending, 0 being the embedding output; None for all.
            pool: `cls` or `mean`; None takes what the encoder was trained with.
            pairs: `aligned` compares the texts of a pair token by token, too, and `apart` as wholes alone: a third of
                the numbers, and each text is encoded once in however many pairs it stands.
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
        """Load the encoder; nothing is learned.

        Raises:
            BertVisionError: there is no such encoder or layer, or something is no text.
        """
        _, second = check_texts(texts)
        if self.pairs not in get_args(ComparedPairs):
            raise BertVisionError(f"pairs is '{self.pairs}'; {' or '.join(get_args(ComparedPairs))} is expected.")
        if self.pool not in (None, *get_args(Pool)):
            raise BertVisionError(f"pool is '{self.pool}'; {' or '.join(get_args(Pool))} is expected, or None.")
        self.layers_ = self._checked_layers()
        self.width_ = self._kept().encoder.width * PARTS["together" if second is None else self.pairs]
        return self

    def get_feature_names_out(self, _input_features: object = None) -> NDArray[np.object_]:
        """What each number is: `layer6_0` is the first one of layer 6; pandas has it as the name of a column."""
        check_is_fitted(self)
        return np.array([f"layer{layer}_{number}" for layer in self.layers_ for number in range(self.width_)], object)

    def transform(self, texts: Iterable[object]) -> NDArray[np.float32]:
        """The states of texts or of pairs of texts, float32.

        Raises:
            BertVisionError: something is no text.
        """
        layers = self._checked_layers() if not hasattr(self, "layers_") else self.layers_
        rows = self._kept().rows(*check_texts(texts), pairs=self.pairs)[:, list(layers)]
        found: NDArray[np.float32] = rows.flatten(1).numpy()
        return found

    def _kept(self) -> TextRows:
        return text_rows(str(self.encoder), self.pool, self.length, self.device)

    def _checked_layers(self) -> tuple[int, ...]:
        depth = self._kept().encoder.depth
        layers = tuple(range(depth + 1)) if self.layers is None else tuple(np.atleast_1d(self.layers).tolist())
        known = set(layers) <= set(range(depth + 1))
        if not layers or not known or sorted(set(layers)) != list(layers):
            raise BertVisionError(
                f"layers are {self.layers}; some of 0 to {depth} of '{self.encoder}', in ascending order, are expected."
            )
        return layers


def text_tags(tags: Tags) -> Tags:
    """Tell scikit-learn that inputs are texts."""
    tags.input_tags.string = True
    tags.input_tags.two_d_array = False
    return tags
