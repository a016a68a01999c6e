"""AllLayerClassifier and AllLayerRegressor: linear models on all layers of a frozen encoder, solved in seconds."""

import math
from collections.abc import Iterable
from numbers import Real
from pathlib import Path
from typing import Any, Literal, Self

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
"""Fewest distinct texts, or pairs of texts, from which cross-validation chooses a strength."""


class _AllLayerLinear(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """What classifier and regressor share: features, the L2 penalty, the solution, saving and loading."""

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
        """Set the parameters; nothing is loaded before `fit`.

        Args:
            encoder: `minilm`, a folder, a hub name, a tuned run, or a pack.
            layers: numbers of the layers, ascending, 0 being the embedding output; None for all.
            strength: strength of the L2 penalty on standardised features; None chooses it by cross-validation, and with
                three classes or more also whether classes share a part of their weights.
            folds: number of folds of this cross-validation, with copies of a text in the same fold; the model is then
                solved from all examples.
            pool: how the tokens of a text become one row, `cls` or `mean`; None takes what the encoder was trained
                with.
            pairs: how two texts are compared: `aligned` also token by token, `apart` only by their pooled states.
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
            NotFittedError: it is not fitted.
            BertVisionError: it cannot be written.
        """
        check_is_fitted(self)
        save_linear(self, Path(folder))

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Load a fitted estimator from a folder that `save` wrote.

        Raises:
            BertVisionError: it cannot be read, is of another class, or its encoder's weights have changed.
        """
        return load_linear(cls, Path(folder))

    @property
    def features(self) -> AllLayerFeatures:
        """The transformer of texts to its inputs."""
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
        """Solve for the weights; the targets are class numbers, or scores, and `weights` (classes,) weigh examples."""
        first, second = check_texts(texts)
        if len(first) != len(targets):
            raise BertVisionError(f"there are {len(first)} texts and {len(targets)} targets; as many are expected.")
        strength: object = self.strength
        if strength is not None and not (isinstance(strength, Real) and 0.0 < float(strength) < math.inf):
            raise BertVisionError(f"strength is {strength!r}; a number above 0 is expected, or None to choose one.")
        texts = first if second is None else list(zip(first, second, strict=True))
        outputs = len(np.unique(targets)) if self._kind == "labels" else 1
        if self.strength is None:
            self._check_folds(len(set(texts)), outputs)
        features = self.features.fit(texts)  # after the checks, since to encode texts takes longest
        inputs = torch.from_numpy(features.transform(texts))
        layout = row_layout(len(features.layers_), "together" if second is None else self.pairs)
        if self.strength is None:
            solution = solve_linear(
                inputs,
                torch.from_numpy(targets),
                kind=self._kind,
                outputs=outputs,
                folds=self.folds,
                groups=text_groups(texts),
                layout=layout,
                weights=weights,
            )
            weight, bias, self.strength_ = solution.weight, solution.bias, solution.strength
        else:
            weight, bias = solve_at(
                inputs,
                torch.from_numpy(targets),
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

    def _check_folds(self, distinct: int, outputs: int) -> None:
        if self.folds < 2:
            raise BertVisionError(f"folds is {self.folds}; 2 or more are expected.")
        if distinct < max(2 * outputs, LEAST_EXAMPLES):
            raise BertVisionError(
                f"{distinct} different texts are too few to choose a strength on some of them. "
                "Set strength, such as 1.0."
            )

    def _outputs(self, texts: Iterable[object]) -> NDArray[np.float32]:
        """The outputs of the linear map, (texts, outputs): logits of classes, or one score."""
        check_is_fitted(self)
        inputs = self.features.transform(texts)
        if inputs.shape[1] != self.coef_.shape[1]:
            raise BertVisionError(
                f"texts have {inputs.shape[1]} numbers each, {self.coef_.shape[1]} were learned from. Were single "
                "texts learned from and pairs given, or the other way round?"
            )
        outputs: NDArray[np.float32] = inputs @ self.coef_.T + self.intercept_
        return outputs


class AllLayerClassifier(ClassifierMixin, _AllLayerLinear):  # type: ignore[misc]
    """Logistic regression on all layers of a frozen encoder, instead of on sentence embeddings.

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
        """Set the parameters as for `AllLayerRegressor`; `class_weight="balanced"` weighs all classes equally."""
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
        """Fit to the classes of texts or of pairs of texts; classes may be any strings or numbers.

        Raises:
            BertVisionError: an input is not a text or pair of texts, a class is missing, there are fewer than two
                classes, or a parameter has an invalid value.
        """
        classes = np.asarray(targets)
        if classes.ndim != 1 or not len(classes):
            raise BertVisionError(f"classes have shape {classes.shape}; one class per text is expected.")
        if classes.dtype.kind in "Of":
            classes = _plain_classes(classes)
        check_classification_targets(classes)
        self.classes_, numbers = np.unique(classes, return_inverse=True)
        if len(self.classes_) < 2:
            raise BertVisionError(f"there is one class, '{self.classes_[0]}'; at least two are expected.")
        weights = None
        if self.class_weight is not None:
            balanced = compute_class_weight(self.class_weight, classes=self.classes_, y=classes)
            weights = torch.from_numpy(balanced).float()
        self._solve(texts, numbers.astype(np.int64), weights)
        return self

    def decision_function(self, texts: Iterable[object]) -> NDArray[np.float32]:
        """Logits of every class, (texts, classes); of two classes, the second's minus the first's, (texts,)."""
        outputs = self._outputs(texts)
        return outputs[:, 1] - outputs[:, 0] if len(self.classes_) == 2 else outputs

    def predict_proba(self, texts: Iterable[object]) -> NDArray[np.float64]:
        """The probability of every class, (texts, classes)."""
        outputs = self._outputs(texts).astype(np.float64)
        exponents = np.exp(outputs - outputs.max(axis=1, keepdims=True))
        probabilities: NDArray[np.float64] = exponents / exponents.sum(axis=1, keepdims=True)
        return probabilities

    def predict(self, texts: Iterable[object]) -> NDArray[np.generic]:
        """The likeliest class of every text."""
        outputs = self._outputs(texts)  # first, since it checks that there are `classes_`
        predictions: NDArray[np.generic] = self.classes_[outputs.argmax(axis=1)]
        return predictions


def _plain_classes(classes: NDArray[Any]) -> NDArray[np.generic]:
    """Classes from an array of objects or fractions, such as a column of a table: all strings, or all numbers.

    Raises:
        BertVisionError: one is missing or of another type, or strings and numbers are mixed.
    """
    for number, value in enumerate(classes):
        if not isinstance(value, (str, Real, np.bool_)) or value != value:  # noqa: PLR0124 - NaN is not itself
            raise BertVisionError(f"class {number} is {value}; a text or a number is expected. Leave such rows out.")
    if len({isinstance(value, str) for value in classes}) > 1:
        raise BertVisionError("classes are texts and numbers mixed. Use one or the other, such as str for all.")
    return classes if isinstance(classes[0], str) else np.array(classes.tolist())


class AllLayerRegressor(RegressorMixin, _AllLayerLinear):  # type: ignore[misc]
    """Ridge regression on all layers of a frozen encoder: scores of texts, such as the similarity of two."""

    _kind: TaskKind = "scores"

    def fit(self, texts: Iterable[object], targets: ArrayLike) -> Self:
        """Fit to the scores of texts or of pairs of texts.

        Raises:
            BertVisionError: an input is not a text or pair of texts, a score is not a finite number, or a parameter has
                an invalid value.
        """
        try:
            scores = np.asarray(targets, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise BertVisionError(f"scores are no numbers ({error}); one finite number per text is expected.") from None
        if scores.ndim != 1 or not np.isfinite(scores).all():
            raise BertVisionError(f"scores have shape {scores.shape}; one finite number per text is expected.")
        self._solve(texts, scores, None)
        return self

    def predict(self, texts: Iterable[object]) -> NDArray[np.float32]:
        """The predicted score of every text, (texts,)."""
        return self._outputs(texts)[:, 0]
