"""Markdown tables of our goals with measurements, of ours and the plain loop in equal time, and of an ablation."""

from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

from bertvision.bench.compare import Measured, find_model
from bertvision.bench.sentence_settings import SENTENCES
from bertvision.bench.tables import which_way
from bertvision.errors import BertVisionError
from bertvision.evaluation.bootstrap import Difference
from bertvision.report.numbers import show_number
from bertvision.runs.judging.judge import FITTED, ZERO
from claims_of_spans import GAIN, best_head, gain_verdict, part_of
from markdown_tables import points, table
from tables_of_documents import lasting
from tables_of_heads import SNAPSHOTS, against, against_own, scores_of, single_heads

REACHED, MISSED, OPEN = "reached", "missed", "not shown"
SMALL = (0.002, 0.004)
"""Largest parameters of a small head as shares of the encoder's: that of the goals, and twice that."""

WAYS = ("max", "mean", "greedy")
LOOP, OURS, PACKS = "plain lora", "lora", "lora + heads"
PACK = 0.025
"""Largest parameters of a pack as a share of the encoder's."""

TABLE_SECONDS = 300.0
"""Goal for the time in which all heads are measured."""


class Goal(NamedTuple):
    """A goal, the measurement, and whether the goal is reached."""

    goal: str
    measured: str
    so: str


def goals_table(cells: Sequence[Measured]) -> str:
    """All goals, from the suites `heads`, `rival` and `sentences`."""
    goals = [*small_heads(cells), *the_rival(cells), layers_of_sentences(cells), *ensembles(cells), whole_table(cells)]
    return table(Goal._fields, goals)


def small_heads(cells: Sequence[Measured]) -> list[Goal]:
    """Goals of the best small head by held-out score: one epoch against two, and 0.3 against the own output."""
    goals = []
    for most in SMALL:
        head = f"a head of at most {most:.1%} of the encoder's parameters"
        early, late = (best_head(cells, tuned, most=most) for tuned in SNAPSHOTS)
        behind = against(cells, f"heads:{late}@1", "encoder:2").fitted
        so = REACHED if behind.value >= 0 else MISSED if which_way(behind) == "lower" else OPEN
        part = f"`{late}` ({part_of(cells, f'{late}@1'):.2%})"
        goals.append(Goal(f"{head}, on one epoch of tuning, has the F1 of two", f"{part}: {_shown(behind)}", so))
        gain = against_own(cells, early, "0.3").fitted
        part = f"`{early}` ({part_of(cells, f'{early}@0.3'):.2%})"
        goals.append(Goal(f"{head} gains {GAIN:g} points on 0.3 epochs", f"{part}: {_shown(gain)}", gain_verdict(gain)))
    return goals


def the_rival(cells: Sequence[Measured]) -> list[Goal]:
    """Goals of our pack against the plain loop, at the end and at every snapshot."""
    rows = curve(cells)
    last, share = rows[-1], _mean(cells, f"{OURS}:2", "parameters") / _mean(cells, "full:2", "parameters")
    pack = f"`{OURS}`, {share:.1%} of the encoder's parameters"
    more, half = last.full, last.half
    ahead = sum(one.full.test.value > 0 for one in rows)
    surely = sum(which_way(one.full.test) == "higher" for one in rows)
    return [
        Goal(
            f"a pack of at most {PACK:.1%} has more F1 than the plain loop of `lora:16` in its {last.seconds:.0f} s",
            f"{pack}, in {more.seconds:.1f} s: {_shown(more.test)}",
            _beats(more.test) if share <= PACK else MISSED,
        ),
        Goal(
            f"or as much F1 in half of that, {last.seconds / 2:.0f} s",
            f"{pack}, in {half.seconds:.1f} s: {_shown(half.test)}",
            REACHED if half.test.value >= 0 and share <= PACK else MISSED,
        ),
        Goal(
            "and stays ahead along the whole curve",
            f"ahead at {ahead} of {len(rows)} snapshots of the loop, significantly at {surely}",
            REACHED if ahead == len(rows) else MISSED,
        ),
    ]


def layers_of_sentences(cells: Sequence[Measured]) -> Goal:
    """Goals of all layers of a frozen encoder against the last layer, with all training examples."""
    tasks = [cell.name for cell in cells if cell.kind == SENTENCES and cell.settings["per_class"] is None]
    ways = [
        which_way(against(cells, f"{name}:layer_concat", f"{name}:last_layer").fitted)
        for name in tasks
        if find_model(cells, f"{name}:layer_concat") is not None
    ]
    better, worse = ways.count("higher"), ways.count("lower")
    return Goal(
        "on a frozen sentence encoder, all layers beat the last layer on every task",
        f"better on {better} of {len(ways)}, worse on {worse}",
        REACHED if better == len(ways) else MISSED,
    )


def ensembles(cells: Sequence[Measured]) -> list[Goal]:
    """Goals of the best ensemble against the best single model of an encoder, both by held-out score."""
    heads, packs = (_cell(cells, name) for name in ("heads", PACKS))
    asked = [
        (heads, [f"{way}@{tuned}" for way in WAYS], single_heads(heads, [tuned]), lasting(tuned)) for tuned in SNAPSHOTS
    ]
    several = [name for name in packs.models if name.partition("@")[0] in WAYS]
    asked.append((packs, several, [name for name in packs.models if name not in several], f"`{OURS}`"))
    goals = []
    for cell, joined, single, encoder in asked:
        first, second = cell.best(joined), cell.best(single)
        test = against(cells, f"{cell.name}:{first}", f"{cell.name}:{second}").fitted
        what = f"the best ensemble beats the best single model of the same encoder ({encoder}) with 95 % confidence"
        goals.append(Goal(what, f"`{first}` against `{second}`: {_shown(test)}", _beats(test)))
    return goals


def whole_table(cells: Sequence[Measured]) -> Goal:
    """Goal for the time of measuring all heads with one seed: the mean over the seeds that were timed."""
    encoder, heads = (_cell(cells, name).entries for name in ("encoder", "heads"))
    both = [(encoder[seed]["seconds"], heads[seed]["seconds"]) for seed in encoder if seed in heads]
    timed = [sum(seconds) for seconds in both if None not in seconds]
    if not timed:
        raise BertVisionError("'encoder' and 'heads' were not timed with the same seed.")
    spent = fmean(timed)
    what = f"every head at 0.3 and 1 epoch, one seed, on one H200 in under {TABLE_SECONDS:.0f} s"
    return Goal(what, f"{spent:.0f} s", REACHED if spent < TABLE_SECONDS else MISSED)


def _beats(test: Difference) -> str:
    return REACHED if which_way(test) == "higher" else MISSED


def _shown(test: Difference) -> str:
    return points(test.value, test.interval.low, test.interval.high)


class Ours(NamedTuple):
    """Our latest snapshot within a time limit: its name, seconds, and difference from the plain loop."""

    epochs: str
    seconds: float
    f1: str
    test: Difference


class Moment(NamedTuple):
    """A snapshot of the plain loop, and ours in equal time and in half the time."""

    epochs: str
    seconds: float
    f1: str
    full: Ours
    half: Ours


def curve(cells: Sequence[Measured]) -> list[Moment]:
    """All snapshots of the plain loop beside ours."""
    loop = _cell(cells, LOOP)
    moments = []
    for epochs in loop.models:
        seconds = _mean(cells, f"{LOOP}:{epochs}", "seconds")
        full, half = (_ours(cells, epochs, most) for most in (seconds, seconds / 2))
        moments.append(Moment(epochs, seconds, _f1(loop, epochs), full, half))
    return moments


def _ours(cells: Sequence[Measured], loop: str, most: float) -> Ours:
    cell = _cell(cells, OURS)
    timed = {epochs: _mean(cells, f"{OURS}:{epochs}", "seconds") for epochs in cell.models}
    there = [epochs for epochs, seconds in timed.items() if seconds <= most]
    if not there:
        raise BertVisionError(f"no snapshot of {OURS} takes {most:.1f} s or less.")
    latest = max(there, key=timed.__getitem__)
    test = against(cells, f"{OURS}:{latest}", f"{LOOP}:{loop}").fitted
    return Ours(latest, timed[latest], _f1(cell, latest), test)


def curve_table(cells: Sequence[Measured]) -> str:
    """Table of the plain loop at each snapshot, ours in equal time, and ours in half the time."""
    rows = [(*_took(one.epochs, one.f1, one.seconds), *_beside(one.full), *_beside(one.half)) for one in curve(cells)]
    ours = ("ours, in as many seconds", "took", "difference", "ours, in half of them", "took", "difference")
    return table(("plain loop, epochs: F1", "took", *ours), rows)


def _beside(ours: Ours) -> tuple[str, ...]:
    return (*_took(ours.epochs, ours.f1, ours.seconds), _shown(ours.test))


def _took(epochs: str, f1: str, seconds: float) -> tuple[str, str]:
    return f"{epochs}: {f1}", f"{show_number(seconds, 'seconds')} s"


ALONE = f"{PACKS}:own_output@2"
STEPS = (
    ("the usual loop", f"{LOOP}:2", None),
    ("its rate doubled to ours", f"{LOOP} at our rate:2", f"{LOOP}:2"),
    ("our loop instead", f"{OURS}:2", f"{LOOP} at our rate:2"),
    ("afterwards, the last layer read by an output trained anew", f"{PACKS}:last_layer@2", ALONE),
    ("afterwards, all layers read by `adapter_pool_skip`", f"{PACKS}:adapter_pool_skip@2", ALONE),
    ("afterwards, an ensemble of heads on the last snapshot", f"{PACKS}:greedy@2", ALONE),
    ("afterwards, an ensemble of heads on the two last snapshots", f"{PACKS}:greedy", ALONE),
    ("`adapter_pool` trained together with the encoder", "lora + joint adapter_pool:2", f"{OURS}:2"),
    ("`layer_mix` trained together with the encoder", "lora + joint layer_mix:2", f"{OURS}:2"),
    ("a rank of 24 instead of 16", "lora 24:2", f"{OURS}:2"),
    ("half the epochs, then heads", "lora 1 epoch + heads:greedy@1", f"{OURS}:2"),
)
"""The change, our model with it, and our model without it."""


def ablation_table(cells: Sequence[Measured]) -> str:
    """Table of an ablation: the effect of one change at a time, and of the fitted threshold."""
    rows = []
    for what, changed, before in STEPS:
        found = find_model(cells, changed)
        if found is None:
            raise BertVisionError(f"'{changed}' is not measured.")
        zero, fitted = scores_of(*found, (ZERO, FITTED))
        seconds = found[0].over_seeds(found[1], lambda one: one["seconds"])
        test = None if before is None else against(cells, changed, before).fitted
        rows.append(
            (
                what,
                "" if before is None else f"`{before}`",
                zero,
                fitted,
                "" if test is None else _shown(test),
                "" if test is None else which_way(test),
                f"{show_number(fmean(seconds), 'seconds')} s" if seconds else "not timed",
            )
        )
    return table(("changed", "against", "F1, threshold 0", "fitted", "difference", "it is", "training"), rows)


def _cell(cells: Sequence[Measured], name: str) -> Measured:
    found = next((cell for cell in cells if cell.name == name and cell.models), None)
    if found is None:
        raise BertVisionError(f"'{name}' is not measured.")
    return found


def _mean(cells: Sequence[Measured], words: str, key: str) -> float:
    """A value of a model, the mean over the seeds that have it."""
    name, _, model = words.partition(":")
    return fmean(_cell(cells, name).over_seeds(model, lambda one: one[key]))


def _f1(cell: Measured, model: str) -> str:
    return scores_of(cell, model, [FITTED])[0]
