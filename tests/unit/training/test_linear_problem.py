"""What the penalty of solved heads looks at: layers that were decorrelated half-way, and what labels have in common."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from sklearn.linear_model import Ridge
from torch import Tensor, nn

from bertvision.tasks.task import TaskKind
from bertvision.training import linear_problem as module
from bertvision.training import solve as solve_module
from bertvision.training.linear_problem import SUM_SCALE, Layout, LinearProblem
from bertvision.training.solve import Solution, solve_at, solve_linear
from close import SOLVED


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_two_layers_with_a_correlation_of_six_tenths_are_left_with_one_of_a_third() -> None:
    # eigenvalues 1.6 and 0.4 become their square roots, with the same sum: (√1.6 - √0.4) / (√1.6 + √0.4) = 1/3
    own, other = (torch.tensor(values) for values in ([1.0, 1.0, -1.0, -1.0], [1.0, -1.0, 1.0, -1.0]))
    x = torch.stack([own, 0.6 * own + 0.8 * other], dim=1)  # (examples, layers), each of width 1
    y = torch.tensor([3.0, 1.0, 0.5, -2.0])
    weight, bias = solve_at(x, y, strength=0.5, kind="scores", outputs=1, layout=Layout(layers=2))
    mixing = np.array([[1.10193, -0.18906], [-0.18906, 1.10193]])
    mixed = x.double().numpy() @ mixing
    assert np.corrcoef(mixed.T)[0, 1] == pytest.approx(1 / 3, abs=1e-4)
    assert mixed.var(axis=0) == pytest.approx([1.0, 1.0], abs=1e-4)
    ridge = Ridge(alpha=0.5 * 4).fit(mixed, y.numpy())
    assert (mixing @ ridge.coef_).tolist() == pytest.approx(weight[0].tolist(), abs=SOLVED)
    assert float(ridge.intercept_) == pytest.approx(float(bias[0]), abs=SOLVED)


def decorrelated(parts: np.ndarray) -> np.ndarray:
    """Layers of standardised numbers, (examples, layers, width), by the formula: C to the power of -1/4."""
    correlation = np.einsum("elw,emw->lm", parts, parts) / (parts.shape[0] * parts.shape[2])
    sizes, axes = np.linalg.eigh(correlation)
    powers = sizes**-0.25 * np.sqrt(sizes.sum() / np.sqrt(sizes).sum())
    mixed: np.ndarray = np.einsum("elw,lm->emw", parts, (axes * powers) @ axes.T)
    return mixed


@pytest.mark.parametrize(("parts", "similar"), [(1, 0), (2, 2), (2, 1)])
def test_layers_are_decorrelated_by_what_they_share_on_average_over_their_numbers(parts: int, similar: int) -> None:
    shared, x = random(60, 1, 8), random(60, 3, 8, seed=1)
    x = 5.0 * (x + 2.0 * shared) + 1.0  # (examples, layers, width)
    y = x[:, 0, 0] - x[:, 1, 0] + random(60, seed=2)
    layout = Layout(layers=3, parts=parts, similarity_parts=similar)
    weight, bias = solve_at(x.flatten(1), y, strength=0.3, kind="scores", outputs=1, layout=layout)
    values = x.double().numpy()
    scaled = (values - values.mean(axis=0)) / values.std(axis=0)
    design = np.concatenate([decorrelated(part).reshape(60, -1) for part in np.split(scaled, parts, axis=2)], axis=1)
    if similar:
        sums = values.reshape(60, 3, parts, -1)[:, :, :similar].sum(axis=3).reshape(60, -1)
        design = np.column_stack([design, SUM_SCALE * (sums - sums.mean(axis=0)) / sums.std(axis=0)])
    theirs = Ridge(alpha=0.3 * 60).fit(design, y.numpy()).predict(design)
    assert (x.flatten(1) @ weight[0] + bias).numpy() == pytest.approx(theirs, rel=SOLVED, abs=5 * SOLVED)


def test_a_constant_number_has_no_weight_though_other_layers_have_one_at_its_place() -> None:
    x = random(40, 2, 3)
    x[:, 0, 1] = 7.0
    y = x[:, 1, 1] + 0.1 * random(40, seed=1)
    weight, _ = solve_at(x.flatten(1), y, strength=0.1, kind="scores", outputs=1, layout=Layout(layers=2))
    assert weight[0, 1] == 0
    assert weight[0, 4] > 0.5


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("kind", ["scores", "labels"])
def test_few_examples_are_solved_in_what_they_span_and_nothing_is_lost(
    kind: TaskKind, parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = random(20, 400) + 1.0
    x[:, 5] = 7.0  # a number that tells nothing
    y = x[:, :3].sum(dim=1) if kind == "scores" else (x[:, 0] > 1.0).long() + (x[:, 1] > 1.0)
    layout, outputs = Layout(layers=2, parts=parts, similarity_parts=parts - 1), 1 if kind == "scores" else 3
    sizes: list[tuple[int, ...]] = []
    axes = module._principal_components  # noqa: SLF001 - sees what is solved

    def look(inputs: Tensor) -> tuple[Tensor, Tensor]:
        sizes.append(tuple(inputs.shape))
        return axes(inputs)

    monkeypatch.setattr(module, "_principal_components", look)
    few = solve_at(x, y, strength=0.3, kind=kind, outputs=outputs, layout=layout)
    monkeypatch.setattr(module, "MIN_NUMBERS_PER_EXAMPLE", 10**6)
    whole = solve_at(x, y, strength=0.3, kind=kind, outputs=outputs, layout=layout)
    assert sizes == [(20, 20), (20, 400 + 2 * (parts - 1))]
    for mine, other in zip(few, whole, strict=True):
        torch.testing.assert_close(mine, other, rtol=SOLVED, atol=SOLVED)
    assert not few[0][:, 5].any() or parts > 1  # a sum's weight is one of every number in it


def test_labels_that_are_known_to_be_alike_have_less_of_a_penalty_on_what_they_share() -> None:
    x, covariance = random(50, 4), torch.tensor([[2.0, 1.0, -0.5], [1.0, 2.0, 0.2], [-0.5, 0.2, 1.0]])
    y = (x @ random(4, 3, seed=1) + random(50, 3, seed=2)).argmax(dim=1)
    everything = torch.ones(50, 1, dtype=torch.bool)
    problem = LinearProblem(x, y, everything, kind="labels", outputs=3, layout=Layout(), sums=False, weights=None)
    problem.set_prior(covariance[None])
    problem.solve(0.2)
    weight, bias = problem.map()
    values, goal = x.double().numpy(), y.numpy()
    scaled = (values - values.mean(axis=0)) / values.std(axis=0)
    precision = np.linalg.inv(covariance.double().numpy() / (covariance.trace().item() / 3))

    def loss(parameters: np.ndarray) -> float:
        map_, offset = parameters[:12].reshape(3, 4), parameters[12:]
        outputs = scaled @ map_.T + offset
        outputs = outputs - outputs.max(axis=1, keepdims=True)
        said = outputs[np.arange(50), goal] - np.log(np.exp(outputs).sum(axis=1))
        return float(-said.mean() + 0.1 * np.einsum("oi,op,pi->", map_, precision, map_))

    best = minimize(loss, np.zeros(15), method="BFGS", options={"gtol": 1e-7}).x
    theirs = torch.from_numpy(scaled @ best[:12].reshape(3, 4).T + best[12:]).softmax(dim=1)
    torch.testing.assert_close((x @ weight.T + bias).softmax(dim=1).double(), theirs, rtol=SOLVED, atol=SOLVED)


def solved(x: Tensor, y: Tensor, set_prior: Callable[[LinearProblem, Tensor], None]) -> Solution:
    """A solution for which labels share what `set_prior` lets them share."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(solve_module, "STRENGTHS", (10.0, 3.0, 1.0, 0.3, 0.1, 0.03))
        patch.setattr(LinearProblem, "set_prior", set_prior)
        return solve_linear(x, y, kind="labels", outputs=int(y.max()) + 1)


def share_nothing(_problem: LinearProblem, _covariance: Tensor) -> None:
    """Leave everything as it was."""


def in_order(examples: int) -> tuple[Tensor, Tensor]:
    """Five classes along one axis, and many inputs that tell nothing."""
    x = random(examples, 60)
    position = x[:, :20].sum(dim=1) + 3.0 * random(examples, seed=1)
    return x, torch.bucketize(position, position.quantile(torch.tensor([0.2, 0.4, 0.6, 0.8])))


def test_classes_in_an_order_share_what_they_learn() -> None:
    x, y = in_order(1200)
    plain, found = (solved(x[:300], y[:300], set_prior) for set_prior in (share_nothing, LinearProblem.set_prior))
    assert found.loss < 0.97 * plain.loss
    before, after = (nn.functional.cross_entropy(x[300:] @ one.weight.T + one.bias, y[300:]) for one in (plain, found))
    assert after < 0.97 * before


def test_what_labels_share_is_read_at_ten_times_the_best_strength(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = in_order(300)
    related: list[Tensor] = []
    seen: dict[float, Tensor] = {}
    solve, weight_gram = LinearProblem.solve, LinearProblem.weight_gram

    def note(problem: LinearProblem, strength: float) -> None:
        solve(problem, strength)
        seen.setdefault(strength, weight_gram(problem))  # of the first path, before anything is shared

    monkeypatch.setattr(LinearProblem, "solve", note)
    monkeypatch.setattr(solve_module, "STRENGTHS", (32.0, 3.2, 0.32, 0.032))
    monkeypatch.setattr(LinearProblem, "set_prior", lambda _, given: related.append(given))
    assert solve_linear(x, y, kind="labels", outputs=5).strength == 0.32
    assert [torch.equal(given, seen[3.2]) for given in related] == [True]


@pytest.mark.parametrize(("kind", "outputs", "times"), [("labels", 3, 1), ("labels", 2, 0), ("tags", 3, 0)])
def test_labels_share_only_where_there_are_three_of_which_one_is_right(
    kind: TaskKind, outputs: int, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = random(60, 4)
    right = (x @ random(4, outputs, seed=1) + random(60, outputs, seed=2)).argmax(dim=1)
    targets = right if kind == "labels" else nn.functional.one_hot(right, outputs)
    related: list[Tensor] = []
    monkeypatch.setattr(LinearProblem, "set_prior", lambda _, given: related.append(given))
    solve_linear(x, targets, kind=kind, outputs=outputs)
    assert len(related) == times


def test_where_sharing_misleads_the_folds_are_against_it() -> None:
    x, y = in_order(300)
    set_prior = LinearProblem.set_prior
    wrong = torch.tensor([1.0, -1.0, 1.0, -1.0, 0.0])  # as if every second class were alike

    def mislead(problem: LinearProblem, covariance: Tensor) -> None:
        set_prior(problem, torch.outer(wrong, wrong).expand_as(covariance))

    plain, found = (solved(x, y, how) for how in (share_nothing, mislead))
    assert found.loss == plain.loss
    assert torch.equal(found.weight, plain.weight)
