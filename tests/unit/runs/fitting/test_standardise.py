"""Before it is trained, layer_concat knows mean and deviation of what it reads."""

import numpy as np
import torch

from bertvision.encoder.states import HiddenStates
from bertvision.heads import HeadShape
from bertvision.heads.layer_concat import LayerConcat
from bertvision.runs.fitting.standardise import TOKENS, sample_windows, standardise_heads
from bertvision.tasks.examples import IntArray
from bertvision.training.options import TuneOptions
from bertvision.training.plan import Plan
from bertvision.training.states import StateBatch
from bertvision.training.trainee import HeadSpec, Trainee
from close import FLOAT32

CPU = torch.device("cpu")
STATES = torch.randn(4, 3, 2, 5, generator=torch.Generator().manual_seed(0)) * 3 + 1  # layers 1 to 3 of 4 windows
MASK = torch.tensor([[True, True], [True, False], [True, True], [True, False]])


class Some:
    """Four windows of two tokens, some of them padding."""

    def batch(self, rows: IntArray) -> StateBatch:
        states = torch.where(MASK[:, None, :, None], STATES, 1e3)
        return StateBatch(HiddenStates(states[rows], MASK[rows]), lowest=1)


def trainee(name: str, layers: str) -> Trainee:
    spec = HeadSpec(head=name, options={"layers": layers})
    return Trainee(spec, HeadShape(layers=4, width=5, outputs=2), device=CPU)


def test_statistics_are_those_of_real_tokens_at_the_layers_that_are_read() -> None:
    whole, part = trainee("layer_concat", "1..3"), trainee("layer_concat", "2..3")
    standardise_heads([whole, part, trainee("layer_mix", "1..3")], Some(), [np.array([0, 1]), np.array([3, 2])])
    tokens = STATES.transpose(1, 2)[MASK]  # (tokens, layers, width)
    for found, expected in ((whole.head, tokens), (part.head, tokens[:, 1:])):
        assert isinstance(found, LayerConcat)
        torch.testing.assert_close(found.mean, expected.mean(dim=0), rtol=FLOAT32, atol=FLOAT32)
        torch.testing.assert_close(found.deviation, expected.std(dim=0, correction=0), rtol=FLOAT32, atol=FLOAT32)


def test_a_number_that_never_changes_is_not_blown_up() -> None:
    class Still:
        def batch(self, rows: IntArray) -> StateBatch:
            return StateBatch(HiddenStates(torch.full((len(rows), 4, 1, 5), 7.0), torch.ones(len(rows), 1).bool()))

    one = trainee("layer_concat", "0..3")
    standardise_heads([one], Still(), [np.arange(3)])
    assert isinstance(one.head, LayerConcat)
    assert torch.equal(one.head.deviation, torch.ones(4, 5))


def test_without_such_a_head_no_state_is_read() -> None:
    class Never:
        def batch(self, rows: IntArray) -> StateBatch:
            raise AssertionError(rows)

    standardise_heads([trainee("layer_mix", "0..3")], Never(), [np.arange(3)])


def test_a_few_windows_of_the_first_batches_are_enough_where_each_has_many_tokens() -> None:
    lengths = np.random.default_rng(0).integers(100, 300, size=400)
    plan = Plan(lengths, TuneOptions())
    some = sample_windows(plan, lengths)
    first = [set(rows.tolist()) for _, rows in plan.steps_from(0)][: len(some)]
    assert all(set(rows.tolist()) < batch for rows, batch in zip(some, first, strict=True))
    assert TOKENS / 2 < sum(lengths[rows].sum() for rows in some) <= TOKENS


def test_whole_batches_are_taken_where_each_window_is_one_row() -> None:
    plan = Plan(np.arange(1, 101), TuneOptions())
    some = sample_windows(plan, np.ones(100, dtype=np.int64))
    assert sorted(np.concatenate(some).tolist()) == list(range(100))


def test_of_a_window_longer_than_all_that_is_wanted_one_is_taken() -> None:
    plan = Plan(np.full(8, 2 * TOKENS), TuneOptions(batch=4))
    assert [len(rows) for rows in sample_windows(plan, np.full(8, 2 * TOKENS))] == [1, 1]
