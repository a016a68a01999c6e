"""Convex heads are solved, not trained: L-BFGS for labels, ridge regression for scores, on standardised states."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

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


def solve_linear(
    inputs: Tensor,
    targets: Tensor,
    *,
    held_out: tuple[Tensor, Tensor],
    labels: int | None,
    weights: Tensor | None = None,
) -> Solution:
    """Solve for every strength, and keep the one with the least loss on held-out examples.

    Args:
        inputs: (examples, inputs), float32.
        targets: (examples,) class numbers, or scores.
        held_out: the same of examples that judge the strength, and are not learnt from.
        labels: how many classes; None for scores.
        weights: (classes,) how much an example of each class counts.
    """
    scaled = _scaled(inputs)
    solve = _ridge(scaled.inputs, targets) if labels is None else _logistic(scaled.inputs, targets, labels, weights)
    found: list[Solution] = []
    for strength in STRENGTHS:
        weight, bias = scaled.unscaled(*solve(strength))
        loss = _loss(nn.functional.linear(held_out[0], weight, bias), held_out[1], labels)
        found.append(Solution(weight, bias, strength, loss))
        if loss > PATIENCE * min(solution.loss for solution in found):
            break  # weaker penalties only fit the noise
    return min(found, key=lambda solution: solution.loss)


def _loss(outputs: Tensor, targets: Tensor, labels: int | None) -> float:
    if labels is None:
        return float((outputs[:, 0] - targets.float()).square().mean())
    return float(nn.functional.cross_entropy(outputs, targets))


Solver = Callable[[float], tuple[Tensor, Tensor]]
"""A strength → weight and bias for scaled inputs."""


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


def _logistic(inputs: Tensor, targets: Tensor, labels: int, weights: Tensor | None) -> Solver:
    """Multinomial logistic regression by L-BFGS; goes on from the last solution."""
    weight = inputs.new_zeros(labels, inputs.shape[1]).requires_grad_()
    bias = inputs.new_zeros(labels).requires_grad_()

    def solve(strength: float) -> tuple[Tensor, Tensor]:
        optimizer = torch.optim.LBFGS(
            [weight, bias], max_iter=STEPS, history_size=10, tolerance_grad=1e-5, line_search_fn="strong_wolfe"
        )

        def loss() -> Tensor:
            optimizer.zero_grad()
            value = nn.functional.cross_entropy(nn.functional.linear(inputs, weight, bias), targets, weight=weights)
            value = value + 0.5 * strength * weight.square().sum()
            value.backward()  # type: ignore[no-untyped-call]  # torch has no type for it
            return value

        optimizer.step(loss)  # type: ignore[no-untyped-call]
        return weight.detach().clone(), bias.detach().clone()

    return solve
