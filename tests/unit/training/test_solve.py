"""Convex heads: the same as scikit-learn finds, for inputs as they are."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression, Ridge
from torch import Tensor

from bertvision.tasks.task import TaskKind
from bertvision.training import solve as solve_module
from bertvision.training.linear_problem import SUM_SCALE, Layout, LinearProblem, losses
from bertvision.training.solve import MIN_SHIFT_EXAMPLES, MIN_SUM_EXAMPLES, fold_rows, solve_at, solve_linear
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
TWO_TEXTS = Layout(parts=2, similarity_parts=2)


@pytest.fixture(autouse=True)
def labels_learn_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in scikit-learn; what they share where that is better has tests of its own."""
    monkeypatch.setattr(LinearProblem, "set_prior", lambda _, _covariance: None)


def standardised(inputs: Tensor) -> np.ndarray:
    values = inputs.double().numpy()
    return (values - values.mean(axis=0)) / values.std(axis=0)  # type: ignore[no-any-return]  # numpy's


def only(monkeypatch: pytest.MonkeyPatch, *strengths: float) -> None:
    monkeypatch.setattr(solve_module, "STRENGTHS", strengths)


@pytest.mark.parametrize("strength", [1.0, 0.01])
@pytest.mark.parametrize(("examples", "inputs"), [(60, 5), (12, 20)])  # more examples than inputs, and fewer
def test_scores_are_solved_as_scikit_learn_does(*, strength: float, examples: int, inputs: int) -> None:
    x, new = rows(examples, inputs), rows(7, inputs, seed=1)
    y = scores(x)
    weight, bias = solve_at(x, y, strength=strength, kind="scores", outputs=1)
    ridge = Ridge(alpha=strength * examples).fit(standardised(x), y.numpy())
    deviation = x.double().numpy().std(axis=0)
    assert weight.shape == (1, inputs)
    assert weight[0].numpy() * deviation == pytest.approx(ridge.coef_, abs=SOLVED)
    theirs = ridge.predict((new.double().numpy() - x.double().numpy().mean(axis=0)) / deviation)
    assert (new @ weight[0] + bias[0]).numpy() == pytest.approx(theirs, rel=SOLVED, abs=SOLVED)


@pytest.mark.parametrize(("least", "unit"), [(0.0, 3e8), (1e9, 1e6), (1e-5, 1e-6)])  # as of revenues and of shares
def test_scores_of_any_size_are_solved_alike(least: float, unit: float) -> None:
    x = rows(60, 5)
    y = scores(x)
    weight, bias = solve_at(x, least + unit * y, strength=0.01, kind="scores", outputs=1)
    same = solve_at(x, y, strength=0.01, kind="scores", outputs=1)
    assert ((x @ weight[0] + bias[0]).double() - least).numpy() / unit == pytest.approx(
        (x @ same[0][0] + same[1][0]).numpy(), abs=SOLVED
    )
    found, usual = (solve_linear(x, target, kind="scores", outputs=1) for target in (least + unit * y, y))
    assert found.strength == usual.strength
    assert found.loss / unit**2 == pytest.approx(usual.loss, rel=SOLVED)


@pytest.mark.parametrize("value", [0.0, 0.1, 3e5])
def test_scores_that_are_all_alike_are_what_is_said_of_every_text(value: float) -> None:
    x = rows(20, 5)
    weight, bias = solve_at(x, torch.full((20,), value, dtype=torch.float64), strength=0.1, kind="scores", outputs=1)
    assert (x @ weight[0] + bias[0]).numpy() == pytest.approx(value, rel=FLOAT32, abs=FLOAT32)


@pytest.mark.parametrize("strength", [1.0, 0.01])
def test_sums_of_blocks_are_further_inputs_with_little_penalty(strength: float) -> None:
    x, new = rows(40, 6), rows(7, 6, seed=1)
    y = scores(x)
    weight, bias = solve_at(x, y, strength=strength, kind="scores", outputs=1, layout=TWO_TEXTS)

    def with_sums(inputs: Tensor) -> np.ndarray:
        values = inputs.double().numpy()
        return np.column_stack([values, values[:, :3].sum(axis=1), values[:, 3:].sum(axis=1)])

    mean, deviation = with_sums(x).mean(axis=0), with_sums(x).std(axis=0) / np.array([1.0] * 6 + [SUM_SCALE] * 2)
    ridge = Ridge(alpha=strength * 40).fit((with_sums(x) - mean) / deviation, y.numpy())
    theirs = ridge.predict((with_sums(new) - mean) / deviation)
    assert weight.shape == (1, 6)
    assert (new @ weight[0] + bias[0]).numpy() == pytest.approx(theirs, rel=SOLVED, abs=SOLVED)


@pytest.mark.parametrize("telling", [True, False])
def test_sums_of_blocks_count_where_they_are_better_for_examples_that_were_not_learnt_from(*, telling: bool) -> None:
    x = torch.randn(60, 16, generator=torch.Generator().manual_seed(1))
    noise = torch.randn(60, generator=torch.Generator().manual_seed(2))
    y = (x[:, 8:].sum(dim=1) if telling else 3 * x[:, 0]) + noise
    plain, chosen = (solve_linear(x, y, kind="scores", outputs=1, layout=layout) for layout in (Layout(), TWO_TEXTS))
    assert torch.equal(chosen.weight, plain.weight) is not telling
    assert chosen.loss < plain.loss if telling else chosen.loss == plain.loss


@pytest.mark.parametrize(("examples", "ways"), [(60, [False, True]), (MIN_SUM_EXAMPLES, [True])])
def test_many_examples_need_not_try_to_do_without_sums(
    examples: int, ways: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[bool] = []

    def look(*inputs: Tensor, sums: bool, **options: Any) -> LinearProblem:  # noqa: ANN401 - handed on
        tried.append(sums)
        return LinearProblem(*inputs, sums=sums, **options)

    monkeypatch.setattr(solve_module, "LinearProblem", look)
    monkeypatch.setattr(solve_module, "STRENGTHS", (1.0,))
    x = torch.randn(examples, 8, generator=torch.Generator().manual_seed(0))
    for layout in (TWO_TEXTS, Layout()):
        solve_linear(x, x.sum(dim=1), kind="scores", outputs=1, layout=layout)
    assert tried == [*ways, False]


def test_however_strong_the_penalty_sums_of_blocks_are_learnt_from() -> None:
    x = torch.randn(200, 8, generator=torch.Generator().manual_seed(0))
    y = (x[:, 4:].sum(dim=1) > 0).long()
    plain, summed = (
        solve_at(x, y, strength=30.0, kind="labels", outputs=2, layout=layout)[0].diff(dim=0)[0]
        for layout in (Layout(), TWO_TEXTS)
    )
    assert summed[4:].min() > 5 * plain[4:].max()  # every number of the block that tells has a share in its weight
    assert summed[4:].std() < 0.2 * summed[4:].mean()
    assert summed[:4].abs().max() < 0.2 * summed[4:].mean()


@pytest.mark.parametrize("strength", [0.3, 0.01])
@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("weighted", [False, True])
def test_labels_are_solved_as_scikit_learn_does(*, strength: float, count: int, weighted: bool) -> None:
    x, new = rows(80, 6), rows(9, 6, seed=1)
    y = classes(x, count)
    weights = torch.arange(1, count + 1, dtype=torch.float32) if weighted else None
    weight, bias = solve_at(x, y, strength=strength, kind="labels", outputs=count, weights=weights)
    total = float(weights[y].sum()) if weights is not None else len(y)
    by_class = {label: label + 1 for label in range(count)} if weighted else None
    # two classes as two rows of opposite weights have half of one row's penalty
    model = LogisticRegression(
        C=(1.0 if count > 2 else 2.0) / (strength * total), tol=1e-8, max_iter=2000, class_weight=by_class
    ).fit(standardised(x), y.numpy())
    outside = (new.double().numpy() - x.double().numpy().mean(axis=0)) / x.double().numpy().std(axis=0)
    assert (new @ weight.T + bias).softmax(dim=1).numpy() == pytest.approx(model.predict_proba(outside), abs=SOLVED)


@pytest.mark.parametrize("strength", [0.3, 0.01])
@pytest.mark.parametrize("count", [1, 4])
def test_tags_are_solved_as_scikit_learn_does_label_by_label(*, strength: float, count: int) -> None:
    x, new = rows(80, 6), rows(9, 6, seed=1)
    y = tags(x, count)
    weight, bias = solve_at(x, y, strength=strength, kind="tags", outputs=count)
    outside = (new.double().numpy() - x.double().numpy().mean(axis=0)) / x.double().numpy().std(axis=0)
    mine = (new @ weight.T + bias).sigmoid().numpy()
    for label in range(count):
        model = LogisticRegression(C=1 / (strength * len(y)), tol=1e-8, max_iter=2000)
        model.fit(standardised(x), y[:, label].numpy())
        assert mine[:, label] == pytest.approx(model.predict_proba(outside)[:, 1], abs=SOLVED)


def test_answers_in_a_text_are_not_solved() -> None:
    x = rows(4, 2)
    with pytest.raises(AssertionError, match="are trained"):
        solve_at(x, x, strength=1.0, kind="spans", outputs=2)


@pytest.mark.parametrize("kind", ["scores", "labels", "tags"])
def test_the_loss_is_that_of_folds_by_maps_that_did_not_learn_from_them(
    kind: TaskKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    only(monkeypatch, 0.1)
    x = rows(60, 8)
    y, outputs = TARGETS[kind](x), OUTPUTS[kind]
    found = solve_linear(x, y, kind=kind, outputs=outputs, folds=3)
    fold = fold_rows(y.numpy(), 3, kind, np.arange(60))
    total = 0.0
    # all maps see inputs that were standardised by all examples
    scaled = torch.from_numpy(standardised(x)).float()
    for number in range(3):
        learnt, judged = fold != number, fold == number
        design, goal = scaled[learnt].numpy(), y.numpy()[learnt]
        if kind == "scores":
            model = Ridge(alpha=0.1 * learnt.sum()).fit(design, goal)
            said = model.predict(scaled.numpy()[judged])
            total += float((0.5 * (said - y.numpy()[judged]) ** 2).sum())
        elif kind == "labels":
            model = LogisticRegression(C=1 / (0.1 * learnt.sum()), tol=1e-8, max_iter=2000).fit(design, goal)
            said = model.predict_log_proba(scaled.numpy()[judged])
            total -= float(said[np.arange(judged.sum()), y.numpy()[judged]].sum())
        else:
            for label in range(outputs):
                model = LogisticRegression(C=1 / (0.1 * learnt.sum()), tol=1e-8, max_iter=2000)
                said = model.fit(design, goal[:, label]).predict_log_proba(scaled.numpy()[judged])
                total -= float(said[np.arange(judged.sum()), y.numpy()[judged, label]].sum())
    assert found.loss == pytest.approx(total / 60, rel=SOLVED)
    whole = solve_at(x, y, strength=0.1, kind=kind, outputs=outputs)
    mine, theirs = x @ found.weight.T + found.bias, x @ whole[0].T + whole[1]
    torch.testing.assert_close(mine, theirs, rtol=SOLVED, atol=SOLVED)  # it learnt from all of them


@pytest.mark.parametrize("kind", ["scores", "labels", "tags"])
def test_validation_examples_choose_the_strength_and_are_not_learned_from(
    kind: TaskKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = rows(90, 30)
    y, outputs = TARGETS[kind](x), OUTPUTS[kind]
    validation = x[60:], y[60:]
    strengths = (10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01)
    solved = {}
    for strength in strengths:
        only(monkeypatch, strength)
        solved[strength] = solve_linear(x[:60], y[:60], kind=kind, outputs=outputs, validation=validation)
    for found in solved.values():
        mean = losses(kind, validation[0] @ found.weight.T + found.bias, validation[1]).mean()
        assert found.loss == pytest.approx(float(mean), rel=SOLVED)
    only(monkeypatch, *strengths)
    best = solve_linear(x[:60], y[:60], kind=kind, outputs=outputs, validation=validation)
    assert best.strength == min(solved, key=lambda strength: solved[strength].loss)
    assert best.strength not in {strengths[0], strengths[-1]}
    wrong = y[60:].flip(0)  # other answers choose another strength, but at each strength they change nothing
    other = solve_linear(x[:60], y[:60], kind=kind, outputs=outputs, validation=(x[60:], wrong))
    assert other.strength > best.strength
    torch.testing.assert_close(other.weight, solved[other.strength].weight, rtol=SOLVED, atol=SOLVED)


@pytest.mark.parametrize("kind", ["scores", "labels", "tags"])
def test_the_strength_is_the_one_with_the_least_loss(kind: TaskKind, monkeypatch: pytest.MonkeyPatch) -> None:
    x = rows(60, 30)
    y, outputs = TARGETS[kind](x), OUTPUTS[kind]
    strengths = (10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01)
    found_losses = {}
    for strength in strengths:
        only(monkeypatch, strength)
        found_losses[strength] = solve_linear(x, y, kind=kind, outputs=outputs).loss
    only(monkeypatch, *strengths)
    found = solve_linear(x, y, kind=kind, outputs=outputs)
    assert found.strength == min(found_losses, key=found_losses.__getitem__)
    assert found.strength not in {strengths[0], strengths[-1]}
    assert found.loss == pytest.approx(found_losses[found.strength], rel=SOLVED)


def test_where_classes_have_weights_the_strength_is_chosen_by_them_too(monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, 0.1)
    x = rows(60, 8)
    y = torch.tensor([0, 0, 0, 0, 0, 1, 1, 1, 2, 2] * 6)
    weights = torch.tensor([0.5, 1.0, 2.0])
    found = solve_linear(x, y, kind="labels", outputs=3, folds=3, weights=weights)
    fold = fold_rows(y.numpy(), 3, "labels", np.arange(60))
    scaled, total = standardised(x), np.zeros(3)
    for number in range(3):
        learnt, judged = fold != number, fold == number
        counts = weights[y].numpy()[learnt]
        model = LogisticRegression(C=1 / (0.1 * counts.sum()), tol=1e-8, max_iter=2000)
        said = model.fit(scaled[learnt], y.numpy()[learnt], counts).predict_log_proba(scaled[judged])
        for label in range(3):
            total[label] -= said[y.numpy()[judged] == label, label].sum()
    assert found.loss == pytest.approx(float(weights.numpy() @ total / weights[y].sum()), rel=SOLVED)


def test_folds_have_as_many_of_every_class_and_of_like_scores() -> None:
    y = np.array([0] * 9 + [1] * 3)
    alone = np.arange(12)
    fold = fold_rows(y, 3, "labels", alone)
    assert [np.bincount(y[fold == number]).tolist() for number in range(3)] == [[3, 1]] * 3
    fold = fold_rows(np.arange(12.0), 3, "scores", alone)
    assert {tuple(np.sort(part // 3)) for part in (np.flatnonzero(fold == number) for number in range(3))} == {
        (0, 1, 2, 3)
    }
    assert np.bincount(fold_rows(np.zeros((12, 2)), 3, "tags", alone)).tolist() == [4, 4, 4]


def test_where_there_are_no_copies_folds_are_what_records_were_made_with() -> None:
    groups = np.random.default_rng(1).permutation(12)
    made: list[tuple[TaskKind, np.ndarray, list[int]]] = [
        ("labels", np.arange(12) % 3, [1, 3, 0, 2, 1, 1, 3, 0, 3, 0, 2, 2]),
        ("scores", np.arange(12) % 5 / 2.0, [1, 1, 2, 0, 3, 0, 0, 3, 1, 2, 2, 3]),
        ("tags", np.arange(24).reshape(12, 2) % 2, [2, 3, 1, 3, 3, 0, 0, 2, 2, 0, 1, 1]),
    ]
    for kind, targets, expected in made:
        assert fold_rows(targets, 4, kind, groups).tolist() == expected


@pytest.mark.parametrize("kind", ["scores", "labels", "tags"])
def test_copies_are_in_one_fold_and_folds_stay_about_equal(kind: TaskKind) -> None:
    random = np.random.default_rng(0)
    drawn = {
        "scores": random.normal(size=150),
        "labels": random.choice(3, 150, p=[0.7, 0.2, 0.1]),
        "tags": random.integers(0, 2, (150, 2)),
    }
    copies = random.integers(1, 7, 150)
    groups = random.permutation(np.repeat(np.arange(150), copies))
    targets = drawn[kind][groups]
    fold = fold_rows(targets, 5, kind, groups)
    assert len(set(zip(groups.tolist(), fold.tolist(), strict=True))) == 150
    assert np.bincount(fold, minlength=5).min() > 0.8 * len(groups) / 5
    for label in range(3) if kind == "labels" else ():
        assert np.ptp(np.bincount(fold[targets == label], minlength=5)) <= copies.max()


@pytest.mark.parametrize("kind", ["scores", "labels", "tags"])
def test_copies_do_not_flatter_the_loss_of_folds(kind: TaskKind) -> None:
    random = np.random.default_rng(0)
    x = torch.from_numpy(random.normal(size=(40, 30))).float()
    drawn = {"scores": random.normal(size=40), "labels": np.arange(40) % 2, "tags": random.integers(0, 2, (40, 3))}
    y = torch.from_numpy(drawn[kind])  # nothing to be learnt from x
    outputs = {"scores": 1, "labels": 2, "tags": 3}[kind]
    groups = np.arange(200) % 40
    alone = solve_linear(x, y, kind=kind, outputs=outputs)
    leaking = solve_linear(x[groups], y[groups], kind=kind, outputs=outputs)
    found = solve_linear(x[groups], y[groups], kind=kind, outputs=outputs, groups=groups)
    assert leaking.loss < 0.5 * alone.loss
    assert leaking.strength < 0.01 * alone.strength
    assert found.loss == pytest.approx(alone.loss, rel=0.1)
    assert found.strength >= 0.1 * alone.strength


def test_one_text_alone_is_solved_with_the_strongest_penalty() -> None:
    x, y = torch.ones(6, 2), torch.tensor([0, 1, 1, 0, 1, 1])
    found = solve_linear(x, y, kind="labels", outputs=2, groups=np.zeros(6, dtype=np.int64))
    assert found.strength == solve_module.STRENGTHS[0]
    assert (x @ found.weight.T + found.bias).softmax(dim=1)[0, 1].item() == pytest.approx(2 / 3, abs=SOLVED)


def test_more_folds_than_examples_are_one_for_each() -> None:
    x = rows(4, 2)
    y = torch.tensor([0, 1, 0, 1])
    nine, four = (solve_linear(x, y, kind="labels", outputs=2, folds=folds) for folds in (9, 4))
    assert nine.loss == four.loss
    assert torch.equal(nine.weight, four.weight)


def imbalanced() -> tuple[Tensor, Tensor]:
    """One example in eight is of class 0, and inputs tell little of it: the likelier class is nearly always 1."""
    random = torch.Generator().manual_seed(0)
    y = (torch.arange(2 * MIN_SHIFT_EXAMPLES) % 8 > 0).long()
    return torch.randn(len(y), 3, generator=random) + 0.8 * (y == 0)[:, None], y


def balanced_accuracy(golds: np.ndarray, given: np.ndarray, counts: np.ndarray | None = None) -> float:
    counts = np.ones(len(golds)) if counts is None else counts
    right = [np.average(given == label, weights=counts * (golds == label)) for label in (0, 1)]
    return float(np.mean(right))


def f1(golds: np.ndarray, given: np.ndarray, counts: np.ndarray) -> float:
    return float(2 * (counts * golds * given).sum() / (counts * (golds + given)).sum())


def test_between_two_labels_is_decided_where_the_score_is_best() -> None:
    x, y = imbalanced()
    plain = solve_linear(x, y, kind="labels", outputs=2)
    shifted = solve_linear(x, y, kind="labels", outputs=2, score=balanced_accuracy)
    assert torch.equal(plain.weight, shifted.weight)
    assert shifted.bias[0] == plain.bias[0]
    assert shifted.bias[1] < plain.bias[1] - 0.5
    said = [(x @ found.weight.T + found.bias).argmax(dim=1).numpy() for found in (plain, shifted)]
    before, after = (balanced_accuracy(y.numpy(), given) for given in said)
    assert after > before + 0.1


def test_for_the_decision_each_example_counts_as_both_labels_as_likely_as_they_are() -> None:
    x, y = imbalanced()
    asked: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    def note(golds: np.ndarray, given: np.ndarray, counts: np.ndarray) -> float:
        asked.append((golds, given, counts))
        return 0.0

    solve_linear(x, y, kind="labels", outputs=2, score=note)
    for golds, given, counts in asked:
        assert golds.tolist() == [1] * len(y) + [0] * len(y)
        assert given[: len(y)].tolist() == given[len(y) :].tolist()
        assert counts[: len(y)] + counts[len(y) :] == pytest.approx(np.ones(len(y)))
        assert counts[: len(y)].mean() == pytest.approx(7 / 8, abs=0.01)  # as frequent as class 1


def test_f1_is_best_where_a_label_is_half_as_likely_as_the_best_f1() -> None:
    # a theorem: Lipton, Elkan & Naryanaswamy 2014
    random = torch.Generator().manual_seed(0)
    x = torch.randn(4000, 2, generator=random)
    y = (torch.rand(4000, generator=random) < (2 * x[:, 0] - 2).sigmoid()).long()
    plain, shifted = (solve_linear(x, y, kind="labels", outputs=2, score=score) for score in (None, f1))
    cut = float((plain.bias[1] - shifted.bias[1]).sigmoid())
    found = (x @ shifted.weight.T + shifted.bias).argmax(dim=1).numpy()
    best = f1(y.numpy(), found, np.ones(4000))
    assert 0.3 < cut < 0.45
    assert cut == pytest.approx(best / 2, abs=0.03)


def accuracy(golds: np.ndarray, given: np.ndarray, counts: np.ndarray) -> float:
    return float((counts * (golds == given)).sum() / counts.sum())


def test_a_score_that_wants_the_likelier_label_or_has_few_examples_shifts_nothing() -> None:
    x, y = imbalanced()
    few = MIN_SHIFT_EXAMPLES - 1
    even = (x[:, 0] + x.flip(1)[:, 0] > 0.5).long()
    for inputs, targets, score in [
        (x, y, lambda *_: 0.5),
        (x + 0.5 * x.flip(0), even, accuracy),
        (x[:few], y[:few], balanced_accuracy),
    ]:
        plain = solve_linear(inputs, targets, kind="labels", outputs=2)
        assert torch.equal(solve_linear(inputs, targets, kind="labels", outputs=2, score=score).bias, plain.bias)


@pytest.mark.parametrize("value", [0.0, 0.1, 1000.1])
@pytest.mark.parametrize("kind", ["scores", "labels", "tags"])
def test_a_constant_column_does_no_harm(value: float, kind: TaskKind) -> None:
    x = rows(50, 4)
    y, outputs = TARGETS[kind](x), OUTPUTS[kind]
    plain = solve_linear(x, y, kind=kind, outputs=outputs)
    # but for a rounding
    column = value * (1 + 1e-6 * (torch.arange(50)[:, None] % 2)) + 1e-7 * (torch.arange(50)[:, None] % 3)
    found = solve_linear(torch.cat([x, column], dim=1), y, kind=kind, outputs=outputs)
    assert found.strength == plain.strength
    torch.testing.assert_close(found.weight[:, :4], plain.weight, rtol=SOLVED, atol=SOLVED)
    assert found.loss == pytest.approx(plain.loss, rel=SOLVED)
    assert found.weight[:, 4].abs().max() < 1
