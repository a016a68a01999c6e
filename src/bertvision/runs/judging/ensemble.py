"""ensemble: heads of one run or several, and encoders' own outputs → one model, judged as each of them is."""

import hashlib
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final, get_args

import numpy as np

from bertvision.amounts import in_words
from bertvision.device import Device
from bertvision.errors import BertVisionError, UnknownNameError
from bertvision.evaluation.bootstrap import check_resamples
from bertvision.evaluation.ensemble import (
    How,
    Values,
    choose_greedily,
    largest,
    weighted_mean,
)
from bertvision.evaluation.outputs import Outputs, from_columns, log_columns
from bertvision.provenance import provenance
from bertvision.runs.judging.ensemble_record import EnsembleMember, EnsembleRecord
from bertvision.runs.judging.evaluate import RESAMPLES, best_first, evaluated_row, judge_subject, outputs_of
from bertvision.runs.judging.evaluation_files import write_folder
from bertvision.runs.judging.evaluation_record import EvaluatedRow
from bertvision.runs.judging.judge import Judge, Verdict, compare_verdicts
from bertvision.runs.judging.kept_outputs import ModelOutputs
from bertvision.runs.judging.members import Member, check_alike, choose_members, list_members
from bertvision.runs.judging.subject import Subject, load_subject
from bertvision.runs.watch import Show, tell
from bertvision.tasks.examples import FloatArray

ENSEMBLE = "ensemble"


@dataclass(frozen=True, slots=True, kw_only=True)
class EnsembleResult:
    """What came out of an ensemble.

    Attributes:
        folder: where its files are.
        record: what it is made of, and its scores.
        notices: what the user should know.
    """

    folder: Path
    record: EnsembleRecord
    notices: tuple[str, ...]


def ensemble(  # noqa: PLR0913 - what it depends on, by keyword
    runs: Sequence[str | Path],
    *,
    how: How = "mean",
    heads: Sequence[str] | None = None,
    data: str | Path | None = None,
    split: str = "dev",
    resamples: int = RESAMPLES,
    seed: int = 0,
    device: Device = "auto",
    out: str | Path | None = None,
    show: Show | None = None,
) -> EnsembleResult:
    """Join heads, and encoders' own outputs, into one model, and score it.

    Runs that were not evaluated on the split yet are evaluated first; those of one encoder share its pass. The ensemble
    is compared with the member that is best on held-out training examples.

    Args:
        runs: see `evaluate`; several may be of several snapshots.
        how: `max` takes the largest probability of every token or class, as the paper does; `mean` the mean of the
            logarithms; `greedy` the mean of members chosen on held-out training examples. Scores know `mean` only.
        heads: names of members; None takes all heads and own outputs.
        data: where the split is; None takes the runs' own data.
        split: which split.
        resamples: draws for intervals and tests.
        seed: seed of the draws.
        device: where to compute.
        out: folder; None takes one below the first run.
        show: is told what takes long now.

    Raises:
        BertVisionError: runs or members do not go together, or something cannot be written.
    """
    if out is not None and Path(out).exists() and not (Path(out) / EnsembleRecord.FILE).is_file():
        raise BertVisionError(f"{out} is there already and is no ensemble. Use another --out.")
    candidates = gather_candidates(
        runs, heads=heads, data=data, split=split, resamples=resamples, seed=seed, device=device, ways=[how], show=show
    )
    return candidates.join(how, out=out, show=show)


def gather_candidates(  # noqa: PLR0913 - what it depends on, by keyword
    runs: Sequence[str | Path],
    *,
    ways: Sequence[How],
    heads: Sequence[str] | None = None,
    data: str | Path | None = None,
    split: str = "dev",
    resamples: int = RESAMPLES,
    seed: int = 0,
    device: Device = "auto",
    show: Show | None = None,
) -> "Candidates":
    """Read and judge models once, to join them in several ways; see `ensemble`.

    Raises:
        BertVisionError: runs or members do not go together, or cannot be joined in one of the ways.
    """
    begin = time.perf_counter()
    check_resamples(resamples)
    names = list(dict.fromkeys(str(run) for run in runs))
    subjects = [load_subject(run, data=data, split=split) for run in names]
    check_alike(subjects)
    first = subjects[0]
    for how in ways:  # before anything takes long
        _check_way(how, first)
    judged = [subject.kept() is not None for subject in subjects]
    found = outputs_of(subjects, device=device, show=show)
    known: dict[tuple[str, str], Verdict] = {}
    for subject, outputs, kept in zip(subjects, found, judged, strict=True):
        if not kept:  # from now on it is, for the next time
            tell(show, f"scoring {in_words(len(outputs.models), 'model')} …")
            _, verdicts = judge_subject(subject, outputs, resamples=resamples, seed=seed, begin=begin)
            known |= {(subject.run.name, name): verdict for name, verdict in verdicts.items()}
    members = choose_members(list_members(subjects, found), heads)
    judge = Judge(first.parts.task, first.part, first.held_out)
    tell(show, f"judging {in_words(len(members), 'member')} …")
    return Candidates(
        runs=names,
        subjects=subjects,
        members=members,
        judge=judge,
        verdicts={
            label: known.get((one.subject.run.name, one.name)) or judge.judge(one.outputs.split, one.outputs.held_out)
            for label, one in members.items()
        },
        asked={"data": data, "split": first.split, "bootstrap": resamples, "seed": seed},
        heads=heads,
        seconds=time.perf_counter() - begin,
    )


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """Models that may be joined, each judged by itself.

    Attributes:
        runs: where they come from.
        subjects: these runs, opened.
        members: the models, by name.
        judge: judge of the examples.
        verdicts: on every model.
        asked: what was asked for, for the command that does it again.
        heads: the names that were asked for; None are all.
        seconds: wall-clock seconds that all this took.
    """

    runs: list[str]
    subjects: Sequence[Subject]
    members: Mapping[str, Member]
    judge: Judge
    verdicts: Mapping[str, Verdict]
    asked: Mapping[str, Any]
    heads: Sequence[str] | None
    seconds: float

    def join(self, how: How, *, out: str | Path | None = None, show: Show | None = None) -> EnsembleResult:
        """Make one model of them, judge and write it.

        Raises:
            BertVisionError: they cannot be joined in this way, or something cannot be written.
        """
        begin = time.perf_counter()
        first, members = self.subjects[0], self.members
        _check_way(how, first)
        split, resamples, seed = self.asked["split"], self.asked["bootstrap"], self.asked["seed"]
        tell(show, f"joining {in_words(len(members), 'member')} …")
        joined, weights, steps = _join(self.judge, members, how)
        best = max(self.verdicts, key=lambda label: _or_least(self.verdicts[label].held_out))
        whole = self.judge.judge(joined.split, joined.held_out)
        scores = compare_verdicts({**self.verdicts, ENSEMBLE: whole}, best, resamples=resamples, seed=seed)
        rows = [
            evaluated_row(one.subject, one.name, self.verdicts[label], scores[label], label=label)
            for label, one in members.items()
        ]
        used = [row for row in rows if weights[row.name] > 0.0]
        record = EnsembleRecord(
            runs=self.runs,
            how=how,
            task=first.run.request.task,
            kind=self.judge.task.kind,
            data=first.data,
            split=split,
            examples=len(first.part.examples),
            held_out_examples=first.held_out_examples,
            resamples=resamples,
            seed=seed,
            against=best,
            steps=steps,
            ensemble=EvaluatedRow(
                name=ENSEMBLE,
                head=None,
                own=False,
                options={"how": how},
                seed=None,
                parameters=sum(row.parameters for row in used),
                depth=max(row.depth for row in used),
                held_out=whole.held_out,
                scores=scores[ENSEMBLE],
            ),
            members=[
                EnsembleMember(weight=weights[row.name], encoder=members[row.name].weights, row=row)
                for row in sorted(rows, key=best_first)
            ],
            command=_command(self.runs, how, self.heads, {**self.asked, "out": out}),
            seconds=round(self.seconds + time.perf_counter() - begin, 3),
            provenance=provenance(),
        )
        folder = Path(out) if out is not None else first.run.ensembles / split / _folder_name(how, members)
        write_folder(folder, self.judge, {ENSEMBLE: whole}, {ENSEMBLE: joined}, record.save)
        notices = tuple(dict.fromkeys(notice for subject in self.subjects for notice in subject.notices))
        return EnsembleResult(folder=folder, record=record, notices=notices)


def _check_way(how: How, subject: Subject) -> None:
    """Refuse a way in which models of a run cannot be joined."""
    if how not in get_args(How):
        raise UnknownNameError("way of joining", how, get_args(How))
    if subject.parts.task.kind == "scores" and how != "mean":
        raise BertVisionError(f"--how is {how}, but scores have no probabilities: only their mean is taken. Use mean.")
    if how == "greedy" and subject.held_out is None:
        raise BertVisionError(f"{subject.run.name} held nothing out, so that nothing chooses. Use --how mean or max.")


def _join(judge: Judge, members: Mapping[str, Member], how: How) -> tuple[ModelOutputs, dict[str, float], list[float]]:
    """Outputs of the whole, the weight of every member, and of a greedy choice the held-out score at each step."""
    split = [log_columns(judge.task, judge.split.windows, one.outputs.split) for one in members.values()]
    held_out = []
    if judge.held_out is not None:
        given = [one.outputs.held_out for one in members.values()]
        held_out = [log_columns(judge.task, judge.held_out.windows, one) for one in given if one is not None]
    weights, history = np.full(len(members), 1.0 / len(members)), list[float]()
    if how == "greedy":
        weights, history = choose_greedily(len(members), lambda some: judge.choose(from_columns(_mean(held_out, some))))

    def join(parts: Sequence[list[Values]]) -> Outputs:
        if how == "max":
            return from_columns([largest(column) for column in zip(*parts, strict=True)])
        return from_columns(_mean(parts, weights))

    joined = ModelOutputs(join(split), join(held_out) if held_out else None)
    return joined, dict(zip(members, weights.tolist(), strict=True)), history


def _mean(parts: Sequence[list[Values]], weights: FloatArray) -> list[Values]:
    return [weighted_mean(column, weights) for column in zip(*parts, strict=True)]


def _or_least(score: float | None) -> float:
    return -np.inf if score is None or np.isnan(score) else score


def _folder_name(how: How, members: Mapping[str, Member]) -> str:
    keys = sorted(f"{one.weights}{one.subject.heads[one.name]}" for one in members.values())
    return f"{how}-{hashlib.sha256(''.join(keys).encode()).hexdigest()[:8]}"


def _command(names: Sequence[str], how: How, heads: Sequence[str] | None, more: Mapping[str, object]) -> str:
    words = ["bertvision", "ensemble", *names, "--how", how]
    words += [] if heads is None else ["--heads", ",".join(heads)]
    words += [word for name, value in more.items() if value is not None for word in (f"--{name}", str(value))]
    return shlex.join(words)
