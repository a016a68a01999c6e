"""Members of an ensemble: heads and own outputs of runs that were asked the same, by the names that a user gives."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bertvision.errors import BertVisionError, UnknownNameError
from bertvision.runs.judging.kept_outputs import ModelOutputs, RunOutputs
from bertvision.runs.judging.subject import Subject
from bertvision.tasks.examples import gold_targets

FEWEST_MEMBERS = 2
"""Fewest members of an ensemble."""


@dataclass(frozen=True, slots=True)
class Member:
    """A model that may be part of an ensemble.

    Attributes:
        subject: the run that it is of.
        name: in that run.
        label: in the ensemble: with its run's name in front where there are several.
        weights: fingerprint of its encoder.
        outputs: what it gave.
    """

    subject: Subject
    name: str
    label: str
    weights: str
    outputs: ModelOutputs


def check_alike(subjects: Sequence[Subject]) -> None:
    """Refuse runs that were asked something else, cut other windows, or hold out other examples.

    Raises:
        BertVisionError: naming the runs and what to do.
    """
    first = subjects[0]
    spans = first.parts.task.kind == "spans"
    for other in subjects[1:]:
        one, two = first.run.name, other.run.name
        if first.run.request.task != other.run.request.task or first.parts.task.labels != other.parts.task.labels:
            raise BertVisionError(
                f"{one} is for {first.run.request.task}, {two} for {other.run.request.task}. Name runs of one task."
            )
        same = first.part.examples.ids == other.part.examples.ids
        if not same or (not spans and (gold_targets(first.part.examples) != gold_targets(other.part.examples)).any()):
            raise BertVisionError(f"{one} and {two} have other examples in {first.split}. Name one place with --data.")
        if spans and first.digests[0] != other.digests[0]:
            raise BertVisionError(
                f"{one} and {two} cut the questions into other token windows. Members need encoders of one vocabulary "
                "and the same --length, --stride and --question."
            )
        if _held_out(first) != _held_out(other):
            raise BertVisionError(
                f"{one} and {two} held out other training examples, so that nothing is left that judges both. "
                "Fit them with the same --held-out, --seed and --fraction."
            )


def list_members(subjects: Sequence[Subject], found: Sequence[RunOutputs]) -> dict[str, Member]:
    """Every model of every subject once, by label; one that two runs share, such as its own output, is of the first."""
    members: dict[str, Member] = {}
    seen = set()
    for subject, outputs in zip(subjects, found, strict=True):
        for name, one in outputs.models.items():
            key = outputs.weights, subject.heads[name]
            label = name if len(subjects) == 1 else f"{subject.run.name}:{name}"
            if key not in seen:
                members[label] = Member(subject, name, label, outputs.weights, one)
                seen.add(key)
    return members


def choose_members(members: Mapping[str, Member], names: Sequence[str] | None) -> dict[str, Member]:
    """Those that names mean: a label, a name in its run, or a head's name; None means all.

    Raises:
        BertVisionError: a name means nobody, or fewer than two are left.
    """
    chosen = dict(members)
    if names is not None:
        for name in names:
            if not any(name in _names(member) for member in members.values()):
                raise UnknownNameError("member", name, {known for one in members.values() for known in _names(one)})
        chosen = {label: one for label, one in members.items() if _names(one) & set(names)}
    if len(chosen) < FEWEST_MEMBERS:
        raise BertVisionError(f"an ensemble needs at least two members, there is {', '.join(chosen) or 'none'}.")
    return chosen


def _names(member: Member) -> set[str]:
    head = member.subject.run.heads.get(member.name)
    return {member.label, member.name} | (set() if head is None else {str(head["head"])})


def _held_out(subject: Subject) -> object:
    if subject.held_out is None:
        return None
    return subject.digests[1] if subject.parts.task.kind == "spans" else subject.held_out.examples.ids
