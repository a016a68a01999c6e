"""Convex heads: the same as scikit-learn finds, for inputs as they are."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression, Ridge
from torch import Tensor

from bertvision.tasks.task import TaskKind
from bertvision.training import solve as solve_module
from bertvision.training.solve import STRENGTHS, solve_linear
from close import FLOAT32, SOLVED


def rows(examples: int, inputs: int, seed: int = 0) -> Tensor:
    """Inputs of very different sizes and means."""
    random = torch.Generator().manual_seed(seed)
    scales = 10 ** torch.linspace(-1, 1, inputs)
    return torch.randn(examples, inputs, generator=random) * scales + 3 * scales.flip(0)


def classes(inputs: Tensor, count: int, seed: int = 0) -> Tensor:
    """Classes that depend on the inputs, but not altogether."""
    random = torch.Generator().manual_seed(seed)
    scaled = (inputs - inputs.mean(dim=0)) / inputs.std(dim=0).clamp(min=1e-3)
    weight = torch.randn(inputs.shape[1], count, generator=random)
    return (scaled @ weight + torch.randn(len(inputs), count, generator=random)).argmax(dim=1)


def scores(inputs: Tensor) -> Tensor:
    scaled = (inputs - inputs.mean(dim=0)) / inputs.std(dim=0).clamp(min=1e-3)
    noise = torch.randn(len(inputs), generator=torch.Generator().manual_seed(9))
    return (scaled[:, 0] - 2 * scaled[:, 1] + noise + 4).double()


def tags(inputs: Tensor, count: int) -> Tensor:
    """Labels of which each depends on the inputs in its own way, some of them rare."""
    return torch.stack([classes(inputs, 2 + number, seed=number) == 0 for number in range(count)], dim=1).long()


TARGETS: dict[TaskKind, Callable[[Tensor], Tensor]] = {
    "scores": scores,
    "labels": lambda inputs: classes(inputs, 3),
    "tags": lambda inputs: tags(inputs, 3),
}
OUTPUTS: dict[TaskKind, int] = {"scores": 1, "labels": 3, "tags": 3}


def standardised(inputs: Tensor) -> np.ndarray:
    values = inputs.double().numpy()
    return (values - values.mean(axis=0)) / values.std(axis=0)  # type: ignore[no-any-return]  # numpy's


def only(monkeypatch: pytest.MonkeyPatch, strength: float) -> None:
    monkeypatch.setattr(solve_module, "STRENGTHS", (strength,))


@pytest.mark.parametrize("strength", [1.0, 0.01])
@pytest.mark.parametrize(("examples", "inputs"), [(60, 5), (12, 20)])  # over inputs, and over examples
def test_scores_are_solved_as_scikit_learn_does(
    *, strength: float, examples: int, inputs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    only(monkeypatch, strength)
    x, new = rows(examples, inputs), rows(7, inputs, seed=1)
    y = scores(x)
    found = solve_linear(x, y, held_out=(new, scores(new)), kind="scores", outputs=1)
    ridge = Ridge(alpha=strength * examples).fit(standardised(x), y.numpy())
    deviation = x.double().numpy().std(axis=0)
    assert found.weight.shape == (1, inputs)
    assert found.weight[0].numpy() * deviation == pytest.approx(ridge.coef_, abs=SOLVED)
    mine = new @ found.weight[0] + found.bias[0]
    theirs = ridge.predict((new.double().numpy() - x.double().numpy().mean(axis=0)) / deviation)
    assert mine.numpy() == pytest.approx(theirs, rel=SOLVED, abs=SOLVED)
    assert found.loss == pytest.approx(((theirs - scores(new).numpy()) ** 2).mean(), rel=SOLVED)


def test_solving_over_examples_and_over_inputs_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, 0.1)
    x = rows(10, 11)
    y = scores(x)
    over_examples = solve_linear(x, y, held_out=(x, y), kind="scores", outputs=1)
    over_inputs = solve_linear(
        torch.cat([x, x]), torch.cat([y, y]), held_out=(x, y), kind="scores", outputs=1
    )  # 20 of 11
    torch.testing.assert_close(over_inputs.weight, over_examples.weight, rtol=SOLVED, atol=SOLVED)
    torch.testing.assert_close(over_inputs.bias, over_examples.bias, rtol=SOLVED, atol=SOLVED)


@pytest.mark.parametrize("strength", [0.3, 0.01])
@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("weighted", [False, True])
def test_labels_are_solved_as_scikit_learn_does(
    *, strength: float, count: int, weighted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    only(monkeypatch, strength)
    x, new = rows(80, 6), rows(9, 6, seed=1)
    y = classes(x, count)
    weights = torch.arange(1, count + 1, dtype=torch.float32) if weighted else None
    found = solve_linear(x, y, held_out=(new, classes(new, count)), kind="labels", outputs=count, weights=weights)
    total = float(weights[y].sum()) if weights is not None else len(y)
    by_class = {label: label + 1 for label in range(count)} if weighted else None
    # two classes as two rows of opposite weights have half of one row's penalty
    model = LogisticRegression(
        C=(1.0 if count > 2 else 2.0) / (strength * total), tol=1e-8, max_iter=2000, class_weight=by_class
    ).fit(standardised(x), y.numpy())
    outside = (new.double().numpy() - x.double().numpy().mean(axis=0)) / x.double().numpy().std(axis=0)
    mine = (new @ found.weight.T + found.bias).softmax(dim=1).numpy()
    assert mine == pytest.approx(model.predict_proba(outside), abs=SOLVED)
    gold = classes(new, count).numpy()
    assert found.loss == pytest.approx(-np.log(mine[np.arange(9), gold]).mean(), rel=FLOAT32)  # every example alike


@pytest.mark.parametrize("strength", [0.3, 0.01])
@pytest.mark.parametrize("count", [1, 4])
def test_tags_are_solved_as_scikit_learn_does_label_by_label(
    *, strength: float, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    only(monkeypatch, strength)
    x, new = rows(80, 6), rows(9, 6, seed=1)
    y, gold = tags(x, count), tags(new, count).numpy()
    found = solve_linear(x, y, held_out=(new, tags(new, count)), kind="tags", outputs=count)
    outside = (new.double().numpy() - x.double().numpy().mean(axis=0)) / x.double().numpy().std(axis=0)
    mine = (new @ found.weight.T + found.bias).sigmoid().numpy()
    for label in range(count):
        model = LogisticRegression(C=1 / (strength * len(y)), tol=1e-8, max_iter=2000)
        model.fit(standardised(x), y[:, label].numpy())
        assert mine[:, label] == pytest.approx(model.predict_proba(outside)[:, 1], abs=SOLVED)
    assert found.loss == pytest.approx(-np.log(np.where(gold == 1, mine, 1 - mine)).mean(), rel=FLOAT32)


def test_answers_in_a_text_are_not_solved() -> None:
    x = rows(4, 2)
    with pytest.raises(AssertionError, match="are trained"):
        solve_linear(x, x, held_out=(x, x), kind="spans", outputs=2)


@pytest.mark.parametrize("kind", ["scores", "labels", "tags"])
def test_the_strength_is_the_one_with_the_least_loss_on_held_out_examples(
    kind: TaskKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, new = rows(40, 30), rows(200, 30, seed=1)
    target, outputs = TARGETS[kind], OUTPUTS[kind]
    found = solve_linear(x, target(x), held_out=(new, target(new)), kind=kind, outputs=outputs)
    losses = {}
    for strength in STRENGTHS:
        only(monkeypatch, strength)
        losses[strength] = solve_linear(x, target(x), held_out=(new, target(new)), kind=kind, outputs=outputs).loss
    assert found.strength == min(losses, key=losses.__getitem__)
    assert found.strength not in {STRENGTHS[0], STRENGTHS[-1]}
    assert found.loss == pytest.approx(losses[found.strength], rel=SOLVED)


def test_held_out_examples_choose_and_are_not_learnt_from(monkeypatch: pytest.MonkeyPatch) -> None:
    x, new = rows(40, 5), rows(20, 5, seed=1)
    only(monkeypatch, 0.1)
    first = solve_linear(x, classes(x, 2), held_out=(new, classes(new, 2)), kind="labels", outputs=2)
    second = solve_linear(x, classes(x, 2), held_out=(new, 1 - classes(new, 2)), kind="labels", outputs=2)
    assert torch.equal(first.weight, second.weight)
    assert first.loss != second.loss


@pytest.mark.parametrize("value", [0.0, 0.1, 1000.1])
@pytest.mark.parametrize("kind", ["scores", "labels", "tags"])
def test_a_constant_column_does_no_harm(value: float, kind: TaskKind) -> None:
    x, new = rows(50, 4), rows(20, 4, seed=1)
    target, outputs = TARGETS[kind], OUTPUTS[kind]
    y, gold = target(x), target(new)
    plain = solve_linear(x, y, held_out=(new, gold), kind=kind, outputs=outputs)
    constant = torch.cat([x, torch.full((50, 1), value)], dim=1)
    # new examples have another value there, if only by a rounding
    held_out = torch.cat([new, torch.full((20, 1), value * (1 + 1e-6) + 1e-7)], dim=1)
    found = solve_linear(constant, y, held_out=(held_out, gold), kind=kind, outputs=outputs)
    assert found.strength == plain.strength
    torch.testing.assert_close(found.weight[:, :4], plain.weight, rtol=SOLVED, atol=SOLVED)
    assert found.loss == pytest.approx(plain.loss, rel=SOLVED)
    assert found.weight[:, 4].abs().max() < 1
