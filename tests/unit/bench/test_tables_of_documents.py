"""bench/tables_of_documents.py: the documents' other tables beside ours, from a record made up by hand."""

from collections.abc import Mapping

import pytest

from bertvision.bench.compare import Measured, measured_cells
from bertvision.bench.suite import load_suite
from claims import Claim, Figure, beside, missing
from conftest import ROOT
from suite_record import entry, model, record
from tables_of_documents import (
    ANSWERABLE,
    ANSWERABLE_HEADS,
    DOCUMENT_TABLES,
    EPOCHS_F1,
    FROZEN_CLAIMS,
    FROZEN_F1,
    FROZEN_PARAMETERS,
    JOINT,
    TWO_EPOCHS_F1,
    UNTUNED,
    answerable_table,
    context_table,
    efficiency_table,
    epochs_table,
    frozen_table,
    joint_table,
    less_data_table,
    less_of_both_table,
    two_epochs_table,
    untuned_table,
)
from tables_of_heads import OWN_F1, PAIR_F1, THEIRS


def right(share: int) -> str:
    """Outcomes of 100 questions."""
    return " ".join(["1"] * share + ["0"] * (100 - share))


def cells_of(f1: Mapping[str, Mapping[str, int]], parameters: Mapping[str, int] | None = None) -> list[Measured]:
    """Cells whose models have these fitted F1, and 5 less at threshold 0."""
    sizes = parameters or {}
    entries = []
    for name, values in f1.items():
        models = {one: model(value, outcomes=right(value)) for one, value in values.items()}
        more = {one: told | {"parameters": sizes.get(name, 2050)} for one, told in models.items()}
        entries.append(entry(name, "heads" if "heads" in name else "tune", 0, more))
    return measured_cells(record(*entries))


def labels_of(f1: Mapping[str, Mapping[str, int]]) -> list[Measured]:
    """Cells whose models have these accuracies."""
    entries = []
    for name, values in f1.items():
        models = {}
        for one, value in values.items():
            told = model(value, outcomes=right(value))
            models[one] = told | {"scores": {"plain": {"accuracy": value / 100, "f1": 0.0}}, "thresholds": {}}
        entries.append(entry(name, "heads" if "heads" in name else "tune", 0, models))
    return measured_cells(record(*entries))


def rows_of(text: str) -> dict[str, list[str]]:
    """Cells of a table's rows by the first."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    rows = [[cell.strip() for cell in line[1:-1].split("|")] for line in lines]
    return {row[0]: row[1:] for row in rows}


def absent(text: str) -> str:
    """The line on what is not measured."""
    return next((line for line in text.splitlines() if line.startswith("Not measured yet")), "")


def test_without_a_record_nothing_but_cells_of_the_two_suites_is_asked_for() -> None:
    plans = [load_suite(ROOT / "experiments" / f"{name}.toml") for name in ("freezing", "documents", "heads")]
    asked = {name for make in DOCUMENT_TABLES.values() for name in make([]).split("`")[1::2]}
    assert asked <= {cell.name for plan in plans for cell in plan.cells}
    assert {"L12", "every tenth", "answerability heads at 3", "joint last_layer 5 epochs"} <= asked


def test_a_claim_is_tested_at_the_fitted_threshold_and_told_at_0() -> None:
    cells = cells_of({"a": {"1": 90}, "b": {"1": 60}})
    claims = [Claim(word, "+9.0", "a", "b", word) for word in ("more", "less", "same")]
    text = beside(cells, [Figure("A", "80.0", "a")], claims)
    told = rows_of(text)
    assert told["A"] == ["80.0", "85.0", "90.0"]
    assert [told[word][-1] for word in ("more", "less", "same")] == ["holds", "does not hold", "does not hold"]
    assert told["more"][:2] == ["+9.0", "+30.0"]
    assert told["more"][2].startswith("+30.0 (+")
    assert told["more"][3] == "higher"
    assert not absent(text)


def test_what_is_not_sure_is_not_shown_and_without_a_claim_nothing_is_judged() -> None:
    cells = cells_of({"a": {"1": 60}, "b": {"1": 60}})
    told = rows_of(beside(cells, [], [Claim("more", "", "a", "b", "more"), Claim("only", "", "a", "b", None)]))
    assert told["more"][-2:] == ["no difference", "not shown"]
    assert told["only"][-2:] == ["no difference", ""]


def test_a_claim_is_judged_by_the_seeds_that_both_models_have() -> None:
    seeds = [entry("a", "tune", seed, {"1": model(f1, outcomes=right(f1))}) for seed, f1 in enumerate((90, 10))]
    cells = measured_cells(record(*seeds, entry("b", "tune", 0, {"1": model(60, outcomes=right(60))})))
    told = rows_of(beside(cells, [], [Claim("more", "", "a", "b", "more")]))
    assert told["more"][1] == "+30.0"
    assert told["more"][-2:] == ["higher", "holds"]


def test_what_is_not_measured_is_left_out_and_named_once() -> None:
    cells = cells_of({"a": {"1": 60}})
    text = beside(cells, [Figure("A", "", "a"), Figure("C", "", "c")], [Claim("x", "", "a", "c:1", "more")])
    assert set(rows_of(text)) == {"what", "A"}
    assert absent(text) == "Not measured yet: `c`."
    assert missing(cells, ["a:1", "a:2", "c:1", "c:2"]) == ["a", "c"]


def test_figures_of_the_documents_agree_with_one_another() -> None:
    assert (EPOCHS_F1["0.3"], EPOCHS_F1["1"]) == tuple(OWN_F1["000"].values())
    assert len(EPOCHS_F1) == 15
    assert set(JOINT) == {head for head, one in THEIRS.items() if one.document == "002"}
    assert THEIRS["adapter_pool_skip"].f1["0.3"] == PAIR_F1["0.3"][0]
    signs = {"less": -1, "more": 1}
    f1 = {cell: value for cell, (_, value) in FROZEN_F1.items()}
    assert all(signs[claim] * (f1[one] - f1[two]) > 0 for _, one, two, claim in FROZEN_CLAIMS)
    assert TWO_EPOCHS_F1["adapter_pool"][1] > EPOCHS_F1["2"] > EPOCHS_F1["1"]


def test_efficiency_is_that_of_document_001_and_ours_by_what_learnt_here() -> None:
    text = efficiency_table(cells_of({"L6": {"2": 70}, "houlsby 64": {"2": 60}}))
    told = rows_of(text)
    assert list(told) == ["what", "L6, the last six", "L0-A64, adapters of 64"]
    assert told["L6, the last six"] == ["2,050", "3.30", "6.04"]  # 20 / log10(2050)
    assert set(FROZEN_PARAMETERS) == set(FROZEN_F1)
    assert "`L12`" in absent(efficiency_table([]))


def test_heads_without_tuning_stand_beside_a_tuned_encoder() -> None:
    heads = {f"{name}@0": value for name, value in zip(UNTUNED, (20, 50, 50, 50, 50), strict=True)}
    told = rows_of(untuned_table(cells_of({"untuned heads": heads, "every tenth": {"0.3": 90}})))
    assert told["the encoder, 0.3 epochs"] == ["70.2", "85.0", "90.0"]
    assert told["all heads, no tuning: less than the encoder of 0.3 epochs"][-2:] == ["lower", "holds"]
    assert [told[f"`{name}`: against the last layer"][3] for name in UNTUNED[1:]] == ["higher"] * 4


def test_layers_and_adapters_stand_beside_document_001() -> None:
    f1 = {"L12": 90, "L6": 70, "L3": 40, "L1": 60, "L0": 10, "houlsby 64": 60, "houlsby 64 + full": 90}
    text = frozen_table(cells_of({name: {"2": value} for name, value in f1.items()}))
    told = rows_of(text)
    assert told["L6, the last six"] == ["75.2", "65.0", "70.0"]
    assert [told["six layers are less than all"][n] for n in (0, 1, 3, 4)] == ["-1.1", "-20.0", "lower", "holds"]
    assert told["one is less than three"][-2:] == ["higher", "does not hold"]
    assert told["adapters of 64 are more than one layer"][-1] == "not shown"
    assert told["adapters of 64 add hardly anything to all layers"][0] == "0.0 to +0.5"
    assert told["adapters of 64 add hardly anything to all layers"][-1] == "holds"
    assert absent(text) == "Not measured yet: `houlsby 768`."


def test_joint_attention_stands_beside_document_002() -> None:
    heads = {
        "last_layer": (60, 90),
        "layer_weights": (60, 90),
        "dot_attention": (90, 60),
        "weighted_attention": (60, 60),
    }
    f1 = {
        f"joint {head} {epochs} epochs": {epochs: value}
        for head, values in heads.items()
        for epochs, value in zip(("2", "5"), values, strict=True)
    }
    text = joint_table(cells_of(f1))
    told = rows_of(text)
    assert told["the last layer (ALBERT), 5 epochs"] == ["77.7", "85.0", "90.0"]
    assert told["weighted attention, 2 epochs"] == ["", "55.0", "60.0"]
    assert told["dot-product attention, 2 epochs, against the last layer"][0] == "+0.3"
    assert told["dot-product attention, 2 epochs, against the last layer"][-1] == "holds"
    assert told["dot-product attention, 5 epochs, against the last layer"][-1] == "does not hold"
    assert told["layer weights, 2 epochs, against the last layer"][-1] == "not shown"
    assert told["layer weights, 5 epochs, against the last layer"][-2:] == ["no difference", ""]
    assert [told["the last layer: 5 epochs are worse than 2"][n] for n in (0, 4)] == ["-1.9", "does not hold"]
    assert [told["dot-product attention: 5 epochs are worse than 2"][n] for n in (0, 4)] == ["-1.6", "holds"]
    assert absent(text) == "Not measured yet: `joint encoder_attention 2 epochs`, `joint encoder_attention 5 epochs`."


@pytest.mark.parametrize(("simple", "judged"), [(2000, "holds"), (1000, "does not hold")])
def test_context_aware_convolutions_are_counted_and_tested(simple: int, judged: str) -> None:
    f1 = {"context_conv L0": 60, "context_conv_simple L0": 90, "houlsby 64": 75, "L0": 60}
    sizes = {"context_conv L0": 1500, "context_conv_simple L0": simple}
    told = rows_of(context_table(cells_of({name: {"2": value} for name, value in f1.items()}, sizes)))
    assert told["`context_conv`, LayerNorms learn: below adapters of 64"][-1] == "holds"
    assert told["`context_conv_simple`, LayerNorms learn: below adapters of 64"][-1] == "does not hold"
    assert told["`context_conv`, LayerNorms learn: more than the plain output"][-1] == "not shown"
    sized = told["`context_conv_simple` needs more parameters, where LayerNorms learn"]
    assert sized == ["in words", f"{simple:,} and 1,500", "", "", judged]


def test_parameters_are_not_counted_of_one_alone() -> None:
    assert "parameters" not in context_table(cells_of({"context_conv L0": {"2": 60}}))


@pytest.mark.parametrize(
    ("tenths", "ways", "judged"),
    [
        ((5, 15, 25, 35, 45, 55, 65, 75, 85, 95), "9 higher, 0 lower", "holds"),
        ((5, 15, 25, 35, 45, 55, 65, 75, 85, 85), "8 higher, 0 lower", "not shown"),
        ((5, 15, 25, 35, 45, 55, 65, 75, 95, 85), "8 higher, 1 lower", "does not hold"),
    ],
)
def test_tenths_of_an_epoch_rise_unless_one_surely_falls(tenths: tuple[int, ...], ways: str, judged: str) -> None:
    f1 = dict(zip(EPOCHS_F1, tenths, strict=False)) | {"2": 60, "6": 90}
    text = epochs_table(cells_of({"every tenth": f1}))
    told = rows_of(text)
    risen = told["every tenth of the first epoch is better"]
    assert risen[0] == "rises in 6 of 9 steps"
    assert risen[-2:] == [ways, judged]
    assert [told["2 epochs are best: 6 against 2"][n] for n in (0, 4)] == ["+0.4", "does not hold"]
    assert "3 epochs" not in told


def test_tenths_that_are_not_all_measured_are_not_counted() -> None:
    assert "tenth of the first" not in epochs_table(cells_of({"every tenth": {"0.1": 5, "1": 50}}))


def test_heads_on_two_epochs_stand_beside_the_encoder_and_the_same_on_one() -> None:
    f1 = {
        "heads 2 epochs": {"adapter_pool@2": 90, "adapter_pool_skip@2": 60, "own_output@2": 60},
        "heads": {"adapter_pool@1": 60, "adapter_pool_skip@1": 90},
        "pair heads": {"max@1": 90},
    }
    text = two_epochs_table(cells_of(f1))
    told = rows_of(text)
    assert told["the encoder, 2 epochs"] == ["79.2", "55.0", "60.0"]
    best = "the best head of 1 epoch (`adapter_pool`)"
    assert told[best] == ["79.7", "85.0", "90.0"]
    assert (told[f"{best}: more than the encoder"][0], told[f"{best}: more than the encoder"][-1]) == ("+0.5", "holds")
    assert (told[f"{best}: more than on 1 epoch"][0], told[f"{best}: more than on 1 epoch"][-1]) == ("+0.7", "holds")
    early = "the best head of 3/10 epoch (`adapter_pool_skip`)"
    assert told[f"{early}: more than the encoder"][-2:] == ["no difference", "not shown"]
    assert told[f"{early}: more than on 1 epoch"][-2:] == ["lower", "does not hold"]
    assert absent(text) == "Not measured yet: `pair 2 epochs`, `pair`."


def test_heads_of_less_data_stand_beside_an_encoder_of_all() -> None:
    f1 = {
        "adapter_pool_skip@0.3": 75,
        "adapter_pool_skip share=0.3@0.3": 90,
        "adapter_pool_skip share=0.1@0.3": 75,
        "own_output@0.3": 60,
    }
    text = less_data_table(cells_of({"less data": f1}))
    told = rows_of(text)
    assert told["the encoder, 0.3 epochs"] == ["70.2", "55.0", "60.0"]
    assert told["the head from 30%, 0.3 epochs"] == ["", "85.0", "90.0"]
    assert told["the head from 30 % beats the encoder, 0.3 epochs"][-1] == "holds"
    assert told["the head from 10 % comes close to the head from all, 0.3 epochs"][-1] == "holds"
    assert absent(text) == "Not measured yet: `less data`."


def test_encoders_and_heads_of_less_data_are_compared_without_a_verdict() -> None:
    f1 = {
        "30 % of the data + heads": {"adapter_pool_skip@2": 90, "own_output@2": 60},
        "10 % of the data + heads": {"adapter_pool_skip@2": 75, "own_output@2": 75},
        "100 % of the data + heads": {"adapter_pool_skip@2": 75, "own_output@2": 75},
        "100 % of the data": {"2": 60},
    }
    text = less_of_both_table(cells_of(f1))
    told = rows_of(text)
    assert told["compared"][0] == "there"
    assert told["30 %: the head against the encoder tuned on all"][-2:] == ["higher", ""]
    assert told["10 %: the head against the same head from all"][-2:] == ["no difference", ""]
    assert told["30 %: the head against the output of the same encoder"][-2:] == ["higher", ""]
    assert absent(text) == "Not measured yet: `1 % of the data + heads`, `3 % of the data + heads`."


def test_losses_stand_beside_document_002_where_they_were_recorded() -> None:
    with_loss = model(60, outcomes=right(60)) | {"loss": 1.5}
    cells = measured_cells(record(entry("joint dot_attention 2 epochs", "tune", 0, {"2": with_loss})))
    assert rows_of(joint_table(cells))["`dot_attention`, 2 epochs"] == ["0.634", "1.500"]
    assert "loss" not in joint_table(cells_of({"joint dot_attention 2 epochs": {"2": 60}}))


def test_answerability_has_accuracy_alone_and_heads_as_soon_as_they_are_measured() -> None:
    own = {"answerability": {"0.2": 50, "1": 70, "3": 70}}
    text = answerable_table(labels_of(own))
    told = rows_of(text)
    assert told["what"] == ["there", "here"]
    assert told["the encoder, 1 epoch"] == ["76.1", "70.0"]
    assert told["1 epoch of tuning: more than 0.2"][0] == "+7.4"
    assert told["1 epoch of tuning: more than 0.2"][1].startswith("+20.0 (+")
    assert told["1 epoch of tuning: more than 0.2"][2:] == ["higher", "holds"]
    assert told["3 epochs of tuning: more than 1"][2:] == ["no difference", "not shown"]
    expected = ", ".join(f"`answerability heads at {tuned}`" for tuned in ANSWERABLE)
    assert absent(text) == f"Not measured yet: {expected}."
    heads = {
        f"answerability heads at {tuned}": {f"own_output@{tuned}": 70}
        | {f"{head}@{tuned}": 90 for head, (_, one) in ANSWERABLE_HEADS.items() if tuned in one}
        for tuned in ANSWERABLE
    }
    text = answerable_table(labels_of(own | heads))
    told = rows_of(text)
    assert told["Xception (`xception_full`) on 0.2 epochs: more than the encoder"][0] == "+2.0"
    assert told["Xception (`xception_full`) on 0.2 epochs"] == ["70.7", "90.0"]
    shortened = told["Xception, abbreviated (`xception`) on 0.2 epochs: less than the encoder"]
    assert (shortened[0], *shortened[-2:]) == ("-1.4", "higher", "does not hold")
    assert told["Xception, abbreviated (`xception`) on 1 epoch: more than the encoder"][-1] == "holds"
    assert not absent(text)
