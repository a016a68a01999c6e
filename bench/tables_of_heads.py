"""Markdown tables of heads and ensembles against single models, beside the documents' figures."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from statistics import fmean, stdev
from typing import Any, NamedTuple

from bertvision.bench.compare import Measured, find_model, paired_test, shared_seeds
from bertvision.bench.tables import which_way
from bertvision.errors import BertVisionError
from bertvision.evaluation.bootstrap import Difference
from bertvision.heads import HEADS
from bertvision.runs.judging.judge import BEST, CLAIMED, FITTED, PLAIN, ZERO
from markdown_tables import points, table
from verdicts import Says, Sure, verdict

SNAPSHOTS = ("0.3", "1")
OWN = "own_output"
PAIR = "adapter_pool_skip"
"""The head of the ensemble `pair`, which joins it with the own output."""


class Theirs(NamedTuple):
    """A document's F1 of a head, by epochs of tuning."""

    document: str
    what: str
    f1: Mapping[str, float]


def _paper(what: str, early: float, late: float | None) -> Theirs:
    return Theirs("000", what, {"0.3": early} | ({} if late is None else {"1": late}))


OWN_F1 = {"000": {"0.3": 70.2, "1": 77.7}, "002": {"2": 79.636, "5": 77.740}}
"""F1 of BERT-large (document 000, tables 1 and 2) and ALBERT (document 002, tables 2 and 3), by epochs of tuning."""

PAIR_F1 = {"0.3": (74.0, 73.4), "1": (79.0, 79.8)}
"""Document 000, table 3: F1 of its best head, and of that head and BERT-large joined by the maximum."""

THEIRS = {
    # document 000, the table of section A.2, whose columns "1/10" are 3/10
    "layer_mix": _paper("learned pooling", 71.2, 76.6),
    "adapter_pool": _paper("adapter 386, shared", 70.3, 79.0),
    "adapter_pool_skip": _paper("adapter 386, shared, skip", 74.0, 78.6),
    "adapter_pool_own": _paper("adapter 386, not shared", 72.3, 76.9),
    "adapter_pool_own_skip": _paper("adapter 386, not shared, skip", 72.3, 76.7),
    "adapter_pool_64": _paper("adapter 64, shared", 73.0, 78.5),
    "adapter_pool_64_skip": _paper("adapter 64, shared, skip", 73.2, 78.7),
    "adapter_pool_64_own": _paper("adapter 64, not shared", 71.6, 78.2),
    "adapter_pool_64_own_skip": _paper("adapter 64, not shared, skip", 73.3, 78.4),
    "adapter_pool_mix": _paper("adapter 386, shared, skip, Tenney pooling", 73.4, 78.9),
    "pooled_adapter": _paper("learned pooling, adapter 386", 73.4, 78.6),
    "conv": _paper("1×N CNN", 72.0, 78.9),
    "conv_plain": _paper("1×N CNN, no dropout", 71.7, 78.9),
    "conv_dilated": _paper("1×N CNN, dilated", 70.1, None),
    "pooled_conv": _paper("learned pooling, 1×N CNN", 72.1, 78.9),
    "mean_conv": _paper("average pooling, 1×N CNN", 70.0, 78.6),
    "pooled_adapter_conv": _paper("learned pooling, adapter, 1×N CNN", 72.0, 78.9),
    "pooled_adapter_ngram": _paper("learned pooling, adapter, N×N CNN", 73.1, 78.6),
    "pooled_adapter_inception": _paper("learned pooling, adapter, Inception", 50.1, None),
    "pooled_adapter_xception": _paper("learned pooling, adapter, Xception", 71.1, 78.6),
    # document 002, tables 2 and 3; its text compares the weighted model of table 2 with the layer weights of Peters
    "layer_weights": Theirs("002", "layer weights", {"2": 78.144}),
    "dot_attention": Theirs("002", "dot-product attention", {"2": 79.953, "5": 78.401}),
    "weighted_attention": Theirs("002", "weighted attention", {"5": 76.817}),
    "encoder_attention": Theirs("002", "encoder", {"5": 76.57}),
    # the baseline of all heads: the map of the own output, trained again as a head
    "last_layer": Theirs("ours", "the last layer alone", {}),
}
"""The row of each head in a document."""

ALIKE = {("mean_conv", "0.3")}
"""Heads, and epochs of tuning, for which the document claims no difference from its encoder."""


def gains(head: str, tuned: str) -> dict[str, float]:
    """The document's differences from its encoder, by epochs; figures of other epochs than ours serve for both."""
    document, _, f1 = THEIRS[head]
    own = OWN_F1.get(document, {})
    return {epochs: value - own[epochs] for epochs, value in f1.items() if epochs == tuned or tuned not in own}


def there(head: str, tuned: str) -> str:
    """The same differences as text."""
    differences = gains(head, tuned).items()
    return ", ".join(
        f"{value:+.1f}" + ("" if epochs == tuned else f" ({epochs} epochs)") for epochs, value in differences
    )


def says(head: str, tuned: str) -> Says | None:
    """What the document claims of a head against its encoder, by the sign of its figure; None without a figure."""
    if (head, tuned) in ALIKE:
        return "same"
    differences = gains(head, tuned).values()
    return None if not differences else "more" if min(differences) > 0 else "less"


class Against(NamedTuple):
    """The difference of two models in points of F1.

    Attributes:
        zero: differences at threshold 0, by seed.
        fitted: paired test at the fitted threshold.
    """

    zero: Sequence[float]
    fitted: Difference

    @property
    def cells(self) -> tuple[str, str]:
        """Both differences as table cells."""
        spread = f" ± {stdev(self.zero):.1f}" if len(self.zero) > 1 else ""
        test = self.fitted
        return f"{fmean(self.zero):+.1f}{spread}", points(test.value, test.interval.low, test.interval.high)

    @property
    def sure(self) -> Sure:
        """The difference at the fitted threshold, and whether it is significant."""
        return Sure(self.fitted.value, self.fitted.p < CLAIMED)


def score(model: Mapping[str, Any], at: str) -> float:
    """F1 of questions at a threshold; for labels, which have no threshold, the first metric in percent."""
    scores = model["scores"]
    return float(scores[at]["f1"]) if PLAIN not in scores else 100.0 * next(iter(scores[PLAIN].values()))


def scores_of(cell: Measured, model: str, at: Sequence[str] = (ZERO, FITTED, BEST)) -> list[str]:
    """Mean scores over seeds at several thresholds, as table cells."""
    return [f"{fmean(cell.over_seeds(model, partial(score, at=which))):.1f}" for which in at]


def against(cells: Sequence[Measured], first: str, second: str) -> Against:
    """Compare two models, each named `CELL:MODEL`, on the seeds that both have.

    Raises:
        BertVisionError: one of them is not measured.
    """
    one, other = find_model(cells, first), find_model(cells, second)
    tested = None if one is None or other is None else paired_test(one, other)
    if one is None or other is None or tested is None:
        raise BertVisionError(f"'{first}' and '{second}' are not measured.")
    zeros = [
        [score(cell.with_seed(seed)["result"]["models"][model], ZERO) for seed in shared_seeds(one[0], other[0])]
        for cell, model in (one, other)
    ]
    return Against([mine - own for mine, own in zip(*zeros, strict=True)], tested[0])


def against_own(cells: Sequence[Measured], head: str, tuned: str) -> Against:
    """Compare a head with the encoder's own output at the same snapshot."""
    return against(cells, f"heads:{head}@{tuned}", f"heads:{OWN}@{tuned}")


def documents_table(cells: Sequence[Measured], heads: Iterable[str] = THEIRS) -> str:
    """Table of the documents' heads against the own output, there and here, and whether the claims hold."""
    rows = []
    for head in heads:
        row = [f"`{head}`", f"{THEIRS[head].document}: {THEIRS[head].what}"]
        for tuned in SNAPSHOTS:
            found, claim = against_own(cells, head, tuned), says(head, tuned)
            judged = "" if claim is None else verdict([found.sure], claim)
            row += [there(head, tuned), found.cells[1], which_way(found.fitted), judged]
        rows.append(row)
    header = ["head", "there called"]
    for theirs, ours in (("3/10 epoch", "0.3 epoch"), ("1 epoch", "1 epoch")):
        header += [f"there, {theirs}", f"here, {ours}", "here is", "the claim"]
    return table(header, rows)


def single_heads(cell: Measured, tuned: Sequence[str] = SNAPSHOTS) -> list[str]:
    """Names of the heads of a cell at some snapshots, without own outputs and ensembles."""
    return [name for name in cell.models if (found := name.partition("@"))[0] in HEADS and found[2] in tuned]


def ensembles_table(cells: Sequence[Measured]) -> str:
    """Table of ensembles of each snapshot and of both, beside the best head, the own output, the pair and the paper."""
    heads, pair = (next(cell for cell in cells if cell.name == name) for name in ("heads", "pair"))
    count = len(single_heads(heads, SNAPSHOTS[:1])) + 1
    rows = []
    for tuned in SNAPSHOTS:
        best, when = heads.best(single_heads(heads, [tuned])), f"{tuned} epoch"
        rows += [
            (when, "own output", *scores_of(heads, f"{OWN}@{tuned}"), "", "", ""),
            (when, f"best single head, `{_head(best)}`", *scores_of(heads, best), "", "", ""),
            *(
                (when, f"{how} of all {count}", *_joined(cells, heads, f"{how}@{tuned}", best))
                for how in ("max", "mean", "greedy")
            ),
            (when, f"`{PAIR}`", *scores_of(pair, f"{PAIR}@{tuned}"), "", "", ""),
            (when, f"max of `{PAIR}` and own output", *_joined(cells, pair, f"max@{tuned}", f"{PAIR}@{tuned}")),
        ]
        theirs = zip(
            ("BERT-large", "its best head", "both, maximum"), (OWN_F1["000"][tuned], *PAIR_F1[tuned]), strict=True
        )
        rows += [(when, f"*document 000: {what}*", f"*{f1:.1f}*", "", "", "", "", "") for what, f1 in theirs]
    best = heads.best(single_heads(heads))
    rows += [
        ("both", f"{how} of all {2 * count}", *_joined(cells, heads, how, best)) for how in ("max", "mean", "greedy")
    ]
    header = ("encoder tuned for", "model", "F1, threshold 0", "fitted", "best on dev", "against", "threshold 0")
    return table((*header, "fitted"), rows)


def _head(model: str) -> str:
    return model.partition("@")[0]


def _joined(cells: Sequence[Measured], cell: Measured, ensemble: str, single: str) -> list[Any]:
    """Row of an ensemble's scores, and its gain over a single head."""
    found = against(cells, f"{cell.name}:{ensemble}", f"{cell.name}:{single}")
    zero, fitted = found.cells
    unsure = "" if found.sure.claimed else ", no difference"
    return [*scores_of(cell, ensemble), f"`{single}`", zero, f"{fitted}{unsure}"]
