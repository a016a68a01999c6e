"""`bertvision data check`: report rows, labels, token windows and bad rows of a task's data."""

from dataclasses import dataclass
from typing import assert_never

import numpy as np

from bertvision.cli.output import print_json, print_note, print_table
from bertvision.cli.task_options import TaskOptions, load_with_notes
from bertvision.pretrained import BUILTIN_ENCODER
from bertvision.tasks.examples import Examples, Questions
from bertvision.tasks.load import TaskData
from bertvision.tasks.task import Task
from bertvision.tasks.tokenizer import TextTokenizer
from bertvision.tasks.windows import WindowOptions, build_windows

BAD_ROWS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(TaskOptions):
    """Options of `bertvision data check`."""

    encoder: str = BUILTIN_ENCODER
    """Encoder whose tokenizer is used: 'minilm', a local folder, or a name on the hub."""

    json: bool = False
    """Print the report as JSON."""


def run(options: Options) -> int:
    """Check the data; exit code 2 if rows are bad and --skip-bad is not given."""
    loaded = load_with_notes(options.task, options.data.data, options.columns, skip_bad=True)
    tokenizer = TextTokenizer.load(options.encoder)
    splits = {
        name: {"rows": len(examples), "bad": len(loaded.bad[name])}
        | describe_examples(loaded.task, examples)
        | describe_windows(loaded.task, examples, tokenizer, options.windows)
        for name, examples in loaded.splits.items()
    }
    if options.json:
        print_json({"task": loaded.task.name, "splits": splits})
    else:
        _print_splits(loaded, splits)
    if any(loaded.bad.values()) and not options.data.skip_bad:
        print_note("other commands stop at bad rows unless --skip-bad is given.")
        return BAD_ROWS
    return 0


def describe_examples(task: Task, examples: Examples) -> dict[str, object]:
    """Counts of answerable questions and contexts, of rows per label or tag, or the mean and range of scores."""
    if isinstance(examples, Questions):
        return {"answerable": int(examples.answerable.sum()), "contexts": len(examples.contexts)}
    targets = examples.targets
    match task.kind:
        case "labels":
            counts = np.bincount(targets.astype(np.int64), minlength=len(task.labels))
            return {"labels": dict(zip(task.labels, counts.tolist(), strict=True))}
        case "tags":
            counts = targets.astype(np.int64).sum(axis=0)
            sets, rows = np.unique(targets, axis=0, return_counts=True)
            commonest = " + ".join(word for word, has in zip(task.labels, sets[rows.argmax()], strict=True) if has)
            return {
                "labels": dict(zip(task.labels, counts.tolist(), strict=True)),
                "commonest": {commonest or "none": int(rows.max())},
            }
        case "scores":
            values = {"mean": targets.mean(), "min": targets.min(), "max": targets.max()}
            return {"scores": {name: float(value) for name, value in values.items()}}
        case "spans":
            raise TypeError("spans come from questions")
        case _:
            assert_never(task.kind)


def describe_windows(
    task: Task, examples: Examples, tokenizer: TextTokenizer, options: WindowOptions
) -> dict[str, object]:
    """Number and lengths of the token windows, and the number of examples that were truncated."""
    windows = build_windows(task, examples, tokenizer, options)
    return {
        "windows": len(windows),
        "mean_tokens": round(float(windows.lengths.mean()), 1),
        "p99_tokens": int(np.quantile(windows.lengths, 0.99, method="higher")),
        "truncated": windows.truncated,
    }


def _print_splits(loaded: TaskData, splits: dict[str, dict[str, object]]) -> None:
    columns = list(dict.fromkeys(name for split in splits.values() for name in split))
    rows = [[name, *(_flat(split.get(column)) for column in columns)] for name, split in splits.items()]
    print_table(f"{loaded.task.name}: {loaded.task.summary}", ["split", *columns], rows)


def _flat(value: object) -> object:
    """A cell: the items of a dictionary in one line, anything else as it is."""
    if isinstance(value, dict):
        return ", ".join(
            f"{key}: {item:,.4g}" if isinstance(item, float) else f"{key}: {item:,}" for key, item in value.items()
        )
    return value
