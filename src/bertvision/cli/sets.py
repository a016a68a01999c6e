"""`bertvision ls sets`: the built-in data sets, their token windows, and the score of a constant prediction."""

import numpy as np

from bertvision.cli.data_check import describe_windows
from bertvision.cli.output import print_json, print_table
from bertvision.evaluation.score import score_squad2, score_targets
from bertvision.tasks.examples import Examples, Questions, gold_targets, target_array
from bertvision.tasks.load import TASKS, load_task
from bertvision.tasks.task import Task
from bertvision.tasks.tokenizer import TextTokenizer
from bertvision.tasks.windows import WindowOptions


def list_sets(*, as_json: bool) -> int:
    """Print a row per built-in set."""
    tokenizer = TextTokenizer.load()
    rows = []
    for task in TASKS.values():
        if task.builtin is not None:
            splits = load_task(task.name, data="builtin").splits
            windows = {
                name: describe_windows(task, split, tokenizer, WindowOptions()) for name, split in splits.items()
            }
            rows.append(
                {
                    "task": task.name,
                    "set": task.builtin,
                    "train": len(splits["train"]),
                    "dev": len(splits["dev"]),
                    "windows": sum(int(str(part["windows"])) for part in windows.values()),
                    "mean_tokens": windows["train"]["mean_tokens"],
                    **_baseline(task, splits["train"], splits["dev"]),
                }
            )
    if as_json:
        print_json(rows)
        return 0
    columns = ["task", "set", "train", "dev", "windows", "mean_tokens", "baseline", "metric", "value"]
    print_table(
        "built-in sets, with a trivial baseline scored on dev", columns, [[row[c] for c in columns] for row in rows]
    )
    return 0


def _baseline(task: Task, train: Examples, dev: Examples) -> dict[str, object]:
    """The score of a constant prediction on dev: no answer, the most frequent label, or the mean score."""
    metric = task.metrics[0]
    if task.kind == "spans" and isinstance(dev, Questions):
        values = score_squad2(dev.golds(), dict.fromkeys(dev.ids, "")).values
        return {"baseline": "no answer", "metric": metric, "value": values[metric]}
    seen = gold_targets(train)
    if task.kind == "labels":
        constant = float(np.bincount(seen.astype(np.int64)).argmax())
        baseline = f"always {task.labels[int(constant)]}"
    else:
        constant, baseline, metric = float(seen.mean()), f"always {seen.mean():.2f}", "mse"
    right = gold_targets(dev)
    if metric == "mse":  # correlation with a constant is not defined
        return {"baseline": baseline, "metric": metric, "value": float(np.mean((right - constant) ** 2))}
    values = score_targets(task, right, target_array(task.kind, [constant] * len(right))).values
    return {"baseline": baseline, "metric": metric, "value": values[metric]}
