"""ensemble: heads of one run or several, and encoders' own outputs → one model, scored like each of its members."""

import hashlib
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
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
from bertvision.runs.judging.members import Member, check_compatible, choose_members, list_members
from bertvision.runs.judging.subject import Subject, load_subject
from bertvision.runs.watch import Show, tell
from bertvision.tasks.examples import FloatArray

ENSEMBLE = "ensemble"


@dataclass(frozen=True, slots=True, kw_only=True)
class EnsembleResult:
    """The result of `ensemble`.

    Attributes:
        folder: folder of its files.
        record: its members and scores.
        notices: messages for the user.
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
    """Combine heads, and encoders' own outputs, into one model, and score it.

    Runs without an evaluation on the split are evaluated first; those with the same encoder and windows share its
    forward pass. The ensemble is compared with the member that is best on held-out training examples.

    Args:
        runs: as for `evaluate`; several snapshots of one run count as several runs.
        how: `max` takes the largest probability of every token or class, as the paper does; `mean` the mean of the
            log-probabilities; `greedy` the mean over members chosen on held-out training examples, where a member may
            count several times. Tasks of kind `scores` allow `mean` only.
        heads: names of members; None takes all heads and own outputs.
        data: where the split's files are; None takes the runs' own data.
        split: name of the split.
        resamples: bootstrap resamples for intervals and tests.
        seed: seed of the resampling.
        device: `auto`, `cpu` or `cuda`.
        out: folder of the ensemble; None takes one in the folder of the first run.
        show: shows progress.

    Raises:
        BertVisionError: runs or members cannot be combined, or a file cannot be written.
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
    """Compute and score the outputs of models once, to combine them in several ways; see `ensemble`.

    Raises:
        BertVisionError: runs or members cannot be combined, or not in one of the ways.
    """
    begin = time.perf_counter()
    check_resamples(resamples, seed)
    names = list(dict.fromkeys(str(run) for run in runs))
    if not names:
        raise BertVisionError("no run was named, so there is nothing to join. Name runs of bertvision fit or tune.")
    subjects = [load_subject(run, data=data, split=split) for run in names]
    check_compatible(subjects)
    first = subjects[0]
    for how in ways:  # before anything slow
        _check_way(how, first)
    evaluated = [subject.kept() is not None for subject in subjects]
    run_outputs = outputs_of(subjects, device=device, show=show)
    known: dict[tuple[str, str], Verdict] = {}
    for subject, outputs, kept in zip(subjects, run_outputs, evaluated, strict=True):
        if not kept:  # write its evaluation, so that its outputs are there next time
            tell(show, f"scoring {in_words(len(outputs.models), 'model')} …")
            _, verdicts = judge_subject(subject, outputs, resamples=resamples, seed=seed, begin=begin)
            known |= {(subject.run.name, name): verdict for name, verdict in verdicts.items()}
    members = choose_members(list_members(subjects, run_outputs), heads)
    judge = Judge(first.parts.task, first.part, first.held_out)
    tell(show, f"judging {in_words(len(members), 'member')} …")
    return Candidates(
        runs=names,
        subjects=subjects,
        members=members,
        judge=judge,
        verdicts={
            label: known.get((member.subject.run.name, member.name))
            or judge.judge(member.outputs.split, member.outputs.held_out)
            for label, member in members.items()
        },
        options={"data": data, "split": first.split, "bootstrap": resamples, "seed": seed},
        heads=heads,
        seconds=time.perf_counter() - begin,
    )


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """The candidate members of an ensemble, each with its scores.

    Attributes:
        runs: names of their runs.
        subjects: these runs, opened.
        members: the models, by label.
        judge: scores models on the split.
        verdicts: answers and scores of every model, by label.
        options: options of the command that makes the ensemble again, by name.
        heads: names of members as they were passed; None for all.
        seconds: wall-clock seconds that it took to compute and score the outputs.
    """

    runs: list[str]
    subjects: Sequence[Subject]
    members: Mapping[str, Member]
    judge: Judge
    verdicts: Mapping[str, Verdict]
    options: Mapping[str, Any]
    heads: Sequence[str] | None
    seconds: float

    def join(self, how: How, *, out: str | Path | None = None, show: Show | None = None) -> EnsembleResult:
        """Combine them into one model, score it, and write its files.

        Raises:
            BertVisionError: they cannot be combined in this way, or a file cannot be written.
        """
        begin = time.perf_counter()
        first, members = self.subjects[0], self.members
        _check_way(how, first)
        split, resamples, seed = self.options["split"], self.options["bootstrap"], self.options["seed"]
        tell(show, f"joining {in_words(len(members), 'member')} …")
        joined, weights, steps = _join(self.judge, members, how)
        rows = [
            evaluated_row(member.subject, member.name, self.verdicts[label], {}, label=label)
            for label, member in members.items()
        ]
        rows.sort(key=best_first)
        best = rows[0].name
        verdict = self.judge.judge(joined.split, joined.held_out)
        scores = compare_verdicts({**self.verdicts, ENSEMBLE: verdict}, best, resamples=resamples, seed=seed)
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
                held_out=verdict.held_out,
                scores=scores[ENSEMBLE],
            ),
            members=[
                EnsembleMember(
                    weight=weights[row.name],
                    encoder=members[row.name].weights,
                    row=replace(row, scores=scores[row.name]),
                )
                for row in rows
            ],
            command=_command(self.runs, how, self.heads, {**self.options, "out": out}),
            seconds=round(self.seconds + time.perf_counter() - begin, 3),
            provenance=provenance(),
        )
        folder = Path(out) if out is not None else first.run.ensembles / split / _folder_name(how, members)
        write_folder(folder, self.judge, {ENSEMBLE: verdict}, {ENSEMBLE: joined}, record.save)
        notices = tuple(dict.fromkeys(notice for subject in self.subjects for notice in subject.notices))
        return EnsembleResult(folder=folder, record=record, notices=notices)


def _check_way(how: How, subject: Subject) -> None:
    """Refuse a way of joining that is unknown, or that does not suit the run's task and data."""
    if how not in get_args(How):
        raise UnknownNameError("way of joining", how, get_args(How))
    if subject.parts.task.kind == "scores" and how != "mean":
        raise BertVisionError(f"--how is {how}, but scores have no probabilities: only their mean is taken. Use mean.")
    if how == "greedy" and subject.held_out is None:
        raise BertVisionError(f"{subject.run.name} held nothing out, so that nothing chooses. Use --how mean or max.")
    if how == "greedy" and subject.held_out is subject.part:
        raise BertVisionError(
            f"{subject.run.name} is judged by the very examples that it held out, which cannot choose members, too. "
            "Use --how mean or max, or name other examples to judge by: --data DIR."
        )


def _join(judge: Judge, members: Mapping[str, Member], how: How) -> tuple[ModelOutputs, dict[str, float], list[float]]:
    """The outputs of the ensemble, the weight of every member, and the held-out score after each step of `greedy`."""
    split = [log_columns(judge.task, judge.split.windows, member.outputs.split) for member in members.values()]
    held_out = []
    if judge.held_out is not None:
        outputs = [member.outputs.held_out for member in members.values()]
        held_out = [log_columns(judge.task, judge.held_out.windows, each) for each in outputs if each is not None]
    weights, history = np.full(len(members), 1.0 / len(members)), list[float]()
    if how == "greedy":

        def score(weights: FloatArray) -> float:
            return judge.held_out_score(from_columns(_mean(held_out, weights)))

        weights, history = choose_greedily(len(members), score)

    def join(parts: Sequence[list[Values]]) -> Outputs:
        if how == "max":
            return from_columns([largest(column) for column in zip(*parts, strict=True)])
        return from_columns(_mean(parts, weights))

    joined = ModelOutputs(join(split), join(held_out) if held_out else None)
    return joined, dict(zip(members, weights.tolist(), strict=True)), history


def _mean(parts: Sequence[list[Values]], weights: FloatArray) -> list[Values]:
    return [weighted_mean(column, weights) for column in zip(*parts, strict=True)]


def _folder_name(how: How, members: Mapping[str, Member]) -> str:
    keys = sorted(f"{member.weights}{member.subject.heads[member.name]}" for member in members.values())
    return f"{how}-{hashlib.sha256(''.join(keys).encode()).hexdigest()[:8]}"


def _command(runs: Sequence[str], how: How, heads: Sequence[str] | None, options: Mapping[str, object]) -> str:
    words = ["bertvision", "ensemble", *runs, "--how", how]
    words += [] if heads is None else ["--heads", ",".join(heads)]
    words += [word for name, value in options.items() if value is not None for word in (f"--{name}", str(value))]
    return shlex.join(words)
