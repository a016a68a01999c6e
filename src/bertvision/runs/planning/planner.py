"""The planner: where the states of a fit should come from, with its reasons."""

from collections.abc import Sequence
from dataclasses import dataclass

from bertvision.amounts import in_bytes, in_layers, in_seconds, in_tokens
from bertvision.heads.options import parse_layers
from bertvision.inference.pair_rows import PARTS
from bertvision.runs.planning.plan_costs import Candidate, Limits, Rates, RowRates, RowWork, Source, SpanWork
from bertvision.store.codec import Keep

WORTH_MEASURING = 1.25
"""A store is thought of only if the stream encodes so many times what a store would: writing and reading cost, too."""

WORTH_DISK = 0.9
"""A store is taken only if the fit takes at most this share of the stream's time with it."""


SLOW_SHARE = 0.5
"""Heads that take more of the time than this are told of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FitPlan:
    """A choice.

    Attributes:
        chosen: where states come from; None if nothing fits.
        reasons: why, in sentences, the choice first.
        candidates: all that were thought of, with their costs; empty where nothing was measured.
    """

    chosen: Source | None
    reasons: tuple[str, ...]
    candidates: tuple[Candidate, ...] = ()


def pointless(work: SpanWork, limits: Limits) -> str | None:
    """Why no new store can pay, by counting alone; None if one may."""
    if work.streamed <= WORTH_MEASURING * work.stored:
        return (
            f"the stream encodes {in_tokens(work.streamed)}, a store {in_tokens(work.stored)} before it can be read, "
            "so it cannot pay"
        )
    least = work.disk("int8", work.layers)
    problem = limits.disk_problem(least)
    return None if problem is None else f"even a store of 8 bits would take {in_bytes(least)}, and {problem}"


def plan_stream(work: SpanWork, limits: Limits, reason: str) -> FitPlan:
    """The stream, where nothing has to be measured to know that it is best."""
    problem = limits.memory_problem(work.stream_memory)
    if problem is not None:
        return _nothing(work, problem, ())
    return FitPlan(chosen=Source(kind="stream"), reasons=(f"States are streamed: {reason}.",))


def plan_spans(work: SpanWork, rates: Rates, limits: Limits, *, stored: Source | None = None) -> FitPlan:
    """Choose for spans, whose states are too many for memory.

    Sixteen bits go before eight, which are less exact, wherever both fit.

    Args:
        work: what is passed over.
        rates: what was measured.
        limits: what may be taken.
        stored: a finished store that fits.
    """
    stream = work.stream(rates, limits)
    old = [] if stored is None else [_old_store(work, rates, limits, stored)]
    keeps: tuple[Keep, ...] = (rates.half, "int8")
    new = [work.new_store(rates, limits, keep, work.layers) for keep in keeps]
    larger = [work.new_store(rates, limits, keep, work.whole) for keep in keeps if work.layers != work.whole]
    candidates = (stream, *old, *new, *larger)
    if stream.problem is not None:
        return _nothing(work, stream.problem, candidates)
    paying = [one for one in (*old, *new) if one.problem is None and one.seconds <= WORTH_DISK * stream.seconds]
    chosen = paying[0] if paying else stream
    reasons = [_why(chosen, stream, (*old, *new)), _layers(work)]
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
    """Labels and scores: one row per text, encoded once; there is nothing to choose unless memory is short.

    Args:
        work: what is passed over.
        rates: what was measured; None if nothing was.
        limits: what may be taken.
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
    share = limits.most_memory / work.memory
    advice = [f"--fraction {share:.2g}"]
    if work.copied:
        advice.append("--train-all, since heads that are solved copy rows")
    if work.parts > PARTS["apart"]:
        advice.append(f"--pairs apart, which takes {PARTS['apart']} of {work.parts} parts of that")
    if work.parts == 1:  # two texts that are compared are in no store
        advice.append("a store of few layers: bertvision extract --layers A..B, then --from store:DIR")
    reason = f"The rows of all texts take {in_bytes(work.memory)} of memory, and {problem}. Use {'; or '.join(advice)}"
    return FitPlan(chosen=None, reasons=(f"{reason}.",), candidates=candidates)


def _nothing(work: SpanWork, problem: str, candidates: tuple[Candidate, ...]) -> FitPlan:
    advice = f"a batch of states takes about {in_bytes(work.stream_memory)}, and {problem}. Use a smaller --batch"
    return FitPlan(chosen=None, reasons=(f"Nothing fits: {advice}.",), candidates=candidates)


def _old_store(work: SpanWork, rates: Rates, limits: Limits, stored: Source) -> Candidate:
    if stored.folder is None or stored.keep is None or stored.layers is None:
        raise ValueError("a finished store has a folder, and keeps some layers in some way")
    layers = parse_layers(stored.layers, len(work.whole), 0)
    return work.old_store(rates, limits, stored.folder, stored.keep, layers)


def _why(chosen: Candidate, stream: Candidate, stores: Sequence[Candidate]) -> str:
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
    """Who takes the time, where it is the heads and most of all one of them."""
    name, share = rates.slowest
    if chosen.heads < SLOW_SHARE * chosen.seconds or share < SLOW_SHARE / 2:
        return ()
    return (f"Heads take {chosen.heads / chosen.seconds:.0%} of the time, {name} {share:.0%} of that.",)


def _layers(work: SpanWork) -> str:
    if work.layers == work.whole:
        return f"The heads read layers {in_layers(work.layers)}, which are all there are: a store cannot leave any out."
    some, every = in_layers(work.layers), in_layers(work.whole)
    return f"No head reads a layer outside {some} of {every}: a new store keeps these alone."
