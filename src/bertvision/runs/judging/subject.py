"""Subject: a finished run with the examples that it is evaluated on, before any encoder runs."""

import shlex
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

from bertvision.amounts import in_words
from bertvision.errors import BertVisionError, DataError
from bertvision.evaluation.threshold import NO_ANSWER_SHARE
from bertvision.heads.files import WEIGHTS
from bertvision.provenance import file_digest
from bertvision.runs.folder import RunFolder
from bertvision.runs.judging.evaluation_record import EvaluationRecord, Fingerprints
from bertvision.runs.judging.finished import FinishedRun, open_run
from bertvision.runs.judging.kept_outputs import OUTPUTS
from bertvision.runs.parts import examples_digest
from bertvision.runs.task_parts import TaskParts, split_parts
from bertvision.store.manifest import windows_digest
from bertvision.tasks.examples import Examples, Questions, Texts
from bertvision.tasks.load import TaskData
from bertvision.tasks.part import Part
from bertvision.tasks.task import Task

OWN_OUTPUT = "own_output"
"""Name of the encoder's own output beside the heads."""

HELD_OUT = "held_out"
"""Name of the split of the training examples that a run held out; it judges where the data have no other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What is evaluated, and on what.

    Attributes:
        run: the run.
        parts: its task's examples, and how they are cut.
        data: where the split comes from, where that is not from where the run has its data.
        split: the split's name.
        part: the split.
        held_out: training examples that the run held out; None if it held out none.
        digests: digests of the token windows of both.
        heads: digest of every head's weights, the encoder's own output's included, by name.
        notices: what the user should know.
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
        """Where its evaluation goes."""
        return self.run.evaluations / self.split

    @property
    def held_out_examples(self) -> int:
        """How many training examples the run held out."""
        return 0 if self.held_out is None else len(self.held_out.examples)

    def command(self, name: str, *options: str) -> str:
        """The command of that name about the same run and split, in words to copy."""
        words = ["bertvision", name, self.run.name, "--split", self.split]
        words += [] if self.data == self.run.request.data else ["--data", str(self.data)]
        return shlex.join([*words, *options])

    def head_folder(self, name: str) -> Path:
        """Where the head of that name is."""
        if name == OWN_OUTPUT and self.run.own is not None:
            return self.run.own.folder
        return self.run.head_folder(name)

    def fingerprints(self, weights: str) -> Fingerprints:
        """What its outputs depend on, given the encoder's fingerprint."""
        return Fingerprints(
            weights=weights,
            split=self.digests[0],
            held_out=self.digests[1],
            heads=self.heads,
            no_answer_share=NO_ANSWER_SHARE,
        )

    def kept(self) -> EvaluationRecord | None:
        """The record of an evaluation of the same heads on the same windows whose outputs are there; else None."""
        if not (self.folder / EvaluationRecord.FILE).is_file():
            return None
        try:
            record = EvaluationRecord.read(self.folder)
        except BertVisionError:
            return None  # of another version: made anew
        weights = record.fingerprints.weights if self.run.weights is None else self.run.weights
        there = all((self.folder / name / OUTPUTS).is_file() for name in self.heads)
        return record if there and record.fingerprints == self.fingerprints(weights) else None


def load_subject(name: str | Path, *, data: str | Path | None = None, split: str = "dev") -> Subject:
    """Find a run, and load what it is to be evaluated on.

    Args:
        name: `RUN` or `RUN@0.3`.
        data: where the split is; None takes the run's own data. Held-out examples are always the run's own.
        split: which split; `held_out`, which stands in for `dev` where the run's data are a training split alone,
            is what the run held out.

    Raises:
        BertVisionError: there is no such run or split, it is not finished, it learned from the split, or its data have
            changed since, so that it may have learned from what would be held out.
    """
    run = open_run(name)
    request = run.request
    try:
        loaded = request.load()
    except DataError as error:
        raise DataError(f"{run.name} was made of data that it still needs, to know what it held out: {error}") from None
    parts = split_parts(request, loaded)
    judged = loaded
    if data is not None:
        judged = replace(request, data=str(data)).load()
        _check_labels(loaded, judged, str(data))
    held_out = None if parts.held_out is None else parts.part(parts.held_out)
    if held_out is not None:
        RunFolder(run.folder).check_held_out(examples_digest([held_out.windows]))
    notices = [*dict.fromkeys((*loaded.notices, *judged.notices)), *run.notices]
    alone = data is None and list(loaded.splits) == ["train"]
    if alone and split in ("dev", HELD_OUT) and held_out is not None and parts.task.kind != "spans":
        split, part = HELD_OUT, held_out
        notices.append(
            f"the data have a train split alone: what the run held out of it judges, "
            f"{in_words(len(part.examples), 'example')}. They choose among heads, too: expect a little less elsewhere. "
            "For others: --data DIR"
        )
    elif split not in judged.splits:
        raise _no_split(split, [name for name in judged.splits if data is not None or name != "train"], parts.task)
    else:
        if _alike(judged.splits[split], loaded.splits["train"]):
            raise BertVisionError(
                f"{run.name} learned from these examples: they are its training split. Use --split dev."
            )
        part = parts.part(judged.splits[split])
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
    """Another snapshot of the tuned run that a subject is of, to be evaluated on the same examples, which stay loaded.

    Raises:
        BertVisionError: there is no such snapshot.
    """
    run = open_run(name)
    return replace(subject, run=run, heads=_head_digests(run))


def _head_digests(run: FinishedRun) -> dict[str, str]:
    """Of every head of a run, and of its encoder's own output, a digest of the weights.

    Raises:
        BertVisionError: one is not there.
    """
    names = {name: run.head_folder(name) for name in run.heads}
    if run.own is not None:
        names[OWN_OUTPUT] = run.own.folder
    missing = [str(folder) for folder in names.values() if not (folder / WEIGHTS).is_file()]
    if missing:
        raise BertVisionError(f"{run.name}: the head in {missing[0]} is not there any more. Fit it again.")
    return {name: file_digest(folder / WEIGHTS)[:16] for name, folder in names.items()}


def _no_split(split: str, there: Collection[str], task: Task) -> BertVisionError:
    """What to say of a split that is not among those that could judge."""
    if there:
        names = ", ".join(there)
        return BertVisionError(f"{task.name} has no split '{split}' here; there is: {names}. Use --split or --data.")
    why = "; held-out questions fit the threshold, and cannot judge" if task.kind == "spans" else ""
    return BertVisionError(
        f"{task.name} has no split '{split}' here: the run's data have a train split alone{why}. Name a folder with "
        "train and dev files: --data DIR, or a file of other examples: --data FILE --split train"
    )


def _check_labels(learnt: TaskData, judged: TaskData, data: str) -> None:
    if learnt.task.labels != judged.task.labels:
        raise BertVisionError(
            f"{data} has the labels {', '.join(judged.task.labels)}; heads learned {', '.join(learnt.task.labels)}."
        )


def _alike(one: Examples, two: Examples) -> bool:
    """Whether two splits are the same; ids alone do not tell, since rows of tables have numbers for ids."""
    if isinstance(one, Questions) and isinstance(two, Questions):
        return one.ids == two.ids
    return isinstance(one, Texts) and isinstance(two, Texts) and (one.texts, one.pairs) == (two.texts, two.pairs)


def _digest(parts: TaskParts, part: Part) -> str:
    return "+".join(windows_digest(windows.ids, windows.bounds) for windows in parts.texts(part))
