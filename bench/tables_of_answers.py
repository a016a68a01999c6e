"""Markdown table of what is gained over each alternative, and at what cost: the first table of docs/benchmarks.md."""

from collections.abc import Sequence
from operator import itemgetter
from statistics import fmean
from typing import NamedTuple

from bertvision.bench.compare import Measured, find_model, mean_and_spread, paired_test, shared_seeds
from bertvision.bench.tables import MEGABYTE, MILLI, which_way
from bertvision.errors import BertVisionError
from bertvision.report.numbers import Unit, show_difference, show_number
from bertvision.runs.judging.judge import FITTED
from markdown_tables import points, table


class Answer(NamedTuple):
    """A row of the table: descriptions of ours and of the alternative, and the models, each named `CELL:MODEL`."""

    ours: str
    against: str
    first: str
    second: str


ANSWERS = (
    Answer("`lora:16`", "`lora:16`, plain loop", "lora:2", "plain lora:2"),
    Answer("`lora:16`", "`lora:16`, plain loop at our rate", "lora:2", "plain lora at our rate:2"),
    Answer("`lora:16`", "all parameters, plain loop", "lora:2", "plain full:2"),
    Answer("`lora:16`", "all parameters, plain loop at our rate", "lora:2", "plain full at our rate:2"),
    Answer("`lora:16`", "all parameters, ours", "lora:2", "full:2"),
    Answer("`lora:16`, 4 epochs", "`lora:16`, plain loop, 2 epochs", "lora 4 epochs:4", "plain lora:2"),
    Answer("`lora:16`, 8 epochs", "`lora:16`, plain loop, 2 epochs", "lora 8 epochs:8", "plain lora:2"),
    Answer("all parameters", "all parameters, plain loop", "full:2", "plain full:2"),
    Answer("all parameters", "the same at our rate", "full:2", "plain full at our rate:2"),
    Answer("`houlsby:64`", "`lora:16`, plain loop", "houlsby:2", "plain lora:2"),
    Answer("`bitfit`", "`bitfit`, plain loop", "bitfit:2", "plain bitfit:2"),
    Answer("only an output", "only an output, plain loop", "frozen:2", "plain frozen:2"),
    Answer("`lora:16` and the best heads on it", "`lora:16` alone", "lora + heads:greedy", "lora + heads:own_output@2"),
    Answer("1 epoch and a head over all layers", "1 epoch alone", "heads:adapter_pool_skip@1", "heads:own_output@1"),
    Answer("1 epoch and a head over all layers", "2 epochs alone", "heads:adapter_pool_skip@1", "encoder:2"),
)
"""The rows for all-mpnet-base-v2; the head is `adapter_pool_skip`, and all parameters are trained before it."""

MINILM_ANSWERS = (
    Answer("`lora:16`", "`lora:16`, plain loop", "MiniLM lora:2", "MiniLM plain lora:2"),
    Answer("`lora:16`", "all parameters, plain loop", "MiniLM lora:2", "MiniLM plain full:2"),
    Answer("`lora:16`", "all parameters, ours", "MiniLM lora:2", "MiniLM full:2"),
    Answer("all parameters", "all parameters, plain loop", "MiniLM full:2", "MiniLM plain full:2"),
    Answer(
        "`lora:16` and the best heads on it",
        "`lora:16` alone",
        "MiniLM lora + heads:greedy",
        "MiniLM lora + heads:own_output@2",
    ),
    Answer(
        "`lora:16` and `adapter_pool_skip` on it",
        "`lora:16` alone",
        "MiniLM lora + heads:adapter_pool_skip@2",
        "MiniLM lora + heads:own_output@2",
    ),
    Answer(
        "`lora:16` and `adapter_pool_skip` on it",
        "all parameters, ours",
        "MiniLM lora + heads:adapter_pool_skip@2",
        "MiniLM full:2",
    ),
)
"""The rows for MiniLM."""

HEADER = (
    "ours",
    "against",
    "F1",
    "difference",
    "with each seed",
    "ours is",
    "training, s",
    "kept, MB",
    "an answer, ms",
)


def answers_table(cells: Sequence[Measured], answers: Sequence[Answer] = ANSWERS) -> str:
    """Table of ours against each alternative, from the suites `rival` and `heads`.

    Raises:
        BertVisionError: a model is not measured.
    """
    return table(HEADER, [_row(cells, one) for one in answers])


def _row(cells: Sequence[Measured], one: Answer) -> list[str]:
    first, second = find_model(cells, one.first), find_model(cells, one.second)
    tested = None if first is None or second is None else paired_test(first, second)
    if first is None or second is None or tested is None:
        raise BertVisionError(f"'{one.first}' and '{one.second}' are not measured.")
    test, by_seed = tested
    seeds = shared_seeds(first[0], second[0])
    f1 = (
        fmean(cell.with_seed(seed)["result"]["models"][model]["scores"][FITTED]["f1"] for seed in seeds)
        for cell, model in (first, second)
    )

    def cost(key: str, unit: Unit, scale: float = 1.0) -> str:
        means = (mean_and_spread(cell.over_seeds(model, itemgetter(key)))[0] for cell, model in (first, second))
        return " / ".join(show_number(None if mean is None else mean / scale, unit) for mean in means)

    return [
        one.ours,
        one.against,
        " / ".join(show_number(value, "percent") for value in f1),
        points(test.value, test.interval.low, test.interval.high),
        ", ".join(show_difference(value, "percent") for value in by_seed),
        which_way(test),
        cost("seconds", "seconds"),
        cost("bytes", "number", MEGABYTE),
        cost("inference_seconds", "seconds", MILLI),
    ]
