"""Many heads in one pass: each ends as if it were alone, to the last bit."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertvision.encoder.states import HiddenStates
from bertvision.errors import BertVisionError, MisfitError
from bertvision.heads import HeadShape
from bertvision.tasks.examples import FloatArray, IntArray
from bertvision.tasks.load import TASKS
from bertvision.tasks.task import Task
from bertvision.training import fit as fit_module
from bertvision.training import recorded as recorded_module
from bertvision.training.data import TrainBatch
from bertvision.training.fit import FitData, fit_trainees
from bertvision.training.options import TuneOptions
from bertvision.training.plan import Plan
from bertvision.training.states import StateBatch
from bertvision.training.trainee import HeadSpec, Trainee
from close import DEEP, FLOAT32, about

CPU, GPU = torch.device("cpu"), torch.device("cuda")
COUNT, LAYERS, TOKENS, WIDTH, BATCH = 48, 3, 6, 8, 4
RAW = np.random.default_rng(0)
LENGTHS: IntArray = RAW.integers(2, TOKENS + 1, COUNT)
CLASSES: IntArray = RAW.integers(0, 2, COUNT)
SPANS: IntArray = np.stack([np.zeros(COUNT, dtype=np.int64), LENGTHS - 1], axis=1)
SCORES: FloatArray = RAW.normal(size=COUNT)
TARGETS: dict[str, IntArray | FloatArray] = {"sst2": CLASSES, "squad2": SPANS, "stsb": SCORES}

DROPOUT = HeadSpec(head="last_layer", options={"dropout": 0.5}, seed=1)
LADDER = HeadSpec(head="ladder", options={"size": 4, "heads": 1, "dropout": 0.3}, seed=2, lr=1e-2)
SUBSET = HeadSpec(head="adapter_pool", options={"size": 4}, fraction=0.25, seed=3, lr=1e-2, clip=0.0)
NORMED = HeadSpec(head="conv", options={"filters": (4, 4, 4), "dropout": 0.2}, seed=5, schedule="cosine")
WILD = HeadSpec(head="layer_mix", lr=1e30, clip=0.0)


@dataclass
class Memory:
    """States of every window, noisy with their class; calls somebody before it hands some out."""

    before: Callable[[], None] = lambda: None
    asked: int = 0
    device: torch.device = CPU

    def __post_init__(self) -> None:
        random = torch.Generator().manual_seed(0)
        self.states = torch.randn(COUNT, LAYERS, TOKENS, WIDTH, generator=random)
        self.states[..., 0] += torch.from_numpy(CLASSES)[:, None, None]

    def batch(self, rows: IntArray) -> StateBatch:
        self.asked += 1
        self.before()
        longest = int(LENGTHS[rows].max())
        mask = torch.arange(longest) < torch.from_numpy(LENGTHS[rows])[:, None]
        states = self.states[torch.from_numpy(rows), :, :longest]
        return StateBatch(HiddenStates(states.to(self.device), mask.to(self.device)))


@dataclass
class Notes:
    """A watcher that writes everything down."""

    begun: tuple[int, int] | None = None
    logged: dict[int, dict[int, float]] = field(default_factory=dict)
    dropped: list[tuple[int, int]] = field(default_factory=list)
    judged: list[tuple[float, int]] = field(default_factory=list)

    def on_begin(self, step: int, total: int) -> None:
        self.begun = (step, total)

    def on_step(self, step: int) -> None:
        """Nothing."""

    def on_log(self, step: int, losses: Mapping[int, float]) -> None:
        self.logged[step] = dict(losses)

    def on_drop(self, number: int, step: int) -> None:
        self.dropped.append((number, step))

    def on_validate(self, fraction: float, step: int) -> None:
        self.judged.append((fraction, step))


def share(fraction: float) -> NDArray[np.bool_] | None:
    return None if fraction == 1.0 else np.random.default_rng(7).permutation(COUNT) < fraction * COUNT


def make(specs: Sequence[HeadSpec], task: Task, device: torch.device = CPU) -> list[Trainee]:
    shape = HeadShape(layers=LAYERS, width=WIDTH, outputs=task.outputs)
    return [Trainee(spec, shape, device=device, rows=share(spec.fraction)) for spec in specs]


def fit(
    run: Path,
    *specs: HeadSpec,
    task: str = "sst2",
    epochs: float = 2,
    fractions: Sequence[float] = (),
    targets: IntArray | FloatArray | None = None,
    memory: Memory | None = None,
    trainees: list[Trainee] | None = None,
    weights: Tensor | None = None,
    ahead: bool = False,
    device: torch.device = CPU,
) -> tuple[list[Trainee], Notes]:
    """Fit heads in a folder; those that learnt, and what was told of them."""
    notes = Notes()
    trainees = trainees or make(specs, TASKS[task], device)
    fit_trainees(
        trainees,
        FitData(
            task=TASKS[task],
            targets=TARGETS[task] if targets is None else targets,
            states=memory or Memory(device=device),
            pool="mean",
            device=device,
            batch=BATCH,
            class_weights=weights,
            ahead=ahead,
        ),
        Plan(LENGTHS, TuneOptions(epochs=epochs, batch=BATCH)),
        run=run,
        fractions=[*fractions, epochs],
        watcher=notes,
    )
    return trainees, notes


def tensors(trainee: Trainee) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in trainee.head.state_dict().items()}


def same(first: Trainee, second: Trainee) -> bool:
    mine, other = tensors(first), tensors(second)
    return mine.keys() == other.keys() and all(torch.equal(value, other[name]) for name, value in mine.items())


@pytest.mark.parametrize("task", ["sst2", "squad2"])
@pytest.mark.parametrize("spec", [DROPOUT, LADDER, SUBSET, NORMED], ids=lambda spec: spec.head)
def test_a_head_ends_the_same_to_the_last_bit_alone_and_among_others(spec: HeadSpec, task: str, tmp_path: Path) -> None:
    [alone], notes = fit(tmp_path / "alone", spec, task=task)
    assert notes.begun == (0, 24)
    others = [other for other in (WILD, DROPOUT, LADDER, SUBSET, NORMED) if other is not spec]
    torch.rand(3)  # a stranger's draw changes nothing either
    together, notes = fit(tmp_path / "together", *others[:2], spec, *others[2:], task=task)
    assert same(together[2], alone)
    assert notes.dropped == [(0, 20)]
    assert not same(alone, make([spec], TASKS[task])[0])


@pytest.mark.parametrize("task", ["sst2", "squad2"])
def test_batches_made_ahead_change_no_bit(task: str, tmp_path: Path) -> None:
    plain, notes = fit(tmp_path / "plain", DROPOUT, LADDER, SUBSET, task=task)
    ahead, others = fit(tmp_path / "ahead", DROPOUT, LADDER, SUBSET, task=task, ahead=True)
    assert all(same(one, other) for one, other in zip(plain, ahead, strict=True))
    assert notes == others


@pytest.mark.parametrize("ahead", [False, True])
def test_states_that_cannot_be_read_end_the_fit_with_their_error(ahead: bool, tmp_path: Path) -> None:  # noqa: FBT001
    calls = iter(range(5))

    def fail_at_the_sixth() -> None:
        if next(calls, None) is None:
            raise BertVisionError("shard 3 cannot be read")

    trainees = make([HeadSpec(head="last_layer")], TASKS["sst2"])
    first = tensors(trainees[0])
    with pytest.raises(BertVisionError, match=r"^shard 3 cannot be read$"):
        fit(tmp_path, trainees=trainees, memory=Memory(before=fail_at_the_sixth), ahead=ahead)
    assert not torch.equal(tensors(trainees[0])["project.weight"], first["project.weight"])
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("prefetch")]


def test_a_gpu_without_room_is_told_with_what_helps(tmp_path: Path) -> None:
    [trainee] = make([HeadSpec(head="last_layer")], TASKS["sst2"])

    def fill(*_: object) -> None:
        raise torch.OutOfMemoryError

    trainee.head.register_forward_hook(fill)
    with pytest.raises(MisfitError, match=r"no room for 4 windows and what 1 heads .*smaller --batch or fewer --heads"):
        fit(tmp_path, trainees=[trainee])


def test_a_fit_that_is_interrupted_leaves_no_thread_behind(tmp_path: Path) -> None:
    [trainee] = make([HeadSpec(head="last_layer")], TASKS["sst2"])

    def leave(*_: object) -> None:
        raise KeyboardInterrupt

    trainee.head.register_forward_hook(leave)
    with pytest.raises(KeyboardInterrupt):
        fit(tmp_path, trainees=[trainee], ahead=True)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("prefetch")]


def test_the_same_seed_gives_the_same_weights_and_another_seed_others(tmp_path: Path) -> None:
    first, twin = (HeadSpec(head="dense_stack", seed=4) for _ in range(2))
    [one, again, other], _ = fit(tmp_path, first, twin, HeadSpec(head="dense_stack", seed=5))
    assert same(one, again)
    assert not same(one, other)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("task", ["sst2", "squad2"])
def test_recorded_steps_end_where_single_steps_do(
    task: str,
    ahead: bool,  # noqa: FBT001
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    specs = [DROPOUT, LADDER, SUBSET, NORMED]
    played = 0
    play = recorded_module._Recording.play  # noqa: SLF001 - to see that it is not in vain

    def count(recording: recorded_module._Recording, train_batch: TrainBatch) -> Tensor:
        nonlocal played
        played += 1
        return play(recording, train_batch)

    monkeypatch.setattr(recorded_module._Recording, "play", count)  # noqa: SLF001
    recorded, notes = fit(tmp_path / "recorded", *specs, task=task, device=GPU, epochs=4, ahead=ahead)
    assert played > 3 * 20
    monkeypatch.setattr(fit_module, "MAX_RECORDED_BYTES", 0)
    single, others = fit(tmp_path / "single", *specs, task=task, device=GPU, epochs=4, ahead=ahead)
    for one, other in zip(recorded, single, strict=True):
        mine, theirs = tensors(one), tensors(other)
        if task == "squad2":  # the bias of a span raises all tokens alike: its gradient is rounding alone
            del mine["project.bias"], theirs["project.bias"]
        torch.testing.assert_close(mine, theirs, rtol=0.0, atol=DEEP)
    for step, losses in notes.logged.items():
        assert losses == about_all(others.logged[step])


def about_all(losses: Mapping[int, float]) -> dict[int, float]:
    return {number: about(loss, DEEP) for number, loss in losses.items()}


def test_heads_learn(tmp_path: Path) -> None:
    _, notes = fit(tmp_path, HeadSpec(head="layer_mix", lr=3e-2), LADDER, epochs=10)
    assert sorted(notes.logged) == [20, 40, 60, 80, 100, 120]
    for number in range(2):
        assert notes.logged[120][number] < 0.8 * notes.logged[20][number]


def test_one_that_sees_a_share_learns_from_it_alone(tmp_path: Path) -> None:
    mine = share(SUBSET.fraction)
    assert mine is not None
    whole = HeadSpec(head="last_layer")
    [first, all_of_it], _ = fit(tmp_path / "first", SUBSET, whole)
    changed = np.where(mine, CLASSES, 1 - CLASSES)
    [second, other], _ = fit(tmp_path / "second", SUBSET, whole, targets=changed)
    assert same(first, second)
    assert not same(all_of_it, other)
    changed = CLASSES.copy()
    changed[np.flatnonzero(mine)[0]] ^= 1
    [third], _ = fit(tmp_path / "third", SUBSET, targets=changed)
    assert not same(first, third)


def test_heads_of_one_fraction_share_the_windows_and_end_as_each_alone(
    tmp_path: Path,
) -> None:
    half = replace(DROPOUT, fraction=0.5)
    specs = SUBSET, half, DROPOUT, replace(SUBSET, seed=4), replace(half, head="layer_mix")
    alone = [fit(tmp_path / str(number), spec)[0][0] for number, spec in enumerate(specs)]
    with patch.object(StateBatch, "only", autospec=True, side_effect=StateBatch.only) as only:
        together, notes = fit(tmp_path / "together", *specs)
    assert notes.begun is not None
    assert only.call_count == 2 * notes.begun[1]
    assert all(same(one, other) for one, other in zip(alone, together, strict=True))


@pytest.mark.parametrize(("fraction", "steps"), [(1.0, range(12)), (0.5, range(1, 12, 2)), (0.25, range(3, 12, 4))])
def test_one_that_sees_a_share_steps_every_few_batches(fraction: float, steps: range, tmp_path: Path) -> None:
    spec = HeadSpec(head="last_layer", fraction=fraction, schedule="constant", warmup=0.0)
    [trainee] = make([spec], TASKS["sst2"])
    seen: list[Tensor] = []
    memory = Memory(before=lambda: seen.append(trainee.head.project.weight.detach().clone()))
    fit(tmp_path, trainees=[trainee], epochs=1, memory=memory)
    seen.append(trainee.head.project.weight.detach().clone())
    assert [step for step in range(12) if not torch.equal(seen[step], seen[step + 1])] == list(steps)


def test_what_is_left_at_the_end_is_learnt_too(tmp_path: Path) -> None:
    spec = HeadSpec(head="last_layer", schedule="constant", warmup=0.0)
    [trainee] = make([spec], TASKS["sst2"])
    trainee.every = 5
    seen: list[Tensor] = []
    memory = Memory(before=lambda: seen.append(trainee.head.project.weight.detach().clone()))
    fit(tmp_path, trainees=[trainee], epochs=1, memory=memory)
    seen.append(trainee.head.project.weight.detach().clone())
    assert [step for step in range(12) if not torch.equal(seen[step], seen[step + 1])] == [4, 9, 11]


def plain_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps of a plain gradient, so that they can be worked out by hand."""

    def descent(groups: list[dict[str, object]], **_options: object) -> torch.optim.SGD:
        return torch.optim.SGD(groups)

    monkeypatch.setattr(torch.optim, "AdamW", descent)


@pytest.mark.parametrize("clip", [0.0, 0.125])
def test_gradients_that_wait_are_summed_and_clipped_as_one(
    clip: float, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plain_steps(monkeypatch)
    spec = HeadSpec(head="last_layer", lr=0.5, schedule="constant", warmup=0.0, weight_decay=0.0, clip=clip)
    stepping = HeadSpec(head="last_layer", lr=0.5)  # makes the optimiser step at every batch
    trainee, other = make([spec, stepping], TASKS["stsb"])
    trainee.rows = np.isin(np.arange(COUNT), (3, 30))
    trainee.every = 100  # one step, at the end
    torch.nn.init.zeros_(trainee.head.project.weight)
    memory = Memory()
    fit(tmp_path, trainees=[trainee, other], task="stsb", epochs=1, memory=memory)
    # from 0 the loss y² of a row x has the gradient -2 y x, and -2 y for the bias; batches are of 4
    rows = torch.stack([memory.states[row, -1, : LENGTHS[row]].mean(dim=0) for row in (3, 30)])
    targets = torch.tensor([SCORES[3], SCORES[30]], dtype=torch.float32)
    gradient = torch.cat([-2 * targets @ rows, -2 * targets.sum()[None]]) / BATCH
    if clip:
        assert gradient.norm() > clip
        gradient *= clip / gradient.norm()
    found = torch.cat([trainee.head.project.weight[0], trainee.head.project.bias]).detach()
    torch.testing.assert_close(found, -0.5 * gradient, rtol=FLOAT32, atol=FLOAT32)


def test_the_rate_of_each_moves_as_its_own_schedule_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    rates: list[list[float]] = []
    adam = torch.optim.AdamW

    class Spy(adam):  # type: ignore[misc, valid-type]  # torch's
        def step(self) -> None:
            rates.append([group["lr"] for group in self.param_groups if group["weight_decay"]])
            super().step()

    monkeypatch.setattr(torch.optim, "AdamW", Spy)
    constant = HeadSpec(head="last_layer", lr=0.5, schedule="constant", warmup=0.0)
    linear = HeadSpec(head="last_layer", lr=0.1, schedule="linear", warmup=0.0)
    fit(tmp_path, constant, linear, epochs=1)
    assert np.array(rates) == pytest.approx(np.stack([np.full(12, 0.5), 0.1 * (1 - np.arange(12) / 12)], axis=1))


def test_classes_may_count_differently(tmp_path: Path) -> None:
    spec = HeadSpec(head="last_layer", schedule="constant", clip=0.0)
    [plain], notes = fit(tmp_path / "plain", spec)
    [weighted], other = fit(tmp_path / "weighted", spec, weights=torch.tensor([1.0, 0.0]))
    assert not same(plain, weighted)
    assert other.logged[24][0] < notes.logged[24][0]  # half of the losses count nothing


def test_one_that_diverges_is_dropped_with_a_message_and_the_others_go_on(tmp_path: Path) -> None:
    [wild, calm], notes = fit(tmp_path, WILD, HeadSpec(head="last_layer"), epochs=4)
    assert wild.failure is not None
    assert wild.failure.startswith("its loss was ")
    assert wild.failure.endswith(" at step 20")
    assert calm.failure is None
    assert [set(losses) for losses in notes.logged.values()] == [{1}] * 3
    assert sorted(notes.logged) == [20, 40, 48]


def test_if_all_diverge_nothing_more_is_computed(tmp_path: Path) -> None:
    memory = Memory()
    trainees, notes = fit(tmp_path, WILD, WILD, epochs=4, memory=memory)
    assert notes.dropped == [(0, 20), (1, 20)]
    assert all(trainee.failure for trainee in trainees)
    assert memory.asked == 20
    assert notes.judged == []


def test_heads_are_judged_when_asked_for_and_at_the_end(tmp_path: Path) -> None:
    _, notes = fit(tmp_path, DROPOUT, fractions=[0.25, 1])
    assert notes.judged == [(0.25, 3), (1, 12), (2, 24)]
    assert list(notes.logged) == [3, 12, 20, 24]


class PulledPlugError(Exception):
    """What ends a fit in the middle."""


def interrupt(run: Path, at: int, *specs: HeadSpec) -> None:
    """Fit, until the states of a batch are asked for."""
    memory = Memory()

    def pull() -> None:
        if memory.asked > at:
            raise PulledPlugError

    memory.before = pull
    with pytest.raises(PulledPlugError):
        fit(run, *specs, fractions=[1.25], memory=memory)


def test_an_interrupted_fit_goes_on_to_the_same_end(tmp_path: Path) -> None:
    specs = (DROPOUT, SUBSET, LADDER, NORMED)
    whole, _ = fit(tmp_path / "whole", *specs, fractions=[1.25])
    interrupt(tmp_path / "run", 19, *specs)
    memory = Memory()
    resumed, notes = fit(tmp_path / "run", *specs, fractions=[1.25], memory=memory)
    # the one with a share of the data has gathered three batches of four when the checkpoint is written
    assert (notes.begun, memory.asked, specs[1].fraction) == ((15, 24), 9, 0.25)
    assert all(same(mine, other) for mine, other in zip(resumed, whole, strict=True))


def test_one_that_was_dropped_does_not_keep_the_others_from_going_on(tmp_path: Path) -> None:
    whole, _ = fit(tmp_path / "whole", DROPOUT, WILD, fractions=[1.25])
    interrupt(tmp_path / "run", 16, DROPOUT, WILD)
    resumed, notes = fit(tmp_path / "run", DROPOUT, WILD, fractions=[1.25])
    assert notes.begun == (15, 24)
    assert same(resumed[0], whole[0])
    assert resumed[1].failure is not None


def test_a_checkpoint_of_other_heads_is_refused(tmp_path: Path) -> None:
    interrupt(tmp_path, 16, DROPOUT, SUBSET)
    for other in [(DROPOUT,), (SUBSET, DROPOUT), (DROPOUT, SUBSET, LADDER)]:
        with pytest.raises(BertVisionError, match=r"checkpoint-15 is of another model. Start anew with another --out"):
            fit(tmp_path, *other, fractions=[1.25])


def test_a_checkpoint_is_made_after_some_time_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(fit_module, "SAVE_SECONDS", -1.0)
    memory = Memory()
    found: list[list[str]] = []
    memory.before = lambda: found.append([path.name for path in tmp_path.glob("checkpoint-*")])
    fit(tmp_path, DROPOUT, memory=memory)
    assert found[:20] == [[]] * 20
    assert found[20:] == [["checkpoint-20"]] * 4
