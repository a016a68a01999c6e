"""Rates of a tiny encoder: measured on real batches, and nothing is left behind."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from typing_extensions import override

from bertvision.runs.fitting.frozen import FrozenTask, freeze_task
from bertvision.runs.planning import measure_rates
from bertvision.runs.planning.measure_rates import has_room_to_try, measure_rows, measure_spans, rough_rate
from bertvision.store.codec import bytes_per_token
from bertvision.store.room import bytes_on_disk
from bertvision.tasks.examples import IntArray
from bertvision.training.fit import FitData, States
from bertvision.training.plan import Plan
from bertvision.training.states import StateBatch
from bertvision.training.trainee import HeadSpec, Trainee
from folders import everything
from tiny_run import WIDTH, save_tiny_encoder, tiny_fit, write_labels, write_pairs, write_questions

PLAIN = HeadSpec(head="last_layer")
MIX = HeadSpec(head="layer_mix")


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_tiny_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture(scope="module")
def questions(encoder: str, tmp_path_factory: pytest.TempPathFactory) -> FrozenTask:
    data = write_questions(tmp_path_factory.mktemp("squad2"))
    return freeze_task(tiny_fit("squad2", data, encoder, PLAIN, MIX))


def test_everything_about_spans_takes_some_time_and_leaves_nothing_behind(
    questions: FrozenTask, tmp_path: Path
) -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    found = measure_spans(questions, [PLAIN, MIX], range(3), tmp_path)
    assert min(found.encode_step, found.encode_pass, found.heads) > 0
    assert found.encode_whole == found.encode_pass  # heads read to the top
    for seconds in (found.write, found.read, found.read_cold):
        assert set(seconds) == {"fp16", "bf16", "int8"}
        assert seconds["fp16"] == seconds["bf16"]
        assert min(seconds.values()) > 0
    assert all(found.read_cold[keep] >= found.read[keep] for keep in found.read)
    assert found.half == "fp16"
    assert found.slowest[0] in {"last_layer", "layer_mix"}
    assert 0.5 <= found.slowest[1] < 1
    assert everything(tmp_path) == {}
    assert list(tmp_path.iterdir()) == []
    assert torch.equal(torch.get_rng_state(), before)


def test_large_states_are_kept_in_bfloat16(
    questions: FrozenTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measure_rates, "SAFE_HALF", 1e-3)
    found = measure_spans(questions, [PLAIN], range(1, 3), tmp_path)
    assert found.half == "bf16"
    assert set(found.write) == {"fp16", "bf16", "int8"}


def test_the_store_that_is_tried_takes_no_more_than_is_allowed(
    questions: FrozenTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[int] = []

    def look(folder: Path) -> None:
        taken.append(sum(path.stat().st_size for path in folder.iterdir()))

    def measured(max_disk: int | None) -> int:
        taken.clear()
        frozen = replace(questions, request=replace(questions.request, max_disk=max_disk))
        assert has_room_to_try(frozen, range(3))
        measure_spans(frozen, [PLAIN], range(3), tmp_path)
        assert len(taken) == 2  # in 16 bits, and in 8
        return max(taken)

    monkeypatch.setattr(measure_rates, "_forget_pages", look)
    longest = int(questions.train.windows.lengths.max())
    beside = bytes_on_disk("int8", 3, WIDTH, windows=1, tokens=0)
    least = beside + measure_rates.BATCHES * longest * bytes_per_token("fp16", 3, WIDTH)
    assert measured(least) < measured(None)
    assert measured(least) <= least
    assert measured(10**12) == measured(None)
    frozen = replace(questions, request=replace(questions.request, max_disk=least - 1))
    assert not has_room_to_try(frozen, range(3))


def test_all_layers_are_timed_apart_where_heads_stop_below(
    questions: FrozenTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measure_rates._Timer, "per_token", _depths(questions))  # noqa: SLF001 - a clock that counts
    low = replace(PLAIN, options={"layers": "0..1"})
    found = measure_spans(questions, [low], range(2), tmp_path)
    assert (found.encode_step, found.encode_pass, found.encode_whole) == (2, 2, 3)


def _depths(frozen: FrozenTask) -> Callable[..., float]:
    """Stands for a clock: a layer takes a second, whatever the batch."""

    def per_token(_timer: object, states: States, batches: Sequence[IntArray]) -> float:
        return float(states.batch(batches[0]).hidden.states.shape[1])

    assert frozen.encoder.depth == 2
    return per_token


def test_heads_that_differ_by_rate_or_seed_are_timed_once_and_counted_each(
    questions: FrozenTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[tuple[str, list[int]]] = []

    def step(trainee: Trainee, _data: FitData, _plan: Plan, _batch: StateBatch, rows: IntArray) -> None:
        steps.append((trainee.spec.head, rows.tolist()))

    class Clock(measure_rates._Timer):  # type: ignore[misc]  # noqa: SLF001 - final, but for this
        @override
        def time(self, function: Callable[[], object]) -> float:
            function()
            return {"last_layer": 2.0, "layer_mix": 0.01}[steps[-1][0]]

    monkeypatch.setattr(measure_rates, "try_step", step)
    clock = Clock(torch.device("cpu"), np.ones(100, dtype=np.int64))
    specs = [PLAIN, replace(PLAIN, lr=1.0), replace(PLAIN, seed=1, fraction=0.5), MIX]
    states = questions.states(questions.train, range(3))
    few = np.array([3]), np.array([4, 5])
    found, slowest = measure_rates._measure_heads(questions, clock, specs, states, few)  # noqa: SLF001
    # the first step of all is not timed; one that is slow is tried on one window; one that is fast on both
    assert steps == [("last_layer", [3]), ("last_layer", [3]), ("layer_mix", [3]), ("layer_mix", [4, 5])]
    assert found == pytest.approx(2.0 * 2.5 + 0.005)
    assert slowest[0] == "last_layer"
    assert slowest[1] == pytest.approx(5.0 / 5.005)


def test_a_head_that_takes_long_on_any_batch_is_timed_on_more_tokens(
    questions: FrozenTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []

    def step(_trainee: Trainee, _data: FitData, _plan: Plan, _batch: StateBatch, rows: IntArray) -> None:
        sizes.append(len(rows))

    class Clock(measure_rates._Timer):  # type: ignore[misc]  # noqa: SLF001 - final, but for this
        @override
        def time(self, function: Callable[[], object]) -> float:
            function()
            return 0.09 + 0.001 * sizes[-1]

    monkeypatch.setattr(measure_rates, "try_step", step)
    clock = Clock(torch.device("cpu"), np.ones(100, dtype=np.int64))
    states = questions.states(questions.train, range(3))
    batches = [np.arange(count) for count in (1, 3, 10)]
    found, _ = measure_rates._measure_heads(questions, clock, [MIX], states, batches)  # noqa: SLF001
    assert sizes[1:] == [1, 3, 10]
    assert found == pytest.approx(0.01)  # 0.091 on the first batch


def test_batches_are_spread_from_short_windows_to_long_ones() -> None:
    lengths = np.repeat([10, 20, 30, 40, 50], 60)
    batches = [np.arange(begin, begin + 3) for begin in range(0, 300, 3)]
    found = measure_rates._spread(batches, lengths, 10**6)  # noqa: SLF001
    # a fifth of all tokens each: 600, 1200, 1800, 2400, 3000 in all, so that long ones count more
    assert [lengths[rows[0]] for rows in found] == [20, 30, 40, 50, 50]
    assert all(len(rows) == 3 for rows in found)
    assert [len(rows) for rows in measure_rates._spread(batches, lengths, 70)] == [3, 2, 1, 1, 1]  # noqa: SLF001
    assert [len(rows) for rows in measure_rates._spread(batches[:2], lengths, 1)] == [1, 1]  # noqa: SLF001


def test_a_small_store_stays_within_its_limits() -> None:
    lengths = np.full(500, 100)
    batches = [np.arange(begin, begin + 32) for begin in (0, 100, 200, 300, 400)]
    assert len(measure_rates._trial_rows(batches, 10**6, lengths)) == 60  # noqa: SLF001
    assert measure_rates._trial_rows(batches, 1000, lengths).tolist() == [0, 1, 100, 101, 200, 201, 300, 301, 400, 401]  # noqa: SLF001
    assert measure_rates._trial_rows(batches, 1, lengths).tolist() == [0, 100, 200, 300, 400]  # noqa: SLF001


@pytest.mark.parametrize("pairs", ["apart", "together"])
def test_rows_take_time_to_encode_and_to_learn_from(pairs: str, encoder: str, tmp_path: Path) -> None:
    frozen = freeze_task(tiny_fit("own", write_pairs(tmp_path), encoder, MIX, pairs=pairs))
    found = measure_rows(frozen, [MIX], range(3))
    assert min(found.encode, found.heads) > 0
    assert found.slowest == ("layer_mix", 1.0)


def test_where_nobody_is_trained_heads_take_no_time(encoder: str, tmp_path: Path) -> None:
    frozen = freeze_task(tiny_fit("sst2", write_labels(tmp_path), encoder, PLAIN))
    found = measure_rows(frozen, [], range(2, 3))
    assert (found.heads, found.slowest) == (0, ("", 0.0))


def test_a_rough_rate_comes_from_one_window(questions: FrozenTask) -> None:
    assert 0 < rough_rate(questions, range(3)) < 1
