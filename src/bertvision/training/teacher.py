"""TeacherTargets: a teacher's logits as soft targets of a student, also where their tokenizers differ."""

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertvision.objectives import Pool
from bertvision.objectives.teacher import teacher_losses
from bertvision.tasks.examples import IntArray
from bertvision.tasks.task import Task
from bertvision.tasks.windows import Windows

Scores = NDArray[np.float32]

_MAX_WINDOWS = 8192
"""Windows whose tokens are compared at once: bounds the memory that this takes."""


@dataclass(frozen=True, slots=True)
class SoftTargets:
    """The soft targets of a batch.

    Attributes:
        outputs: the teacher's logits: for spans (windows, tokens, 2), -inf where it has none and in padding; otherwise
            (windows, outputs).
        share: (windows,) weight of the distillation loss, from 0 to 1.
    """

    outputs: Tensor
    share: Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class TeacherTargets:
    """The soft targets of a student's windows.

    Attributes:
        task: its kind chooses the loss.
        windows: the student's.
        outputs: the teacher's logits: for spans (tokens, 2) in the order of the student's `Windows.ids`, -inf where it
            has none; otherwise (windows, outputs).
        taught: (windows,) whether the teacher has logits for the correct answer; if not, the window is trained on its
            targets alone.
        share: weight of the distillation loss of a taught window, from 0 to 1.
        temperature: see `teacher_losses`.
    """

    task: Task
    windows: Windows
    outputs: Scores
    taught: NDArray[np.bool_]
    share: float
    temperature: float

    @classmethod
    def align(  # noqa: PLR0913 - what they are made of
        cls, task: Task, windows: Windows, teacher: Windows, outputs: Scores, *, share: float, temperature: float
    ) -> Self:
        """Align a teacher's outputs with a student's windows of the same examples; see `matching_windows`.

        Args:
            task: its kind chooses the loss.
            windows: the student's.
            teacher: the teacher's.
            outputs: the teacher's logits: for spans (tokens, 2) in the order of its `Windows.ids`; otherwise (windows,
                outputs).
            share: weight of the distillation loss, from 0 to 1.
            temperature: see `teacher_losses`.
        """
        if task.kind == "spans":
            aligned = align_tokens(windows, teacher, outputs)
            first, last = (windows.bounds[:-1, None] + windows.targets.astype(np.int64)).T  # of the right answer
            taught = np.isfinite(aligned[first, 0]) & np.isfinite(aligned[last, 1])
        else:
            aligned = outputs[matching_windows(windows, teacher)]
            taught = np.ones(len(windows), dtype=np.bool_)
        return cls(task=task, windows=windows, outputs=aligned, taught=taught, share=share, temperature=temperature)

    def batch(self, rows: IntArray, tokens: int) -> SoftTargets:
        """The soft targets of the windows at `rows`; those of spans are padded to `tokens`."""
        share = torch.from_numpy(np.where(self.taught[rows], self.share, 0.0).astype(np.float32))
        if self.task.kind != "spans":
            return SoftTargets(torch.from_numpy(self.outputs[rows]), share)
        lengths = self.windows.lengths[rows, None]
        columns = np.arange(tokens)
        source = self.windows.bounds[rows, None] + np.minimum(columns, lengths - 1)
        outputs = np.where((columns < lengths)[:, :, None], self.outputs[source], np.float32(-np.inf))
        return SoftTargets(torch.from_numpy(outputs), share)

    def losses(  # noqa: PLR0913 - what a loss depends on
        self, usual: Tensor, outputs: Tensor, mask: Tensor, soft: SoftTargets, *, pool: Pool, counts: Tensor | None
    ) -> Tensor:
        """Mix the usual losses with those by the teacher, (windows,).

        Args:
            usual: (windows,) losses by the targets, weighted already.
            outputs: (windows, tokens, outputs) of the student.
            mask: (windows, tokens) True where a token is real.
            soft: the soft targets of these windows.
            pool: how outputs are pooled over the tokens, for labels, tags and scores.
            counts: (windows,) class weights of the windows; None for none.
        """
        distilled = teacher_losses(self.task, outputs, mask, soft.outputs, pool=pool, temperature=self.temperature)
        if counts is not None:
            distilled = distilled * counts
        return (1.0 - soft.share) * usual + soft.share * distilled


def matching_windows(student: Windows, teacher: Windows) -> IntArray:
    """The teacher's window for each of a student's: same example, largest overlap, the first of equals."""
    counts = np.bincount(teacher.example)
    many = counts[student.example]
    firsts = (np.cumsum(counts) - counts)[student.example]
    if int(many.max()) == 1:
        return firsts
    number, nth = _expand(many)
    candidate = firsts[number] + nth
    ours, theirs = _context_characters(student)[number], _context_characters(teacher)[candidate]
    shared = np.minimum(ours[:, 1], theirs[:, 1]) - np.maximum(ours[:, 0], theirs[:, 0])
    order = np.lexsort((candidate, -shared, number))
    matching: IntArray = candidate[order[np.cumsum(many) - many]]
    return matching


def align_tokens(student: Windows, teacher: Windows, scores: Scores) -> Scores:
    """A teacher's scores of first and last tokens for every token of a student, (tokens, 2).

    A token of the context has the teacher's score as first token where one of the teacher's begins at the same
    character, and as last token where one ends there, both in the matching window. The first token of a window, which
    stands for no answer, has that of the teacher's. All others have -inf. Where several tokens begin at one character,
    as pieces of it do, the first one counts, and of those that end at one the last.

    Args:
        student: windows of a student.
        teacher: windows of its teacher, cut from the same examples.
        scores: (tokens, 2) in the order of the teacher's `Windows.ids`.
    """
    matching = matching_windows(student, teacher)
    aligned = np.full((len(student.ids), 2), -np.inf, dtype=np.float32)
    aligned[student.bounds[:-1]] = scores[teacher.bounds[matching]]
    characters = 1 + max(int(windows.offsets.max(initial=0)) for windows in (student, teacher))
    for rows in np.array_split(np.arange(len(student)), math.ceil(len(student) / _MAX_WINDOWS)):
        number, place, ours = _context_tokens(student, rows)
        their_number, their_place, theirs = _context_tokens(teacher, matching[rows])
        # window and character as one sortable key, (tokens, 2); a last key that matches nothing keeps indices valid
        keys = number[:, None] * characters + ours
        their_keys = np.append(their_number[:, None] * characters + theirs, [[len(rows) * characters] * 2], axis=0)
        first = np.searchsorted(their_keys[:, 0], keys[:, 0], side="left")
        last = np.searchsorted(their_keys[:, 1], keys[:, 1], side="right") - 1
        counts = np.diff(keys[:, 0], prepend=-1) != 0, np.diff(keys[:, 1], append=-1) != 0
        for side, found in enumerate((first, last)):
            same = (their_keys[found, side] == keys[:, side]) & counts[side]
            aligned[place[same], side] = scores[their_place[found[same]], side]
    return aligned


def _expand(counts: IntArray) -> tuple[IntArray, IntArray]:
    """For groups of these sizes laid end to end: the group of every member, and its number within the group."""
    number = np.repeat(np.arange(len(counts)), counts)
    return number, np.arange(len(number)) - (np.cumsum(counts) - counts)[number]


def _context_tokens(windows: Windows, rows: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Every context token of the windows at `rows`: number of its window, place in `ids`, characters."""
    begin, end = windows.context[rows].T
    number, nth = _expand(end - begin)
    place = (windows.bounds[rows] + begin)[number] + nth
    return number, place, windows.offsets[windows.context_token[rows][number] + nth].astype(np.int64)


def _context_characters(windows: Windows) -> IntArray:
    """Where every window's context begins and ends, (windows, 2); an empty one shares nothing with any other."""
    offsets = np.concatenate([windows.offsets, np.zeros((1, 2), dtype=np.int32)])  # empty contexts may stand at the end
    lengths = windows.context[:, 1] - windows.context[:, 0]
    first, last = offsets[windows.context_token, 0], offsets[windows.context_token + lengths - 1, 1]
    return np.where(lengths[:, None] > 0, np.stack([first, last], axis=1), 0).astype(np.int64)
