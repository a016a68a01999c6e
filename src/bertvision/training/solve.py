"""Convex heads are solved, not trained: logistic or ridge regression, its strength chosen by cross-validation.

One map per fold, which learns from the other folds, and one that learns from all examples are solved together, so that
the inputs are read once for all of them.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import assert_never, final

import numpy as np
import torch
from torch import Tensor, nn

from bertvision.tasks.examples import FloatArray, IntArray
from bertvision.tasks.task import TaskKind

STRENGTHS = tuple(10.0**power for power in [4.0, 3.0, 2.0, *np.arange(1.5, -4.01, -0.25).tolist()])
"""Strengths of the L2 penalty that are tried, strongest first: each start is the solution before.

The first few leave hardly more than how frequent the classes are, for inputs that tell nothing.
"""

FOLDS = 5
"""Parts of the examples that choose the strength."""

STEPS = 100
"""Most L-BFGS steps for one strength."""

PATIENCE = 1.02
"""How much worse than the best a loss may be before weaker penalties are left untried."""

DIRECTIONS = 256
"""Directions of most variance along which steps are scaled, so that few are needed."""

SUM_SCALE = 30.0
"""How much larger than other inputs the sums of blocks are made: their penalty is weaker by the square of that."""

LEAST_SHIFTED = 200
"""Fewer examples than this would shift a decision by chance."""

Score = Callable[[IntArray, IntArray, FloatArray], float]
"""Right and given class numbers, and how often each two of them count → how good that is, more being better."""


@dataclass(frozen=True, slots=True)
class Solution:
    """A linear map that was learnt from all examples.

    Attributes:
        weight: (outputs, inputs), for inputs as they are.
        bias: (outputs,).
        strength: of the L2 penalty that was chosen.
        loss: mean over the examples, each by a map that did not learn from its fold; where classes have weights, each
            example counts by that of its class.
    """

    weight: Tensor
    bias: Tensor
    strength: float
    loss: float


def solve_linear(  # noqa: PLR0913 - what a solution depends on, by keyword
    inputs: Tensor,
    targets: Tensor,
    *,
    kind: TaskKind,
    outputs: int,
    folds: int = FOLDS,
    blocks: int = 0,
    weights: Tensor | None = None,
    score: Score | None = None,
) -> Solution:
    """Solve for every strength, and keep the one with the least loss of examples that were not learnt from.

    Args:
        inputs: (examples, inputs), float32.
        targets: (examples,) class numbers, or scores; or (examples, labels) tags.
        kind: of the task.
        outputs: how many: one per label, or one score.
        folds: parts of the examples; each is judged by a map that learnt from the others.
        blocks: inputs stand in so many blocks of the same width, and the sum of each tells something by itself: a
            weight that all inputs of a block share has nearly no penalty, unless the examples that were not learnt from
            speak for the plain one. 0 knows of no blocks.
        weights: (classes,) how much an example of each class counts, for labels.
        score: what counts in the end, for two labels: between them is decided where it is to be best for examples
            that were not learnt from; None decides for the likelier one.
    """
    folds = min(folds, len(targets))
    fold = torch.from_numpy(fold_rows(targets.cpu().numpy(), folds, kind)).to(inputs.device)
    judged = fold[:, None] == torch.arange(folds + 1, device=inputs.device)  # (examples, maps); the last judges none
    counts = 1.0 if weights is None else weights[targets] / weights[targets].mean()
    found: list[tuple[Solution, Tensor]] = []
    for used in dict.fromkeys((0, blocks)):  # with few examples the sums may mislead: the folds tell
        least = math.inf
        problem = _Problem(inputs, targets, ~judged, kind=kind, outputs=outputs, blocks=used, weights=weights)
        for strength in STRENGTHS:
            problem.solve(strength)
            unseen = problem.outputs()[judged]  # (examples, outputs)
            loss = float((_losses(kind, unseen, targets) * counts).mean())
            found.append((Solution(*problem.map(), strength, loss), unseen))
            least = min(least, loss)
            if loss > PATIENCE * least:
                break  # weaker penalties only fit the noise
    best, unseen = min(found, key=lambda pair: pair[0].loss)
    if score is None:
        return best
    return replace(best, bias=best.bias - best.bias.new_tensor([0.0, _shift(unseen, score)]))


def solve_at(  # noqa: PLR0913 - what a solution depends on, by keyword
    inputs: Tensor,
    targets: Tensor,
    *,
    strength: float,
    kind: TaskKind,
    outputs: int,
    blocks: int = 0,
    weights: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Weight and bias for one strength of the penalty; arguments as those of `solve_linear`."""
    everything = torch.ones(len(inputs), 1, dtype=torch.bool, device=inputs.device)
    problem = _Problem(inputs, targets, everything, kind=kind, outputs=outputs, blocks=blocks, weights=weights)
    problem.solve(strength)
    return problem.map()


def fold_rows(targets: IntArray | FloatArray, folds: int, kind: TaskKind) -> IntArray:
    """The fold of every example, (examples,): of each class, or of like scores, about equally many in each."""
    order = np.random.default_rng(0).permutation(len(targets))
    if kind != "tags":
        order = order[np.argsort(targets[order], kind="stable")]
    numbers = np.empty(len(targets), dtype=np.int64)
    numbers[order] = np.arange(len(targets)) % folds
    return numbers


def _losses(kind: TaskKind, outputs: Tensor, targets: Tensor) -> Tensor:
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


def _shift(outputs: Tensor, score: Score) -> float:
    """How far the second of two labels must be ahead, so that the score is to be best; 0 where that is no better.

    Each example counts as both labels, as likely as they are: what it turned out to be would add chance to the choice.
    """
    if len(outputs) < LEAST_SHIFTED:
        return 0.0
    leads = (outputs[:, 1] - outputs[:, 0]).double().cpu()
    ahead, likely = leads.numpy(), leads.sigmoid().numpy()
    golds, counts = np.repeat([1, 0], len(ahead)), np.concatenate([likely, 1.0 - likely])

    def expected(cut: float) -> float:
        return score(golds, np.tile(ahead > cut, 2).astype(np.int64), counts)

    cuts = np.quantile(ahead, np.linspace(0.03, 0.97, 95))
    best = max(cuts.tolist(), key=expected)
    return best if expected(best) > expected(0.0) else 0.0


@final
class _Problem:
    """Several maps of the same inputs, each learning from some of the examples; goes on from the last solution."""

    def __init__(  # noqa: PLR0913 - as `solve_linear`
        self,
        inputs: Tensor,
        targets: Tensor,
        learnt: Tensor,
        *,
        kind: TaskKind,
        outputs: int,
        blocks: int,
        weights: Tensor | None,
    ) -> None:
        self._blocks = blocks
        if blocks:
            inputs = torch.cat([inputs, inputs.reshape(len(inputs), blocks, -1).sum(dim=2)], dim=1)
        self._mean = inputs.mean(dim=0)
        deviation = inputs.std(dim=0, correction=0)
        constant = deviation <= 1e-6 + 1e-5 * self._mean.abs()  # but for rounding, which would be blown up
        deviation[inputs.shape[1] - blocks :] /= SUM_SCALE
        self._deviation = torch.where(constant, 1.0, deviation)
        self._inputs = (inputs - self._mean).div_(self._deviation)  # in place: one copy less of all inputs
        self._kind = kind
        maps = learnt.shape[1]
        self._targets = targets.repeat_interleave(maps, dim=0)  # (examples · maps, …)
        shares = learnt.float() if weights is None else learnt * weights[targets][:, None]
        self._shares = shares / shares.sum(dim=0).clamp(min=1e-12)  # (examples, maps)
        self._steepness = _steepness(targets, kind, outputs)
        self._variances, self._axes = _most_variance(self._inputs)
        self._weight = inputs.new_zeros(maps, outputs, inputs.shape[1])
        self._bias = inputs.new_zeros(maps, outputs)
        if kind == "scores":
            self._bias += targets.float().mean()

    def solve(self, strength: float) -> None:
        """Find all maps for a strength by L-BFGS, in coordinates in which the loss curves about alike everywhere."""
        scales = (self._steepness * self._variances + strength).rsqrt()  # along the axes; the last one for the rest
        weight = self._rescaled(self._weight, 1.0 / scales).requires_grad_()
        bias = (self._bias * self._steepness**0.5).requires_grad_()
        optimizer = torch.optim.LBFGS(
            [weight, bias], max_iter=STEPS, history_size=10, tolerance_grad=1e-5, line_search_fn="strong_wolfe"
        )

        def loss() -> Tensor:
            optimizer.zero_grad()
            self._weight, self._bias = self._rescaled(weight, scales), bias / self._steepness**0.5
            losses = _losses(self._kind, self.outputs().flatten(0, 1), self._targets).view_as(self._shares)
            value = (losses * self._shares).sum() + 0.5 * strength * self._weight.square().sum()
            value.backward()  # type: ignore[no-untyped-call]  # torch has no type for it
            return value

        optimizer.step(loss)  # type: ignore[no-untyped-call]
        self._weight = self._rescaled(weight.detach(), scales)
        self._bias = bias.detach() / self._steepness**0.5

    def outputs(self) -> Tensor:
        """What every map says of every example, (examples, maps, outputs)."""
        return (self._inputs @ self._weight.flatten(0, 1).T).view(-1, *self._bias.shape) + self._bias

    def map(self) -> tuple[Tensor, Tensor]:
        """Weight and bias of the last map, for inputs as they are; a sum's weight is one of every number in it."""
        weight = self._weight[-1] / self._deviation
        bias = self._bias[-1] - weight @ self._mean
        if self._blocks:
            own, sums = weight[:, : -self._blocks], weight[:, -self._blocks :]
            weight = (own.reshape(*sums.shape, -1) + sums[:, :, None]).flatten(1)
        return weight, bias

    def _rescaled(self, weight: Tensor, scales: Tensor) -> Tensor:
        along = (weight @ self._axes) * (scales[:-1] - scales[-1])
        return scales[-1] * weight + along @ self._axes.T


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
