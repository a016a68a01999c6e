"""Task: the definition of a task as a value: kind, files, columns, labels, metrics."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

TaskKind = Literal["spans", "labels", "tags", "scores"]
"""What a model predicts: a span of the context, one label (multi-class), several labels (multi-label), a number."""

Pool = Literal["cls", "mean"]
"""How the rows of a text's tokens are pooled: the row of the first token, or the mean over the tokens."""

Pairs = Literal["together", "apart", "aligned"]
"""How pairs are encoded: both texts in one window; each in its own window, compared by their pooled rows; or the same,
with the tokens compared, too."""

Split = str
"""Name of a split: `train`, `dev`, or another one such as `dev_mismatched`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLayout:
    """A table with one row per example; columns are named by header, or by position in a file without a header.

    A `delimiter` or `quoting` of None is detected from the file, as by default in the user's own files.
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
    """The nested JSON of SQuAD; with `answerable_only`, as in version 1.1, questions without an answer are bad rows."""

    answerable_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HubSource:
    """Data set of the Hugging Face hub that has the task, and its names for the splits and columns."""

    path: str
    name: str | None = None
    splits: Mapping[Split, str] = field(default_factory=lambda: {"train": "train", "dev": "validation"})
    text: str = "text"
    pair: str | None = None
    label: str = "label"


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Definition of a task.

    Attributes:
        name: key in `TASKS`.
        kind: what a model predicts.
        summary: one line for help texts and lists.
        layout: format of the task's files.
        labels: the labels in the order of their class numbers; empty unless `kind` is `labels` or `tags`.
        separator: separator between the labels of a text in a cell of text; None: cells hold lists.
        limits: lowest and highest possible score; None if unknown, or if `kind` is not `scores`.
        metrics: official metrics, the main one first.
        files: accepted file names per split, the official one first; `.gz` may follow each.
        folders: names under which the task's folder is found below a data root.
        rows: official number of rows per split, where it is known.
        hub: its data set on the Hugging Face hub; None if there is none.
        builtin: folder of the small built-in data set that can stand in for this task; None if there is none.
        version: raised whenever a change of the definition changes scores.
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
        """The metric that models are compared by: F1 for spans, else the first official metric."""
        return "f1" if self.kind == "spans" else self.metrics[0]

    @property
    def choosing_metric(self) -> str:
        """The metric for model selection on held-out examples.

        F1 at the best threshold for questions that may have no answer; else the main metric.
        """
        return "best_f1" if self.kind == "spans" and not self.answerable_only else self.main_metric

    @property
    def outputs(self) -> int:
        """Outputs of a head per token: start and end logits of a span, one logit per label, or one score."""
        match self.kind:
            case "spans":
                return 2
            case "labels" | "tags":
                return len(self.labels)
            case "scores":
                return 1
