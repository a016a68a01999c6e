"""Members of an ensemble: heads and own outputs of comparable runs, and their choice by name."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bertvision.errors import BertVisionError, UnknownNameError
from bertvision.runs.judging.kept_outputs import ModelOutputs, RunOutputs
from bertvision.runs.judging.subject import Subject, same_examples
from bertvision.tasks.examples import gold_targets
from bertvision.tasks.part import Part

FEWEST_MEMBERS = 2
"""Fewest members of an ensemble."""


@dataclass(frozen=True, slots=True)
class Member:
    """A model that may be part of an ensemble.

    Attributes:
        subject: its run.
        name: its name in that run.
        label: its name in the ensemble: `RUN:NAME` if there are several runs, else the same.
        weights: fingerprint of its encoder.
        outputs: its outputs.
    """

    subject: Subject
    name: str
    label: str
    weights: str
    outputs: ModelOutputs


def check_compatible(subjects: Sequence[Subject]) -> None:
    """Refuse runs whose models cannot be combined or compared.

    Raises:
        BertVisionError: they differ in task, examples, token windows of questions, or held-out examples; the message
            names two such runs and says what to do.
    """
    first = subjects[0]
    spans = first.parts.task.kind == "spans"
    for other in subjects[1:]:
        one, two = first.run.name, other.run.name
        if first.run.request.task != other.run.request.task or first.parts.task.labels != other.parts.task.labels:
            raise BertVisionError(
                f"{one} is for {first.run.request.task}, {two} for {other.run.request.task}. Name runs of one task."
            )
        if not _same(first.part, other.part):
            raise BertVisionError(f"{one} and {two} have other examples in {first.split}. Name one place with --data.")
        if spans and first.digests[0] != other.digests[0]:
            raise BertVisionError(
                f"{one} and {two} cut the questions into other token windows. Members need encoders of one vocabulary "
                "and the same --length, --stride and --question."
            )
        if not _same(first.held_out, other.held_out) or (spans and first.digests[1] != other.digests[1]):
            raise BertVisionError(
                f"{one} and {two} held out other training examples, so that nothing is left that judges both. "
                "Fit them with the same --held-out, --seed and --fraction."
            )


def list_members(subjects: Sequence[Subject], run_outputs: Sequence[RunOutputs]) -> dict[str, Member]:
    """All models of all runs, by label; one that two runs share, such as an own output, is listed for the first.

    Args:
        subjects: the runs.
        run_outputs: the outputs of each.
    """
    members: dict[str, Member] = {}
    seen = set()
    for subject, run in zip(subjects, run_outputs, strict=True):
        for name, outputs in run.models.items():
            key = run.weights, subject.heads[name]
            label = name if len(subjects) == 1 else f"{subject.run.name}:{name}"
            if key not in seen:
                members[label] = Member(subject, name, label, run.weights, outputs)
                seen.add(key)
    return members


def choose_members(members: Mapping[str, Member], names: Sequence[str] | None) -> dict[str, Member]:
    """The members that have one of the names: as their label, their name in the run, or their head's name.

    Args:
        members: all members, by label.
        names: names to choose by; None takes all members.

    Raises:
        BertVisionError: no member has a name, or fewer than two members are left.
    """
    chosen = dict(members)
    if names is not None:
        for name in names:
            if not any(name in _names(member) for member in members.values()):
                known = set().union(*(_names(member) for member in members.values()))
                raise UnknownNameError("member", name, known)
        chosen = {label: member for label, member in members.items() if _names(member) & set(names)}
    if len(chosen) < FEWEST_MEMBERS:
        raise BertVisionError(f"an ensemble needs at least two members, there is {', '.join(chosen) or 'none'}.")
    return chosen


def _names(member: Member) -> set[str]:
    head = member.subject.run.heads.get(member.name)
    return {member.label, member.name} | (set() if head is None else {str(head["head"])})


def _same(first: Part | None, second: Part | None) -> bool:
    """Whether two parts have the same examples with the same targets: rows of tables have their numbers for ids."""
    if first is None or second is None:
        return first is second
    golds = gold_targets(first.examples), gold_targets(second.examples)
    return same_examples(first.examples, second.examples) and np.array_equal(*golds)
