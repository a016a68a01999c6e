"""What the documents say of span heads, what we measured, and whether it holds at 95 %."""

from collections.abc import Sequence
from math import hypot, sqrt
from typing import Literal, NamedTuple, assert_never

from tables_of_spans import THEIR_HEAD, Record, model_of, record, second_share, seeds_of, silent_share, table

HOLDS, FAILS, NONE = "holds", "does not hold", "no difference"
Says = Literal["more", "less", "same", "no more"]
Row = tuple[str, str, str, str, str, str]
"""Claim, the document's figure, ours and the verdict at threshold 0, ours and the verdict at the fitted one."""


class Sure(NamedTuple):
    """A difference, and whether it is one at 95 %."""

    value: float
    claimed: bool


HEADS: tuple[tuple[str, str, str, str, Says], ...] = (
    ("0.3", "adapter_pool_skip", "000: its best head at 3/10 epoch beats BERT", "+3.8", "more"),
    ("0.3", "pooled_adapter", "000: so does an adapter of pooled layers", "+3.2", "more"),
    ("0.3", "layer_mix", "000: learned pooling beats BERT", "+1.0 or +1.9", "more"),
    ("0.3", "layer_mean", "000: average pooling is like BERT", "-0.2", "same"),
    ("1", "adapter_pool", "000: its best head at 1 epoch beats BERT", "+1.3", "more"),
    ("1", "adapter_pool_skip", "000: so does it with the skip connection", "+0.9", "more"),
    ("1", "pooled_adapter", "000: so does an adapter of pooled layers", "+0.9", "more"),
    ("1", "layer_mix", "000: learned pooling does not", "-1.1", "no more"),
    ("0.3", "dot_attention", "002: dot-product attention beats the last layer", "+0.3, +0.7", "more"),
    ("1", "dot_attention", "002: dot-product attention beats the last layer", "+0.3, +0.7", "more"),
    ("0.3", "layer_weights", "002: parameterised weights are worse", "-1.5", "less"),
    ("1", "layer_weights", "002: parameterised weights are worse", "-1.5", "less"),
    ("0.3", "weighted_attention", "002: weighted attention is worse", "-0.9", "less"),
    ("1", "weighted_attention", "002: weighted attention is worse", "-0.9", "less"),
)
"""Snapshot, head, what is claimed of it against the encoder's own output, by how many points of F1 there."""


def verdict(tests: Sequence[Sure], says: Says) -> str:
    """Whether most tests surely agree, surely contradict, or neither."""
    up = sum(test.claimed and test.value > 0 for test in tests) > len(tests) / 2
    down = sum(test.claimed and test.value < 0 for test in tests) > len(tests) / 2
    match says:
        case "more":
            return HOLDS if up else FAILS if down else NONE
        case "less":
            return HOLDS if down else FAILS if up else NONE
        case "same":
            return FAILS if up or down else HOLDS
        case "no more":
            return FAILS if up else HOLDS
        case _:
            assert_never(says)


def sure(test: Record) -> Sure:
    """A paired test of the record."""
    return Sure(test["value"], test["claimed"])


def wilson(count: int, total: int) -> tuple[float, float]:
    """The 95 % interval of a share, by Wilson's score."""
    part, z = count / total, 1.96
    middle, half = part + z**2 / (2 * total), z * sqrt(part * (1 - part) / total + z**2 / (4 * total**2))
    return (middle - half) / (1 + z**2 / total), (middle + half) / (1 + z**2 / total)


def beside(count: int, total: int, figure: float) -> Sure:
    """A share less a figure."""
    low, high = wilson(count, total)
    return Sure(count / total - figure, not low <= figure <= high)


def nearer(first: tuple[float, int], second: tuple[float, int], figure: float) -> Sure:
    """How much nearer a second share is to a figure than a first of other questions; both as share and total."""
    errors = [sqrt(part * (1 - part) / total) for part, total in (first, second)]
    gain = abs(first[0] - figure) - abs(second[0] - figure)
    return Sure(gain, abs(gain) > 1.96 * hypot(*errors))


def shorter(first: Record, second: Record) -> tuple[Sure, float]:
    """The difference of two means of different questions, and the half-width of its interval."""
    half = hypot(*((one["interval"]["high"] - one["interval"]["low"]) / 2 for one in (first, second)))
    apart = first["mean"] - second["mean"]
    return Sure(apart, abs(apart) > half), half


def _tested(tests: Record, metric: str, says: Says) -> list[str]:
    cells = []
    for at in ("zero", "fitted"):
        test = tests[at][metric]
        cells += [f"{test['value']:+.1f} ({test['low']:+.1f} to {test['high']:+.1f})", verdict([sure(test)], says)]
    return cells


def _row(claim: str, theirs: str, cells: Sequence[str]) -> Row:
    zero, so_zero, fitted, so_fitted = cells
    return (claim, theirs, zero, so_zero, fitted, so_fitted)


def best_rows(snapshot: Record, encoder: int) -> list[Row]:
    """The best head by held-out score against the own output: F1, and which questions it gets right."""
    best, name = model_of(snapshot, snapshot["first"]), snapshot["snapshot"]
    who = f"`{best['head']}`, {name} epoch"
    claims: tuple[tuple[str, str, str, Says], ...] = (
        ("f1", f"000: the best head beats BERT, F1 ({who})", "+3.8" if name == "0.3" else "+1.3", "more"),
        ("NoAns_exact", f"000: it gets more questions without an answer right ({who})", "a picture", "more"),
        ("HasAns_exact", f"000: and fewer with an answer ({who})", "a picture", "less"),
    )
    rows = [_row(claim, theirs, _tested(snapshot["answers"], metric, says)) for metric, claim, theirs, says in claims]
    if name == "0.3":
        small = next(model for model in snapshot["models"] if 0.001 <= model["parameters"] / encoder <= 0.004)
        rows += [goal_row(model, encoder) for model in (best, small)]
    return rows


def goal_row(model: Record, encoder: int) -> Row:
    """Our goal of 4 points over the own output."""
    cells = []
    for at in ("zero", "fitted"):
        test = model["against"][at]["f1"]
        so = "reached" if test["low"] >= 4 else "reached, not surely" if test["value"] >= 4 else "missed"
        cells += [f"{test['value']:+.2f} ({test['low']:+.2f} to {test['high']:+.2f})", so]
    part = model["parameters"] / encoder
    return _row(f"our goal: at least +4 F1 at 0.3 epoch (`{model['head']}`, {part:.2%} of the encoder)", "", cells)


def head_rows(snapshots: Sequence[Record]) -> list[Row]:
    """Every head against the encoder's own output, over seeds."""
    rows = []
    for name, head, claim, theirs, says in HEADS:
        models = seeds_of(next(found for found in snapshots if found["snapshot"] == name), head)
        cells = []
        for at in ("zero", "fitted"):
            tests = [sure(model["against"][at]["f1"]) for model in models]
            mean = sum(test.value for test in tests) / len(tests)
            count = sum(test.claimed for test in tests)
            cells += [f"{mean:+.1f}, sure with {count} of {len(tests)} seeds", verdict(tests, says)]
        rows.append(_row(f"{claim} (`{head}`, {name} epoch)", theirs, cells))
    return rows


def ensemble_rows(found: Record) -> list[Row]:
    """The paper's ensembles beside ours, which join every head."""
    claims: dict[str, tuple[str, str, Says]] = {
        "0.3": ("does not improve on", "-0.6", "no more"),
        "1": ("improves on", "+0.8", "more"),
    }
    rows = []
    for name, (what, theirs, says) in claims.items():
        joined = next(one for one in found["ensembles"] if one["how"] == "max" and one["snapshots"] == [name])
        claim = f"000: the ensemble by maximum {what} the best head ({name} epoch)"
        rows.append(_row(claim, theirs, _tested(joined["against"], "f1", says)))
    return rows


def error_rows(snapshot: Record, dev: float) -> list[Row]:
    """What wrong answers of the paper's head look like, over seeds."""
    models = seeds_of(snapshot, THEIR_HEAD)
    who = f"(`{THEIR_HEAD}`, {snapshot['snapshot']} epoch)"
    silent = []
    for at in ("zero", "fitted"):
        errors = [model["errors"][at] for model in models]
        tests = [beside(one["predicted_empty"], one["has_answer_errors"], 0.5) for one in errors]
        silent += [f"{sum(map(silent_share, errors)) / len(errors):.0%}", verdict(tests, "more")]
    errors = [model["errors"]["fitted"] for model in models]
    seconds = [beside(one["second_right"], one["first_wrong"], 0.44) for one in errors]
    firsts = [(one["first_right_has_answer_share"], one["first_right"]) for one in errors]
    others = [(one["second_right_has_answer_share"], one["second_right"]) for one in errors]
    first, second = (sum(part for part, _ in side) / len(side) for side in (firsts, others))
    balanced = verdict([nearer(one, other, dev) for one, other in zip(firsts, others, strict=True)], "more")
    share = f"{sum(map(second_share, errors)) / len(errors):.0%}"
    both = f"{second:.0%} and {first:.0%}; of all questions {dev:.0%}"
    return [
        _row(f"000: most wrong answers to questions with an answer are empty {who}", "65 %", silent),
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
    """Contexts that only one of the two gets right."""
    lengths = snapshot["context_lengths"]
    only = [lengths[f"{which}_only"]["tokens"] for which in ("first", "second")]
    apart, half = shorter(*only)
    best = model_of(snapshot, snapshot["first"])["head"]
    claim = f"000: contexts that only the head gets right are shorter (`{best}`, {snapshot['snapshot']} epoch)"
    mine = f"{only[0]['mean']:.0f} and {only[1]['mean']:.0f} tokens, {apart.value:+.1f} (±{half:.1f})"
    return _row(claim, theirs, ["", "", mine, verdict([apart], "less")])


def layer_row(snapshot: Record) -> Row:
    """Learned pooling favours later layers, whatever the threshold."""
    report = next(found for found in snapshot["layer_weights"] if found["head"] == "layer_mix")
    layers, shares = report["layers"], report["sets"][0]["shares"]
    even, later = 1 / len(layers), [layer for layer in layers if layer > layers[-1] * 17 / 24]
    least = min(shares[layers.index(layer)]["low"] for layer in later)
    mine = f"{least:.1%} or more in each of layers {later[0]} to {later[-1]} of {layers[-1]}, even {even:.1%}"
    so = HOLDS if least > even else FAILS
    claim = f"000: learned pooling favours later layers (`layer_mix`, {snapshot['snapshot']} epoch)"
    return _row(claim, "after layer 17 of 24", [mine, so, "", ""])


def claims_table() -> str:
    """Every claim that these runs can judge."""
    found = record()
    early, late = found["snapshots"]
    dev, encoder = found["has_answer"] / found["examples"], found["encoder_parameters"]
    rows = [
        *best_rows(early, encoder),
        *best_rows(late, encoder),
        *head_rows(found["snapshots"]),
        *ensemble_rows(found),
        *error_rows(early, dev),
        length_row(early, "162 and 175 tokens"),
        length_row(late, "the same trend"),
        *(layer_row(snapshot) for snapshot in (early, late)),
    ]
    return table(("the document says", "there", "here, threshold 0", "so", "here, fitted", "so"), rows)
