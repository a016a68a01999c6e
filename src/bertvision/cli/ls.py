"""`bertvision ls`: what there is to choose from."""

from dataclasses import dataclass
from typing import Literal

from bertvision.cli.output import print_json, print_table
from bertvision.tasks.load import TASKS
from bertvision.tasks.own import OWN, OWN_SUMMARY


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of `bertvision ls`."""

    what: Literal["tasks"]
    """What to list: tasks."""

    json: bool = False
    """Print JSON."""


def run(options: Options) -> int:
    """List the tasks."""
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
            "kind": "spans, labels or scores",
            "labels": [],
            "metrics": [],
            "rows": {},
            "builtin": False,
            "hub": None,
            "summary": OWN_SUMMARY,
        }
    )
    if options.json:
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
