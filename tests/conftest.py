"""What many tests share: where the real data are, the built-in tokenizer, small questions, a task with tags."""

import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from bertvision.tasks.examples import Answer, Questions
from bertvision.tasks.own import OWN_METRICS
from bertvision.tasks.task import TableLayout, Task
from bertvision.tasks.tokenizer import TextTokenizer
from bertvision.training import solve

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


@pytest.fixture(autouse=True, scope="session")
def graphs_unwatched() -> Iterator[None]:
    """Coverage looks away while torch writes a graph: nearly all of that is torch's Python, and takes twice as long."""
    export = torch.onnx.export

    def unwatched(*args: Any, **options: Any) -> Any:  # noqa: ANN401 - as torch has it
        trace = sys.gettrace()
        sys.settrace(None)
        try:
            return export(*args, **options)
        finally:
            sys.settrace(trace)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.onnx, "export", unwatched)
        yield


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


@pytest.fixture(scope="module")
def few_strengths() -> Iterator[None]:
    """Solved heads try 4 penalties, not 26: which of them is chosen has tests of its own, where it is chosen."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(solve, "STRENGTHS", (10.0, 1.0, 0.1, 0.01))
        yield


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
