"""The formulas against every record that they speak about, and the numbers that were taken from records."""

import json
from pathlib import Path

import pytest

from bertvision.bench.checks import (
    BERT_BASE,
    BERT_LARGE,
    COST_CHECK,
    MINILM,
    PARAMETERS,
    TOLERANCE,
    TOP_3,
    Check,
    cost_checks,
    fitted_hardware,
    measured_utilisation,
)
from bertvision.bench.cost import EncoderShape, shape_of
from bertvision.bench.hardware import HARDWARE
from bertvision.encoder.learn import apply_learn, parse_learn
from bertvision.encoder.load import build_encoder, drop_pooler
from bertvision.heads import HEADS, HeadShape, blank_head
from conftest import ROOT

RESULTS = ROOT / "results"
CHECKS = cost_checks(RESULTS)
FITTED = [check for check in CHECKS if check.predicted is None]
PREDICTED = [check for check in CHECKS if check.predicted is not None]


@pytest.mark.parametrize("check", PREDICTED, ids=lambda check: check.what)
def test_predictions_are_within_the_tolerance_or_known_to_miss_it(check: Check) -> None:
    assert check.error is not None
    assert abs(check.error) <= TOLERANCE or check.known_miss


def test_what_is_missed_is_a_batch_too_small_for_a_gpu_and_lora_on_a_narrow_encoder() -> None:
    missed = [check.what for check in PREDICTED if check.known_miss]
    assert missed == [
        "frozen pass, BERT-base shape, one batch of 16 windows of 192 tokens, not compiled",
        "a step of --learn lora:16, 384 × 6, 8 × 192 tokens",
    ]


def test_rates_are_fitted_on_one_pass_of_each_machine() -> None:
    assert [check.record for check in FITTED] == ["speed-frozen-gpu", "speed-frozen-cpu", COST_CHECK]
    assert {check.record for check in PREDICTED} == {
        *("size-store-16-bit", "size-store-int8", "speed-tuning-gpu", "heads-gpu", "speed-tuning-cpu"),
        *("speed-top-3", "speed-top-3-strict", COST_CHECK),
    }


def test_a_record_that_does_not_tell_its_windows_is_refused(tmp_path: Path) -> None:
    for path in RESULTS.glob("*.json"):
        record = json.loads(path.read_text(encoding="utf-8"))
        (tmp_path / path.name).write_text(json.dumps({**record, "size": "many windows"}), encoding="utf-8")
    with pytest.raises(ValueError, match="size-store-16-bit tells no windows: many windows"):
        cost_checks(tmp_path)


@pytest.mark.parametrize("name", HARDWARE)
def test_utilisations_are_those_of_the_frozen_passes(name: str) -> None:
    found = measured_utilisation(RESULTS, name)
    # as far as the same pass differs from run to run
    assert HARDWARE[name].utilisation == pytest.approx(found, rel=0.03), "put the new one into bench/hardware.py"


def test_what_tuning_costs_beside_products_on_a_cpu_is_that_of_the_small_cases() -> None:
    record = json.loads((RESULTS / f"{COST_CHECK}.json").read_text(encoding="utf-8"))
    fitted, used = fitted_hardware(record), HARDWARE["cpu"]
    assert (used.update, used.draw, used.touch) == pytest.approx((fitted.update, fitted.draw, fitted.touch), rel=0.01)


@pytest.mark.parametrize(("device", "hardware"), [("gpu", "h200"), ("cpu", "cpu")])
def test_costs_of_heads_are_those_of_the_records(device: str, hardware: str) -> None:
    record = json.loads((RESULTS / f"heads-{device}.json").read_text(encoding="utf-8"))
    found = {}
    for row in record["heads"]:
        reads = blank_head(row["head"], HeadShape(layers=13, width=768, outputs=2)).reads
        found[row["head"]] = row["seconds"] / (row["tokens"] * len(reads) * 768)
    used = HARDWARE[hardware].heads
    assert list(used) == list(HEADS)
    assert used == pytest.approx(found, rel=0.006), "heads were measured anew: put these into bench/hardware.py"


@pytest.mark.parametrize(
    ("shape", "config"),
    [
        (MINILM, None),
        (BERT_BASE, {}),
        (
            BERT_LARGE,
            {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096},
        ),
    ],
)
def test_shapes_and_parameters_are_those_of_the_encoders(
    shape: EncoderShape, config: dict[str, int] | None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("encoder") / "config.json"
    path.write_text(json.dumps({"model_type": "bert", **(config or {})}), encoding="utf-8")
    encoder = build_encoder("minilm" if config is None else str(path))
    drop_pooler(encoder.model)
    assert shape_of(encoder.config) == shape
    output = 2 * shape.width + 2
    assert sum(value.numel() for value in encoder.parameters()) + output == PARAMETERS[shape]
    if shape == BERT_BASE:
        for learn, expected in TOP_3.items():
            apply_learn(encoder, parse_learn(learn))
            assert sum(value.numel() for value in encoder.parameters() if value.requires_grad) + output == expected
