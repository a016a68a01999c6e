"""Solved heads have the solution in their weights, and read what it was solved for."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from bertvision.heads import HeadOptions, HeadShape
from bertvision.inference.computed_states import RowStates
from bertvision.runs.fitting import solve as solve_module
from bertvision.runs.fitting.solve import MIN_VALIDATION, TUNED_STRENGTH, Solver, solve_task
from bertvision.tasks.load import TASKS
from bertvision.tasks.task import Task
from bertvision.training.linear_problem import Layout
from bertvision.training.solve import STRENGTHS, Solution, solve_linear
from bertvision.training.trainee import HeadSpec, Trainee
from close import SOLVED

CPU = torch.device("cpu")


def rows(count: int, seed: int) -> RowStates:
    return RowStates(torch.randn(count, 3, 5, generator=torch.Generator().manual_seed(seed)) + 2, CPU)


@pytest.mark.parametrize(
    ("name", "options", "reads"),
    [
        ("last_layer", {}, slice(2, 3)),
        ("last_layer", {"layers": "0..1"}, slice(1, 2)),
        ("layer_concat", {}, slice(0, 3)),
        ("layer_concat", {"layers": "1..2"}, slice(1, 3)),
    ],
)
@pytest.mark.parametrize("task", ["sst2", "stsb"])
@torch.no_grad()
def test_a_solved_head_gives_what_the_solution_says(name: str, options: HeadOptions, reads: slice, task: str) -> None:
    outputs = TASKS[task].outputs
    trainee = Trainee(HeadSpec(head=name, options=options), HeadShape(layers=3, width=5, outputs=outputs), device=CPU)
    train, held_out = rows(120, 0), rows(40, 1)
    with torch.enable_grad():
        scores = [states.rows[:, reads].sum(dim=(1, 2)).numpy() for states in (train, held_out)]
        cut = float(np.median(scores[0]))
        targets = [(found > cut).astype(np.int64) if task == "sst2" else found.astype(np.float64) for found in scores]
        found = Solver(TASKS[task], train=(train, targets[0])).solve(trainee)
    said, _ = held_out.batch(np.arange(40)).read(trainee.head.eval(), "cls")
    expected = held_out.rows[:, reads].flatten(1) @ found.weight.T + found.bias
    torch.testing.assert_close(said[:, 0], expected, rtol=SOLVED, atol=SOLVED)
    if task == "stsb":
        assert found.loss < 0.05 * targets[1].var()  # it is linear, so it can be known
    else:
        assert (said[:, 0].argmax(dim=1).numpy() == targets[1]).mean() >= 0.8
    assert trainee.watch.seconds > 0


@pytest.mark.parametrize(("name", "lowest"), [("last_layer", 2), ("layer_concat", 0)])
def test_how_alike_two_texts_are_counts_by_itself(name: str, lowest: int) -> None:
    states = RowStates(torch.randn(60, 3, 16, generator=torch.Generator().manual_seed(0)), CPU, pairs="apart")
    noise = np.random.default_rng(0).normal(size=60)
    targets = (
        states.rows[:, 2, 8:].sum(dim=1).double().numpy() + noise
    )  # the sum tells, no number of it more than others
    trainee = Trainee(HeadSpec(head=name), HeadShape(layers=3, width=16, outputs=1), device=CPU)
    found = Solver(TASKS["stsb"], train=(states, targets)).solve(trainee)
    inputs, layout = states.rows[:, lowest:].flatten(1), Layout(layers=3 - lowest, parts=2, similarity_parts=2)
    expected = solve_linear(inputs, torch.from_numpy(targets), kind="scores", outputs=1, layout=layout)
    assert torch.equal(found.weight, expected.weight)
    assert found.loss == expected.loss
    single = RowStates(states.rows, CPU)
    assert not torch.equal(Solver(TASKS["stsb"], train=(single, targets)).solve(trainee).weight, expected.weight)


def test_a_head_that_sees_a_share_is_solved_from_it_alone() -> None:
    mine = np.arange(40) % 2 == 0
    states = rows(40, 0)
    targets = np.random.default_rng(0).integers(0, 2, 40)

    def solved(changed: np.ndarray) -> torch.Tensor:
        shape = HeadShape(layers=3, width=5, outputs=2)
        trainee = Trainee(HeadSpec(head="last_layer"), shape, device=CPU, rows=mine)
        Solver(TASKS["sst2"], train=(states, changed)).solve(trainee)
        return trainee.head.project.weight.detach()

    assert torch.equal(solved(targets), solved(np.where(mine, targets, 1 - targets)))
    assert not torch.equal(solved(targets), solved(np.where(mine, 1 - targets, targets)))


@torch.no_grad()
def test_rows_that_begin_above_layer_0_are_read_by_their_numbers() -> None:
    shape = HeadShape(layers=4, width=5, outputs=1)
    spec = HeadSpec(head="layer_concat", options={"layers": "1..2"})
    whole, cut = Trainee(spec, shape, device=CPU), Trainee(spec, shape, device=CPU)
    train, held_out = rows(60, 0), rows(20, 1)
    above = [RowStates(states.rows[:, 1:], CPU, lowest=1) for states in (train, held_out)]
    targets = [states.rows[:, 1].sum(dim=1).double().numpy() for states in (train, held_out)]
    with torch.enable_grad():
        Solver(TASKS["stsb"], train=(train, targets[0])).solve(whole)
        Solver(TASKS["stsb"], train=(above[0], targets[0])).solve(cut)
    assert torch.equal(whole.head.project.weight, cut.head.project.weight)


def test_heads_with_the_same_answer_are_solved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[int, ...]] = []

    def counted(inputs: torch.Tensor, *args: Any, **options: Any) -> Solution:  # noqa: ANN401 - as it was called
        calls.append(tuple(inputs.shape))
        return solve_linear(inputs, *args, **options)

    monkeypatch.setattr(solve_module, "solve_linear", counted)
    shape = HeadShape(layers=3, width=5, outputs=2)
    plain = HeadSpec(head="last_layer")
    few = np.arange(40) % 2 == 0
    specs = [plain, replace(plain, lr=0.1, seed=1), replace(plain, options={"dropout": 0.5})]
    others = [replace(plain, options={"layers": "0..1"}), HeadSpec(head="layer_concat")]
    trainees = [Trainee(spec, shape, device=CPU) for spec in (*specs, *others)]
    trainees.append(Trainee(replace(plain, fraction=0.5), shape, device=CPU, rows=few))
    targets = np.random.default_rng(0).integers(0, 2, 40)
    solver = Solver(TASKS["sst2"], train=(rows(40, 0), targets))
    strengths = [solver.solve(trainee).strength for trainee in trainees]
    assert calls == [(40, 5), (40, 5), (40, 15), (20, 5)]
    first, *copies = trainees[:3]
    for copy in copies:
        assert torch.equal(copy.head.project.weight, first.head.project.weight)
        assert torch.equal(copy.head.project.bias, first.head.project.bias)
        assert copy.watch.seconds == first.watch.seconds > 0
    assert len(set(strengths[:3])) == 1
    assert not torch.equal(trainees[3].head.project.weight, first.head.project.weight)
    assert not torch.equal(trainees[5].head.project.weight, first.head.project.weight)


def test_two_labels_are_decided_between_as_the_tasks_metrics_want_it() -> None:
    random = torch.Generator().manual_seed(0)
    targets = (np.arange(400) % 8 > 0).astype(np.int64)
    inputs = torch.randn(400, 3, generator=random) + 0.8 * torch.from_numpy(targets == 0)[:, None]
    accuracy, matthews = (solve_task(TASKS[name], inputs, targets, layout=Layout()) for name in ("sst2", "cola"))
    assert torch.equal(accuracy.weight, matthews.weight)
    assert matthews.bias[1] < accuracy.bias[1]
    said = (inputs @ matthews.weight.T + matthews.bias).argmax(dim=1).numpy()
    plain = (inputs @ accuracy.weight.T + accuracy.bias).argmax(dim=1).numpy()
    assert (said == 0).sum() > (plain == 0).sum()
    assert np.corrcoef(said, targets)[0, 1] > np.corrcoef(plain, targets)[0, 1] + 0.05  # what MCC is
    weights = torch.ones(2)
    assert torch.equal(
        solve_task(TASKS["cola"], inputs, targets, layout=Layout(), weights=weights).bias,
        solve_task(TASKS["sst2"], inputs, targets, layout=Layout(), weights=weights).bias,
    )


def memorised(count: int) -> tuple[RowStates, np.ndarray[Any, np.dtype[np.int64]]]:
    """Rows whose first number is the label, as of an encoder that knows its training texts by heart, amid noise."""
    targets = np.arange(count) % 2
    states = rows(count, 3)
    states.rows[:, :, 0] = torch.from_numpy(targets)[:, None] * 4.0
    return states, targets


@pytest.mark.parametrize("count", [MIN_VALIDATION, MIN_VALIDATION - 1])
def test_where_the_encoder_has_learned_from_the_texts_others_choose_the_penalty(count: int) -> None:
    states, targets = memorised(120)
    held_out = rows(count, 4), np.random.default_rng(0).integers(0, 2, count)  # nothing can be told of new texts
    spec, shape = HeadSpec(head="last_layer"), HeadShape(layers=3, width=5, outputs=2)
    by_folds, by_others = (Trainee(spec, shape, device=CPU) for _ in range(2))
    leaking = Solver(TASKS["sst2"], train=(states, targets)).solve(by_folds)
    found = Solver(TASKS["sst2"], train=(states, targets), held_out=held_out).solve(by_others)
    assert leaking.strength < 0.01
    assert found.strength == (TUNED_STRENGTH if count < MIN_VALIDATION else STRENGTHS[0])
    with torch.no_grad():
        outputs = by_others.head(held_out[0].rows[:, 2:, None], torch.ones(count, 1, dtype=torch.bool))[:, 0]
    expected = torch.nn.functional.cross_entropy(outputs, torch.from_numpy(held_out[1]))
    assert found.loss == pytest.approx(float(expected), rel=SOLVED)
    assert found.loss > 10 * leaking.loss


def test_all_rows_are_read_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    states, targets = rows(30, 0), np.arange(30) % 2
    places: list[int] = []

    def solve(_task: Task, inputs: torch.Tensor, *_: object, **__: object) -> Solution:
        places.append(inputs.data_ptr())
        return Solution(torch.zeros(2, inputs.shape[1]), torch.zeros(2), 1.0, 0.0)

    monkeypatch.setattr(solve_module, "solve_task", solve)
    chosen = targets == 1
    for some in (None, chosen):
        trainee = Trainee(HeadSpec(head="layer_concat"), HeadShape(layers=3, width=5, outputs=2), device=CPU, rows=some)
        Solver(TASKS["sst2"], train=(states, targets)).solve(trainee)
    assert [place == states.rows.data_ptr() for place in places] == [True, False]
