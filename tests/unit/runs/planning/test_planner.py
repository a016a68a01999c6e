"""Which source is chosen, and what is said of it."""

from dataclasses import replace

import pytest

from bertvision.amounts import in_bytes
from bertvision.runs.planning.plan_costs import Limits, RowRates, RowWork, Source
from bertvision.runs.planning.planner import FitPlan, plan_rows, plan_spans, plan_stream, why_no_store
from tiny_plan import RATES, WORK, rates, work

STREAM, MEMORY = Source(kind="stream"), Source(kind="memory")
HALF = Source(kind="store", keep="fp16", layers="0..6")
BYTE = Source(kind="store", keep="int8", layers="0..6")
THERE = Source(kind="store", keep="int8", layers="0..6", folder="stores/squad2")
ROWS = RowWork(tokens=900, trained=300, scored=60, rows=120, numbers=50, copied=100 * 50)


def sources(plan: FitPlan) -> list[Source]:
    return [candidate.source for candidate in plan.candidates]


def test_the_fastest_store_is_taken_where_everything_fits() -> None:
    plan = plan_spans(WORK, RATES, Limits())
    assert plan.chosen == HALF
    assert sources(plan) == [STREAM, HALF, BYTE]
    assert plan.reasons == (
        "States are read from a store of fp16: about 22.7 min instead of 1.6 h, for 168 KB of disk.",
        "The heads read layers 0..6, which are all there are: a store cannot leave any out.",
        "A store is made in the run's folder, and removed when the run is finished.",
        "8 bits are taken only where 16 do not fit: half the room, but 0.7 % of error instead of 0.02 %.",
    )


def test_sixteen_bits_are_taken_though_eight_are_faster() -> None:
    quick = {"fp16": 0.01, "int8": 0.0001}
    plan = plan_spans(WORK, rates(write=quick, read=quick), Limits())
    half, byte = plan.candidates[1:]
    assert byte.seconds < half.seconds
    assert plan.chosen == HALF


@pytest.mark.parametrize("limits", [Limits(disk=120_000), Limits(free_disk=150_000)])
def test_eight_bits_are_taken_where_sixteen_do_not_fit_the_disk(limits: Limits) -> None:
    plan = plan_spans(WORK, RATES, limits)
    assert plan.chosen == BYTE
    assert plan.reasons[-1].startswith("A store of 16 bits would take 168 KB, and ")


def test_the_stream_is_taken_where_no_store_fits() -> None:
    plan = plan_spans(WORK, RATES, Limits(disk=100_000))
    assert plan.chosen == STREAM
    assert plan.reasons[0] == "States are streamed, about 1.6 h: no store fits."
    assert [candidate.problem for candidate in plan.candidates] == [None, *["--max-disk allows 100 KB"] * 2]


def test_a_store_has_to_save_a_tenth_of_the_time() -> None:
    # stream: 5500 + 0 of heads; store: 1200 + 84 + 38.5
    even = {"encode_step": 1.0, "encode_pass": 1.0, "encode_whole": 1.0}
    saved = 5500 - 1322.5
    for heads, chosen in ((saved * 9.0 - 1322.5 - 1, HALF), (saved * 9.0 - 1322.5 + 1, STREAM)):
        plan = plan_spans(work(trained=5500, scored=0), rates(**even, heads=heads / 5500), Limits())
        assert plan.chosen == chosen
    assert plan.reasons[0].endswith(" with the best store, which is not worth its disk.")


def test_slow_reading_makes_a_store_no_use() -> None:
    slow = {"fp16": 1.0, "int8": 1.0}
    assert plan_spans(WORK, rates(read=slow), Limits()).chosen == STREAM


def test_states_that_overflow_float16_are_kept_in_bfloat16() -> None:
    plan = plan_spans(WORK, rates(half="bf16"), Limits())
    assert plan.chosen == Source(kind="store", keep="bf16", layers="0..6")


def test_layers_that_no_head_reads_are_left_out() -> None:
    plan = plan_spans(work(layers=range(2, 5)), RATES, Limits())
    assert plan.chosen == Source(kind="store", keep="fp16", layers="2..4")
    assert [source.layers for source in sources(plan)] == [None, "2..4", "2..4", "0..6", "0..6"]
    assert "No head reads a layer outside 2..4 of 0..6: a new store keeps these alone." in plan.reasons
    fewer, whole = plan.candidates[1], plan.candidates[3]
    assert fewer.seconds < whole.seconds
    assert fewer.disk < whole.disk


def test_fewer_layers_fit_where_all_of_them_would_not() -> None:
    plan = plan_spans(work(layers=range(2, 5)), RATES, Limits(disk=80_000))
    assert plan.chosen == Source(kind="store", keep="fp16", layers="2..4")
    assert plan.candidates[3].problem == "--max-disk allows 80 KB"


def test_a_store_that_is_there_goes_before_a_new_one() -> None:
    plan = plan_spans(WORK, RATES, Limits(disk=0), stored=THERE)
    assert plan.chosen == THERE
    assert plan.reasons[0] == "States are read from the store in stores/squad2: about 9.9 min instead of 1.6 h."
    assert not any("removed" in reason for reason in plan.reasons)


def test_a_store_that_is_there_is_left_alone_where_reading_is_slower_than_encoding() -> None:
    slow = {"fp16": 1.0, "int8": 1.0}
    assert plan_spans(WORK, rates(read=slow), Limits(), stored=THERE).chosen == STREAM


def test_where_a_batch_does_not_fit_into_memory_nothing_does() -> None:
    plan = plan_spans(WORK, RATES, Limits(memory=50_000), stored=THERE)
    assert plan.chosen is None
    assert len(plan.candidates) == 4
    expected = (
        "Nothing fits: a batch of states takes about 56 KB, and --max-memory allows 50 KB. Use a smaller --batch.",
    )
    assert plan.reasons == expected
    assert plan_stream(WORK, Limits(memory=50_000), "it is short").reasons == expected


def test_slow_heads_are_named() -> None:
    slow = "Heads take 60% of the time, ladder 70% of that."
    plan = plan_spans(
        work(scored=0), rates(read={"fp16": 1.0, "int8": 1.0}, heads=1.5, slowest=("ladder", 0.7)), Limits()
    )
    assert plan.chosen == STREAM
    assert plan.reasons[-1] == slow
    for quick in ({"heads": 0.1, "slowest": ("ladder", 0.7)}, {"heads": 1.5, "slowest": ("ladder", 0.2)}):
        assert not any(
            "Heads take" in reason for reason in plan_spans(work(scored=0), rates(**quick), Limits()).reasons
        )


@pytest.mark.parametrize(
    ("trained", "scored", "clear"),
    [
        (900, 300, True),  # one epoch: held-out examples are read twice, and no more is saved
        (450, 300, True),
        (1000, 500, True),  # 1.25 times what a store encodes
        (1000, 501, False),
        (900, 1200, False),  # one epoch, judged very often
        (1800, 300, False),
    ],
)
def test_without_measuring_it_is_clear_that_few_passes_need_no_store(trained: int, scored: int, *, clear: bool) -> None:
    reason = why_no_store(work(trained=trained, scored=scored), Limits())
    assert (reason is not None) == clear


def test_the_reason_says_what_would_be_encoded() -> None:
    reason = why_no_store(work(trained=900_000, scored=300_000, stored=1_200_000), Limits())
    assert reason is not None
    plan = plan_stream(WORK, Limits(), reason)
    assert plan.chosen == STREAM
    assert plan.candidates == ()
    words = "the stream encodes 1.20 million tokens, a store 1.20 million tokens before it can be read"
    assert plan.reasons == (f"States are streamed: {words}, so it cannot pay.",)


def test_without_measuring_it_is_clear_that_a_store_without_room_is_none() -> None:
    few = work(layers=range(2, 5))  # 43,200 bytes in 8 bits
    assert why_no_store(few, Limits(disk=43_200)) is None
    expected = "even a store of 8 bits would take 43.2 KB, and --max-disk allows 43.2 KB"
    assert why_no_store(few, Limits(disk=43_199)) == expected


def test_rows_stay_in_memory() -> None:
    plan = plan_rows(ROWS, None, Limits(memory=64_000))
    reason = "States stay in memory: one row per text, encoded once, 64 KB in all."
    assert plan == FitPlan(chosen=MEMORY, reasons=(reason,))
    measured = plan_rows(ROWS, RowRates(encode=0.1, heads=0.1, slowest=("", 0.0)), Limits())
    assert (measured.chosen, sources(measured), measured.reasons) == (MEMORY, [MEMORY], (reason,))


def test_rows_that_do_not_fit_come_with_advice() -> None:
    plan = plan_rows(
        ROWS, RowRates(encode=0.1, heads=0.1, slowest=("", 0.0)), Limits(memory=32_000, free_memory=16_000)
    )
    assert plan.chosen is None
    assert plan.candidates[0].problem == "--max-memory allows 32 KB"
    [reason] = plan.reasons
    assert reason.startswith("The rows of all texts take 64 KB of memory, and --max-memory allows 32 KB.")
    assert reason.endswith(" Use --fraction 0.25; or --train-all, since heads that are solved copy rows.")
    trained = plan_rows(replace(ROWS, copied=0, fewer_layers=True), None, Limits(memory=12_000))
    expected = "Use --fraction 0.5; or heads that read fewer layers, such as --grid layers=A..B."
    assert trained.reasons[0].endswith(expected)
    aligned = plan_rows(replace(ROWS, parts=6), None, Limits(memory=32_000))
    assert "copy rows; or --pairs apart, which takes 2 of 6 parts of that." in aligned.reasons[0]


def test_the_share_that_fits_is_of_all_training_examples_and_leaves_room_for_dev() -> None:
    rows = replace(ROWS, rows=150, copied=0, dev=50, fraction=0.4)  # 20,000 bytes for training, 10,000 for dev
    assert rows.fraction_within(20_000) == pytest.approx(0.2)
    assert "Use --fraction 0.2." in plan_rows(rows, None, Limits(memory=20_000)).reasons[0]
    nearly = plan_rows(replace(rows, fraction=1.0), None, Limits(memory=29_999)).reasons[0]
    assert "Use --fraction 0.99." in nearly  # never rounded up
    for memory in (0, 10_000):
        [reason] = plan_rows(rows, None, Limits(memory=memory)).reasons
        assert reason.endswith(f"--max-memory allows {in_bytes(memory)}.")
