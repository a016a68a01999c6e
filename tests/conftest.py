"""What many tests share: where the real data are, the built-in tokenizer, small questions, a task with tags."""

import importlib.util
import os
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from bertvision.tasks.examples import Answer, Questions
from bertvision.tasks.own import OWN_METRICS
from bertvision.tasks.task import TableLayout, Task
from bertvision.tasks.tokenizer import TextTokenizer

ROOT = Path(__file__).parents[1]


def load_script(path: str) -> ModuleType:
    """A script of the repository, which is no part of the package, as a module."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


torch.set_num_threads(1)  # tests compute with small numbers, and threads would wait for each other


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of public data sets; tests that need it are skipped, and say so, where it is absent."""
    folder = Path(os.environ.get("BERTVISION_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"needs the public data sets in {folder.name}/ (set BERTVISION_DATA to their folder)")
    return folder


@pytest.fixture(scope="session")
def tokenizer() -> TextTokenizer:
    """The tokenizer of the built-in encoder."""
    return TextTokenizer.load()


def make_questions(*rows: tuple[str, str, str | None]) -> Questions:
    """Questions from (question, context, answer or None); the answer is found by its first occurrence."""
    contexts = list(dict.fromkeys(context for _, context, _ in rows))
    return Questions(
        ids=[f"q{number}" for number in range(len(rows))],
        questions=[question for question, _, _ in rows],
        context_index=np.array([contexts.index(context) for _, context, _ in rows], dtype=np.int64),
        answers=[() if text is None else (Answer(text, context.index(text)),) for _, context, text in rows],
        contexts=contexts,
        titles=["" for _ in contexts],
    )


def make_tags(*labels: str, separator: str | None = None) -> Task:
    """A task whose texts have any number of labels."""
    layout = TableLayout(text="text", label="tags")
    return Task(
        name="moods",
        kind="tags",
        summary="",
        layout=layout,
        metrics=OWN_METRICS["tags"],
        files={},
        labels=labels,
        separator=separator,
    )
