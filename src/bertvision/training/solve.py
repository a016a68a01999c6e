"""Convex heads are solved, not trained: logistic or ridge regression, its penalty chosen on validation examples.

These are the folds of a cross-validation, or examples that an encoder tuned on the others has not seen. The models of
all folds and the final model on all examples are solved together, so that the inputs are read once for all of them.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from bertvision.tasks.examples import FloatArray, IntArray
from bertvision.tasks.task import TaskKind
from bertvision.training.linear_problem import Layout, LinearProblem, losses

STRENGTHS = tuple(10.0**power for power in [4.0, 3.0, 2.0, *np.arange(1.5, -4.01, -0.25).tolist()])
"""Strengths of the L2 penalty, strongest first, so that each solution is a warm start for the next.

The first few allow little more than the class frequencies, for inputs without information.
"""

FOLDS = 5
"""Folds of the cross-validation."""

LOSS_TOLERANCE = 1.02
"""Weaker penalties are not tried once the loss is worse than the best by this factor."""

SHARED_FACTOR = 10.0
"""The covariance of the classes' weights is taken at this many times the best strength, where it is less noisy."""

MIN_SUM_EXAMPLES = 500
"""With at least so many examples, similarity sums (see `Layout`) are always used; with fewer, the folds decide."""

MIN_SHIFT_EXAMPLES = 200
"""Fewest examples for which a decision threshold is fitted: with fewer it would be noise."""

Score = Callable[[IntArray, IntArray, FloatArray], float]
"""Gold class numbers, predicted ones, and weights of the examples → a metric; larger is better."""


@dataclass(frozen=True, slots=True)
class Solution:
    """A linear map fitted to all examples.

    Attributes:
        weight: (outputs, inputs), for the original inputs, not standardised.
        bias: (outputs,).
        strength: of the L2 penalty that was chosen.
        loss: mean loss on validation examples, weighted by class weights if there are any.
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
    groups: IntArray | None = None,
    validation: tuple[Tensor, Tensor] | None = None,
    strengths: Sequence[float] | None = None,
    layout: Layout = Layout(),  # noqa: B008 - it is frozen
    weights: Tensor | None = None,
    score: Score | None = None,
) -> Solution:
    """Solve for many penalties, and keep the one with the smallest loss on validation examples.

    Penalties differ in their strength; for compared texts also in whether similarity sums are nearly free of it (see
    `LinearProblem`), and for three labels or more in whether labels share structure (`LinearProblem.set_prior`).

    Args:
        inputs: (examples, inputs), float32.
        targets: (examples,) class numbers, or scores; or (examples, labels) tags.
        kind: of the task.
        outputs: number of outputs: one per label, or one for scores.
        folds: number of folds.
        groups: (examples,) examples of one group, such as copies of a text, are in one fold: a copy in the training
            part would favour weak penalties; None puts every example in a group of its own.
        validation: inputs and targets of validation examples; None takes folds of the examples (cross-validation).
        strengths: strengths of the penalty to try, strongest first; None takes `STRENGTHS`.
        layout: of the inputs.
        weights: (classes,) factor of the loss of each class's examples, for labels.
        score: a metric, for two labels: the decision threshold is chosen to maximise its expectation on the outputs for
            validation examples; None leaves the threshold at equal probabilities.
    """
    sums_choices = [False, True] if layout.similarity_parts else [False]
    if len(targets) >= MIN_SUM_EXAMPLES:
        sums_choices = sums_choices[-1:]  # with fewer examples sums may mislead: validation examples decide
    if validation is None:
        groups = np.arange(len(targets)) if groups is None else groups
        folds = min(folds, len(np.unique(groups)))
        number = torch.from_numpy(fold_rows(targets.cpu().numpy(), folds, kind, groups)).to(inputs.device)
        maps = folds + 1  # the last map has no validation examples: it is trained on all
    else:
        learned = len(targets)
        inputs, targets = (torch.cat(pair) for pair in zip((inputs, targets), validation, strict=True))
        number = (torch.arange(len(targets), device=inputs.device) < learned).long()  # 0 for validation examples
        maps = 1
    in_validation = number[:, None] == torch.arange(maps, device=inputs.device)  # (examples, maps), of each map
    judged = targets[in_validation.any(dim=1)]
    counts = torch.ones(len(judged), device=inputs.device) if weights is None else weights[judged]

    def mean_loss(outputs: Tensor) -> float:
        return float((losses(kind, outputs, judged) * counts).sum() / counts.sum())

    strengths = STRENGTHS if strengths is None else strengths
    steps: list[_Step] = []
    for sums in sums_choices:
        problem = LinearProblem(
            inputs, targets, ~in_validation, kind=kind, outputs=outputs, layout=layout, sums=sums, weights=weights
        )
        steps += _solve_path(problem, strengths, in_validation, mean_loss)
    best = _best(steps)
    if kind == "labels" and outputs > 2:
        same = [step for step in steps if step.problem is best.problem]
        wanted = SHARED_FACTOR * best.solution.strength
        stronger = min(same, key=lambda step: abs(math.log(step.solution.strength / wanted)))
        best.problem.set_prior(stronger.weight_gram)
        shared = _solve_path(best.problem, strengths, in_validation, mean_loss)
        best = _best([best, *shared])  # labels may have nothing in common
    if score is None:
        return best.solution
    shift = best.solution.bias.new_tensor([0.0, _decision_threshold(best.validated, score)])
    return replace(best.solution, bias=best.solution.bias - shift)


def solve_at(  # noqa: PLR0913 - what a solution depends on, by keyword
    inputs: Tensor,
    targets: Tensor,
    *,
    strength: float,
    kind: TaskKind,
    outputs: int,
    layout: Layout = Layout(),  # noqa: B008 - it is frozen
    weights: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Weight and bias for one strength of the penalty, without cross-validation; arguments as those of `solve_linear`.

    Labels share no structure, and similarity sums are always used.
    """
    everything = torch.ones(len(inputs), 1, dtype=torch.bool, device=inputs.device)
    problem = LinearProblem(
        inputs,
        targets,
        everything,
        kind=kind,
        outputs=outputs,
        layout=layout,
        sums=layout.similarity_parts > 0,
        weights=weights,
    )
    problem.solve(strength)
    return problem.map()


def fold_rows(targets: IntArray | FloatArray, folds: int, kind: TaskKind, groups: IntArray) -> IntArray:
    """Folds stratified by class or by score, as the fold of every example, (examples,).

    A group is in one fold; it is stratified by the target of one of its examples, chosen at random.
    """
    _, group, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    order = np.random.default_rng(0).permutation(len(targets))
    _, drawn = np.unique(group[order], return_index=True)
    first = order[np.sort(drawn)]  # where there are no copies, all examples as they are drawn
    # large groups are dealt before small ones, so that no fold gets more than one of them more than another
    first = first[np.argsort(-sizes[group[first]], kind="stable")]
    if kind != "tags":
        first = first[np.argsort(targets[first], kind="stable")]
    numbers = np.empty(len(sizes), dtype=np.int64)
    numbers[group[first]] = np.arange(len(sizes)) % folds
    return numbers[group]


@dataclass(frozen=True, slots=True)
class _Step:
    """A point on the regularisation path.

    Attributes:
        problem: that was solved.
        solution: for one strength.
        validated: (examples, outputs) for validation examples, each of the model that was not trained on it.
        weight_gram: see `LinearProblem.weight_gram`.
    """

    problem: LinearProblem
    solution: Solution
    validated: Tensor
    weight_gram: Tensor


def _solve_path(
    problem: LinearProblem, strengths: Sequence[float], in_validation: Tensor, mean_loss: Callable[[Tensor], float]
) -> list[_Step]:
    """Solve from the strongest penalty to weaker ones, until the loss on validation examples gets worse."""
    steps: list[_Step] = []
    for strength in strengths:
        problem.solve(strength)
        validated = problem.outputs()[in_validation]
        loss = mean_loss(validated)
        steps.append(_Step(problem, Solution(*problem.map(), strength, loss), validated, problem.weight_gram()))
        if loss > LOSS_TOLERANCE * _best(steps).solution.loss:
            break  # weaker penalties only fit the noise
    return steps


def _best(steps: list[_Step]) -> _Step:
    return min(steps, key=lambda step: step.solution.loss)


def _decision_threshold(outputs: Tensor, score: Score) -> float:
    """The log odds of the second of two labels above which it is predicted, for the best expected score.

    It is 0 with few examples, and where no other threshold is better.

    The expectation is over labels drawn from the predicted probabilities: every example counts as both labels, weighted
    by their probabilities. The actual labels would add noise to the choice.
    """
    if len(outputs) < MIN_SHIFT_EXAMPLES:
        return 0.0
    log_odds = (outputs[:, 1] - outputs[:, 0]).double().cpu()
    leads, probabilities = log_odds.numpy(), log_odds.sigmoid().numpy()
    golds, counts = np.repeat([1, 0], len(leads)), np.concatenate([probabilities, 1.0 - probabilities])

    def expected(threshold: float) -> float:
        return score(golds, np.tile(leads > threshold, 2).astype(np.int64), counts)

    thresholds = np.quantile(leads, np.linspace(0.03, 0.97, 95))
    best = max(thresholds.tolist(), key=expected)
    return best if expected(best) > expected(0.0) else 0.0
