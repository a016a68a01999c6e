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
"""Selects the head that the evaluation ranks first: on held-out examples, where the run has some."""

BUILTIN_LICENCE, OTHER_LICENCE = "mit", "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class PackResult:
    """Result of `make_pack`.

    Attributes:
        pack: the pack.
        split: split whose scores the card states.
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
    """Write the trained encoder parameters of a finished run and some of its heads as a pack.

    A run without an evaluation on the split is evaluated first: its scores go into the card, and the no-answer
    threshold is the one fitted on training questions that the run held out.

    Args:
        run: folder of a run that fitted heads, or of a tuned run, whose snapshot may be added: `RUN@0.3`.
        out: folder of the pack; an older pack there is replaced.
        heads: names of heads, or `best` (a list, or separated by commas); of several the mean is the pack's output.
        keep: number format of the stored weights.
        licence: licence of the pack, as the hub writes it; None takes `other` for the user's own data, and for the
            built-in sets the licence of a pack that the encoder came from, else `mit`.
        data: folder of the split; None takes the run's own data.
        split: split whose scores the card states; if the run's data are a training split alone, its held-out examples
            stand in for `dev`.
        device: device to compute on.
        show: progress callback.

    Raises:
        BertVisionError: there is no such run or head, the heads cannot be combined, or the pack cannot be written.
    """
    subject = load_subject(run, data=data, split=split)
    record = _evaluated(subject, run, data=data, device=device, show=show)
    rows = _choose(record, heads)
    reads, pool, pairs = _reading(subject, rows)
    tuned = tunings(subject.run.request.encoder)
    scored = rows[0]
    if len(rows) > 1:
        names = [row.name for row in rows]
        joined = ensemble([run], how="mean", heads=names, data=data, split=subject.split, device=device, show=show)
        scored = joined.record.ensemble
    stated = _stated_scores(scored)
    notices = list(subject.notices)
    has_threshold = subject.parts.task.kind == "spans" and not subject.parts.task.answerable_only
    not_fitted = _why_not_fitted(subject, scored) if has_threshold else None
    if not_fitted is not None:
        notices.append(not_fitted)
    if licence is None:
        licence = _licence(subject, tuned)
        if licence == OTHER_LICENCE:
            notices.append(f"the card says licence '{OTHER_LICENCE}'. Say which the data allow: --licence NAME")
    stages = [stage for encoder in tuned for stage in encoder.stages]
    card = PackCard(
        task=subject.parts.task,
        encoder=tuned[0].encoder if tuned else subject.run.request.encoder,
        fingerprint=tuned[0].fingerprint if tuned else record.fingerprints.weights,
        learn=tuple(stage.learn for stage in stages),
        heads=tuple(row.name for row in rows),
        reads=reads,
        pool=pool,
        pairs=pairs,
        windows=subject.run.request.windows,
        threshold=stated.threshold,
        scores={name: estimate.value for name, estimate in stated.values.items()},
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


def _why_not_fitted(subject: Subject, row: EvaluatedRow) -> str | None:
    """A notice why the no-answer threshold is 0 instead of fitted; None if it was fitted."""
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
    """The record of the run's evaluation; without one of the same heads and windows, the run is evaluated now."""
    kept = subject.kept()
    if kept is not None:
        return kept
    return evaluate(run, data=data, split=subject.split, device=device, show=show).record


def _choose(record: EvaluationRecord, heads: str | Sequence[str]) -> list[EvaluatedRow]:
    """Rows of the evaluation for the chosen heads.

    A name is that of a head's folder, or of a kind of head, which selects the best of that kind.
    """
    words = [word.strip() for word in heads.split(",")] if isinstance(heads, str) else list(heads)
    chosen = []
    for word in words or [""]:  # an empty list is refused like an empty word
        found = [row for row in record.rows if word in (BEST, row.name, row.head)]
        if not found:
            raise UnknownNameError("head", word, {BEST, *(row.name for row in record.rows)})
        chosen.append(found[0])
    return list({row.name: row for row in chosen}.values())


def _reading(subject: Subject, rows: Sequence[EvaluatedRow]) -> tuple[Reads, Pool, Pairs]:
    """The input of the heads, the pooling, and the way of encoding pairs, which must be the same for all heads.

    Heads for questions read every token: there the pooling may differ, and that of the first head is returned.
    """
    parts, request, own = subject.parts, subject.run.request, subject.run.own
    readings: list[tuple[Reads, Pool, Pairs]] = []
    for row in rows:
        if own is not None and row.name == OWN_OUTPUT:
            if own.pooled:
                raise BertVisionError(
                    f"{subject.run.name} was tuned with --pooled: its output needs the encoder's pooled vector, which "
                    "packs do not read. Fit heads on it (bertvision fit --encoder …), and pack those."
                )
            pool: Pool = "mean" if own.pool == "mean" else "cls"
            readings.append(("tokens", pool, "together"))
        else:
            reads: Reads = "rows" if request.reads_rows(parts.task) else "tokens"
            readings.append((reads, parts.pool, parts.pairs))
    if len(set(readings)) > 1 and parts.task.kind != "spans":
        raise BertVisionError(f"{OWN_OUTPUT} is given other rows than the other heads. Pack it alone, or leave it out.")
    return readings[0]


def _stated_scores(row: EvaluatedRow) -> ScoresAt:
    """The scores that the card states: at the fitted threshold, if there is one."""
    return next(row.scores[name] for name in (FITTED, PLAIN, ZERO) if name in row.scores)


def _licence(subject: Subject, tuned: Sequence[Tuned]) -> str:
    """The licence if none is given: only for the built-in sets and packs is it known."""
    if subject.data not in (None, "builtin"):
        return OTHER_LICENCE
    return next((encoder.licence for encoder in tuned if encoder.licence is not None), BUILTIN_LICENCE)


def _data(subject: Subject) -> dict[str, Any]:
    """The card's description of the data: their source, and numbers of examples."""
    source = subject.run.request.data
    description = {
        # bytes of a name that are not UTF-8 are replaced, since README.md has the name, too
        "source": "built-in set"
        if source in (None, "builtin")
        else Path(source).name.encode(errors="replace").decode(),
        "train": len(subject.parts.train),
        "held_out": subject.held_out_examples,
        subject.split: len(subject.part.examples),
    }
    if subject.split == HELD_OUT:
        description["scores"] = "of the held-out examples, by which heads were chosen, too"
    return description
