"""Markdown tables of the records of bench/task_runs.py."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from bertvision.runs.judging.judge import CLAIMED
from markdown_tables import table
from verdicts import Sure, verdict

Record = Mapping[str, Any]

METRICS = {
    "sst5.accuracy": "SST-5 accuracy",
    "sst5.f1": "SST-5 F1",
    "sts.pearson": "STS Pearson",
    "sts.spearman": "STS Spearman",
    "quora.accuracy": "Quora accuracy",
    "quora.f1": "Quora F1",
}

GRID_METRICS = ("sst5.accuracy", "sts.pearson", "quora.accuracy", "quora.f1")

WAYS = {
    "baseline": "baseline: texts apart",
    "balanced": "classes balanced",
    "triplets": "triplets first",
    "questions": "questions (Q&A)",
}

DOCUMENT = {
    "baseline": {
        "sst5.accuracy": 0.440,
        "sts.pearson": 0.326,
        "sts.spearman": 0.310,
        "quora.accuracy": 0.765,
        "quora.f1": 0.709,
    },
    "triplets": {
        "sst5.accuracy": 0.481,
        "sts.pearson": 0.453,
        "sts.spearman": 0.429,
        "quora.accuracy": 0.771,
        "quora.f1": 0.727,
    },
    "questions": {
        "sst5.accuracy": 0.495,
        "sts.pearson": 0.843,
        "sts.spearman": 0.834,
        "quora.accuracy": 0.868,
        "quora.f1": 0.836,
    },
}
"""Document 004, table 2; accuracy and Pearson correlation of `questions` are those on its test set."""


CLAIMS = (
    ("questions", "sts.pearson", "questions improve similarity"),
    ("questions", "quora.accuracy", "questions improve paraphrase"),
    ("questions", "sst5.accuracy", "questions improve sentiment"),
    ("triplets", "sst5.accuracy", "triplets improve sentiment a little"),
    ("triplets", "sts.pearson", "triplets improve similarity a little"),
    ("triplets", "quora.accuracy", "triplets improve paraphrase a little"),
)
"""Claims of document 004 about ways of multitask training against the baseline: the way, the metric, and the claim."""


def multitask_claims(record: Record) -> str:
    """Whether these claims hold: for most encoders the test is significant, and all seeds of the two ways are apart."""
    rows = []
    for way, metric, what in CLAIMS:
        tests = {one["encoder"]: one["metrics"][metric] for one in record["tests"] if one["way"] == way}
        sure = [Sure(one["value"], one["p"] < CLAIMED and one["apart"]) for one in tests.values()]
        early, late = (DOCUMENT[name][metric] for name in ("baseline", way))
        there = f"{late - early:+.3f} ({early:.3f} → {late:.3f})"
        rows.append((f"{what}, {METRICS[metric]}", there, *map(_difference, tests.values()), verdict(sure, "more")))
    encoders = dict.fromkeys(one["encoder"] for one in record["tests"])
    return table(("document 004 says", "there", *encoders, "the claim"), rows)


def multitask_tables(record: Record) -> str:
    """Tables of values beside the document's, differences from the baseline, and gaps of predicted label counts."""
    values = [
        ["document 004", WAYS[way], *(f"{found[name]:.3f}" if name in found else "" for name in METRICS)]
        for way, found in DOCUMENT.items()
    ]
    ordered = _in_order(record["rows"])
    values += [[row["encoder"], WAYS[row["way"]], *(_of(row["metrics"][name]) for name in METRICS)] for row in ordered]
    tests = [
        [row["encoder"], WAYS[row["way"]], *(_difference(row["metrics"][name]) for name in METRICS)]
        for row in _in_order(record["tests"])
    ]
    gaps = [[row["encoder"], WAYS[row["way"]], *(_of(gap) for gap in row["gaps"].values())] for row in ordered]
    names = ["encoder", "way", *METRICS.values()]
    return "\n\n".join(
        [
            f"Dev, mean (range) of {len(ordered[0]['seeds'])} seeds:",
            table(names, values),
            "Higher than the baseline of the same encoder by (95 % interval over dev examples):",
            table(names, tests),
            "Share of dev examples to predict otherwise, for each label to be predicted as often as it is there:",
            table(["encoder", "way", "SST-5", "Quora"], gaps),
        ]
    )


def _in_order(rows: Iterable[Record]) -> list[Record]:
    """Groups by encoder, in their order in the record, then by way."""
    rows = list(rows)
    encoders = list(dict.fromkeys(row["encoder"] for row in rows))
    return sorted(rows, key=lambda row: (encoders.index(row["encoder"]), list(WAYS).index(row["way"])))


def _of(values: Record, digits: int = 3) -> str:
    mean = f"{values['mean']:.{digits}f}"
    if len(values["values"]) == 1:
        return mean
    return f"{mean} ({values['least']:.{digits}f} to {values['most']:.{digits}f})"


def _difference(test: Record) -> str:
    """A difference, in bold if it is significant and the seeds are apart, with a dagger if it is only significant."""
    value = f"{test['value']:+.3f}"
    if test["p"] < CLAIMED:
        value = f"**{value}**" if test["apart"] else f"{value}†"
    return f"{value} ({test['low']:+.3f} to {test['high']:+.3f})"


def grid_table(record: Record) -> str:
    """Table of held-out and dev scores by learning rate and dropout."""
    rows = [
        [f"{row['lr']:.0e}", f"{row['dropout']:g}", *(_both(row["metrics"], name) for name in GRID_METRICS)]
        for row in record["rows"]
    ]
    return table(["rate", "dropout", *(f"{METRICS[name]}, held-out / dev" for name in GRID_METRICS)], rows)


def _both(metrics: Record, name: str) -> str:
    task, _, metric = name.partition(".")
    return f"{metrics[f'{task}.held_out_{metric}']['mean']:.3f} / {metrics[name]['mean']:.3f}"


def distances_table(record: Record) -> str:
    """Table of distances on dev before and after tuning on triplets, and how often the loss was not 0."""
    rows = [
        [
            row["encoder"],
            task,
            *(_moved(found, name, 2) for name in ("positive", "negative", "other")),
            _moved(found, "in_order", 3),
            f"{row['loss']['above_zero']} of {row['loss']['logged']}",
        ]
        for row in record["rows"]
        for task, found in row["tasks"].items()
    ]
    header = ["encoder", "anchors of", "to positives", "to negatives", "to other tasks", "positive is nearest"]
    return table([*header, "logs with a loss, of all tasks"], rows)


def _moved(found: Record, name: str, digits: int) -> str:
    return " → ".join(f"{found[when][name]['mean']:.{digits}f}" for when in ("before", "after"))


def glue_table(record: Record) -> str:
    """Table of the own output, its map trained again and the chosen head, by epochs of tuning and task."""
    models = ("own", "last_layer", "best")
    rows = []
    for epochs in dict.fromkeys(row["epochs"] for row in record["rows"]):
        for row in record["rows"]:
            if row["epochs"] == epochs:
                seeds = len(row["seeds"])
                chosen = ", ".join(f"`{name}` {count}" for name, count in Counter(row["chosen"]).most_common())
                sure = f"{row['surely_better']} / {row['surely_worse']} of {seeds}"
                values = [_of(row["models"][name], 1) for name in models]
                rows.append([f"{epochs:g}", f"{row['task']}, {' and '.join(row['metrics'])}", *values, sure, chosen])
        for row in record["averages"]:
            if row["epochs"] == epochs:
                values = [f"**{_of(row['models'][name], 1)}**" for name in models]
                rows.append([f"{epochs:g}", f"**average, {row['tasks']}**", *values, "", ""])
    header = ["epochs", "task", "own output", "`last_layer`, learnt anew", "chosen head"]
    return table([*header, "surely better / worse than own", "chosen (seeds)"], rows)
