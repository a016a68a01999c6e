from dataclasses import replace

import numpy as np
import pytest

from bertvision.bench.cost import EncoderShape, learning_of
from bertvision.bench.estimate import Work, assumptions, estimate
from bertvision.bench.hardware import Hardware
from bertvision.encoder.learn import parse_learn

SHAPE = EncoderShape(width=8, depth=3, inner=32)
MACHINE = Hardware(
    name="machine", peak=1e6, utilisation=0.5, update=0.01, inside=1e3, between=1e2, disk=1e5, heads={"layer_mix": 1e-3}
)
WORK = Work(shape=SHAPE, sample=np.array([10]), windows=1280)
# 3 layers × (12,800 tokens × 1,536 + 128,000 pairs × 32) operations at 500,000 a second
PASS = 3 * (12_800 * 1_536 + 128_000 * 32) / 5e5


def seconds(work: Work, gpus: int = 1, machine: Hardware = MACHINE) -> dict[str, float]:
    return {row.what: row.seconds for row in estimate(work, machine, [gpus]).rows}


def test_a_pass_and_what_it_writes() -> None:
    bill = estimate(WORK, MACHINE, [1])
    assert (bill.windows, bill.tokens, bill.operations) == (1280, 12_800, PASS * 5e5)
    found = seconds(WORK)
    assert found["frozen pass"] == pytest.approx(PASS)
    assert found["extract, fp16"] == pytest.approx(PASS + bill.bytes["store, fp16"] / 1e5)
    assert found["extract, one row per window"] == pytest.approx(
        PASS + bill.bytes["store, one row per window, fp16"] / 1e5
    )


def test_ten_shards_in_groups_of_eight_and_two_go_to_two_processes_at_most() -> None:
    for gpus in (2, 4):
        (row, *_) = estimate(WORK, MACHINE, [gpus]).rows
        assert row.seconds == pytest.approx(0.8 * PASS)
        assert row.waiting == pytest.approx(1 - 1 / gpus / 0.8)
        assert row.gpu_hours == pytest.approx(gpus * 0.8 * PASS / 3600)


def test_tuning_pays_for_products_updates_and_the_ring() -> None:
    learning = learning_of(parse_learn("full"), SHAPE, 100)
    work = replace(WORK, learning=learning, learn="full", batch=160)
    # 8 steps on one device, 2 on four; attention costs 3.5 passes, all else 3
    products = 3 * (3 * 12_800 * 1_536 + 3.5 * 128_000 * 32) / 5e5
    assert seconds(work)["tune, full, 1 epoch"] == pytest.approx(products + 8 * 1.0)
    ring = 2 * 3 / 4 * 400 / 1e3
    assert seconds(work, 4)["tune, full, 1 epoch"] == pytest.approx(products / 4 + 2 * (1.0 + ring))
    (*_, row) = estimate(work, MACHINE, [4]).rows
    assert row.waiting == pytest.approx(2 * ring / row.seconds)
    assert seconds(replace(work, epochs=2.5), 4)["tune, full, 2.5 epochs"] == pytest.approx(2.5 * row.seconds)


def test_what_is_drawn_for_dropout_is_shared_out_too() -> None:
    learning = learning_of(parse_learn("full"), SHAPE, 100)
    work = replace(WORK, learning=learning, learn="full", batch=160)
    drawing = replace(MACHINE, draw=1e-3)
    more = seconds(work, 4, drawing)["tune, full, 1 epoch"] - seconds(work, 4)["tune, full, 1 epoch"]
    assert more == pytest.approx(1e-3 * 12_800 / 4 * 7 * 8)


def test_more_than_eight_gpus_have_more_disks_and_a_slower_ring() -> None:
    learning = learning_of(parse_learn("top:1"), SHAPE, 100)
    work = replace(WORK, windows=128_000, learning=learning, learn="top:1")
    found = {gpus: seconds(work, gpus) for gpus in (8, 16)}
    written = {gpus: rows["extract, fp16"] - rows["frozen pass"] for gpus, rows in found.items()}
    stored = estimate(work, MACHINE, []).bytes["store, fp16"]
    assert written == {8: pytest.approx(stored / 1e5), 16: pytest.approx(stored / 2e5)}
    slow = replace(MACHINE, between=1.0)
    assert seconds(work, 8, slow) == found[8]
    assert seconds(work, 16, slow)["tune, top:1, 1 epoch"] > 2 * found[16]["tune, top:1, 1 epoch"]


def test_heads_are_fitted_by_one_process_from_a_stream_or_a_store() -> None:
    work = replace(WORK, heads=[("layer_mix", 32), ("layer_mix", 32)], epochs=3, keep="int8")
    bill = estimate(work, MACHINE, [8, 2])
    found = {(row.what, row.gpus): row.seconds for row in bill.rows if row.what.startswith("heads")}
    heads = 12_800 * 64 * 1e-3
    assert found == {
        ("heads, streamed", 1): pytest.approx(3 * (PASS + heads)),
        ("heads, from a store of int8", 1): pytest.approx(3 * (bill.bytes["store, int8"] / 1e5 + heads)),
    }


def test_more_operations_than_an_integer_of_64_bits_holds_are_counted() -> None:
    wide = EncoderShape(width=2**20, depth=1000, inner=2**22)
    bill = estimate(replace(WORK, shape=wide, heads=[("layer_mix", 1)]), MACHINE, [1])
    assert bill.operations == pytest.approx(1000 * (12_800 * 24 * 2.0**40 + 128_000 * 4 * 2.0**20))
    assert bill.operations > 2**63
    streamed = next(row for row in bill.rows if row.what == "heads, streamed")
    assert streamed.seconds == pytest.approx(bill.operations / 5e5 + 12_800 * 1e-3)


def test_assumptions_name_the_numbers_that_were_used() -> None:
    said = " ".join(assumptions(replace(WORK, batch=99), replace(MACHINE, inside=7e9, peak=5e12)))
    assert "2.5 TFLOP/s, 50.0% of 5" in said
    assert "99 windows per GPU" in said
    assert "7 GB/s within 8" in said
