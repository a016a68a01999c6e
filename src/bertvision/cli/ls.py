"""`bertvision ls`: list the tasks, the heads or the built-in data sets."""

from dataclasses import dataclass
from typing import Literal

from bertvision.cli.output import print_json, print_note, print_table
from bertvision.tasks.load import TASKS
from bertvision.tasks.own import OWN, OWN_SUMMARY

BERT_LARGE = 335_141_888
"""Parameters of BERT-large, uncased."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of `bertvision ls`."""

    what: Literal["tasks", "heads", "sets"]
    """What to list: tasks, heads, or sets: the built-in data sets, with the score of a trivial baseline."""

    json: bool = False
    """Print the list as JSON."""


def run(options: Options) -> int:
    """List."""
    if options.what == "heads":
        return _heads(as_json=options.json)
    if options.what == "sets":
        from bertvision.cli.sets import list_sets  # noqa: PLC0415 - imports scikit-learn

        return list_sets(as_json=options.json)
    return _tasks(as_json=options.json)


def _tasks(*, as_json: bool) -> int:
    rows: list[dict[str, object]] = [
        {
            "name": task.name,
            "kind": task.kind,
            "labels": list(task.labels),
            "metrics": list(task.metrics),
            "rows": dict(task.rows),
            "builtin": task.builtin is not None,
            "hub": task.hub.path if task.hub else None,
            "summary": task.summary,
        }
        for task in TASKS.values()
    ]
    rows.append(
        {
            "name": OWN,
            "kind": "spans, labels, tags or scores",
            "labels": [],
            "metrics": [],
            "rows": {},
            "builtin": False,
            "hub": None,
            "summary": OWN_SUMMARY,
        }
    )
    if as_json:
        print_json(rows)
        return 0
    print_table(
        "tasks",
        ["task", "kind", "metrics", "official rows", "built-in", "what it asks"],
        [
            [
                row["name"],
                row["kind"],
                ", ".join(TASKS[str(row["name"])].metrics) if row["name"] in TASKS else "by kind",
                " / ".join(f"{n:,}" for n in TASKS[str(row["name"])].rows.values()) if row["name"] in TASKS else "",
                row["builtin"],
                row["summary"],
            ]
            for row in rows
        ],
    )
    return 0


def _heads(*, as_json: bool) -> int:
    from bertvision.heads import HEADS  # noqa: PLC0415 - imports torch, and help should open at once
    from bertvision.heads.options import head_options, show  # noqa: PLC0415

    rows: list[dict[str, object]] = []
    for name, entry in HEADS.items():
        parameters = reference_parameters(name)
        options = {key: option.default for key, option in head_options(entry.head).items()} | dict(entry.options)
        rows.append(
            {
                "name": name,
                "summary": entry.summary,
                "document": entry.document,
                "kinds": list(entry.kinds),
                "options": options,
                "parameters": parameters,
                "share": parameters / BERT_LARGE,
            }
        )
    if as_json:
        print_json(rows)
        return 0
    print_table(
        f"heads, with their parameters for two outputs per token of BERT-large, and the share of its {BERT_LARGE:,}",
        ["head", "from", "parameters", "share", "what it computes", "options"],
        [
            [
                row["name"],
                row["document"],
                row["parameters"],
                f"{row['share']:.4%}",
                row["summary"],
                " ".join(f"{key}={show(value)}" for key, value in row["options"].items()),  # type: ignore[attr-defined]
            ]
            for row in rows
        ],
    )
    print_note("every head also takes layers=0..K: it then reads these layers alone, and the encoder stops there.")
    print_note("for labels, tags and scores, tokens=attention lets it learn which tokens of a text count.")
    return 0


def reference_parameters(name: str) -> int:
    """A head's parameters for two outputs per token of BERT-large, the embedding output among its 25 layers."""
    from bertvision.heads import HeadShape, blank_head, count_parameters  # noqa: PLC0415

    return count_parameters(blank_head(name, HeadShape(layers=25, width=1024, outputs=2)))
