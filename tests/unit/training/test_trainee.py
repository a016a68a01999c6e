"""One head among many: its own weights, random numbers, losses and seconds."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from bertvision.heads import HeadShape
from bertvision.training import trainee as trainee_module
from bertvision.training.trainee import HeadSpec, Stopwatch, Trainee, trainees_as_module
from tiny_run import parameters

CPU = torch.device("cpu")
SHAPE = HeadShape(layers=3, width=8, outputs=2)


def make(head: str = "adapter_pool_64", **changes: float) -> Trainee:
    return Trainee(HeadSpec(head=head, **changes), SHAPE, device=CPU)  # type: ignore[arg-type]  # numbers of any field


def test_the_same_seed_gives_the_same_first_weights_whatever_was_drawn_before() -> None:
    first = parameters(make(seed=3).head)
    torch.rand(5)
    again, other = parameters(make(seed=3).head), parameters(make(seed=4).head)
    assert all(torch.equal(value, again[name]) for name, value in first.items())
    assert any(not torch.equal(value, other[name]) for name, value in first.items())


def test_making_a_head_draws_nothing_from_the_others() -> None:
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    make()
    assert torch.equal(torch.rand(3), expected)


def test_matrices_decay_and_all_else_does_not() -> None:
    trainee = make("adapter_pool_64_own_skip", lr=0.5, weight_decay=0.25)
    found = {id(value): group for group in trainee.groups() for value in _values(group)}
    names = dict(trainee.head.named_parameters())
    assert set(found) == {id(value) for value in names.values()}
    for name, value in names.items():
        assert found[id(value)]["lr"] == 0.5
        assert found[id(value)]["weight_decay"] == (0.0 if name.endswith("bias") else 0.25), name
    mixing = make("layer_weights", weight_decay=0.25)
    decays = {id(value): group["weight_decay"] for group in mixing.groups() for value in _values(group)}
    assert {name: decays[id(value)] for name, value in mixing.head.named_parameters()} == {
        "mix": 0.0,
        "scale": 0.0,
        "project.weight": 0.25,
        "project.bias": 0.0,
    }


def _values(group: dict[str, object]) -> list[nn.Parameter]:
    values = group["params"]
    assert isinstance(values, list)
    return values


def test_losses_are_averaged_over_windows_since_the_last_time() -> None:
    trainee = make()
    assert trainee.mean_loss() is None
    trainee.add(torch.tensor(3.0), 2)
    trainee.add(torch.tensor(6.0), 1)
    assert trainee.mean_loss() == 3.0
    assert trainee.mean_loss() is None
    trainee.add(torch.tensor(5.0), 1)
    assert trainee.mean_loss() == 5.0


@pytest.mark.parametrize(("chosen", "every"), [(12, 1), (6, 2), (5, 2), (4, 3), (3, 4), (1, 12)])
def test_one_that_sees_a_share_steps_as_rarely_as_the_share_is_small(chosen: int, every: int) -> None:
    rows = np.arange(12) < chosen
    assert Trainee(HeadSpec(head="last_layer"), SHAPE, device=CPU, rows=rows).every == every


def test_one_that_was_dropped_has_no_gradient_and_is_still_in_a_checkpoint() -> None:
    dropped, other = make(), make("last_layer")
    for value in [*dropped.head.parameters(), *other.head.parameters()]:
        value.grad = torch.ones_like(value)
    dropped.drop("it was too fast")
    assert dropped.failure == "it was too fast"
    assert all(value.grad is None for value in dropped.head.parameters())
    assert all(value.grad is not None for value in other.head.parameters())
    names = set(trainees_as_module([dropped, other]).state_dict())
    assert {name for name in names if name.startswith("1.")} == {"1.project.weight", "1.project.bias"}
    assert all(value.requires_grad for value in dropped.head.parameters())


def test_every_problem_of_a_spec_is_listed() -> None:
    bad = HeadSpec(head="last_layer", lr=0, schedule="odd", warmup=1, weight_decay=-1, clip=-2, fraction=2)  # type: ignore[arg-type]
    assert bad.problems() == [
        "--fraction is 2, more than 0 and at most 1 is expected",
        "--lr is 0, more than 0 and less than 1e+37 is expected",
        "--schedule is odd, one of constant, linear, cosine, restarts is expected",
        "--warmup is 1, at least 0 and less than 1 is expected",
        "--weight-decay is -1, at least 0 is expected",
        "--clip is -2, at least 0 is expected",
    ]
    assert HeadSpec(head="last_layer", seed=-1).problems() == ["--seed is -1, at least 0 is expected"]
    assert HeadSpec(head="last_layer", seed=2**63).problems() == [f"--seed is {2**63}, at most {2**63 - 1} is expected"]
    assert HeadSpec(head="last_layer", seed=2**63 - 1).problems() == []
    assert HeadSpec(head="last_layer", clip=0.0, warmup=0.0, weight_decay=0.0).problems() == []
    assert len(HeadSpec(head="last_layer", lr=float("nan"), fraction=float("nan")).problems()) == 2


def test_a_watch_adds_up_the_seconds_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([1.0, 3.5, 10.0, 10.25])
    monkeypatch.setattr(trainee_module, "time", SimpleNamespace(perf_counter=lambda: next(times)))
    watch = Stopwatch(CPU)
    for _ in range(2):
        with watch:
            pass
    assert watch.seconds == 2.75
    watch.seconds = 4.0
    assert watch.seconds == 4.0


def test_on_a_gpu_it_is_the_gpu_that_is_timed_and_nobody_waits_before_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([100, 350, 1000, 1100])  # milliseconds
    waits: list[int] = []

    class Event:
        at = 0

        def record(self) -> None:
            self.at = next(clock)

        def synchronize(self) -> None:
            waits.append(self.at)

        def elapsed_time(self, end: "Event") -> float:
            return end.at - self.at

    monkeypatch.setattr(trainee_module, "_event", Event)
    watch = Stopwatch(torch.device("cuda"))
    for _ in range(2):
        with watch:
            pass
    assert waits == []
    assert watch.seconds == 0.35
    assert watch.seconds == 0.35  # counted once
    assert waits == [350, 1100]
