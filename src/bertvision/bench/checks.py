"""cost_checks: the predictions of the cost model beside the measured values in the records of results/."""

import json
import re
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bertvision.bench.cost import (
    EncoderShape,
    Load,
    disk_bytes,
    encode_seconds,
    learning_of,
    load_operations,
    original_bytes,
    tune_seconds,
)
from bertvision.bench.hardware import HARDWARE, Hardware
from bertvision.bench.lengths import squad_lengths
from bertvision.encoder.learn import parse_learn

TOLERANCE = 0.15
"""Largest relative error of a prediction."""

COST_CHECK = "cost-check"
"""Name of the record that bench/bench_cost.py writes: small encoders and heads on one thread of a CPU."""

FITTED = "512 × 4"
"""Width × layers of the encoder that rates are fitted on, with windows of 384 tokens."""

TOUCHES = 20
"""How often the case `touch` reads and writes its states, which are as wide as the feed-forward part: 4 · width."""

NARROW = "products of so narrow an encoder run below the rate of wider ones"
"""Why the prediction for LoRA on the narrowest encoder is off."""

MINILM = EncoderShape(width=384, depth=6, inner=1536)
BERT_BASE = EncoderShape(width=768, depth=12, inner=3072)
BERT_LARGE = EncoderShape(width=1024, depth=24, inner=4096)
PARAMETERS = {MINILM: 22_566_146, BERT_BASE: 108_893_186, BERT_LARGE: 334_094_338}
"""Parameters of these encoders without a pooler, with the head of a question-answering model."""

TOP_3 = {"top:3": 21_294_338, "top:3:strict": 21_265_154}
"""Trained parameters of BERT-base's shape by `--learn`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A predicted value beside the measured one.

    Attributes:
        what: what was measured, in words.
        record: name of the record in results.
        unit: unit of both values.
        measured: the measured value.
        predicted: the value by the cost model; None if the model's rates were fitted on this measurement.
        known_miss: why the error is larger than the tolerance; empty if it is not.
    """

    what: str
    record: str
    unit: str
    measured: float
    predicted: float | None
    known_miss: str = ""

    @property
    def error(self) -> float | None:
        """Relative error of the prediction; None without one."""
        return None if self.predicted is None else self.predicted / self.measured - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """Throughput on a GPU; padding does not count.

    Attributes:
        what: what was measured, in words.
        who: `ours`, or the name of a plain loop.
        windows: windows per second.
        operations: operations per second, of real tokens alone.
    """

    what: str
    who: str
    windows: float
    operations: float


def gpu_rates(results: Path) -> list[Rate]:
    """Throughput of ours and of the plain loops on BERT-large's shape: a frozen pass, and tuning of all parameters."""
    full = learning_of(parse_learn("full"), BERT_LARGE, PARAMETERS[BERT_LARGE])
    rates = []
    for name, learning in (("speed-frozen-gpu", None), ("speed-tuning-gpu", full)):
        record = _read(results, name)
        load = _load(*_size_of(record))
        operations = load_operations(BERT_LARGE, load, learning)
        for who, rounds in record["seconds"].items():
            seconds = statistics.median(rounds)
            rates.append(
                Rate(what=record["what"], who=who, windows=load.windows / seconds, operations=operations / seconds)
            )
    return rates


def cost_checks(results: Path) -> list[Check]:
    """All checks of the cost model, from the records in the folder `results`."""
    return [*_sizes(results), *_gpu(results), *_cpu(results), *_small(_read(results, COST_CHECK))]


def measured_utilisation(results: Path, name: str) -> float:
    """Utilisation of a machine of `HARDWARE` in the record of its frozen pass."""
    record_name, shape = {"h200": ("speed-frozen-gpu", BERT_LARGE), "cpu": ("speed-frozen-cpu", MINILM)}[name]
    record = _read(results, record_name)
    return load_operations(shape, _load(*_size_of(record))) / _ours(record) / HARDWARE[name].peak


def fitted_hardware(record: Mapping[str, Any]) -> Hardware:
    """Rates of one thread of the machine that measured the record `COST_CHECK`, fitted on its cases of one shape."""
    cases = {(case["what"], case["width"], case["length"]): case for case in record["cases"]}
    width = int(FITTED.partition(" ")[0])
    frozen = cases["frozen", width, 384]
    shape, load = _shape(frozen), _load(frozen["windows"], frozen["length"], spread=1.0)
    unit = Hardware(name="one thread", peak=1.0, utilisation=1.0, update=0.0)
    update, draw, touch = (
        next(case for case in record["cases"] if case["what"] == what) for what in ("update", "draw", "touch")
    )
    return replace(
        unit,
        peak=encode_seconds(shape, load, unit) / frozen["seconds"],
        update=update["seconds"] / update["parameters"],
        draw=draw["seconds"] / (draw["length"] * draw["width"]),
        touch=touch["seconds"] / (2 * TOUCHES * touch["length"] * 4 * touch["width"]),
    )


def squad_spread() -> float:
    """Mean of the squared lengths of SQuAD's windows over their squared mean, since records have only the mean."""
    lengths = squad_lengths()
    return float((lengths**2).mean() / lengths.mean() ** 2)


def _sizes(results: Path) -> Iterator[Check]:
    for name, key in (("size-store-16-bit", "store, fp16"), ("size-store-int8", "store, int8")):
        record = _read(results, name)
        load = _load(*_size_of(record))
        what = f"{record['what']}, MiniLM, {load.windows} windows"
        yield Check(
            what=what,
            record=name,
            unit="bytes",
            measured=record["bytes"]["ours"],
            predicted=disk_bytes(MINILM, load)[key],
        )
    (size,) = (size for layout, size in record["bytes"].items() if layout != "ours")
    yield Check(
        what="the original's layout of the same windows",
        record=name,
        unit="bytes",
        measured=size,
        predicted=original_bytes(MINILM, load.windows),
    )


def _passes(results: Path, device: str, hardware: Hardware, shape: EncoderShape, *, batch: int) -> Iterator[Check]:
    """Checks of a device: its frozen pass, on which its rate was fitted, and tuning of all parameters."""
    name = f"speed-frozen-{device}"
    record = _read(results, name)
    yield Check(what=_what(record), record=name, unit="s", measured=_ours(record), predicted=None)
    name = f"speed-tuning-{device}"
    record = _read(results, name)
    load = _load(*_size_of(record))
    steps = -(-load.windows // batch)
    full = learning_of(parse_learn("full"), shape, PARAMETERS[shape])
    yield Check(
        what=f"{_what(record)}, {steps} steps",
        record=name,
        unit="s",
        measured=_ours(record),
        predicted=tune_seconds(shape, full, load, hardware, steps=steps),
    )


def _gpu(results: Path) -> Iterator[Check]:
    hardware = HARDWARE["h200"]
    yield from _passes(results, "gpu", hardware, BERT_LARGE, batch=256)
    name = "heads-gpu"
    yield Check(
        what="frozen pass, BERT-base shape, one batch of 16 windows of 192 tokens, not compiled",
        record=name,
        unit="s",
        measured=_read(results, name)["encoder_seconds"],
        predicted=encode_seconds(BERT_BASE, _load(16, 192, spread=1.0), hardware),
        known_miss="3,072 tokens do not fill the GPU; from 16,384 on more of them gained nothing",
    )


def _cpu(results: Path) -> Iterator[Check]:
    hardware = HARDWARE["cpu"]
    yield from _passes(results, "cpu", hardware, MINILM, batch=16)
    full = learning_of(parse_learn("full"), BERT_BASE, PARAMETERS[BERT_BASE])
    for learn, parameters in TOP_3.items():
        name = f"speed-{learn.replace(':', '-')}"
        record = _read(results, name)
        load = _load(*_size_of(record))
        top = learning_of(parse_learn(learn), BERT_BASE, parameters)
        (ratio,) = record["ratios"].values()
        yield Check(
            what=f"{record['what']}, of a step of --learn full",
            record=name,
            unit="of it",
            measured=1 / ratio["median"],
            predicted=tune_seconds(BERT_BASE, top, load, hardware, steps=2)
            / tune_seconds(BERT_BASE, full, load, hardware, steps=2),
        )


def _small(record: Mapping[str, Any]) -> Iterator[Check]:
    hardware = fitted_hardware(record)
    heads = {(case["name"], case["width"]): case for case in record["cases"] if case["what"] == "head"}
    for case in record["cases"]:
        shape, load = _shape(case), _load(case["windows"], case["length"], spread=1.0)
        size = f"{case['width']} × {case['depth']}"
        of_shape = f"{size}, {case['windows']} × {case['length']} tokens"
        what, predicted = f"frozen pass, {of_shape}", None
        match case["what"]:
            case "frozen" if (size, case["length"]) != (FITTED, 384):
                predicted = encode_seconds(shape, load, hardware)
            case "frozen":
                pass
            case "tuning":
                what = f"a step of --learn {case['name']}, {of_shape}"
                learning = learning_of(parse_learn(case["name"]), shape, case["parameters"])
                predicted = tune_seconds(shape, learning, load, hardware, steps=1)
            case "head" if case["width"] != BERT_BASE.width:
                what = f"a step of {case['name']}, {case['depth'] + 1} × {case['length']} × {case['width']} states"
                known = heads[case["name"], BERT_BASE.width]
                grown = (shape.depth + 1) * shape.width / ((BERT_BASE.depth + 1) * BERT_BASE.width)
                predicted = known["seconds"] * grown
            case _:  # the rates are fitted on it
                continue
        yield Check(
            what=what,
            record=COST_CHECK,
            unit="s",
            measured=case["seconds"],
            predicted=predicted,
            known_miss=NARROW if case["name"] == "lora:16" else "",
        )


def _read(results: Path, name: str) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((results / f"{name}.json").read_text(encoding="utf-8"))
    return record


def _ours(record: Mapping[str, Any]) -> float:
    return float(statistics.median(record["seconds"]["ours"]))


def _what(record: Mapping[str, Any]) -> str:
    return f"{record['what']}, {record['size']}"


def _size_of(record: Mapping[str, Any]) -> tuple[int, int]:
    """Number of windows of a record, and their mean length in tokens, parsed from its `size`."""
    size = re.match(r"([\d,]+) windows, mean (\d+) tokens", record["size"])
    if size is None:
        raise ValueError(f"{record['name']} tells no windows: {record['size']}")
    return int(size[1].replace(",", "")), int(size[2])


def _load(windows: int, mean: int, spread: float | None = None) -> Load:
    """The load of windows with this mean length; `spread` as by `squad_spread`, which is the default."""
    tokens = windows * mean
    return Load(windows=windows, tokens=tokens, pairs=tokens * mean * (squad_spread() if spread is None else spread))


def _shape(case: Mapping[str, Any]) -> EncoderShape:
    return EncoderShape(width=case["width"], depth=case["depth"], inner=4 * case["width"])
