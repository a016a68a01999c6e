"""Markdown tables of the README: our targets with measurements, and ours beside the usual alternatives."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from bertvision.bench.compare import Measured, find_model, mean_and_spread
from bertvision.bench.tables import MEGABYTE
from bertvision.errors import BertVisionError
from bertvision.report.numbers import NOTHING, show_number
from bertvision.runs.judging.judge import FITTED
from markdown_tables import table


class Promise(NamedTuple):
    """A row of the table of targets: the record, the baseline, and a short description."""

    record: str
    baseline: str
    what: str


LAYOUT = "float32, padded to 386, HDF5"
PROMISES = (
    Promise("speed-tuning-gpu", "plain loop, bucketed, batch 32", "tuning, BERT-large's shape, one H200"),
    Promise("speed-tuning-cpu", "plain loop, padded to 384", "tuning, MiniLM, two cores"),
    Promise("speed-frozen-gpu", "plain loop, padded to 384, batch 32", "all layers, BERT-large's shape, one H200"),
    Promise("speed-frozen-cpu", "plain loop, padded to 384", "all layers, MiniLM, two cores"),
    Promise("speed-fit-gpu", "one head after the other", "21 heads in one pass, BERT-large's shape, one H200"),
    Promise("speed-store-epoch-span", "recomputing", "an epoch of a span head from a store, two cores"),
    Promise("size-store-16-bit", LAYOUT, "size of a store in 16 bits"),
    Promise("size-store-int8", LAYOUT, "size of a store in 8 bits"),
    Promise("speed-answer-bf16-lengths-cpu", "plain transformers, eager float32", "one answer in bfloat16, two cores"),
    Promise(
        "speed-server-bf16",
        "plain transformers behind FastAPI, one request per pass",
        "serving 64 clients in bfloat16, two cores",
    ),
    Promise("speed-decoding", "plain n-best loop", "from scores to the 20 best answers"),
    Promise("speed-scoring", "official algorithm, plain", "SQuAD 2.0 scores, equal values"),
    Promise("speed-windows", "usual tokenizer call", "token windows, identical ids"),
)
"""The rows; of several targets in a record the one against the stronger baseline."""


def promises_table(records: Mapping[str, Mapping[str, Any]]) -> str:
    """Table of targets and measurements, from records by name."""
    rows = []
    for row in PROMISES:
        record = records[row.record]
        ratio = record["ratios"][row.baseline]
        times = ratio if isinstance(ratio, float) else ratio["median"]
        what = f"[{row.what}](results/{row.record}.json)"
        rows.append((what, row.baseline, f"**{times:.1f}**", str(record["targets"][row.baseline])))
    return table(("what", "against", "times better", "promised"), rows)


RIVALS = {
    "plain full:2": "all parameters, plain loop at the usual rate",
    "plain full at our rate:2": "all parameters, plain loop at our rate",
    "full:2": "**all parameters, ours**",
    "plain lora:2": "`lora:16`, plain loop",
    "lora:2": "**`lora:16`, ours**",
    "lora + heads:greedy": "`lora:16` and the best heads on it, ours",
    "houlsby:2": "`houlsby:64`, ours",
}
"""Titles of the rows, by cell and model of the suite."""

RIVAL_CELLS = frozenset(words.partition(":")[0] for words in RIVALS)
"""The cells whose curves are plotted below the table."""


def rivals_table(cells: Sequence[Measured]) -> str:
    """Table of F1 at the fitted threshold, seconds of training and bytes on disk per task, ours and others'."""
    rows = []
    for words, called in RIVALS.items():
        found = find_model(cells, words)
        if found is None:
            raise BertVisionError(f"'{words}' was not measured: bertvision bench rival --data DIR")
        cell, model = found
        f1, spread = mean_and_spread(cell.over_seeds(model, lambda one: one["scores"][FITTED]["f1"]))
        seconds, _ = mean_and_spread(cell.over_seeds(model, lambda one: one["seconds"]))
        size, _ = mean_and_spread(cell.over_seeds(model, lambda one: one["bytes"] / MEGABYTE))
        around = "" if spread is None else f" ± {show_number(spread, 'percent')}"
        timed = show_number(seconds, "seconds")
        rows.append(
            [
                called,
                f"{show_number(f1, 'percent')}{around}",
                "not timed" if timed == NOTHING else f"{timed} s",
                f"{show_number(None if size is None else round(size), 'count')} MB",
            ]
        )
    return table(["what learns", "F1", "training", "kept for the task"], rows)
