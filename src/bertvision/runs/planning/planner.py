"""Choose the source of a fit's states from measured costs, with reasons for the user."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from bertvision.amounts import in_bytes, in_layers, in_seconds, in_tokens
from bertvision.heads.options import parse_layers
from bertvision.inference.pair_rows import PARTS
from bertvision.runs.planning.plan_costs import Candidate, Limits, Rates, RowRates, RowWork, Source, SpanWork
from bertvision.store.codec import Keep

WORTH_MEASURING = 1.25
"""A store is considered only if a stream encodes more than this many times as much: writing and reading take time."""

WORTH_DISK = 0.9
"""A store is used only if it reduces the time of the fit to at most this share of that with a stream."""

SLOW_SHARE = 0.5
"""The user is told of the slowest kind of head if heads take at least this share of the time, and that kind
at least half this share of theirs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FitPlan:
    """The chosen source of states.

    Attributes:
        chosen: the source; None if none fits.
        reasons: sentences for the user, the choice first.
        candidates: all sources with their costs; empty if nothing was measured.
    """

    chosen: Source | None
    reasons: tuple[str, ...]
    candidates: tuple[Candidate, ...] = ()


def why_no_store(work: SpanWork, limits: Limits) -> str | None:
    """Why a new store cannot pay off or fit, without measuring; None if it may."""
    if work.streamed <= WORTH_MEASURING * work.stored:
        return (
            f"the stream encodes {in_tokens(work.streamed)}, a store {in_tokens(work.stored)} before it can be read, "
            "so it cannot pay"
        )
    least = work.disk("int8", work.layers)
    problem = limits.disk_problem(least)
    return None if problem is None else f"even a store of 8 bits would take {in_bytes(least)}, and {problem}"


def plan_stream(work: SpanWork, limits: Limits, reason: str) -> FitPlan:
    """Choose the stream for a reason that needs no measuring; nothing if a batch does not fit into memory."""
    problem = limits.memory_problem(work.stream_memory)
    if problem is not None:
        return _no_source(work, problem, ())
    return FitPlan(chosen=Source(kind="stream"), reasons=(f"States are streamed: {reason}.",))


def plan_spans(work: SpanWork, rates: Rates, limits: Limits, *, stored: Source | None = None) -> FitPlan:
    """Choose a source for spans: their states, one row per token, are too many for memory.

    Of stores that fit and pay off, a finished one is preferred, then 16 bits to the less exact 8.

    Args:
        work: amount of work.
        rates: measured times.
        limits: limits of disk and memory.
        stored: a finished store with the states of this task; None if there is none.
    """
    stream = work.stream(rates, limits)
    existing = [] if stored is None else [_old_store(work, rates, limits, stored)]
    keeps: tuple[Keep, ...] = (rates.half, "int8")
    new = [work.new_store(rates, limits, keep, work.layers) for keep in keeps]
    larger = [work.new_store(rates, limits, keep, work.whole) for keep in keeps if work.layers != work.whole]
    candidates = (stream, *existing, *new, *larger)
    if stream.problem is not None:
        return _no_source(work, stream.problem, candidates)
    stores = (*existing, *new)
    worth_it = [store for store in stores if store.problem is None and store.seconds <= WORTH_DISK * stream.seconds]
    chosen = worth_it[0] if worth_it else stream
    reasons = [_choice_reason(chosen, stream, stores), _layers_reason(work)]
    if chosen in new:
        reasons.append("A store is made in the run's folder, and removed when the run is finished.")
    if new[0].problem is not None:
        reasons.append(f"A store of 16 bits would take {in_bytes(new[0].disk)}, and {new[0].problem}.")
    elif chosen is new[0]:
        reasons.append(
            "8 bits are taken only where 16 do not fit: half the room, but 0.7 % of error instead of 0.02 %."
        )
    return FitPlan(chosen=chosen.source, reasons=(*reasons, *_slow_heads(chosen, rates)), candidates=candidates)


def plan_rows(work: RowWork, rates: RowRates | None, limits: Limits) -> FitPlan:
    """The plan for labels, tags and scores: all rows in memory; if they do not fit, nothing, with advice.

    Args:
        work: amount of work.
        rates: measured times; None if nothing was measured.
        limits: limits of disk and memory.
    """
    candidates: tuple[Candidate, ...] = ()
    slow: tuple[str, ...] = ()
    if rates is not None:
        candidates = (work.in_memory(rates, limits),)
        slow = _slow_heads(candidates[0], rates)
    problem = limits.memory_problem(work.memory)
    if problem is None:
        reason = f"States stay in memory: one row per text, encoded once, {in_bytes(work.memory)} in all."
        return FitPlan(chosen=Source(kind="memory"), reasons=(reason, *slow), candidates=candidates)
    fraction = work.fraction_within(limits.most_memory)
    advice = [f"--fraction {_rounded_down(fraction):g}"] if fraction > 0.0 else []
    if work.copied:
        advice.append("--train-all, since heads that are solved copy rows")
    if work.parts > PARTS["apart"]:
        advice.append(f"--pairs apart, which takes {PARTS['apart']} of {work.parts} parts of that")
    if work.fewer_layers:
        advice.append("heads that read fewer layers, such as --grid layers=A..B")
    ways = f" Use {'; or '.join(advice)}." if advice else ""
    reason = f"The rows of all texts take {in_bytes(work.memory)} of memory, and {problem}.{ways}"
    return FitPlan(chosen=None, reasons=(reason,), candidates=candidates)


def _rounded_down(share: float) -> float:
    """A share above 0, rounded down to two significant digits."""
    digits = 10.0 ** (1 - math.floor(math.log10(share)))
    return math.floor(share * digits) / digits


def _no_source(work: SpanWork, problem: str, candidates: tuple[Candidate, ...]) -> FitPlan:
    """The plan if not even one batch of states fits into memory."""
    advice = f"a batch of states takes about {in_bytes(work.stream_memory)}, and {problem}. Use a smaller --batch"
    return FitPlan(chosen=None, reasons=(f"Nothing fits: {advice}.",), candidates=candidates)


def _old_store(work: SpanWork, rates: Rates, limits: Limits, stored: Source) -> Candidate:
    if stored.folder is None or stored.keep is None or stored.layers is None:
        raise ValueError("a finished store has a folder, and keeps some layers in some way")
    layers = parse_layers(stored.layers, len(work.whole), 0)
    return work.old_store(rates, limits, stored.folder, stored.keep, layers)


def _choice_reason(chosen: Candidate, stream: Candidate, stores: Sequence[Candidate]) -> str:
    if chosen is not stream:
        times = f"{in_seconds(chosen.seconds)} instead of {in_seconds(stream.seconds)}"
        what = f"the store in {chosen.source.folder}" if chosen.source.folder else f"a store of {chosen.source.keep}"
        more = "" if chosen.source.folder else f", for {in_bytes(chosen.disk)} of disk"
        return f"States are read from {what}: about {times}{more}."
    fitting = [store for store in stores if store.problem is None]
    if not fitting:
        return f"States are streamed, about {in_seconds(stream.seconds)}: no store fits."
    best = min(fitting, key=lambda store: store.seconds)
    return (
        f"States are streamed: about {in_seconds(stream.seconds)}, and {in_seconds(best.seconds)} with the best store, "
        "which is not worth its disk."
    )


def _slow_heads(chosen: Candidate, rates: Rates | RowRates) -> tuple[str, ...]:
    """A reason that names the slowest kind of head, if heads take much of the time, and it much of theirs."""
    name, share = rates.slowest
    if chosen.heads < SLOW_SHARE * chosen.seconds or share < SLOW_SHARE / 2:
        return ()
    return (f"Heads take {chosen.heads / chosen.seconds:.0%} of the time, {name} {share:.0%} of that.",)


def _layers_reason(work: SpanWork) -> str:
    if work.layers == work.whole:
        return f"The heads read layers {in_layers(work.layers)}, which are all there are: a store cannot leave any out."
    needed, every = in_layers(work.layers), in_layers(work.whole)
    return f"No head reads a layer outside {needed} of {every}: a new store keeps these alone."
