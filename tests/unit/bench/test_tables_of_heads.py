"""bench/tables_of_heads.py: heads against the own output, beside the documents, from a record made up by hand."""

from collections.abc import Mapping

import pytest

from bertvision.bench.compare import Measured, measured_cells
from bertvision.errors import BertVisionError
from bertvision.evaluation.bootstrap import Difference, Interval
from bertvision.heads import HEADS
from claims_of_spans import HEADS as CLAIMS
from claims_of_spans import best_head, best_rows, ensemble_rows, goal_row, goal_rows, head_claims_table, part_of
from suite_record import entry, model, record
from tables_of_heads import (
    OWN_F1,
    PAIR_F1,
    SNAPSHOTS,
    THEIRS,
    Against,
    against,
    against_own,
    documents_table,
    ensembles_table,
    gains,
    says,
    there,
)

GOOD, MIDDLE, POOR = (" ".join(["1"] * right + ["0"] * (100 - right)) for right in (90, 75, 60))
SINGLE = {"layer_mix": (75.0, MIDDLE), "adapter_pool_skip": (90.0, GOOD), "dot_attention": (60.0, POOR)}


def cells_of(*seeds: float, singles: Mapping[str, tuple[float, str]] = SINGLE) -> list[Measured]:
    """A seed adds to F1; `layer_mix` is the best by held-out questions, and the ensembles are as good as others."""
    entries = []
    for seed, more in enumerate(seeds):
        heads, pair = {}, {}
        for tuned in SNAPSHOTS:
            heads[f"own_output@{tuned}"] = model(75, outcomes=MIDDLE)
            for name, (f1, outcomes) in singles.items():
                held_out = 70.0 if name == "layer_mix" else 60.0
                told = model(f1 + more, outcomes=outcomes, held_out=held_out)
                heads[f"{name}@{tuned}"] = told | {"head_parameters": 2 if name == "adapter_pool_skip" else 50}
            pair[f"adapter_pool_skip@{tuned}"] = model(90, outcomes=GOOD)
            pair[f"max@{tuned}"] = model(60, outcomes=POOR)
            heads |= {f"{how}@{tuned}": model(90, outcomes=GOOD, held_out=99) for how in ("max", "mean", "greedy")}
        heads |= {how: model(75, outcomes=MIDDLE, held_out=99) for how in ("max", "mean", "greedy")}
        entries += [entry("encoder", "tune", seed, {"1": model(75)}, total=1000)]
        entries += [entry("pair", "heads", seed, pair), entry("heads", "heads", seed, heads)]
    return measured_cells(record(*entries))


def rows_of(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line[1:-1].split("|")] for line in text.splitlines()]


def test_every_row_is_a_head_and_every_span_head_of_the_two_documents_has_a_row() -> None:
    assert set(THEIRS) <= set(HEADS)
    of_002 = {name for name, one in HEADS.items() if one.document == "002"}
    assert of_002 == {name for name, one in THEIRS.items() if one.document == "002"}
    assert len([name for name, one in THEIRS.items() if one.document == "000"]) == 20


def test_the_best_head_of_a_table_is_that_of_the_documents_ensemble() -> None:
    for tuned in SNAPSHOTS:
        assert max(one.f1[tuned] for one in THEIRS.values() if tuned in one.f1) == PAIR_F1[tuned][0]


@pytest.mark.parametrize(
    ("head", "tuned", "words", "claim"),
    [
        ("adapter_pool_skip", "0.3", "+3.8", "more"),
        ("adapter_pool_skip", "1", "+0.9", "more"),
        ("layer_mix", "1", "-1.1", "less"),
        ("mean_conv", "0.3", "-0.2", "same"),
        ("conv_dilated", "1", "", None),
        ("layer_weights", "1", "-1.5 (2 epochs)", "less"),
        ("dot_attention", "0.3", "+0.3 (2 epochs), +0.7 (5 epochs)", "more"),
        ("last_layer", "1", "", None),
    ],
)
def test_what_a_document_says(head: str, tuned: str, words: str, claim: str | None) -> None:
    assert there(head, tuned) == words
    assert says(head, tuned) == claim


def test_figures_are_less_their_own_encoder() -> None:
    assert gains("adapter_pool", "1") == {"1": pytest.approx(79.0 - OWN_F1["000"]["1"])}
    assert gains("encoder_attention", "0.3") == {"5": pytest.approx(76.57 - 77.740)}


def test_differences_at_threshold_0_are_of_the_same_seed_and_tested_at_the_fitted_one() -> None:
    found = against_own(cells_of(0.0, 2.0, 4.0), "adapter_pool_skip", "1")
    assert found.zero == [15, 17, 19]
    assert found.cells[0] == "+17.0 ± 2.0"
    assert found.fitted.value == pytest.approx(15)
    assert found.sure.claimed
    assert against_own(cells_of(1.0), "layer_mix", "1").cells[0] == "+1.0"


def test_models_that_nobody_measured_are_refused() -> None:
    with pytest.raises(BertVisionError, match="'pair:a' and 'heads:b' are not measured"):
        against([], "pair:a", "heads:b")


def test_heads_stand_beside_the_documents() -> None:
    _, _, mixed, skipped, dotted = rows_of(documents_table(cells_of(0.0, 1.0), SINGLE))
    assert mixed[:3] == ["`layer_mix`", "000: learned pooling", "+1.0"]
    assert mixed[3:] == ["0.0 (0.0 to 0.0)", "no difference", "not shown", "-1.1", *mixed[3:6]]
    assert [skipped[n] for n in (2, 4, 5, 6, 8, 9)] == ["+3.8", "higher", "holds", "+0.9", "higher", "holds"]
    assert skipped[3].startswith("+15.0 (+")
    assert dotted[3].startswith("-15.0 (-")
    assert dotted[4:6] == ["lower", "does not hold"]


def test_ensembles_are_held_against_the_best_single_head_by_held_out_questions() -> None:
    rows = rows_of(ensembles_table(cells_of(0.0)))
    early = [row[1:] for row in rows[2:] if row[0] == "0.3 epoch"]
    assert [row[0] for row in early] == [
        "own output",
        "best single head, `layer_mix`",
        "max of all 4",
        "mean of all 4",
        "greedy of all 4",
        "`adapter_pool_skip`",
        "max of `adapter_pool_skip` and own output",
        "*document 000: BERT-large*",
        "*document 000: its best head*",
        "*document 000: both, maximum*",
    ]
    assert early[2][1:6] == ["85.0", "90.0", "90.0", "`layer_mix@0.3`", "+15.0"]
    assert early[6][1:6] == ["55.0", "60.0", "60.0", "`adapter_pool_skip@0.3`", "-30.0"]
    both = [row for row in rows if row[0] == "both"]
    assert [row[1] for row in both] == ["max of all 8", "mean of all 8", "greedy of all 8"]
    assert all(row[-1] == "0.0 (0.0 to 0.0), no difference" for row in both)


def test_the_best_head_is_chosen_by_held_out_questions_and_size() -> None:
    cells = cells_of(0.0, 1.0)
    assert best_head(cells, "1") == "layer_mix"
    assert best_head(cells, "1", least=0.001, most=0.004) == "adapter_pool_skip"
    assert part_of(cells, "layer_mix@1") == pytest.approx(0.05)
    assert [row[0].rpartition(": ")[2] for row in best_rows(cells)] == [
        f"the best head beats BERT (`layer_mix`, {tuned} epoch)" for tuned in SNAPSHOTS
    ]
    assert [row[1] for row in best_rows(cells)] == ["+3.8", "+1.3"]
    assert [row[5] for row in goal_rows(cells)] == ["missed", "reached"]


@pytest.mark.parametrize(
    ("value", "low", "expected"), [(3.9, 3.0, "missed"), (4.1, 4.0, "reached"), (4.5, 3.9, "reached, not surely")]
)
def test_a_goal_is_surely_reached_where_its_interval_is_above(value: float, low: float, expected: str) -> None:
    found = Against([4.5], Difference(value, Interval(low, 5.0), 0.01))
    row = goal_row(found, "x", 0.005)
    assert row[0].endswith("(`x`, 0.50% of the encoder)")
    assert row[3] == ""
    assert row[5] == expected


def test_the_pair_is_held_against_its_head() -> None:
    early, late = ensemble_rows(cells_of(0.0))
    assert (early[1], early[5]) == ("-0.6", "holds")
    assert (late[1], late[5]) == ("+0.8", "does not hold")


def test_every_claim_about_heads_is_judged_where_it_is_tested() -> None:
    assert all(says(head, tuned) for tuned, head, _ in CLAIMS)
    cells = cells_of(0.0, singles={head: SINGLE.get(head, (75.0, MIDDLE)) for head in THEIRS})
    rows = rows_of(head_claims_table(cells))[2:]
    assert len(rows) == len(CLAIMS) + 6
    assert all(row[3] == "" and row[5] for row in rows)
    told = {row[0]: row[1:] for row in rows}
    claim = "000: its best head at 3/10 epoch beats BERT (`adapter_pool_skip`, 0.3 epoch)"
    assert (told[claim][0], told[claim][1], told[claim][4]) == ("+3.8", "+15.0", "holds")
