"""Convex heads are solved on standardised states, not trained: L-BFGS for labels and tags, ridge for scores."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import assert_never

import torch
from torch import Tensor, nn

from bertvision.tasks.task import TaskKind

STRENGTHS = tuple(10.0**power for power in (1.0, 0.5, 0.0, -0.5, -1.0, -1.5, -2.0, -2.5, -3.0, -4.0))
"""Strengths of the L2 penalty that are tried, strongest first: each start is the solution before."""

STEPS = 50
"""Most L-BFGS steps for one strength."""

PATIENCE = 1.02
"""How much worse than the best a loss may be before weaker penalties are left untried."""


@dataclass(frozen=True, slots=True)
class Solution:
    """A linear map.

    Attributes:
        weight: (outputs, inputs), for inputs as they are.
        bias: (outputs,).
        strength: of the L2 penalty that was chosen.
        loss: mean over the held-out examples.
    """

    weight: Tensor
    bias: Tensor
    strength: float
    loss: float


@dataclass(frozen=True, slots=True)
class _Scaled:
    """Inputs of mean 0 and deviation 1."""

    inputs: Tensor
    mean: Tensor
    deviation: Tensor

    def unscaled(self, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        """A map of scaled inputs as a map of inputs as they are."""
        plain = weight / self.deviation
        return plain, bias - plain @ self.mean


def solve_linear(  # noqa: PLR0913 - what a solution depends on, by keyword
    inputs: Tensor,
    targets: Tensor,
    *,
    held_out: tuple[Tensor, Tensor],
    kind: TaskKind,
    outputs: int,
    weights: Tensor | None = None,
) -> Solution:
    """Solve for every strength, and keep the one with the least loss on held-out examples.

    Args:
        inputs: (examples, inputs), float32.
        targets: (examples,) class numbers, or scores; or (examples, labels) tags.
        held_out: the same of examples that judge the strength, and are not learnt from.
        kind: of the task.
        outputs: how many: one per label, or one score.
        weights: (classes,) how much an example of each class counts, for labels.
    """
    scaled = _scaled(inputs)
    loss_of, solve = _problem(kind, scaled.inputs, targets, outputs, weights)
    found: list[Solution] = []
    for strength in STRENGTHS:
        weight, bias = scaled.unscaled(*solve(strength))
        loss = float(loss_of(nn.functional.linear(held_out[0], weight, bias), held_out[1]))
        found.append(Solution(weight, bias, strength, loss))
        if loss > PATIENCE * min(solution.loss for solution in found):
            break  # weaker penalties only fit the noise
    return min(found, key=lambda solution: solution.loss)


def solve_at(  # noqa: PLR0913 - what a solution depends on, by keyword
    inputs: Tensor, targets: Tensor, *, strength: float, kind: TaskKind, outputs: int, weights: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Weight and bias for one strength of the penalty; arguments as those of `solve_linear`."""
    scaled = _scaled(inputs)
    _, solve = _problem(kind, scaled.inputs, targets, outputs, weights)
    for stronger in STRENGTHS:
        if stronger > strength and kind != "scores":
            solve(stronger)  # each start is the solution before
    return scaled.unscaled(*solve(strength))


Loss = Callable[[Tensor, Tensor], Tensor]
"""Outputs, (examples, outputs), and targets → their mean loss."""

Solver = Callable[[float], tuple[Tensor, Tensor]]
"""A strength → weight and bias for scaled inputs."""


def _problem(
    kind: TaskKind, inputs: Tensor, targets: Tensor, outputs: int, weights: Tensor | None
) -> tuple[Loss, Solver]:
    """What judges a solution of a kind of task, and what finds it."""
    match kind:
        case "labels":
            loss = partial(nn.functional.cross_entropy, weight=weights)
            return nn.functional.cross_entropy, _logistic(inputs, targets, outputs, loss)
        case "tags":
            # the sum over labels, so that a strength means the same to each, however many there are
            return _tag_loss, _logistic(inputs, targets, outputs, lambda *pair: outputs * _tag_loss(*pair))
        case "scores":
            return _square_loss, _ridge(inputs, targets)
        case "spans":
            raise AssertionError("heads that read every token are trained")
        case _:
            assert_never(kind)


def _tag_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    return nn.functional.binary_cross_entropy_with_logits(outputs, targets.float())


def _square_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs[:, 0] - targets.float()).square().mean()


def _scaled(inputs: Tensor) -> _Scaled:
    mean = inputs.mean(dim=0)
    deviation = inputs.std(dim=0, correction=0)
    constant = deviation <= 1e-6 + 1e-5 * mean.abs()  # but for rounding, which would be blown up
    deviation = torch.where(constant, 1.0, deviation)
    return _Scaled((inputs - mean) / deviation, mean, deviation)


def _ridge(inputs: Tensor, targets: Tensor) -> Solver:
    """Ridge regression, over examples or over inputs, whichever are fewer."""
    centre = targets.float().mean()
    examples, numbers = inputs.shape
    dual = examples < numbers
    products = inputs @ inputs.T if dual else inputs.T @ inputs
    right = (targets.float() - centre)[:, None] if dual else inputs.T @ (targets.float() - centre)[:, None]

    def solve(strength: float) -> tuple[Tensor, Tensor]:
        penalised = products + strength * examples * torch.eye(len(products), device=inputs.device)
        found = torch.cholesky_solve(right, torch.linalg.cholesky(penalised))
        return (inputs.T @ found if dual else found).T, centre[None]

    return solve


def _logistic(inputs: Tensor, targets: Tensor, outputs: int, loss_of: Loss) -> Solver:
    """Logistic regression by L-BFGS, multinomial or one against the rest; goes on from the last solution."""
    weight = inputs.new_zeros(outputs, inputs.shape[1]).requires_grad_()
    bias = inputs.new_zeros(outputs).requires_grad_()

    def solve(strength: float) -> tuple[Tensor, Tensor]:
        optimizer = torch.optim.LBFGS(
            [weight, bias], max_iter=STEPS, history_size=10, tolerance_grad=1e-5, line_search_fn="strong_wolfe"
        )

        def loss() -> Tensor:
            optimizer.zero_grad()
            value = loss_of(nn.functional.linear(inputs, weight, bias), targets)
            value = value + 0.5 * strength * weight.square().sum()
            value.backward()  # type: ignore[no-untyped-call]  # torch has no type for it
            return value

        optimizer.step(loss)  # type: ignore[no-untyped-call]
        return weight.detach().clone(), bias.detach().clone()

    return solve
