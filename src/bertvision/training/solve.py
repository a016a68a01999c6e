"""Convex heads are solved, not trained: logistic or ridge regression, its penalty chosen by cross-validation.

One map per fold, which learns from the other folds, and one that learns from all examples are solved together, so that
the inputs are read once for all of them.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from bertvision.tasks.examples import FloatArray, IntArray
from bertvision.tasks.task import TaskKind
from bertvision.training.linear_problem import Layout, LinearProblem, losses

STRENGTHS = tuple(10.0**power for power in [4.0, 3.0, 2.0, *np.arange(1.5, -4.01, -0.25).tolist()])
"""Strengths of the L2 penalty that are tried, strongest first: each start is the solution before.

The first few leave hardly more than how frequent the classes are, for inputs that tell nothing.
"""

FOLDS = 5
"""Parts of the examples that choose the penalty."""

LOSS_TOLERANCE = 1.02
"""How much worse than the best a loss may be before weaker penalties are left untried."""

SHARED_FACTOR = 10.0
"""Classes' common structure is read from maps of so many times the best strength, whose weights hold less noise."""

MIN_SUM_EXAMPLES = 500
"""From so many examples on, maps are tried only with the sums that tell how alike two texts are, not without them."""

MIN_SHIFT_EXAMPLES = 200
"""Fewest examples for which a decision is shifted: with fewer the shift would be chance."""

Score = Callable[[IntArray, IntArray, FloatArray], float]
"""Right and given class numbers, and how often each two of them count → how good that is, more being better."""


@dataclass(frozen=True, slots=True)
class Solution:
    """A linear map that was learned from all examples.

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
    groups: IntArray | None = None,
    layout: Layout = Layout(),  # noqa: B008 - it is frozen
    weights: Tensor | None = None,
    score: Score | None = None,
) -> Solution:
    """Solve for every penalty, and keep the one with the least loss of examples that were not learned from.

    Penalties differ in their strength. Those of compared texts also differ in whether sums that tell how alike two
    texts are, are nearly free; those of three labels or more in whether they share what they learn.

    Args:
        inputs: (examples, inputs), float32.
        targets: (examples,) class numbers, or scores; or (examples, labels) tags.
        kind: of the task.
        outputs: how many: one per label, or one score.
        folds: parts of the examples; each is judged by a map that learned from the others.
        groups: (examples,) whatever has the same number is in one fold, such as copies of a text: a map that learned
            from a copy would flatter weak penalties; None where there are no copies.
        layout: of the inputs.
        weights: (classes,) how much an example of each class counts, for labels.
        score: what counts in the end, for two labels: between them is decided where it is to be best for examples
            that were not learned from; None decides for the likelier one.
    """
    groups = np.arange(len(targets)) if groups is None else groups
    folds = min(folds, len(np.unique(groups)))
    fold = torch.from_numpy(fold_rows(targets.cpu().numpy(), folds, kind, groups)).to(inputs.device)
    judged = fold[:, None] == torch.arange(folds + 1, device=inputs.device)  # (examples, maps); the last judges none
    counts = torch.ones(len(targets), device=inputs.device) if weights is None else weights[targets]

    def mean_loss(unseen: Tensor) -> float:
        return float((losses(kind, unseen, targets) * counts).sum() / counts.sum())

    steps: list[_Step] = []
    ways = [False, True] if layout.alike else [False]
    # with few examples sums may mislead: the folds tell
    for sums in ways[-1:] if len(targets) >= MIN_SUM_EXAMPLES else ways:
        problem = LinearProblem(
            inputs, targets, ~judged, kind=kind, outputs=outputs, layout=layout, sums=sums, weights=weights
        )
        steps += _follow(problem, judged, mean_loss)
    best = _best(steps)
    if kind == "labels" and outputs > 2:
        same = [step for step in steps if step.problem is best.problem]
        wanted = SHARED_FACTOR * best.solution.strength
        firmer = min(same, key=lambda step: abs(math.log(step.solution.strength / wanted)))
        best.problem.relate(firmer.likeness)
        best = _best([best, *_follow(best.problem, judged, mean_loss)])  # labels may have nothing in common
    if score is None:
        return best.solution
    shift = best.solution.bias.new_tensor([0.0, _shift(best.unseen, score)])
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
    """Weight and bias for one strength of the penalty; arguments as those of `solve_linear`.

    Nobody judges whether labels should share what they learn, so they do not; sums of compared texts are nearly free.
    """
    everything = torch.ones(len(inputs), 1, dtype=torch.bool, device=inputs.device)
    problem = LinearProblem(
        inputs, targets, everything, kind=kind, outputs=outputs, layout=layout, sums=layout.alike > 0, weights=weights
    )
    problem.solve(strength)
    return problem.map()


def fold_rows(targets: IntArray | FloatArray, folds: int, kind: TaskKind, groups: IntArray) -> IntArray:
    """The fold of every example, (examples,): of each class, or of like scores, about equally many in each.

    A group is in one fold, by the target of the example of it that is drawn first.
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
    """A solution on the way from the strongest penalty to weaker ones.

    Attributes:
        problem: that was solved.
        solution: for one strength.
        unseen: what maps say of the examples that they did not learn from, (examples, outputs).
        likeness: of outputs, (maps, outputs, outputs).
    """

    problem: LinearProblem
    solution: Solution
    unseen: Tensor
    likeness: Tensor


def _follow(problem: LinearProblem, judged: Tensor, mean_loss: Callable[[Tensor], float]) -> list[_Step]:
    steps: list[_Step] = []
    for strength in STRENGTHS:
        problem.solve(strength)
        unseen = problem.outputs()[judged]
        loss = mean_loss(unseen)
        steps.append(_Step(problem, Solution(*problem.map(), strength, loss), unseen, problem.likeness()))
        if loss > LOSS_TOLERANCE * _best(steps).solution.loss:
            break  # weaker penalties only fit the noise
    return steps


def _best(steps: list[_Step]) -> _Step:
    return min(steps, key=lambda step: step.solution.loss)


def _shift(outputs: Tensor, score: Score) -> float:
    """How far the second of two labels must be ahead, so that the score is to be best; 0 where that is no better.

    Each example counts as both labels, as likely as they are: what it turned out to be would add chance to the choice.
    """
    if len(outputs) < MIN_SHIFT_EXAMPLES:
        return 0.0
    leads = (outputs[:, 1] - outputs[:, 0]).double().cpu()
    ahead, likely = leads.numpy(), leads.sigmoid().numpy()
    golds, counts = np.repeat([1, 0], len(ahead)), np.concatenate([likely, 1.0 - likely])

    def expected(cut: float) -> float:
        return score(golds, np.tile(ahead > cut, 2).astype(np.int64), counts)

    cuts = np.quantile(ahead, np.linspace(0.03, 0.97, 95))
    best = max(cuts.tolist(), key=expected)
    return best if expected(best) > expected(0.0) else 0.0
