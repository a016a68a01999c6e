"""Markdown tables of the documents' other figures and claims beside our measurements."""

from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean

from bertvision.analysis.efficiency import efficiency
from bertvision.bench.compare import Measured, find_model
from bertvision.bench.tables import which_way
from bertvision.runs.judging.judge import FITTED, PLAIN
from claims import Claim, Figure, Row, beside, missing
from markdown_tables import table
from tables_of_heads import OWN, OWN_F1, PAIR, PAIR_F1, SNAPSHOTS, THEIRS, against, says, there
from verdicts import FAILS, HOLDS, OPEN, Says

WORDS, PICTURE = "in words", "a picture"

FROZEN_F1 = {
    "L12": ("L12, all layers", 76.3),
    "L6": ("L6, the last six", 75.2),
    "L3": ("L3, the last three", 72.5),
    "L1": ("L1, the last one", 65.9),
    "L0": ("L0, LayerNorms alone", 53.1),
    "houlsby 64": ("L0-A64, adapters of 64", 69.8),
    "houlsby 768": ("L0-A768, adapters of 768", 75.0),
    "houlsby 64 + full": ("L12-A64, all layers and adapters of 64", 76.3),
}
"""Document 001, tables 1 and 2 (BERT-base, three epochs), by our cell: its name there, and its F1."""

FROZEN_PARAMETERS = {
    "L12": 108_311_810,
    "L6": 42_548_738,
    "L3": 21_294_338,
    "L1": 7_124_738,
    "L0": 39_938,
    "houlsby 64": 2_417_664,
    "houlsby 768": 28_388_354,
    "houlsby 64 + full": 110_691_074,
}
"""The same tables: trained parameters, from which its text computes an efficiency of 3.3 for L6."""

FROZEN_CLAIMS: tuple[tuple[str, str, str, Says], ...] = (
    ("six layers are less than all", "L6", "L12", "less"),
    ("three are less than six", "L3", "L6", "less"),
    ("one is less than three", "L1", "L3", "less"),
    ("LayerNorms alone are less than one layer", "L0", "L1", "less"),
    ("adapters of 64 are less than all layers", "houlsby 64", "L12", "less"),
    ("adapters of 768 are less than all layers", "houlsby 768", "L12", "less"),
    ("adapters of 768 are more than those of 64", "houlsby 768", "houlsby 64", "more"),
    ("adapters of 64 are more than one layer", "houlsby 64", "L1", "more"),
)
"""Description, our two cells, and the direction of the difference in document 001."""

BOTH = Claim("adapters of 64 add hardly anything to all layers", "0.0 to +0.5", "houlsby 64 + full", "L12", "same")
"""Its tables have 76.3 for both, its text 76.3 and 75.8."""

JOINT = ("layer_weights", "dot_attention", "weighted_attention", "encoder_attention")
"""Heads of document 002, whose figures are those of `THEIRS`."""

JOINT_LOSS = {
    "2": {"last_layer": 0.648, "layer_weights": 0.697, "dot_attention": 0.634},
    "5": {"last_layer": 0.235, "dot_attention": 0.240, "weighted_attention": 0.239, "encoder_attention": 0.258},
}
"""Document 002, tables 2 and 3: what it calls the loss on dev, by epochs and head."""

CONTEXT = ("context_conv", "context_conv_simple")
"""With the context vector and without."""

TENTHS_F1 = (50.7, 68.1, 70.2, 75.4, 76.0, 75.5, 75.9, 77.7, 77.7)
WHOLE_F1 = (77.7, 79.2, 78.8, 78.7, 77.8, 79.6)
EPOCHS_F1 = {f"{n / 10}": f1 for n, f1 in enumerate(TENTHS_F1, 1)} | {f"{n}": f1 for n, f1 in enumerate(WHOLE_F1, 1)}
"""Document 000, figure 6: its rows 1/10 to 6/10 hold 1 to 6 epochs, its rows 7/10 to 6 hold 1/10 to 9/10."""

ANSWERABLE = {"0.2": 68.7, "1": 76.1, "3": 80.4}
"""Document 000, figure 5: accuracy of BERT-large by epochs."""

ANSWERABLE_HEADS = {
    "layer_mix": ("learned pooling", {"0.2": 69.7, "1": 78.2, "3": 81.1}),
    "pooled_adapter": ("learned pooling, adapter 386", {"0.2": 68.5, "1": 78.1}),
    "mean_adapter": ("average pooling, adapter 386", {"0.2": 69.1, "1": 77.9}),
    "xception": ("Xception, abbreviated", {"0.2": 67.3, "1": 78.5}),
    "xception_skip": ("Xception, abbreviated, skip", {"0.2": 67.2, "1": 78.3}),
    "xception_full": ("Xception", {"0.2": 70.7, "1": 78.3}),
}
"""Its tables 6 to 8, by our head and epochs of tuning; learned pooling is called "tenney small" there."""

TWO_EPOCHS_F1 = {"adapter_pool": ("the best head of 1 epoch", 79.7), PAIR: ("the best head of 3/10 epoch", 79.5)}
"""Document 000, table 5: heads on the encoder tuned for 2 epochs, by ours."""

TWO_EPOCHS_JOINED = 79.6
"""The same table: the first of these heads and the encoder joined by the maximum."""


def frozen_table(cells: Sequence[Measured]) -> str:
    """Tables on the number of trained layers, and on adapters."""
    f1 = {cell: value for cell, (_, value) in FROZEN_F1.items()}
    claims = [Claim(what, f"{f1[one] - f1[two]:+.1f}", one, two, claim) for what, one, two, claim in FROZEN_CLAIMS]
    return beside(cells, frozen_figures(), [*claims, BOTH])


def efficiency_table(cells: Sequence[Measured]) -> str:
    """Document 001's efficiency for every choice of layers and adapters that is measured."""
    rows = []
    for name, (what, f1) in FROZEN_F1.items():
        theirs = efficiency(f1, FROZEN_PARAMETERS[name])
        found = find_model(cells, name)
        if found is not None:
            cell, model = found
            learnt = cell.over_seeds(model, lambda one: one["parameters"])[0]
            ours = efficiency(fmean(cell.over_seeds(model, lambda one: one["scores"][FITTED]["f1"])), int(learnt))
            rows.append((what, f"{learnt:,}", f"{theirs:.2f}", f"{ours:.2f}"))
    return (
        table(("what", "learnt here", "there", "here, fitted"), rows) if rows else beside(cells, frozen_figures(), ())
    )


def frozen_figures() -> list[Figure]:
    """Document 001's F1 by trained parameters."""
    return [Figure(what, f"{value:.1f}", cell) for cell, (what, value) in FROZEN_F1.items()]


def joint_table(cells: Sequence[Measured]) -> str:
    """Tables on attention over layers, trained together with the encoder, beside the last layer."""
    figures, claims = [], []
    for epochs, own in OWN_F1["002"].items():
        last = f"joint last_layer {epochs} epochs"
        figures.append(Figure(f"the last layer (ALBERT), {epochs} epochs", f"{own:.1f}", last))
        for head in JOINT:
            f1, cell = THEIRS[head].f1.get(epochs), f"joint {head} {epochs} epochs"
            what = f"{THEIRS[head].what}, {epochs} epochs"
            figures.append(Figure(what, "" if f1 is None else f"{f1:.1f}", cell))
            claims.append(Claim(f"{what}, against the last layer", there(head, epochs), cell, last, says(head, epochs)))
    for head, what, of in (
        ("last_layer", "the last layer", OWN_F1["002"]),
        ("dot_attention", THEIRS["dot_attention"].what, THEIRS["dot_attention"].f1),
    ):
        late, early = (f"joint {head} {epochs} epochs" for epochs in ("5", "2"))
        claims.append(Claim(f"{what}: 5 epochs are worse than 2", f"{of['5'] - of['2']:+.1f}", late, early, "less"))
    return "\n\n".join(filter(None, [beside(cells, figures, claims), joint_losses(cells)]))


def joint_losses(cells: Sequence[Measured]) -> str:
    """Table of the losses on dev that were recorded."""
    rows = []
    for epochs, losses in JOINT_LOSS.items():
        for head, value in losses.items():
            found = find_model(cells, f"joint {head} {epochs} epochs")
            mine = [] if found is None else found[0].over_seeds(found[1], lambda one: one.get("loss"))
            if mine and None not in mine:
                rows.append((f"`{head}`, {lasting(epochs)}", f"{value:.3f}", f"{fmean(mine):.3f}"))
    return table(("loss on dev", "there", "here"), rows) if rows else ""


def context_table(cells: Sequence[Measured]) -> str:
    """Tables on context-aware convolutions against adapters and the plain output."""
    asked: tuple[tuple[str, str, str, Says | None], ...] = (
        ("L0", "houlsby 64", "LayerNorms learn: below adapters of 64", "less"),
        ("L0", "L0", "LayerNorms learn: more than the plain output", "more"),
        ("L3", "L3", "three layers learn: against the plain output", None),
        ("L6", "L6", "six layers learn: against the plain output", None),
        ("L12", "joint last_layer 2 epochs", "all layers learn: hardly more than the plain output at 3e-5", "same"),
        ("L12", "L12", "all layers learn: against the plain output at 1e-4", None),
    )
    claims = [
        Claim(f"`{head}`, {what}", "" if claim is None else WORDS, f"{head} {learn}", rival, claim)
        for learn, rival, what, claim in asked
        for head in CONTEXT
    ]
    return beside(cells, (), claims, size_rows(cells))


def size_rows(cells: Sequence[Measured]) -> list[Row]:
    """Trained parameters of both context-aware convolutions, if they are measured."""
    found = [find_model(cells, f"{head} L0") for head in CONTEXT]
    sizes = [cell.over_seeds(model, lambda one: one["parameters"])[0] for cell, model in filter(None, found)]
    if len(sizes) < len(CONTEXT):
        return []
    full, simple = sizes
    what = f"`{CONTEXT[1]}` needs more parameters, where LayerNorms learn"
    return [(what, WORDS, f"{simple:,} and {full:,}", "", "", HOLDS if simple > full else FAILS)]


def lasting(epochs: str) -> str:
    """A number of epochs in words."""
    return f"{epochs} {'epoch' if epochs == '1' else 'epochs'}"


def epochs_table(cells: Sequence[Measured]) -> str:
    """Tables on tuning at a constant learning rate, for every tenth of the first epoch and every epoch."""
    model = {epochs: f"every tenth:{epochs}" for epochs in EPOCHS_F1}
    figures = [Figure(lasting(epochs), f"{f1:.1f}", model[epochs]) for epochs, f1 in EPOCHS_F1.items()]
    claims = []
    for epochs in ("1", "3", "4", "5", "6"):
        gain = f"{EPOCHS_F1[epochs] - EPOCHS_F1['2']:+.1f}"
        claims.append(Claim(f"2 epochs are best: {epochs} against 2", gain, model[epochs], model["2"], "less"))
    return beside(cells, figures, claims, rise_rows(cells))


def rise_rows(cells: Sequence[Measured]) -> list[Row]:
    """Whether F1 rises with every tenth of the first epoch, if measured; not if one falls significantly."""
    tenths = list(EPOCHS_F1)[: len(TENTHS_F1) + 1]
    if missing(cells, (f"every tenth:{epochs}" for epochs in tenths)):
        return []
    steps = [against(cells, f"every tenth:{late}", f"every tenth:{early}") for early, late in pairwise(tenths)]
    theirs = [EPOCHS_F1[late] - EPOCHS_F1[early] for early, late in pairwise(tenths)]
    counted = [
        f"rises in {sum(value > 0 for value in values)} of {len(steps)} steps"
        for values in (theirs, [one.zero[0] for one in steps], [one.fitted.value for one in steps])
    ]
    ways = [which_way(one.fitted) for one in steps]
    up, down = ways.count("higher"), ways.count("lower")
    judged = FAILS if down else HOLDS if up == len(steps) else OPEN
    return [("every tenth of the first epoch is better", *counted, f"{up} higher, {down} lower", judged)]


UNTUNED = ("last_layer", PAIR, "layer_concat", "ladder", "greedy")
"""Heads on the encoder before any tuning, and the ensemble of all of them."""


def untuned_table(cells: Sequence[Measured]) -> str:
    """Tables on heads on the encoder before any tuning, which document 000 could not fit."""
    model = {name: f"untuned heads:{name}@0" for name in UNTUNED}
    figures = [Figure(f"`{name}`, 0 epochs", "", one) for name, one in model.items()]
    last = model["last_layer"]
    claims = [
        Claim("all heads, no tuning: less than the encoder of 0.3 epochs", WORDS, model["greedy"], TUNED, "less"),
        *(
            Claim(f"`{name}`: against the last layer", "", one, last, None)
            for name, one in model.items()
            if one != last
        ),
    ]
    return beside(cells, [*figures, Figure("the encoder, 0.3 epochs", f"{EPOCHS_F1['0.3']:.1f}", TUNED)], claims)


TUNED = "every tenth:0.3"
"""The encoder after a little tuning."""


def two_epochs_table(cells: Sequence[Measured]) -> str:
    """Tables on heads after two epochs of tuning, against the own output and the same heads after one epoch."""
    own, joined = "heads 2 epochs:own_output@2", "pair 2 epochs:max@2"
    figures, claims = [Figure("the encoder, 2 epochs", f"{EPOCHS_F1['2']:.1f}", own)], []
    for head, (what, value) in TWO_EPOCHS_F1.items():
        mine, called = f"heads 2 epochs:{head}@2", f"{what} (`{head}`)"
        gain = value - THEIRS[head].f1["1"]
        figures.append(Figure(called, f"{value:.1f}", mine))
        claims.append(Claim(f"{called}: more than the encoder", f"{value - EPOCHS_F1['2']:+.1f}", mine, own, "more"))
        claims.append(Claim(f"{called}: more than on 1 epoch", f"{gain:+.1f}", mine, f"heads:{head}@1", "more"))
    figures.append(Figure("the first of these joined with the encoder", f"{TWO_EPOCHS_JOINED:.1f}", joined))
    gain = TWO_EPOCHS_JOINED - PAIR_F1["1"][1]
    claims.append(Claim("joined, 2 epochs are no better than 1", f"{gain:+.1f}", joined, "pair:max@1", "same"))
    return beside(cells, figures, claims)


SHARES = (0.01, 0.03, 0.1, 0.3)
"""Shares of the training data, besides all of it."""


def less_data_table(cells: Sequence[Measured]) -> str:
    """Tables on heads trained on less data, on an encoder that was tuned on all of it."""

    def head(share: float, tuned: str) -> str:
        return f"less data:{PAIR}{'' if share == 1.0 else f' share={share:g}'}@{tuned}"

    figures, claims = [], []
    for tuned in SNAPSHOTS:
        own, when = f"less data:{OWN}@{tuned}", lasting(tuned)
        figures.append(Figure(f"the encoder, {when}", f"{OWN_F1['000'][tuned]:.1f}", own))
        figures += [Figure(f"the head from {share:.0%}, {when}", "", head(share, tuned)) for share in (*SHARES, 1.0)]
        claims.append(Claim(f"the head from 30 % beats the encoder, {when}", PICTURE, head(0.3, tuned), own, "more"))
        what = f"the head from 10 % comes close to the head from all, {when}"
        claims.append(Claim(what, PICTURE, head(0.1, tuned), head(1.0, tuned), "same"))
    return beside(cells, figures, claims)


def less_of_both_table(cells: Sequence[Measured]) -> str:
    """Tables on encoders and heads both trained on less data, which the documents do not have."""

    def head(share: int, model: str = PAIR) -> str:
        return f"{share} % of the data + heads:{model}@2"

    claims = [
        Claim("30 %: the head against the encoder tuned on all", "", head(30), "100 % of the data", None),
        Claim("10 %: the head against the same head from all", "", head(10), head(100), None),
    ]
    for share in (1, 3, 10, 30, 100):
        what = f"{share} %: the head against the output of the same encoder"
        claims.append(Claim(what, "", head(share), head(share, OWN), None))
    return beside(cells, (), claims)


def answerable_table(cells: Sequence[Measured]) -> str:
    """Tables on classifying whether a question has an answer: the encoder, and heads on its snapshots."""
    model = {epochs: f"answerability:{epochs}" for epochs in ANSWERABLE}
    figures = [Figure(f"the encoder, {lasting(one)}", f"{value:.1f}", model[one]) for one, value in ANSWERABLE.items()]
    claims = []
    for early, late in pairwise(ANSWERABLE):
        gain = f"{ANSWERABLE[late] - ANSWERABLE[early]:+.1f}"
        claims.append(Claim(f"{lasting(late)} of tuning: more than {early}", gain, model[late], model[early], "more"))
    for head, (called, values) in ANSWERABLE_HEADS.items():
        for tuned, value in values.items():
            what, more = f"{called} (`{head}`) on {lasting(tuned)}", value - ANSWERABLE[tuned]
            mine, own = (f"answerability heads at {tuned}:{one}@{tuned}" for one in (head, OWN))
            figures.append(Figure(what, f"{value:.1f}", mine))
            says_so: Says = "more" if more > 0 else "less"
            claims.append(Claim(f"{what}: {says_so} than the encoder", f"{more:+.1f}", mine, own, says_so))
    return beside(cells, figures, claims, at=[PLAIN])


DOCUMENT_TABLES = {
    "frozen layers": frozen_table,
    "frozen efficiency": efficiency_table,
    "joint heads": joint_table,
    "context convolutions": context_table,
    "epochs": epochs_table,
    "untuned": untuned_table,
    "two epochs": two_epochs_table,
    "less data": less_data_table,
    "less of both": less_of_both_table,
    "answerable": answerable_table,
}
"""All tables by name, from the suites `freezing`, `documents` and `heads`."""
