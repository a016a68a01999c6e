"""AllLayerClassifier and AllLayerRegressor: a linear map of all layers of a frozen encoder, solved in seconds."""

import math
from collections.abc import Iterable
from numbers import Real
from pathlib import Path
from typing import Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted
from typing_extensions import override

from bertvision.device import Device
from bertvision.errors import BertVisionError
from bertvision.estimators.features import AllLayerFeatures, ComparedPairs, text_tags
from bertvision.estimators.files import load_linear, save_linear
from bertvision.estimators.rows import check_texts, text_groups
from bertvision.inference.pair_rows import row_layout
from bertvision.objectives import Pool
from bertvision.pretrained import BUILTIN_ENCODER
from bertvision.tasks.task import TaskKind
from bertvision.training.solve import FOLDS, solve_at, solve_linear

LEAST_EXAMPLES = 4
"""Fewer different texts, or pairs of texts, than this cannot choose a strength."""


class _AllLayerLinear(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """What classifier and regressor share: states, the strength of the penalty, the solution, and its files."""

    _kind: TaskKind

    def __init__(  # noqa: PLR0913 - scikit-learn wants every setting as an argument
        self,
        encoder: str = BUILTIN_ENCODER,
        *,
        layers: tuple[int, ...] | None = None,
        strength: float | None = None,
        folds: int = FOLDS,
        pool: Pool | None = None,
        pairs: ComparedPairs = "aligned",
        length: int = 384,
        device: Device = "auto",
    ) -> None:
        """Choose the states and how the map is found.

        Args:
            encoder: `minilm`, a folder, a hub name, a tuned run, or a pack.
            layers: numbers of the layers, ascending, 0 being the embedding output; None for all.
            strength: strength of the L2 penalty on standardised states; None chooses it by cross-validation, and with
                three classes or more also whether they share what they learn.
            folds: parts of the examples that choose the strength, copies of a text in the same one; the map is then
                solved from all of them.
            pool: `cls` or `mean`; None takes what the encoder was trained with.
            pairs: how two texts are compared: `aligned` also token by token, `apart` as wholes alone.
            length: maximum number of tokens of a text.
            device: `auto`, `cpu` or `cuda`, for the encoder.
        """
        self.encoder = encoder
        self.layers = layers
        self.strength = strength
        self.folds = folds
        self.pool = pool
        self.pairs = pairs
        self.length = length
        self.device = device

    @override
    def __sklearn_tags__(self) -> Tags:
        return text_tags(super().__sklearn_tags__())

    def save(self, folder: str | Path) -> None:
        """Write a fitted estimator into a folder: JSON and safetensors, no pickle.

        Raises:
            BertVisionError: it is not fitted, or cannot be written.
        """
        check_is_fitted(self)
        save_linear(self, Path(folder))

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """A fitted estimator from a folder that `save` wrote.

        Raises:
            BertVisionError: there is none, or it is of another kind.
        """
        return load_linear(cls, Path(folder))

    @property
    def features(self) -> AllLayerFeatures:
        """The states that it reads."""
        return AllLayerFeatures(
            self.encoder,
            layers=self.layers,
            pool=self.pool,
            pairs=self.pairs,
            length=self.length,
            device=self.device,
        )

    def _solve(
        self, texts: Iterable[object], targets: NDArray[np.int64] | NDArray[np.float64], weights: torch.Tensor | None
    ) -> None:
        first, second = check_texts(texts)
        strength: object = self.strength
        if strength is not None and not (isinstance(strength, Real) and 0.0 < float(strength) < math.inf):
            raise BertVisionError(f"strength is {strength!r}; a number above 0 is expected, or None to choose one.")
        texts = first if second is None else list(zip(first, second, strict=True))
        features = self.features.fit(texts)
        inputs = torch.from_numpy(features.transform(texts))
        if len(inputs) != len(targets):
            raise BertVisionError(f"there are {len(inputs)} texts and {len(targets)} targets; as many are expected.")
        outputs = len(np.unique(targets)) if self._kind == "labels" else 1
        goal = torch.from_numpy(targets)
        layout = row_layout(len(features.layers_), "together" if second is None else self.pairs)
        if self.strength is None:
            groups = text_groups(texts)
            self._check_folds(len(np.unique(groups)), outputs)
            found = solve_linear(
                inputs,
                goal,
                kind=self._kind,
                outputs=outputs,
                folds=self.folds,
                groups=groups,
                layout=layout,
                weights=weights,
            )
            weight, bias, self.strength_ = found.weight, found.bias, found.strength
        else:
            weight, bias = solve_at(
                inputs,
                goal,
                strength=self.strength,
                kind=self._kind,
                outputs=outputs,
                layout=layout,
                weights=weights,
            )
            self.strength_ = self.strength
        self.coef_: NDArray[np.float32] = weight.numpy()
        self.intercept_: NDArray[np.float32] = bias.numpy()
        self.n_features_in_ = inputs.shape[1]

    def _check_folds(self, different: int, outputs: int) -> None:
        if self.folds < 2:
            raise BertVisionError(f"folds is {self.folds}; 2 or more are expected.")
        if different < max(2 * outputs, LEAST_EXAMPLES):
            raise BertVisionError(
                f"{different} different texts are too few to choose a strength on some of them. "
                "Set strength, such as 1.0."
            )

    def _outputs(self, texts: Iterable[object]) -> NDArray[np.float32]:
        check_is_fitted(self)
        inputs = self.features.transform(texts)
        if inputs.shape[1] != self.coef_.shape[1]:
            raise BertVisionError(
                f"texts have {inputs.shape[1]} numbers each, {self.coef_.shape[1]} were learned from. Were single "
                "texts learned from and pairs given, or the other way round?"
            )
        found: NDArray[np.float32] = inputs @ self.coef_.T + self.intercept_
        return found


class AllLayerClassifier(ClassifierMixin, _AllLayerLinear):  # type: ignore[misc]
    """Logistic regression on all layers of a frozen encoder, in place of one on sentence embeddings.

    Example:
        >>> from bertvision import AllLayerClassifier
        >>> texts = ["a joy", "great fun", "lovely", "a bore", "dull", "awful"]
        >>> model = AllLayerClassifier(strength=1.0).fit(texts, ["good"] * 3 + ["bad"] * 3)
        >>> model.predict(["wonderful"]).tolist()
        ['good']
    """

    _kind: TaskKind = "labels"

    def __init__(  # noqa: PLR0913 - scikit-learn wants every setting as an argument
        self,
        encoder: str = BUILTIN_ENCODER,
        *,
        layers: tuple[int, ...] | None = None,
        strength: float | None = None,
        folds: int = FOLDS,
        class_weight: Literal["balanced"] | None = None,
        pool: Pool | None = None,
        pairs: ComparedPairs = "aligned",
        length: int = 384,
        device: Device = "auto",
    ) -> None:
        """Choose settings as for `AllLayerRegressor`; `class_weight="balanced"` lets every class count the same."""
        super().__init__(
            encoder,
            layers=layers,
            strength=strength,
            folds=folds,
            pool=pool,
            pairs=pairs,
            length=length,
            device=device,
        )
        self.class_weight = class_weight

    def fit(self, texts: Iterable[object], targets: ArrayLike) -> Self:
        """Solve for the classes of texts or of pairs of texts; classes may be any strings or numbers.

        Raises:
            BertVisionError: something is no text, or there are fewer than two classes.
        """
        given = np.asarray(targets)
        if given.ndim != 1 or not len(given):
            raise BertVisionError(f"classes have shape {given.shape}; one class per text is expected.")
        if given.dtype == np.object_:
            given = _plain_classes(given)
        check_classification_targets(given)
        self.classes_, numbers = np.unique(given, return_inverse=True)
        if len(self.classes_) < 2:
            raise BertVisionError(f"there is one class, '{self.classes_[0]}'; at least two are expected.")
        weights = None
        if self.class_weight is not None:
            weights = torch.from_numpy(compute_class_weight(self.class_weight, classes=self.classes_, y=given)).float()
        self._solve(texts, numbers.astype(np.int64), weights)
        return self

    def decision_function(self, texts: Iterable[object]) -> NDArray[np.float32]:
        """Scores of every class, (texts, classes); of two classes, how much the second is ahead, (texts,)."""
        outputs = self._outputs(texts)
        return outputs[:, 1] - outputs[:, 0] if len(self.classes_) == 2 else outputs

    def predict_proba(self, texts: Iterable[object]) -> NDArray[np.float64]:
        """The probability of every class, (texts, classes)."""
        outputs = self._outputs(texts).astype(np.float64)
        shares = np.exp(outputs - outputs.max(axis=1, keepdims=True))
        found: NDArray[np.float64] = shares / shares.sum(axis=1, keepdims=True)
        return found

    def predict(self, texts: Iterable[object]) -> NDArray[np.generic]:
        """The likeliest class of every text."""
        outputs = self._outputs(texts)  # which sees first whether it is fitted
        found: NDArray[np.generic] = self.classes_[outputs.argmax(axis=1)]
        return found


def _plain_classes(given: NDArray[np.object_]) -> NDArray[np.generic]:
    """Classes from objects, as a column of a table has them: all texts, or all numbers; none may be missing.

    Raises:
        BertVisionError: one is missing, or something else.
    """
    for number, value in enumerate(given):
        if not isinstance(value, (str, Real, np.bool_)) or value != value:  # noqa: PLR0124 - as only NaN is
            raise BertVisionError(f"class {number} is {value}; a text or a number is expected. Leave such rows out.")
    if len({isinstance(value, str) for value in given}) > 1:
        raise BertVisionError("classes are texts and numbers mixed. Use one or the other, such as str for all.")
    return given if isinstance(given[0], str) else np.array(given.tolist())


class AllLayerRegressor(RegressorMixin, _AllLayerLinear):  # type: ignore[misc]
    """Ridge regression on all layers of a frozen encoder: scores of texts, or how alike two texts are."""

    _kind: TaskKind = "scores"

    def fit(self, texts: Iterable[object], targets: ArrayLike) -> Self:
        """Solve for the scores of texts or of pairs of texts.

        Raises:
            BertVisionError: something is no text, or a score is no number.
        """
        given = np.asarray(targets, dtype=np.float64)
        if given.ndim != 1 or not np.isfinite(given).all():
            raise BertVisionError(f"scores have shape {given.shape}; one finite number per text is expected.")
        self._solve(texts, given, None)
        return self

    def predict(self, texts: Iterable[object]) -> NDArray[np.float32]:
        """The score of every text."""
        return self._outputs(texts)[:, 0]
