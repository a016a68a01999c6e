"""The documents' claims about span heads beside our measurements, and whether they hold."""

from collections.abc import Sequence
from math import hypot, sqrt

from bertvision.bench.compare import Measured
from bertvision.evaluation.bootstrap import Difference
from markdown_tables import points, table
from tables_of_heads import (
    OWN_F1,
    PAIR,
    PAIR_F1,
    SNAPSHOTS,
    THEIRS,
    Against,
    against,
    against_own,
    says,
    single_heads,
    there,
)
from tables_of_spans import THEIR_HEAD, Record, empty_share, model_of, record, second_share, seeds_of
from verdicts import FAILS, HOLDS, Says, Sure, verdict

Row = tuple[str, str, str, str, str, str]
"""Claim, the document's figure, our value and verdict at threshold 0, our value and verdict at the fitted threshold."""

HEADS = (
    ("0.3", "adapter_pool_skip", "its best head at 3/10 epoch beats BERT"),
    ("0.3", "pooled_adapter", "so does an adapter of pooled layers"),
    ("0.3", "layer_mix", "learned pooling beats BERT"),
    ("0.3", "pooled_conv", "so does a convolution of learned pooling"),
    ("0.3", "mean_conv", "one of average pooling is like BERT"),
    ("1", "adapter_pool", "its best head at 1 epoch beats BERT"),
    ("1", "adapter_pool_skip", "so does it with the skip connection"),
    ("1", "pooled_adapter", "so does an adapter of pooled layers"),
    ("1", "layer_mix", "learned pooling is worse"),
    ("0.3", "dot_attention", "dot-product attention beats the last layer"),
    ("1", "dot_attention", "dot-product attention beats the last layer"),
    ("0.3", "layer_weights", "parameterised weights are worse"),
    ("1", "layer_weights", "parameterised weights are worse"),
    ("0.3", "weighted_attention", "weighted attention is worse"),
    ("1", "weighted_attention", "weighted attention is worse"),
    ("0.3", "encoder_attention", "an encoder block is worse"),
    ("1", "encoder_attention", "an encoder block is worse"),
)
"""Snapshot, head, and what its document claims about it in comparison with the encoder's own output."""


def sure(test: Record) -> Sure:
    """The result of a paired test in the record."""
    return Sure(test["value"], test["claimed"])


def wilson(count: int, total: int) -> tuple[float, float]:
    """The 95 % confidence interval of a share, by Wilson's score."""
    part, z = count / total, 1.96
    middle, half = part + z**2 / (2 * total), z * sqrt(part * (1 - part) / total + z**2 / (4 * total**2))
    return (middle - half) / (1 + z**2 / total), (middle + half) / (1 + z**2 / total)


def beside(count: int, total: int, figure: float) -> Sure:
    """The difference of a share from a figure; claimed if the figure is outside the share's interval."""
    low, high = wilson(count, total)
    return Sure(count / total - figure, not low <= figure <= high)


def nearer(first: tuple[float, int], second: tuple[float, int], figure: float) -> Sure:
    """By how much the second share is nearer to a figure than the first; both are (share, total) of other questions."""
    errors = [sqrt(part * (1 - part) / total) for part, total in (first, second)]
    gain = abs(first[0] - figure) - abs(second[0] - figure)
    return Sure(gain, abs(gain) > 1.96 * hypot(*errors))


def shorter(first: Record, second: Record) -> tuple[Sure, float]:
    """The difference of two means over different questions, and the half-width of its confidence interval."""
    half = hypot(*((one["interval"]["high"] - one["interval"]["low"]) / 2 for one in (first, second)))
    difference = first["mean"] - second["mean"]
    return Sure(difference, abs(difference) > half), half


def _tested(tests: Record, metric: str, claim: Says) -> list[str]:
    cells = []
    for at in ("zero", "fitted"):
        test = tests[at][metric]
        cells += [points(test["value"], test["low"], test["high"]), verdict([sure(test)], claim)]
    return cells


def _judged(comparison: Against, claim: Says | None) -> list[str]:
    """Table cells of a comparison; without a verdict at threshold 0, since records have answers at the fitted one."""
    zero, fitted = comparison.cells
    return [zero, "", fitted, "" if claim is None else verdict([comparison.sure], claim)]


def _row(claim: str, theirs: str, cells: Sequence[str]) -> Row:
    zero, so_zero, fitted, so_fitted = cells
    return (claim, theirs, zero, so_zero, fitted, so_fitted)


def best_rows(cells: Sequence[Measured]) -> list[Row]:
    """Rows of the best head by held-out score against the own output."""
    rows = []
    for tuned in SNAPSHOTS:
        head = best_head(cells, tuned)
        theirs = PAIR_F1[tuned][0] - OWN_F1["000"][tuned]
        claim = f"000: the best head beats BERT (`{head}`, {tuned} epoch)"
        rows.append(_row(claim, f"{theirs:+.1f}", _judged(against_own(cells, head, tuned), "more")))
    return rows


def best_head(cells: Sequence[Measured], tuned: str, most: float = 1.0, least: float = 0.0) -> str:
    """The best head of a snapshot by held-out score, of those with `least` to `most` of the encoder's parameters."""
    heads = next(cell for cell in cells if cell.name == "heads")
    kept = [name for name in single_heads(heads, [tuned]) if least <= part_of(cells, name) <= most]
    return heads.best(kept).partition("@")[0]


def part_of(cells: Sequence[Measured], model: str) -> float:
    """Parameters of a head as a share of the encoder's."""
    heads, encoder = (next(cell for cell in cells if cell.name == name) for name in ("heads", "encoder"))
    (encoder_entry, *_), (heads_entry, *_) = (one.entries.values() for one in (encoder, heads))
    parameters = heads_entry["result"]["models"][model]["head_parameters"]
    return float(parameters / encoder_entry["result"]["total"])


GAIN = 4.0
"""Our goal: points of F1 over the own output at 0.3 epoch."""


def gain_verdict(test: Difference) -> str:
    """Whether the goal `GAIN` is reached."""
    return "reached" if test.interval.low >= GAIN else "reached, not surely" if test.value >= GAIN else "missed"


def goal_row(comparison: Against, head: str, part: float) -> Row:
    """Row of the goal `GAIN` for a head; `part` is its share of the encoder's parameters."""
    claim = f"our goal: at least +{GAIN:g} F1 at 0.3 epoch (`{head}`, {part:.2%} of the encoder)"
    return _row(claim, "", [*_judged(comparison, None)[:3], gain_verdict(comparison.fitted)])


def goal_rows(cells: Sequence[Measured]) -> list[Row]:
    """Rows of that goal for the best head, and for the best with 0.1 to 0.4 % of the encoder's parameters."""
    heads = (best_head(cells, "0.3"), best_head(cells, "0.3", most=0.004, least=0.001))
    return [goal_row(against_own(cells, head, "0.3"), head, part_of(cells, f"{head}@0.3")) for head in heads]


def head_rows(cells: Sequence[Measured]) -> list[Row]:
    """Rows of the documents' heads against the encoder's own output."""
    return [
        _row(
            f"{THEIRS[head].document}: {claim} (`{head}`, {tuned} epoch)",
            there(head, tuned),
            _judged(against_own(cells, head, tuned), says(head, tuned)),
        )
        for tuned, head, claim in HEADS
    ]


def ensemble_rows(cells: Sequence[Measured]) -> list[Row]:
    """Rows of the paper's ensemble of a head and the own output against that head."""
    rows = []
    for tuned, what in (("0.3", "is worse than"), ("1", "improves on")):
        head, both = PAIR_F1[tuned]
        found = against(cells, f"pair:max@{tuned}", f"pair:{PAIR}@{tuned}")
        claim = f"000: BERT and its best head, joined by the maximum, {what} that head (`{PAIR}`, {tuned} epoch)"
        rows.append(_row(claim, f"{both - head:+.1f}", _judged(found, "more" if both > head else "less")))
    return rows


def question_rows(snapshot: Record) -> list[Row]:
    """Rows on the questions that the best head in the record of errors answers correctly."""
    who = f"(`{model_of(snapshot, snapshot['first'])['head']}`, {snapshot['snapshot']} epoch)"
    claims: tuple[tuple[str, str, Says], ...] = (
        ("NoAns_exact", "000: the best head gets more questions without an answer right", "more"),
        ("HasAns_exact", "000: and fewer with an answer", "less"),
    )
    return [
        _row(f"{claim} {who}", "a picture", _tested(snapshot["answers"], metric, so)) for metric, claim, so in claims
    ]


def error_rows(snapshot: Record, dev: float) -> list[Row]:
    """Rows on the wrong answers of the paper's head, over seeds."""
    models = seeds_of(snapshot, THEIR_HEAD)
    who = f"(`{THEIR_HEAD}`, {snapshot['snapshot']} epoch)"
    empty = []
    for at in ("zero", "fitted"):
        errors = [model["errors"][at] for model in models]
        tests = [beside(one["predicted_empty"], one["has_answer_errors"], 0.5) for one in errors]
        empty += [f"{sum(map(empty_share, errors)) / len(errors):.0%}", verdict(tests, "more")]
    errors = [model["errors"]["fitted"] for model in models]
    seconds = [beside(one["second_right"], one["first_wrong"], 0.44) for one in errors]
    firsts = [(one["first_right_has_answer_share"], one["first_right"]) for one in errors]
    others = [(one["second_right_has_answer_share"], one["second_right"]) for one in errors]
    first, second = (sum(part for part, _ in side) / len(side) for side in (firsts, others))
    balanced = verdict([nearer(one, other, dev) for one, other in zip(firsts, others, strict=True)], "more")
    share = f"{sum(map(second_share, errors)) / len(errors):.0%}"
    both = f"{second:.0%} and {first:.0%}; of all questions {dev:.0%}"
    return [
        _row(f"000: most wrong answers to questions with an answer are empty {who}", "65 %", empty),
        _row(
            f"000: second answers that are right where the first is wrong {who}",
            "44 %",
            ["", "", share, verdict(seconds, "same")],
        ),
        _row(
            f"000: right second answers are less biased than right first ones, share with an answer {who}",
            "47 % and 42 %",
            ["", "", both, balanced],
        ),
    ]


def length_row(snapshot: Record, theirs: str) -> Row:
    """Rows on the lengths of contexts whose questions only one of two models answers correctly."""
    lengths = snapshot["context_lengths"]
    only = [lengths[f"{which}_only"]["tokens"] for which in ("first", "second")]
    apart, half = shorter(*only)
    best = model_of(snapshot, snapshot["first"])["head"]
    claim = f"000: contexts that only the head gets right are shorter (`{best}`, {snapshot['snapshot']} epoch)"
    mine = f"{only[0]['mean']:.0f} and {only[1]['mean']:.0f} tokens, {apart.value:+.1f} (±{half:.1f})"
    return _row(claim, theirs, ["", "", mine, verdict([apart], "less")])


def layer_row(snapshot: Record) -> Row:
    """Rows on the claim that learned pooling favours later layers; it does not depend on a threshold."""
    report = next(found for found in snapshot["layer_weights"] if found["head"] == "layer_mix")
    layers, shares = report["layers"], report["sets"][0]["shares"]
    even, later = 1 / len(layers), [layer for layer in layers if layer > layers[-1] * 17 / 24]
    least = min(shares[layers.index(layer)]["low"] for layer in later)
    mine = f"{least:.1%} or more in each of layers {later[0]} to {later[-1]} of {layers[-1]}, even {even:.1%}"
    so = HOLDS if least > even else FAILS
    claim = f"000: learned pooling favours later layers (`layer_mix`, {snapshot['snapshot']} epoch)"
    return _row(claim, "after layer 17 of 24", [mine, so, "", ""])


HEADER = ("the document says", "there", "here, threshold 0", "so", "here, fitted", "so")


def head_claims_table(cells: Sequence[Measured]) -> str:
    """Table of the claims about heads and ensembles."""
    return table(HEADER, [*best_rows(cells), *goal_rows(cells), *head_rows(cells), *ensemble_rows(cells)])


def claims_table() -> str:
    """Table of the claims about answers, contexts and layers."""
    found = record()
    early, late = found["snapshots"]
    rows = [
        *question_rows(early),
        *question_rows(late),
        *error_rows(early, found["has_answer"] / found["examples"]),
        length_row(early, "162 and 175 tokens"),
        length_row(late, "the same trend"),
        *(layer_row(snapshot) for snapshot in (early, late)),
    ]
    return table(HEADER, rows)
