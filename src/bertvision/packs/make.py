"""make_pack: a finished run → a pack of its best head, or of those that are named."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertvision.device import Device
from bertvision.encoder.tuned import Tuned, tunings
from bertvision.errors import BertVisionError, UnknownNameError
from bertvision.evaluation.threshold import FEWEST
from bertvision.heads import load_head
from bertvision.packs.card import Keep, PackCard, Reads
from bertvision.packs.pack import Pack, write_pack
from bertvision.runs.judging.ensemble import ensemble
from bertvision.runs.judging.evaluate import evaluate
from bertvision.runs.judging.evaluation_record import EvaluatedRow, EvaluationRecord
from bertvision.runs.judging.judge import FITTED, PLAIN, ZERO, ScoresAt
from bertvision.runs.judging.subject import HELD_OUT, OWN_OUTPUT, Subject, load_subject
from bertvision.runs.watch import Show
from bertvision.tasks.examples import as_questions
from bertvision.tasks.task import Pairs, Pool

BEST = "best"
"""Means the head that is best on held-out training examples."""

BUILTIN_LICENCE, OTHER_LICENCE = "mit", "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class PackResult:
    """What came out of packing.

    Attributes:
        pack: the pack.
        split: the one whose scores its card states.
        notices: messages for the user.
    """

    pack: Pack
    split: str
    notices: tuple[str, ...]


def make_pack(  # noqa: PLR0913 - what it depends on, by keyword
    run: str | Path,
    *,
    out: str | Path,
    heads: str | Sequence[str] = BEST,
    keep: Keep = "float16",
    licence: str | None = None,
    data: str | Path | None = None,
    split: str = "dev",
    device: Device = "auto",
    show: Show | None = None,
) -> PackResult:
    """Put what changed in a run's encoder and its heads into one small folder.

    A run that was not evaluated on the split yet is evaluated first: its scores go into the card, and the no-answer
    threshold is the one fitted on training questions that the run held out.

    Args:
        run: `RUN` of a fit, `RUN` or `RUN@0.3` of a tuned run.
        out: folder of the pack; an older pack there is replaced.
        heads: `best`, or names of heads; of several the mean counts.
        keep: how numbers are stored.
        licence: licence of the pack, as the hub writes it; None takes `mit` for the built-in sets, that of a pack
            which the encoder came from, and `other` elsewhere.
        data: folder of the split; None takes the run's own data.
        split: the one whose scores the card states; where the run's data are a training split alone, examples
            that the run held out stand in for `dev`.
        device: device to compute on.
        show: function that gets a message about what takes long.

    Raises:
        BertVisionError: there is no such run or head, heads do not go together, or it cannot be written.
    """
    subject = load_subject(run, data=data, split=split)
    record = _evaluated(subject, run, data=data, device=device, show=show)
    rows = _choose(record, heads)
    reads, pool, pairs = _reading(subject, rows)
    chain = tunings(subject.run.request.encoder)
    scored = rows[0]
    if len(rows) > 1:
        names = [row.name for row in rows]
        joined = ensemble([run], how="mean", heads=names, data=data, split=subject.split, device=device, show=show)
        scored = joined.record.ensemble
    at = _at(scored)
    notices = list(subject.notices)
    spans = subject.parts.task.kind == "spans" and not subject.parts.task.answerable_only
    why = _why_zero(subject, scored) if spans else None
    if why is not None:
        notices.append(why)
    if licence is None:
        licence = _licence(subject, chain)
        if licence == OTHER_LICENCE:
            notices.append(f"the card says licence '{OTHER_LICENCE}'. Say which the data allow: --licence NAME")
    stages = [stage for tuned in chain for stage in tuned.stages]
    card = PackCard(
        task=subject.parts.task,
        encoder=chain[0].encoder if chain else subject.run.request.encoder,
        fingerprint=chain[0].fingerprint if chain else record.fingerprints.weights,
        learn=tuple(stage.learn for stage in stages),
        heads=tuple(row.name for row in rows),
        reads=reads,
        pool=pool,
        pairs=pairs,
        windows=subject.run.request.windows,
        threshold=at.threshold,
        scores={name: estimate.value for name, estimate in at.values.items()},
        data=_data(subject),
        licence=licence,
        provenance=record.provenance,
    )
    pack = write_pack(
        Path(out),
        card,
        changes=[stage.load() for stage in stages],
        heads={row.name: load_head(subject.head_folder(row.name)) for row in rows},
        keep=keep,
    )
    return PackResult(pack=pack, split=subject.split, notices=tuple(notices))


def _why_zero(subject: Subject, row: EvaluatedRow) -> str | None:
    """Why the no-answer threshold was not fitted and is 0; None where it was."""
    if FITTED not in row.scores or subject.held_out is None:
        return "the run held nothing out, so the no-answer threshold is 0. Tune or fit with --held-out."
    questions = as_questions(subject.held_out.examples)
    answerable = sum(map(bool, questions.answers))
    without = len(questions) - answerable
    if min(answerable, without) >= FEWEST:
        return None
    return (
        f"the no-answer threshold is 0: to fit it, {FEWEST} held-out questions with an answer and {FEWEST} without are "
        f"needed, and the run held out {answerable:,} and {without:,}. Tune or fit with a larger --held-out, or with "
        "more such questions."
    )


def _evaluated(
    subject: Subject, run: str | Path, *, data: str | Path | None, device: Device, show: Show | None
) -> EvaluationRecord:
    """The record of the run's evaluation; made where there is none of the same heads and windows."""
    kept = subject.kept()
    if kept is not None:
        return kept
    return evaluate(run, data=data, split=subject.split, device=device, show=show).record


def _choose(record: EvaluationRecord, heads: str | Sequence[str]) -> list[EvaluatedRow]:
    """Rows of the evaluation that names mean: a folder's, or a head's, of which the best is taken."""
    if heads == BEST:
        return record.rows[:1]
    words = [word.strip() for word in heads.split(",")] if isinstance(heads, str) else list(heads)
    chosen = []
    for word in words:
        found = [row for row in record.rows if word in (row.name, row.head)]
        if not found:
            raise UnknownNameError("head", word, {BEST, *(row.name for row in record.rows)})
        chosen.append(found[0])
    return list({row.name: row for row in chosen}.values())


def _reading(subject: Subject, rows: Sequence[EvaluatedRow]) -> tuple[Reads, Pool, Pairs]:
    """What all heads are given, which row counts, and how pairs are encoded."""
    parts, request, own = subject.parts, subject.run.request, subject.run.own
    ways: set[tuple[Reads, Pool, Pairs]] = set()
    for row in rows:
        if own is not None and row.name == OWN_OUTPUT:
            if own.pooled:
                raise BertVisionError(
                    f"{subject.run.name} was tuned with --pooled: its output needs the encoder's pooled vector, which "
                    "packs do not read. Fit heads on it (bertvision fit --encoder …), and pack those."
                )
            pool: Pool = "mean" if own.pool == "mean" else "cls"
            ways.add(("tokens", pool, "together"))
        else:
            reads: Reads = "rows" if request.reads_rows(parts.task) else "tokens"
            ways.add((reads, parts.pool, parts.pairs))
    if len(ways) > 1 and parts.task.kind != "spans":
        raise BertVisionError(f"{OWN_OUTPUT} is given other rows than the other heads. Pack it alone, or leave it out.")
    return ways.pop()


def _at(row: EvaluatedRow) -> ScoresAt:
    """The scores that a pack promises: at the fitted threshold, where there is one."""
    return next(row.scores[name] for name in (FITTED, PLAIN, ZERO) if name in row.scores)


def _licence(subject: Subject, chain: Sequence[Tuned]) -> str:
    """What may be said without asking: of the built-in sets, or of a pack that they were added to."""
    if subject.data not in (None, "builtin"):
        return OTHER_LICENCE
    return next((tuned.licence for tuned in chain if tuned.licence is not None), BUILTIN_LICENCE)


def _data(subject: Subject) -> dict[str, Any]:
    request = subject.run.request
    source = request.data
    found = {
        "source": "built-in set" if source in (None, "builtin") else Path(source).name,
        "train": len(subject.parts.train),
        "held_out": subject.held_out_examples,
        subject.split: len(subject.part.examples),
    }
    if subject.split == HELD_OUT:
        found["scores"] = "of the held-out examples, by which heads were chosen, too"
    return found
