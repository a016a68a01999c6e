"""Markdown tables of the errors and layers of span heads, beside the documents' figures."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from markdown_tables import table

Record = dict[str, Any]
PATH = Path(__file__).parents[1] / "results" / "span-analysis-mpnet.json"
THEIR_HEAD = "adapter_pool_skip"
"""The paper's best head at 3/10 of an epoch."""


def record() -> Record:
    """The record of `span_analysis.py`."""
    found: Record = json.loads(PATH.read_text(encoding="utf-8"))
    return found


def model_of(snapshot: Record, name: str) -> Record:
    """The record of one model of a snapshot."""
    found: Record = next(model for model in snapshot["models"] if model["name"] == name)
    return found


def seeds_of(snapshot: Record, head: str) -> list[Record]:
    """The records of all seeds of a head."""
    return [model for model in snapshot["models"] if model["head"] == head]


def empty_share(errors: Record) -> float:
    """The share of empty predictions among the wrong ones for questions with an answer."""
    return float(errors["predicted_empty"] / errors["has_answer_errors"])


def second_share(errors: Record) -> float:
    """The share of wrong first answers whose second answer is right."""
    return float(errors["second_right"] / errors["first_wrong"])


FIGURES = (
    ("wrong answers to questions with an answer that are empty, threshold 0", "65 %", "zero", empty_share),
    ("the same, fitted", "", "fitted", empty_share),
    (
        "right answers whose question has an answer, threshold 0",
        "42 %",
        "zero",
        lambda errors: errors["first_right_has_answer_share"],
    ),
    ("the same, fitted", "", "fitted", lambda errors: errors["first_right_has_answer_share"]),
    ("second answer right where the first is wrong, fitted", "44 %", "fitted", second_share),
    ("of these, questions with an answer, fitted", "47 %", "fitted", lambda e: e["second_right_has_answer_share"]),
)
"""Description, the paper's figure, the threshold of ours, and the function that computes ours from the counts."""


def second_answers_table() -> str:
    """Table of the kinds of errors, beside the paper's figures."""
    columns, header = [], ["", "document 000, 0.3 epoch"]
    for snapshot in record()["snapshots"]:
        heads = dict.fromkeys((THEIR_HEAD, model_of(snapshot, snapshot["first"])["head"], snapshot["second"]))
        for head in heads:
            header.append(f"`{head}`, {snapshot['snapshot']} epoch")
            columns.append([model["errors"] for model in seeds_of(snapshot, head)])
    rows = [
        (what, theirs, *(_percent([share(errors[at]) for errors in column]) for column in columns))
        for what, theirs, at, share in FIGURES
    ]
    return table(header, rows)


def _percent(values: Sequence[float]) -> str:
    mean = f"{100 * sum(values) / len(values):.0f} %"
    return mean if len(values) == 1 else f"{mean} ({100 * min(values):.0f} to {100 * max(values):.0f})"


def question_words_table() -> str:
    """Table of F1 by question word, for the best head and the own output of each snapshot."""
    snapshots = record()["snapshots"]
    header = ["question word", "questions", "with an answer"]
    groups = []
    for snapshot in snapshots:
        for name in (snapshot["first"], snapshot["second"]):
            header.append(f"`{model_of(snapshot, name)['head']}`, {snapshot['snapshot']} epoch")
            words = snapshot["question_words"][name]
            groups.append([words["overall"], *words["words"]])
    rows = [
        (
            row[0]["name"],
            f"{row[0]['all']['count']:,}",
            f"{row[0]['has_answer']['count'] / row[0]['all']['count']:.0%}",
            *(
                f"{group['all']['f1']:.1f} ({_part(group, 'has_answer')} / {_part(group, 'no_answer')})"
                for group in row
            ),
        )
        for row in zip(*groups, strict=True)
    ]
    return table(header, rows)


def _part(group: Record, which: str) -> str:
    found = group[which]["f1"]
    return "none" if found is None else f"{found:.0f}"


def _columns(kinds: Sequence[str]) -> list[tuple[str, str, str, list[int], Record]]:
    """Learned layer weights over seeds, by head, output and snapshot."""
    return [
        (report["head"], output, snapshot["snapshot"], report["layers"], one)
        for snapshot in record()["snapshots"]
        for kind in kinds
        for report in snapshot[kind]
        for output, one in zip(report["outputs"], report["sets"], strict=True)
    ]


def layers_table() -> str:
    """Table of the shares of learned layer weights, with intervals over seeds."""
    columns = [column for column in _columns(["layer_weights"]) if column[0] in {"layer_mix", "layer_weights"}]
    header = ["layer"]
    for head, output, tuned, _, _ in columns:
        header.append(f"`{head}`{'' if output == 'both' else f' {output}'}, {tuned} epoch")
    deepest = max(layers[-1] for _, _, _, layers, _ in columns)
    rows = []
    for layer in range(deepest + 1):
        cells = [
            over_seeds(one["shares"][layers.index(layer)], 100) if layer in layers else ""
            for _, _, _, layers, one in columns
        ]
        rows.append((str(layer), *cells))
    even = (f"{100 / len(layers):.1f}" for _, _, _, layers, _ in columns)
    return table(header, [*rows, ("*even*", *(f"*{value}*" for value in even))])


def over_seeds(value: Record, scale: float = 1) -> str:
    """A mean with its interval."""
    return f"{scale * value['mean']:.1f} ({scale * value['low']:.1f} to {scale * value['high']:.1f})"


def centres_table() -> str:
    """Table of the centres of gravity of layer weights."""
    rows: dict[tuple[str, str, str], dict[str, str]] = {}
    for head, output, tuned, layers, one in _columns(["layer_weights", "attention"]):
        even = f"{sum(layers) / len(layers):.1f}"
        rows.setdefault((f"`{head}`", output, even), {})[tuned] = over_seeds(one["centre"])
    return table(
        ("head", "output", "even weights", "0.3 epoch", "1 epoch"),
        [(*key, found["0.3"], found["1"]) for key, found in rows.items()],
    )


SPAN_TABLES = {
    "second answers": second_answers_table,
    "question words": question_words_table,
    "span layers": layers_table,
    "span centres": centres_table,
}
"""The tables of the page on analysis, by name."""
