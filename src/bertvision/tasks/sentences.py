"""Sentiment in two and five classes, similarity and paraphrase, in the layout of the minBERT course files.

Those files are tab-separated with CSV quoting: unlike in GLUE's files, "…" quotes a cell, and "" inside is a quote.
"""

from bertvision.tasks.task import HubSource, TableLayout, Task

SENTENCE_TASKS = (
    Task(
        name="sst5",
        kind="labels",
        summary="Stanford Sentiment Treebank, five classes",
        layout=TableLayout(text="sentence", label="sentiment", id="id", quoting=True),
        labels=("0", "1", "2", "3", "4"),
        metrics=("accuracy", "f1"),
        files={"train": ("ids-sst-train.csv",), "dev": ("ids-sst-dev.csv",)},
        folders=("cs224n",),
        rows={"train": 8_544, "dev": 1_101},
        hub=HubSource(path="SetFit/sst5"),
        builtin="sentiment5",
    ),
    Task(
        name="sts",
        kind="scores",
        summary="SemEval STS: how alike are the two sentences, 0 to 5?",
        layout=TableLayout(text="sentence1", pair="sentence2", label="similarity", id="id", quoting=True),
        limits=(0.0, 5.0),
        metrics=("pearson", "spearman"),
        files={"train": ("sts-train.csv",), "dev": ("sts-dev.csv",)},
        folders=("cs224n",),
        rows={"train": 6_040, "dev": 863},
        builtin="similarity",
    ),
    Task(
        name="quora",
        kind="labels",
        summary="Quora: are the two questions paraphrases?",
        layout=TableLayout(text="sentence1", pair="sentence2", label="is_duplicate", id="id", quoting=True),
        labels=("0", "1"),
        metrics=("accuracy", "f1"),
        files={"train": ("quora-train.csv",), "dev": ("quora-dev.csv",)},
        folders=("cs224n",),
        rows={"dev": 20_212},
        builtin="paraphrase",
    ),
    Task(
        name="cfimdb",
        kind="labels",
        summary="Film reviews, positive or negative, as in the minBERT course",
        layout=TableLayout(text="sentence", label="sentiment", id="id", quoting=True),
        labels=("0", "1"),
        metrics=("accuracy", "f1"),
        files={"train": ("ids-cfimdb-train.csv",), "dev": ("ids-cfimdb-dev.csv",)},
        folders=("cs224n",),
        builtin="sentiment2",
    ),
)
