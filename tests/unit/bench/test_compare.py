import pytest

from bertvision.bench.compare import Measured, find_model, mean_and_spread, measured_cells, paired_test
from suite_record import entry, model, record

EASY = " ".join(["1"] * 90 + ["0"] * 10)
HARD = " ".join(["1"] * 60 + ["0"] * 40)


def test_only_what_was_measured_with_the_settings_of_now_counts() -> None:
    content = record(entry("a", "tune", 1, {"1": model(70)}), entry("a", "tune", 0, {"1": model(60)}))
    content["cells"]["old"] = entry("a", "tune", 2, {"1": model(10)}) | {"settings": {"task": "squad1"}}
    content["cells"]["other"] = entry("a", "plain", 2, {"1": model(10)})
    [cell] = measured_cells(content)
    assert list(cell.entries) == [0, 1]
    assert cell.over_seeds("1", lambda one: one["scores"]["fitted"]["f1"]) == [60, 70]


def test_a_model_must_be_there_with_every_seed() -> None:
    content = record(entry("a", "tune", 0, {"1": model(1), "2": model(2)}), entry("a", "tune", 1, {"2": model(2)}))
    assert measured_cells(content)[0].models == ["2"]


def test_the_best_is_chosen_by_held_out_examples_and_not_by_dev() -> None:
    models = [{"x": model(90, held_out=10), "y": model(20, held_out=held_out)} for held_out in (9, 12)]
    [cell] = measured_cells(record(entry("a", "heads", 0, models[0]), entry("a", "heads", 1, models[1])))
    assert cell.best() == "y"  # 10.5 on average
    assert cell.best(["x"]) == "x"


def test_the_spread_is_the_standard_deviation_of_a_sample() -> None:
    assert mean_and_spread([1.0, 2.0, 3.0]) == (2.0, 1.0)
    assert mean_and_spread([4.0]) == (4.0, None)
    assert mean_and_spread([]) == (None, None)


def test_a_model_is_found_by_its_words() -> None:
    cells = measured_cells(record(entry("a", "heads", 0, {"x@1": model(1, held_out=1), "y@1": model(1)}), more=["b"]))
    found = [find_model(cells, words) for words in ("a:x@1", "a")]
    assert [None if one is None else one[1] for one in found] == ["x@1", "y@1"]
    assert find_model(cells, "b") is None
    assert find_model(cells, "a:z@1") is None


def test_a_paired_test_is_over_examples_of_the_seeds_that_both_have() -> None:
    content = record(
        entry("a", "tune", 0, {"1": model(1, outcomes=EASY)}),
        entry("a", "tune", 1, {"1": model(1, outcomes=HARD)}),
        entry("b", "tune", 1, {"1": model(1, outcomes=HARD)}),
        entry("c", "tune", 0, {"1": model(1, outcomes=HARD)}),
        entry("d", "tune", 5, {"1": model(1, outcomes=HARD)}),
    )
    a, b, c, d = measured_cells(content)
    same, other = paired_test((a, "1"), (b, "1")), paired_test((a, "1"), (c, "1"))
    assert same is not None
    assert (same[0].value, same[1]) == (0.0, [0.0])
    assert other is not None
    test, by_seed = other
    assert test.value == pytest.approx(30.0)
    assert by_seed == pytest.approx([30.0])
    assert 20 < test.interval.low < 30 < test.interval.high < 40
    assert test.p < 0.001
    assert paired_test((a, "1"), (d, "1")) is None


def test_what_chance_does_not_rule_is_compared_with_every_seed_of_the_other() -> None:
    content = record(
        entry("solved", "sentences", 0, {"layer_concat": model(1, outcomes=HARD)}),
        entry("tuned", "tune", 0, {"1": model(1, outcomes=HARD)}),
        entry("tuned", "tune", 1, {"1": model(1, outcomes=EASY)}),
    )
    whole = {"methods": ["layer_concat"], "per_class": None}
    content["plan"][0]["settings"] = content["cells"]["solved-0"]["settings"] = whole
    solved, tuned = measured_cells(content)
    found = paired_test((tuned, "1"), (solved, "layer_concat"))
    assert found is not None
    assert found[0].value == pytest.approx(15.0)
    assert found[1] == pytest.approx([0.0, 30.0])
    few = Measured("few", "sentences", whole | {"per_class": 8}, solved.entries)  # drawn with the seed
    drawn = paired_test((tuned, "1"), (few, "layer_concat"))
    assert drawn is not None
    assert drawn[1] == pytest.approx([0.0])


def test_answers_are_held_against_golds_by_the_first_metric_of_the_task() -> None:
    golds = "1 1 1 0 " * 25
    mostly, always = "1 1 1 0 " * 15 + "0 1 1 0 " * 10, "1 1 1 1 " * 25
    entries = [
        entry(name, "heads", seed, {"1": model(1, outcomes=answers)}, golds=golds)
        for name, seed, answers in (("a", 0, golds), ("a", 1, mostly), ("b", 0, always), ("b", 1, always))
    ]
    for one in entries:
        one["settings"]["task"] = "cola"
    content = record(*entries)
    for planned in content["plan"]:
        planned["settings"]["task"] = "cola"
    a, b = measured_cells(content)
    found = paired_test((a, "1"), (b, "1"))
    assert found is not None
    test, by_seed = found
    # of the second seed 65 are rightly 1, 25 rightly 0 and 10 wrongly 0; one answer for all has no correlation
    second = (65 * 25 - 0 * 10) / (65 * 35 * 25 * 75) ** 0.5
    assert test.value == pytest.approx(100 * (1 + second) / 2)
    assert by_seed == pytest.approx([100.0, 100 * second])
    assert test.p < 0.001


def test_scores_that_are_no_outcomes_are_not_compared() -> None:
    content = record(
        entry("a", "tune", 0, {"1": model(1) | {"outcomes": None}}), entry("b", "tune", 0, {"1": model(1)})
    )
    a, b = measured_cells(content)
    assert paired_test((a, "1"), (b, "1")) is None
