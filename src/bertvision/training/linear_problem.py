"""LinearProblem: several L2-penalised linear models of the same inputs, solved together by L-BFGS."""

import math
from dataclasses import dataclass
from typing import assert_never, final

import torch
from torch import Tensor, nn

from bertvision.tasks.task import TaskKind

MAX_STEPS = 100
"""Most L-BFGS iterations for one strength of the penalty."""

DIRECTIONS = 256
"""Principal components that the preconditioner knows, so that few iterations are needed."""

SUM_SCALE = 30.0
"""Factor of the standardised sums of parts; it makes their penalty weaker by its square."""

DECORRELATION = 0.5
"""How far layers are decorrelated before they are penalised: 0 is not at all, 1 is whitening."""

MIN_NUMBERS_PER_EXAMPLE = 8
"""With at least so many inputs per example, the problem is solved in the span of the examples."""

_ROWS = 4096
"""Rows that are decorrelated at a time, so that no second copy of all inputs is needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """What the input columns are: layers · parts · width, in this order.

    Attributes:
        layers: number of layers.
        parts: number of parts of a layer's row; more than one where two texts are compared.
        similarity_parts: number of parts, the first ones, whose sum over the width measures how similar two texts are.
    """

    layers: int = 1
    parts: int = 1
    similarity_parts: int = 0


def losses(kind: TaskKind, outputs: Tensor, targets: Tensor) -> Tensor:
    """The loss of every example, (examples,)."""
    match kind:
        case "labels":
            return nn.functional.cross_entropy(outputs, targets, reduction="none")
        case "tags":
            # the sum over labels, so that a strength means the same to each, however many there are
            every = nn.functional.binary_cross_entropy_with_logits(outputs, targets.float(), reduction="none")
            return every.sum(dim=1)
        case "scores":
            return 0.5 * (outputs[:, 0] - targets.float()).square()
        case "spans":
            raise AssertionError("heads that read every token are trained")
        case _:
            assert_never(kind)


@final
class LinearProblem:
    """Linear or logistic models on the same inputs, each trained on its own subset of the examples.

    `solve` may be called for several strengths of the penalty; each call starts at the last solution (warm start).

    The L2 penalty applies to standardised inputs. Neighbouring layers are strongly correlated, so a penalty on them as
    they are would hardly restrain what all layers share, but much what they differ in; therefore layers are
    half-way decorrelated first.
    """

    def __init__(  # noqa: PLR0913 - what a solution depends on, by keyword
        self,
        inputs: Tensor,
        targets: Tensor,
        in_training: Tensor,
        *,
        kind: TaskKind,
        outputs: int,
        layout: Layout,
        sums: bool,
        weights: Tensor | None,
    ) -> None:
        """Standardise and decorrelate the inputs.

        Args:
            inputs: (examples, inputs), float32.
            targets: (examples,) class numbers, or scores; or (examples, labels) tags.
            in_training: (examples, maps) True where an example is in the training set of a map.
            kind: of the task.
            outputs: number of outputs: one per label, or one for scores.
            layout: of the inputs.
            sums: whether to add the sum of each similarity part (see `Layout`) as an input with hardly any penalty.
            weights: (classes,) factor of the loss of each class's examples, for labels.
        """
        self._input_count = inputs.shape[1]  # without sums, which are the last columns
        self._layout = layout
        self._sums = sums
        if sums:
            inputs = torch.cat([inputs, _similarity_blocks(inputs, layout).sum(dim=3).flatten(1)], dim=1)
        self._mean = inputs.mean(dim=0)
        deviation = inputs.std(dim=0, correction=0)
        # constant up to rounding errors, which standardising would blow up
        self._constant = deviation <= 1e-6 + 1e-5 * self._mean.abs()
        deviation[self._input_count :] /= SUM_SCALE
        self._deviation = torch.where(self._constant, 1.0, deviation)
        self._inputs = (inputs - self._mean).div_(self._deviation)  # in place: one copy less of all inputs
        self._mixing = _half_decorrelating(self._inputs[:, : self._input_count], layout)
        self._mix_inputs()
        self._span = _span(self._inputs)
        if self._span is not None:
            self._inputs = self._inputs @ self._span
        self._kind = kind
        maps = in_training.shape[1]
        self._unit = _unit(targets) if kind == "scores" else 1.0
        targets = targets / self._unit if kind == "scores" else targets
        self._targets = targets.repeat_interleave(maps, dim=0)  # (examples · maps, …)
        shares = in_training.float() if weights is None else in_training * weights[targets][:, None]
        self._shares = shares / shares.sum(dim=0).clamp(min=1e-12)  # (examples, maps)
        self._curvature = _curvature(targets, kind, outputs)
        self._variances, self._axes = _principal_components(self._inputs)
        self._prior_root: Tensor | None = None  # square root of the prior's covariance; None for the identity
        self._first_bias = float(targets.float().mean()) if kind == "scores" else 0.0
        self._weight = inputs.new_zeros(maps, outputs, self._inputs.shape[1])
        self._bias = inputs.new_full((maps, outputs), self._first_bias)

    def solve(self, strength: float) -> None:
        """Fit all maps for a strength of the penalty, by L-BFGS in preconditioned coordinates.

        The preconditioner is the inverse root of the approximate Hessian: curvature · variance + strength along the
        principal components, and one common value for all other directions.
        """
        scales = (self._curvature * self._variances + strength).rsqrt()  # (components + 1,), last: the rest
        weight = self._rescaled(self._weight, 1.0 / scales).requires_grad_()
        bias = (self._bias * self._curvature**0.5).requires_grad_()
        optimizer = torch.optim.LBFGS(
            [weight, bias], max_iter=MAX_STEPS, history_size=10, tolerance_grad=1e-5, line_search_fn="strong_wolfe"
        )

        def loss() -> Tensor:
            optimizer.zero_grad()
            self._weight, self._bias = self._rescaled(weight, scales), bias / self._curvature**0.5
            every = losses(self._kind, self._in_units().flatten(0, 1), self._targets).view_as(self._shares)
            value = (every * self._shares).sum() + 0.5 * strength * self._weight.square().sum()
            value.backward()  # type: ignore[no-untyped-call]  # torch has no type for it
            return value

        optimizer.step(loss)  # type: ignore[no-untyped-call]
        self._weight = self._rescaled(weight.detach(), scales)
        self._bias = bias.detach() / self._curvature**0.5

    def outputs(self) -> Tensor:
        """The outputs of every map for every example, (examples, maps, outputs)."""
        return self._in_units() * self._unit

    def _in_units(self) -> Tensor:
        """The outputs, scaled as the targets are for solving (see `_unit`)."""
        return (self._inputs @ self._map_weights().flatten(0, 1).T).view(-1, *self._bias.shape) + self._bias

    def weight_gram(self) -> Tensor:
        """Gram matrices of the outputs' weight vectors, (maps, outputs, outputs): an estimate for `set_prior`."""
        weight = self._map_weights()
        return weight @ weight.mT

    def set_prior(self, covariance: Tensor) -> None:
        """Start again with a Gaussian prior on the weights, with this covariance between outputs; its scale is ignored.

        The penalty becomes weaker in directions that outputs have in common, and stronger in others. For ordered
        classes, say from bad to good, most weights lie along one axis.

        Args:
            covariance: (maps, outputs, outputs), positive semidefinite.
        """
        sizes, axes = torch.linalg.eigh(covariance)  # (maps, outputs), (maps, outputs, outputs)
        sizes = sizes.clamp(min=0.0)
        sizes = sizes / sizes.mean(dim=1, keepdim=True).clamp(min=1e-12)  # the same penalty as before, on average
        self._prior_root = (axes * sizes.sqrt()[:, None]) @ axes.mT
        self._weight = torch.zeros_like(self._weight)
        self._bias = torch.full_like(self._bias, self._first_bias)

    def map(self) -> tuple[Tensor, Tensor]:
        """Weight and bias of the last map for the original inputs; the weight of a sum goes to each of its terms."""
        weight = self._map_weights()[-1].clone() if self._span is None else self._map_weights()[-1] @ self._span.T
        weight[:, : self._input_count] = _mixed(weight[:, : self._input_count], self._mixing)
        weight = (weight / self._deviation).masked_fill(self._constant, 0.0)
        bias = self._bias[-1] - weight @ self._mean
        if self._sums:
            weight, sums = weight[:, : self._input_count].clone(), weight[:, self._input_count :]
            parts = _similarity_blocks(weight, self._layout)
            parts += sums.reshape(*parts.shape[:3], 1)
        return weight * self._unit, bias * self._unit

    def _map_weights(self) -> Tensor:
        """Weights of the maps for the transformed inputs, (maps, outputs, inputs); see `set_prior`."""
        return self._weight if self._prior_root is None else self._prior_root @ self._weight

    def _mix_inputs(self) -> None:
        """Decorrelate the layers of the inputs in place."""
        if self._mixing is not None:
            for chunk in torch.split(self._inputs[:, : self._input_count], _ROWS):
                chunk.copy_(_mixed(chunk, self._mixing))

    def _rescaled(self, weight: Tensor, scales: Tensor) -> Tensor:
        """Multiply weights by a scale along each principal component, and by the last one in all other directions."""
        along = (weight @ self._axes) * (scales[:-1] - scales[-1])
        return scales[-1] * weight + along @ self._axes.T


def _similarity_blocks(values: Tensor, layout: Layout) -> Tensor:
    """The similarity parts, (rows, layers, layout.similarity_parts, width), as a view."""
    return values.view(len(values), layout.layers, layout.parts, -1)[:, :, : layout.similarity_parts]


def _half_decorrelating(inputs: Tensor, layout: Layout) -> Tensor | None:
    """Matrices that make layers less correlated, (parts, layers, layers); None for one layer.

    Each is C to the power of -`DECORRELATION` / 2, where C is the correlation matrix of the layers, averaged over the
    width, and scaled so that the total variance stays the same.
    """
    if layout.layers == 1:
        return None
    total = inputs.new_zeros(layout.parts, layout.layers, layout.layers)
    for chunk in torch.split(inputs, _ROWS):
        blocks = chunk.reshape(len(chunk), layout.layers, layout.parts, -1)  # (rows, layers, parts, width)
        total += torch.einsum("rlpw,rmpw->plm", blocks, blocks)
    sizes, axes = torch.linalg.eigh(total / total.diagonal(dim1=1, dim2=2).mean(dim=1)[:, None, None].clamp(min=1e-12))
    sizes = sizes.clamp(min=1e-6)  # (parts, layers)
    powers = sizes.pow(-0.5 * DECORRELATION)
    powers = powers * (sizes.sum(dim=1) / (sizes * powers.square()).sum(dim=1)).sqrt()[:, None]
    mixing: Tensor = (axes * powers[:, None]) @ axes.mT
    return mixing


def _span(inputs: Tensor) -> Tensor | None:
    """An orthonormal basis of the span of the examples, (inputs, examples); None unless there are few examples.

    For any L2 penalty the best weights lie in this span (representer theorem), so nothing is lost.
    """
    examples, numbers = inputs.shape
    if MIN_NUMBERS_PER_EXAMPLE * examples > numbers:
        return None
    directions: Tensor = torch.linalg.qr(inputs.T).Q
    return directions


def _mixed(values: Tensor, mixing: Tensor | None) -> Tensor:
    """Multiply the layers at every place of the width by `mixing`, (rows, inputs) → the same."""
    if mixing is None:
        return values
    parts, layers, _ = mixing.shape
    blocks = values.reshape(len(values), layers, parts, -1)
    return torch.einsum("rlpw,plm->rmpw", blocks, mixing).flatten(1)


def _unit(scores: Tensor) -> float:
    """The unit that scores are divided by: the power of two below their standard deviation; 1 for equal scores.

    L-BFGS stops by the absolute size of the gradient, which for prices would never be small enough, and for numbers of
    a thousandth always. Division by a power of two is exact.
    """
    deviation, mean = float(scores.double().std(correction=0)), float(scores.double().mean())
    varies = deviation > 1e-9 * abs(mean)  # by more than rounding errors
    return 2.0 ** math.floor(math.log2(deviation)) if varies else 1.0


def _curvature(targets: Tensor, kind: TaskKind, outputs: int) -> float:
    """The approximate second derivative of the loss by an output: p (1 - p), where p is the class's frequency."""
    match kind:
        case "labels":
            share = torch.bincount(targets, minlength=outputs) / len(targets)
        case "tags":
            share = targets.float().mean(dim=0)
        case _:
            return 1.0
    return max(float((share * (1.0 - share)).mean()), 0.01)


def _principal_components(inputs: Tensor) -> tuple[Tensor, Tensor]:
    """The first principal components.

    Returns:
        (axes + 1,) their variances, and last the mean variance in all other directions; (inputs, axes) unit vectors.
    """
    examples, numbers = inputs.shape
    count = min(DIRECTIONS, examples, numbers)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        _, sizes, directions = torch.svd_lowrank(inputs, q=count, niter=1)
    variances = sizes.square() / examples
    rest = (inputs.square().sum() / examples - variances.sum()).clamp(min=0.0) / max(numbers - count, 1)
    return torch.cat([variances, rest[None]]), directions
