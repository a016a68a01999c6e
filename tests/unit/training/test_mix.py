"""Several tasks: whose turn it is, which of its windows are drawn, and whose head learns."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch

from bertvision.heads import HeadShape, build_head
from bertvision.tasks.examples import target_array
from bertvision.tasks.load import TASKS
from bertvision.tasks.windows import Windows
from bertvision.training.data import TuneData
from bertvision.training.mix import Order, TaskMix, Turns, sampled_classes, temperature_steps
from bertvision.training.model import TaskModels, TunedModel
from bertvision.training.options import TuneOptions
from tiny_run import WIDTH, tiny_encoder

CPU = torch.device("cpu")


def tune_data(task: str, targets: Sequence[float]) -> TuneData:
    """Windows of three random tokens."""
    count = len(targets)
    windows = Windows(
        ids=np.random.default_rng(0).integers(5, 20, size=3 * count).astype(np.int32),
        types=np.zeros(3 * count, dtype=np.uint8),
        bounds=3 * np.arange(count + 1),
        example=np.arange(count),
        targets=target_array(TASKS[task].kind, targets),
        context=np.zeros((count, 2), dtype=np.int64),
        context_token=np.zeros(count, dtype=np.int64),
        offsets=np.zeros((0, 2), dtype=np.int32),
        truncated=0,
    )
    return TuneData(task=TASKS[task], windows=windows, pool="cls", packed=False, pad=0)


MIX = {"sst2": tune_data("sst2", [0] * 6), "sts": tune_data("sts", [2.5] * 4), "sst5": tune_data("sst5", [0] * 2)}
"""Three, two and one batch of two."""

OPTIONS = TuneOptions(batch=2, epochs=1)


def turns_of(order: Order, options: TuneOptions = OPTIONS, **more: float) -> list[str]:
    """The first letters of tasks: a for sst2, b for sts, c for sst5; one for each batch of the first epoch."""
    mix = TaskMix(MIX, Turns(order=order, **more))  # type: ignore[arg-type]  # a temperature alone
    batches = mix.plan(options).epoch(0)
    names = dict(zip(MIX, "abc", strict=True))
    return [names[name] for rows in batches for name in mix.split(rows)]


def test_in_sequence_a_task_begins_when_the_one_before_is_through() -> None:
    assert "".join(turns_of("sequence")) == "aaabbc"


def test_in_round_robin_tasks_that_are_through_drop_out() -> None:
    assert "".join(turns_of("round-robin")) == "abcaba"


def test_in_proportion_every_batch_is_learnt_once_in_random_order() -> None:
    found = [turns_of("proportional", replace(OPTIONS, seed=seed)) for seed in range(8)]
    assert all(Counter(turns) == {"a": 3, "b": 2, "c": 1} for turns in found)
    assert len({"".join(turns) for turns in found}) > 1


def test_a_high_temperature_gives_every_task_as_many_steps_and_the_epoch_is_as_long() -> None:
    assert Counter(turns_of("temperature", temperature=1e9)) == {"a": 2, "b": 2, "c": 2}
    assert Counter(turns_of("temperature", temperature=1.0)) == {"a": 3, "b": 2, "c": 1}


def test_steps_go_with_the_root_of_sizes_at_temperature_two() -> None:
    # the roots of 100, 400 and 900 are 10, 20 and 30: a sixth, a third and a half of 60 steps
    assert temperature_steps([100, 400, 900], 60, 2.0).tolist() == [10, 20, 30]
    # of 7 steps 1.17, 2.33 and 3.5: the seventh goes to the one with the largest rest
    assert temperature_steps([100, 400, 900], 7, 2.0).tolist() == [1, 2, 4]
    assert temperature_steps([1, 10**6], 10, 1.0).tolist() == [1, 9]  # nobody is left out
    assert temperature_steps([4000, 60_000], 100, 1e-3).tolist() == [1, 100]  # 60,000 to the power of 1,000


@pytest.mark.parametrize("order", ["sequence", "round-robin", "proportional"])
def test_every_window_is_learnt_once_in_an_epoch(order: Order) -> None:
    plan = TaskMix(MIX, Turns(order=order)).plan(OPTIONS)
    assert plan.per_epoch == plan.total == 6
    assert sorted(np.concatenate(plan.epoch(0)).tolist()) == list(range(12))


def test_a_task_that_is_learnt_more_often_than_it_has_batches_begins_anew() -> None:
    mix = TaskMix(MIX, Turns(order="temperature", temperature=1e9))
    rows = mix.split(np.concatenate(mix.plan(OPTIONS).epoch(0)))
    assert Counter(rows["sst5"].tolist()) == {0: 2, 1: 2}


def test_a_batch_is_of_one_task() -> None:
    mix = TaskMix(MIX, Turns(order="proportional"))
    assert all(len(mix.split(rows)) == 1 for rows in mix.plan(replace(OPTIONS, batch=4)).epoch(0))


def test_a_cap_draws_so_many_windows_and_others_in_every_epoch() -> None:
    mix = TaskMix({"sst2": tune_data("sst2", [0] * 100), "sts": MIX["sts"]}, Turns(caps={"sst2": 9, "sts": 1000}))
    plan = mix.plan(OPTIONS)
    assert plan.per_epoch == 5 + 2  # the last batch of sst2 has one window, so that it cannot hide a tenth
    drawn = [mix.split(np.concatenate(plan.epoch(number))) for number in range(2)]
    assert [len(set(rows["sst2"].tolist())) for rows in drawn] == [9, 9]
    assert set(drawn[0]["sst2"].tolist()) != set(drawn[1]["sst2"].tolist())
    assert sorted(drawn[0]["sts"].tolist()) == [0, 1, 2, 3]


def test_balancing_draws_rare_classes_and_rare_scores_as_often_as_the_others() -> None:
    skewed = {"sst2": tune_data("sst2", [0] * 900 + [1] * 100), "sts": tune_data("sts", [0.4] * 900 + [4.6] * 100)}
    for balance, shares in ((False, (0.1, 0.1)), (True, (0.5, 0.5))):
        mix = TaskMix(skewed, Turns(balance=balance))
        rows = mix.split(np.concatenate(mix.plan(OPTIONS).epoch(0)))
        rare = tuple(float((rows[name] >= 900).mean()) for name in skewed)
        assert rare == pytest.approx(shares, abs=0.06)  # 1,000 draws: four standard deviations of 1.6 %
        assert [len(rows[name]) for name in skewed] == [1000, 1000]


def test_scores_are_balanced_by_whole_numbers_and_tags_and_spans_not_at_all() -> None:
    found = sampled_classes("scores", np.array([0.4, 0.6, 4.51, 2.0]))
    assert found is not None
    assert found.tolist() == [0, 1, 5, 2]
    assert sampled_classes("tags", np.zeros((2, 3), dtype=np.int64)) is None
    assert sampled_classes("spans", np.zeros((2, 2), dtype=np.int64)) is None


def model_of(mix: TaskMix) -> TaskModels:
    torch.manual_seed(0)
    encoder = tiny_encoder()
    return TaskModels(
        {
            name: TunedModel(
                encoder,
                build_head("last_layer", HeadShape(layers=3, width=WIDTH, outputs=data.task.outputs)),
                pool="cls",
            )
            for name, data in mix.tasks.items()
        }
    )


def test_the_losses_of_a_batch_are_those_of_its_task_alone() -> None:
    mix = TaskMix(MIX, Turns())
    model = model_of(mix)
    found = mix.train_batch(np.array([7, 9])).losses(model, CPU)  # windows 1 and 3 of sts
    alone = model.tasks["sts"]
    assert torch.equal(found, MIX["sts"].train_batch(np.array([1, 3])).losses(alone, CPU))
    torch.autograd.backward(found.sum())
    assert all(value.grad is None for value in model.tasks["sst2"].head.parameters())  # type: ignore[union-attr]


def test_the_loss_is_that_of_the_kind_of_task() -> None:
    mix = TaskMix(
        {"sst5": tune_data("sst5", [3]), "sts": tune_data("sts", [2.5]), "quora": tune_data("quora", [1])}, Turns()
    )
    model = model_of(mix)
    biases = {"sst5": [0.0] * 5, "sts": [4.0], "quora": [0.0, 1.0]}
    for name, values in biases.items():
        head = model.tasks[name].head
        head.project.weight.data.zero_()  # type: ignore[union-attr,operator]
        head.project.bias.data.copy_(torch.tensor(values))  # type: ignore[union-attr,operator]
    losses = [float(mix.train_batch(np.array([row])).losses(model, CPU).detach()) for row in range(3)]
    # five classes alike: log 5; (4 - 2.5)²; the binary cross-entropy of a logit of 1: log(1 + 1/e)
    assert losses == pytest.approx([1.6094379, 2.25, 0.3132617], abs=1e-5)


def test_class_weights_are_for_the_tasks_with_classes() -> None:
    ready = TaskMix(MIX, Turns()).ready(TuneOptions(class_weights=True), CPU)
    assert {name: data.weights is not None for name, data in ready.tasks.items()} == {
        "sst2": True,
        "sts": False,
        "sst5": True,
    }
