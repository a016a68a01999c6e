"""Subject: a finished run and the examples to evaluate it on; no encoder runs yet."""

import shlex
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from bertvision.amounts import in_words
from bertvision.errors import BertVisionError, DataError
from bertvision.evaluation.threshold import NO_ANSWER_SHARE
from bertvision.heads.files import WEIGHTS
from bertvision.provenance import file_digest
from bertvision.runs.fitting.fit_request import FitRequest
from bertvision.runs.folder import RunFolder
from bertvision.runs.judging.evaluation_record import EvaluationRecord, Fingerprints
from bertvision.runs.judging.finished import FinishedRun, open_run
from bertvision.runs.judging.kept_outputs import OUTPUTS
from bertvision.runs.parts import examples_digest
from bertvision.runs.task_parts import TaskParts, split_parts
from bertvision.store.manifest import windows_digest
from bertvision.tasks.examples import Examples, IntArray, Questions, Texts
from bertvision.tasks.load import TaskData
from bertvision.tasks.own import OWN
from bertvision.tasks.part import Part
from bertvision.tasks.task import Task

OWN_OUTPUT = "own_output"
"""Name of the encoder's own output beside the heads."""

HELD_OUT = "held_out"
"""Name of the held-out training examples as a split, on which runs are evaluated if their data have no other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A run and the split to evaluate it on.

    Attributes:
        run: the run.
        parts: the examples of its task, and how they are tokenized.
        data: where the split's files are; None is the built-in set.
        split: name of the split.
        part: the split.
        held_out: training examples that the run held out; None if it held out none.
        digests: digests of the token windows of `part` and of `held_out`.
        heads: digest of every head's weights by name, that of the encoder's own output included.
        notices: messages for the user.
    """

    run: FinishedRun
    parts: TaskParts
    data: str | None
    split: str
    part: Part
    held_out: Part | None
    digests: tuple[str, str | None]
    heads: dict[str, str]
    notices: tuple[str, ...]

    @property
    def folder(self) -> Path:
        """The folder of its evaluation."""
        return self.run.evaluations / self.split

    @property
    def held_out_examples(self) -> int:
        """The number of training examples that the run held out."""
        return 0 if self.held_out is None else len(self.held_out.examples)

    def command(self, name: str, *options: str) -> str:
        """A command line for the same run and split: the command of that name with more options, quoted for a shell."""
        words = ["bertvision", name, self.run.name, "--split", self.split]
        words += [] if self.data == self.run.request.data else ["--data", str(self.data)]
        return shlex.join([*words, *options])

    def head_folder(self, name: str) -> Path:
        """The folder of the head of that name, or of the own output."""
        if name == OWN_OUTPUT and self.run.own is not None:
            return self.run.own.folder
        return self.run.head_folder(name)

    def fingerprints(self, weights: str) -> Fingerprints:
        """What its outputs depend on; `weights` is the encoder's fingerprint."""
        return Fingerprints(
            weights=weights,
            split=self.digests[0],
            held_out=self.digests[1],
            heads=self.heads,
            no_answer_share=NO_ANSWER_SHARE,
        )

    def kept(self) -> EvaluationRecord | None:
        """The record of an earlier evaluation of the same heads on the same windows, if its outputs are there too."""
        if not (self.folder / EvaluationRecord.FILE).is_file():
            return None
        try:
            record = EvaluationRecord.read(self.folder)
        except BertVisionError:
            return None  # written by another version, or damaged: evaluate again
        weights = record.fingerprints.weights if self.run.weights is None else self.run.weights
        there = all((self.folder / name / OUTPUTS).is_file() for name in self.heads)
        return record if there and record.fingerprints == self.fingerprints(weights) else None


def load_subject(name: str | Path, *, data: str | Path | None = None, split: str = "dev") -> Subject:
    """Open a finished run, and load the examples to evaluate it on.

    Args:
        name: `RUN` or `RUN@0.3`.
        data: where the split's files are; None takes the run's own data. Held-out examples are always the run's own.
        split: name of the split. If the run's data are a training split alone, `dev` and `held_out` both mean the
            examples that the run held out; not for questions, whose threshold they fit.

    Raises:
        BertVisionError: there is no such run or split, the run is not finished, the split is its training split, or its
            data have changed since, so that held-out examples may have been in the training set.
    """
    run = open_run(name)
    request = run.request
    try:
        loaded = request.load()
    except DataError as error:
        raise DataError(f"{run.name} was made of data that it still needs, to know what it held out: {error}") from None
    parts = split_parts(request, loaded)
    source = loaded
    if data is not None:
        source = _load_elsewhere(request, loaded.task, str(data))
    held_out = None if parts.held_out is None else parts.part(parts.held_out)
    if held_out is not None:
        RunFolder(run.folder).check_held_out(examples_digest([held_out.windows]))
    notices = [*dict.fromkeys((*loaded.notices, *source.notices)), *run.notices]
    alone = data is None and list(loaded.splits) == ["train"]
    if alone and split in ("dev", HELD_OUT) and held_out is not None and parts.task.kind != "spans":
        split, part = HELD_OUT, held_out
        notices.append(
            f"the data have a train split alone: what the run held out of it judges, "
            f"{in_words(len(part.examples), 'example')}. They choose among heads, too: expect a little less elsewhere. "
            "For others: --data DIR"
        )
    elif split not in source.splits:
        raise _no_split(split, [name for name in source.splits if data is not None or name != "train"], parts.task)
    else:
        if same_examples(source.splits[split], loaded.splits["train"]):
            raise BertVisionError(
                f"{run.name} learned from these examples: they are its training split. Use --split dev."
            )
        part = parts.part(source.splits[split])
    return Subject(
        run=run,
        parts=parts,
        data=request.data if data is None else str(data),
        split=split,
        part=part,
        held_out=held_out,
        digests=(_digest(parts, part), None if held_out is None else _digest(parts, held_out)),
        heads=_head_digests(run),
        notices=tuple(notices),
    )


def another_snapshot(subject: Subject, name: str | Path) -> Subject:
    """The same examples, without loading them again, for another snapshot of the same tuned run.

    Raises:
        BertVisionError: there is no such snapshot.
    """
    run = open_run(name)
    return replace(subject, run=run, heads=_head_digests(run))


def _head_digests(run: FinishedRun) -> dict[str, str]:
    """A digest of the weights of every head of a run, and of its encoder's own output, by name.

    Raises:
        BertVisionError: the weights of one are missing.
    """
    names = {name: run.head_folder(name) for name in run.heads}
    if run.own is not None:
        names[OWN_OUTPUT] = run.own.folder
    missing = [str(folder) for folder in names.values() if not (folder / WEIGHTS).is_file()]
    if missing:
        raise BertVisionError(f"{run.name}: the head in {missing[0]} is not there any more. Fit it again.")
    return {name: file_digest(folder / WEIGHTS)[:16] for name, folder in names.items()}


def _no_split(split: str, there: Collection[str], task: Task) -> BertVisionError:
    """The error for a split that is missing, or on which the run cannot be evaluated; `there` are those that remain."""
    if there:
        names = ", ".join(there)
        return BertVisionError(f"{task.name} has no split '{split}' here; there is: {names}. Use --split or --data.")
    why = "; held-out questions fit the threshold, and cannot judge" if task.kind == "spans" else ""
    return BertVisionError(
        f"{task.name} has no split '{split}' here: the run's data have a train split alone{why}. Name a folder with "
        "train and dev files: --data DIR, or a file of other examples: --data FILE --split train"
    )


def _load_elsewhere(request: FitRequest, task: Task, data: str) -> TaskData:
    """The task's data from another place, with the class numbers of the run's own data, of which some may not occur.

    Raises:
        BertVisionError: they cannot be loaded, are of another kind, or have labels that the run's own data lack.
    """
    columns = request.columns
    if task.name == OWN and task.kind != "spans":  # not guessed again: a few scores may look like labels
        columns = replace(columns, kind=task.kind)
    source = replace(request, data=data, columns=columns).load()
    if source.task.kind != task.kind or not set(source.task.labels) <= set(task.labels):
        raise BertVisionError(
            f"{data} holds {_content(source.task)}; heads learned {_content(task)}. Name data of the same task."
        )
    numbers = np.array([task.labels.index(label) for label in source.task.labels], dtype=np.int64)
    return replace(source, splits={name: _renumbered(split, task, numbers) for name, split in source.splits.items()})


def _content(task: Task) -> str:
    """The kind of a task, with its labels if it has any."""
    return f"the labels {', '.join(task.labels)}" if task.labels else task.kind


def _renumbered(examples: Examples, task: Task, numbers: IntArray) -> Examples:
    """The examples with other class numbers: `numbers` has that of every label by its present one."""
    if isinstance(examples, Questions) or task.kind not in ("labels", "tags"):
        return examples
    if task.kind == "labels":
        return replace(examples, targets=numbers[examples.targets.astype(np.int64)])
    tags = np.zeros((len(examples), len(task.labels)), dtype=np.int64)
    tags[:, numbers] = examples.targets
    return replace(examples, targets=tags)


def same_examples(first: Examples, second: Examples) -> bool:
    """Whether two splits are the same; texts are compared, since rows of tables have their numbers for ids."""
    if isinstance(first, Questions) and isinstance(second, Questions):
        return first.ids == second.ids
    if isinstance(first, Texts) and isinstance(second, Texts):
        return (first.texts, first.pairs) == (second.texts, second.pairs)
    return False


def _digest(parts: TaskParts, part: Part) -> str:
    return "+".join(windows_digest(windows.ids, windows.bounds) for windows in parts.texts(part))
