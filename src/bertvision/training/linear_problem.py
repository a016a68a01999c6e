"""LinearProblem: several linear maps of the same inputs, solved together for one strength of a penalty at a time."""

import math
from dataclasses import dataclass
from typing import assert_never, final

import torch
from torch import Tensor, nn

from bertvision.tasks.task import TaskKind

MAX_STEPS = 100
"""Most L-BFGS steps for one strength."""

DIRECTIONS = 256
"""Directions of most variance along which steps are scaled, so that few are needed."""

SUM_SCALE = 30.0
"""How much larger than other inputs the sums of parts are made: their penalty is weaker by the square of that."""

DECORRELATION = 0.5
"""How far layers are decorrelated before the penalty looks at them: 0 leaves them as they are, 1 does so wholly."""

MIN_NUMBERS_PER_EXAMPLE = 8
"""From so many numbers per example on, the span of the examples is found before anything is solved."""

_ROWS = 4096
"""Rows that are mixed at a time, so that no second copy of all inputs is needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How the inputs of a map stand.

    Attributes:
        layers: so many of the same width, one after the other.
        parts: of a layer that mean one thing each; more than one where two texts are compared.
        alike: so many of them, the first ones, tell by their sum how alike two texts are.
    """

    layers: int = 1
    parts: int = 1
    alike: int = 0


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
    """Several maps of the same inputs, each learning from some of the examples; goes on from the last solution.

    The penalty looks at inputs that were standardised, number by number. A number of one layer is nearly the same in
    the next, so that what all layers have in common would have hardly any penalty beside what they differ in: layers
    are decorrelated half-way before.
    """

    def __init__(  # noqa: PLR0913 - what a solution depends on, by keyword
        self,
        inputs: Tensor,
        targets: Tensor,
        learned: Tensor,
        *,
        kind: TaskKind,
        outputs: int,
        layout: Layout,
        sums: bool,
        weights: Tensor | None,
    ) -> None:
        """Take what the maps learn from.

        Args:
            inputs: (examples, inputs), float32.
            targets: (examples,) class numbers, or scores; or (examples, labels) tags.
            learned: (examples, maps), which examples each map learns from.
            kind: of the task.
            outputs: how many: one per label, or one score.
            layout: of the inputs.
            sums: whether the sum of each part that tells how alike texts are is one more input, nearly without a
                penalty.
            weights: (classes,) how much an example of each class counts, for labels.
        """
        self._numbers = inputs.shape[1]
        self._layout = layout
        self._sums = layout.layers * layout.alike if sums else 0
        if sums:
            inputs = torch.cat([inputs, _alike(inputs, layout).sum(dim=3).flatten(1)], dim=1)
        self._mean = inputs.mean(dim=0)
        deviation = inputs.std(dim=0, correction=0)
        self._constant = deviation <= 1e-6 + 1e-5 * self._mean.abs()  # but for rounding, which would be blown up
        deviation[self._numbers :] /= SUM_SCALE
        self._deviation = torch.where(self._constant, 1.0, deviation)
        self._inputs = (inputs - self._mean).div_(self._deviation)  # in place: one copy less of all inputs
        self._mixing = _half_decorrelating(self._inputs[:, : self._numbers], layout)
        self._mix_inputs()
        self._span = _span(self._inputs)
        if self._span is not None:
            self._inputs = self._inputs @ self._span
        self._kind = kind
        maps = learned.shape[1]
        self._unit = _unit(targets) if kind == "scores" else 1.0
        targets = targets / self._unit if kind == "scores" else targets
        self._targets = targets.repeat_interleave(maps, dim=0)  # (examples · maps, …)
        shares = learned.float() if weights is None else learned * weights[targets][:, None]
        self._shares = shares / shares.sum(dim=0).clamp(min=1e-12)  # (examples, maps)
        self._steepness = _steepness(targets, kind, outputs)
        self._variances, self._axes = _most_variance(self._inputs)
        self._sharing: Tensor | None = None
        self._first_bias = float(targets.float().mean()) if kind == "scores" else 0.0
        self._weight = inputs.new_zeros(maps, outputs, self._inputs.shape[1])
        self._bias = inputs.new_full((maps, outputs), self._first_bias)

    def solve(self, strength: float) -> None:
        """Find all maps for a strength by L-BFGS, in coordinates in which the loss curves about alike everywhere."""
        scales = (self._steepness * self._variances + strength).rsqrt()  # along the axes; the last one for the rest
        weight = self._rescaled(self._weight, 1.0 / scales).requires_grad_()
        bias = (self._bias * self._steepness**0.5).requires_grad_()
        optimizer = torch.optim.LBFGS(
            [weight, bias], max_iter=MAX_STEPS, history_size=10, tolerance_grad=1e-5, line_search_fn="strong_wolfe"
        )

        def loss() -> Tensor:
            optimizer.zero_grad()
            self._weight, self._bias = self._rescaled(weight, scales), bias / self._steepness**0.5
            every = losses(self._kind, self._in_units().flatten(0, 1), self._targets).view_as(self._shares)
            value = (every * self._shares).sum() + 0.5 * strength * self._weight.square().sum()
            value.backward()  # type: ignore[no-untyped-call]  # torch has no type for it
            return value

        optimizer.step(loss)  # type: ignore[no-untyped-call]
        self._weight = self._rescaled(weight.detach(), scales)
        self._bias = bias.detach() / self._steepness**0.5

    def outputs(self) -> Tensor:
        """What every map says of every example, (examples, maps, outputs)."""
        return self._in_units() * self._unit

    def _in_units(self) -> Tensor:
        """The same in the unit that targets are learned in."""
        return (self._inputs @ self._shared().flatten(0, 1).T).view(-1, *self._bias.shape) + self._bias

    def likeness(self) -> Tensor:
        """How alike the weights of each two outputs are, (maps, outputs, outputs)."""
        weight = self._shared()
        return weight @ weight.mT

    def relate(self, likeness: Tensor) -> None:
        """Begin anew with a penalty that is weaker for what outputs have in common, and stronger for the rest.

        Weights are thought to vary between outputs as `likeness` tells, (maps, outputs, outputs): of classes in an
        order most goes along one axis, say from bad to good.
        """
        sizes, axes = torch.linalg.eigh(likeness)  # (maps, outputs), (maps, outputs, outputs)
        sizes = sizes.clamp(min=0.0)
        sizes = sizes / sizes.mean(dim=1, keepdim=True).clamp(min=1e-12)  # as much penalty as before, on average
        self._sharing = (axes * sizes.sqrt()[:, None]) @ axes.mT
        self._weight = torch.zeros_like(self._weight)
        self._bias = torch.full_like(self._bias, self._first_bias)

    def map(self) -> tuple[Tensor, Tensor]:
        """Weight and bias of the last map, for inputs as they are; a sum's weight is one of every number in it."""
        weight = self._shared()[-1].clone() if self._span is None else self._shared()[-1] @ self._span.T
        weight[:, : self._numbers] = _mixed(weight[:, : self._numbers], self._mixing)
        weight = (weight / self._deviation).masked_fill(self._constant, 0.0)
        bias = self._bias[-1] - weight @ self._mean
        if self._sums:
            weight, sums = weight[:, : self._numbers].clone(), weight[:, self._numbers :]
            parts = _alike(weight, self._layout)
            parts += sums.reshape(*parts.shape[:3], 1)
        return weight * self._unit, bias * self._unit

    def _shared(self) -> Tensor:
        """Weights of the maps, (maps, outputs, inputs)."""
        return self._weight if self._sharing is None else self._sharing @ self._weight

    def _mix_inputs(self) -> None:
        if self._mixing is not None:
            for some in torch.split(self._inputs[:, : self._numbers], _ROWS):
                some.copy_(_mixed(some, self._mixing))

    def _rescaled(self, weight: Tensor, scales: Tensor) -> Tensor:
        along = (weight @ self._axes) * (scales[:-1] - scales[-1])
        return scales[-1] * weight + along @ self._axes.T


def _alike(values: Tensor, layout: Layout) -> Tensor:
    """The parts that tell how alike two texts are, (rows, layers, such parts, width): a view."""
    return values.view(len(values), layout.layers, layout.parts, -1)[:, :, : layout.alike]


def _half_decorrelating(inputs: Tensor, layout: Layout) -> Tensor | None:
    """What to mix layers with, (parts, layers, layers), so that they tell less of each other; None for one layer.

    It is the correlation of layers, as it is on average over their numbers, to the power of minus half of
    `DECORRELATION`; the inputs have as much variance in all as before.
    """
    if layout.layers == 1:
        return None
    total = inputs.new_zeros(layout.parts, layout.layers, layout.layers)
    for some in torch.split(inputs, _ROWS):
        blocks = some.reshape(len(some), layout.layers, layout.parts, -1)  # (rows, layers, parts, width)
        total += torch.einsum("rlpw,rmpw->plm", blocks, blocks)
    sizes, axes = torch.linalg.eigh(total / total.diagonal(dim1=1, dim2=2).mean(dim=1)[:, None, None].clamp(min=1e-12))
    sizes = sizes.clamp(min=1e-6)  # (parts, layers)
    powers = sizes.pow(-0.5 * DECORRELATION)
    powers = powers * (sizes.sum(dim=1) / (sizes * powers.square()).sum(dim=1)).sqrt()[:, None]
    mixing: Tensor = (axes * powers[:, None]) @ axes.mT
    return mixing


def _span(inputs: Tensor) -> Tensor | None:
    """Directions at right angles that few examples span, (inputs, examples); None for more examples.

    The best weights lie among them whatever the L2 penalty, so that as many numbers as examples say the same as all.
    """
    examples, numbers = inputs.shape
    if MIN_NUMBERS_PER_EXAMPLE * examples > numbers:
        return None
    directions: Tensor = torch.linalg.qr(inputs.T).Q
    return directions


def _mixed(values: Tensor, mixing: Tensor | None) -> Tensor:
    """Every number with those at its place in the other layers, (rows, inputs)."""
    if mixing is None:
        return values
    parts, layers, _ = mixing.shape
    blocks = values.reshape(len(values), layers, parts, -1)
    return torch.einsum("rlpw,plm->rmpw", blocks, mixing).flatten(1)


def _unit(scores: Tensor) -> float:
    """The power of two below the standard deviation of scores, in which they are learned; 1 where they are all alike.

    When to stop is told by how large gradients are: of prices they would never be small enough, and of shares of a
    thousandth always. A power of two rounds nothing.
    """
    deviation, mean = float(scores.double().std(correction=0)), float(scores.double().mean())
    return 2.0 ** math.floor(math.log2(deviation)) if deviation > 1e-9 * abs(mean) else 1.0  # but for rounding


def _steepness(targets: Tensor, kind: TaskKind, outputs: int) -> float:
    """About how much a loss curves with an output: p (1 - p), where p is how often an output is right."""
    match kind:
        case "labels":
            share = torch.bincount(targets, minlength=outputs) / len(targets)
        case "tags":
            share = targets.float().mean(dim=0)
        case _:
            return 1.0
    return max(float((share * (1.0 - share)).mean()), 0.01)


def _most_variance(inputs: Tensor) -> tuple[Tensor, Tensor]:
    """Variances along the axes of most variance and, at the end, of the rest, (axes + 1,); the axes, (inputs, axes)."""
    examples, numbers = inputs.shape
    axes = min(DIRECTIONS, examples, numbers)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        _, sizes, found = torch.svd_lowrank(inputs, q=axes, niter=1)
    variances = sizes.square() / examples
    rest = (inputs.square().sum() / examples - variances.sum()).clamp(min=0.0) / max(numbers - axes, 1)
    return torch.cat([variances, rest[None]]), found
