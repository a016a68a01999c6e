"""Task: what is asked, as a value: kind, files, columns, labels, metrics."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

TaskKind = Literal["spans", "labels", "tags", "scores"]
"""What an answer is: a piece of the context, one of a set of labels, any number of them at once, or a number."""

Pool = Literal["cls", "mean"]
"""Which row stands for a text: the first token's, or the mean over its tokens."""

Pairs = Literal["together", "apart", "aligned"]
"""Two texts as one window; or each by itself and then compared, as wholes or also token by token."""

Split = str
"""`train`, `dev`, or another part of the data such as `dev_mismatched`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLayout:
    """One row per example; columns by header name, or by position where the file has no header.

    `delimiter` and `quoting` of None mean: detected from the file, as for files of the user's own.
    """

    text: str | int
    label: str | int
    pair: str | int | None = None
    id: str | int | None = None
    header: bool = True
    delimiter: str | None = "\t"
    quoting: bool | None = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SquadLayout:
    """The nested JSON of SQuAD; `answerable_only` refuses questions without an answer, as version 1.1 does."""

    answerable_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HubSource:
    """Where the Hugging Face hub keeps the task, and what it calls the splits and columns."""

    path: str
    name: str | None = None
    splits: Mapping[Split, str] = field(default_factory=lambda: {"train": "train", "dev": "validation"})
    text: str = "text"
    pair: str | None = None
    label: str = "label"


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Everything the rest of the program needs to know about a task.

    Attributes:
        name: key in `TASKS`.
        kind: what an answer is.
        summary: one line for people.
        layout: how a file of the task is read.
        labels: the label words in class order; empty unless `kind` is `labels` or `tags`.
        separator: what stands between the labels of a text where they are one piece of text; None takes lists alone.
        limits: smallest and largest legal score; None unless `kind` is `scores`.
        metrics: official metrics, the main one first.
        files: accepted file names per split, the official one first; `.gz` may follow each.
        folders: names under which the task's folder is found below a data root.
        rows: official number of rows per split, where it is known.
        hub: where the Hugging Face hub has it.
        builtin: folder of the built-in set that has this task's form.
        version: raised when a change here changes scores.
    """

    name: str
    kind: TaskKind
    summary: str
    layout: TableLayout | SquadLayout
    metrics: tuple[str, ...]
    files: Mapping[Split, tuple[str, ...]]
    labels: tuple[str, ...] = ()
    separator: str | None = None
    limits: tuple[float, float] | None = None
    folders: tuple[str, ...] = ()
    rows: Mapping[Split, int] = field(default_factory=dict)
    hub: HubSource | None = None
    builtin: str | None = None
    version: int = 1

    @property
    def answerable_only(self) -> bool:
        """Whether every question has an answer, as in SQuAD 1.1."""
        return isinstance(self.layout, SquadLayout) and self.layout.answerable_only

    @property
    def main_metric(self) -> str:
        """The metric that models are compared by: F1 of questions, else the first official one."""
        return "f1" if self.kind == "spans" else self.metrics[0]

    @property
    def choosing_metric(self) -> str:
        """The metric that models are chosen by on held-out examples: of questions F1 at the best threshold, if any."""
        return "best_f1" if self.kind == "spans" and not self.answerable_only else self.main_metric

    @property
    def outputs(self) -> int:
        """Numbers a head must give per token: two ends of a span, one per label, one score."""
        match self.kind:
            case "spans":
                return 2
            case "labels" | "tags":
                return len(self.labels)
            case "scores":
                return 1
