"""Round numbers for the planner."""

from dataclasses import replace
from typing import Any

from bertvision.runs.planning.plan_costs import Rates, SpanWork

WORK = SpanWork(trained=5000, scored=500, stored=1200, layers=range(7), depth=6, width=10, batch=100, shard=200)
"""Five epochs of 1,000 tokens and some passes over 200 others."""

RATES = Rates(
    encode_step=1.0,
    encode_pass=0.5,
    encode_whole=0.6,
    heads=0.1,
    slowest=("ladder", 0.2),
    write={"fp16": 0.01, "bf16": 0.01, "int8": 0.02},
    read={"fp16": 0.001, "bf16": 0.001, "int8": 0.002},
    read_cold={"fp16": 0.1, "bf16": 0.1, "int8": 0.05},
)


def work(**changes: Any) -> SpanWork:  # noqa: ANN401 - any field
    return replace(WORK, **changes)


def rates(**changes: Any) -> Rates:  # noqa: ANN401 - any field
    return replace(RATES, **changes)
