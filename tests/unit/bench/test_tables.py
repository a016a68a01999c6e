from typing import Any

from bertvision.bench.tables import suite_markdown
from suite_record import entry, model, record

EASY = " ".join(["1"] * 90 + ["0"] * 10)
HARD = " ".join(["1"] * 60 + ["0"] * 40)


def table_rows(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("|") and "---" not in line]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_means_and_spreads_over_seeds_with_costs() -> None:
    seeds = (70.0, 72.0, 74.0)
    text = suite_markdown(record(*(entry("a", "tune", n, {"1": model(f1)}) for n, f1 in enumerate(seeds))))
    header, row = table_rows(text)
    assert dict(zip(header, row, strict=True)) == {
        "cell": "`a`",
        "model": "`1`",
        "F1, threshold 0": "67.0 ± 2.0",
        "F1, fitted": "72.0 ± 2.0",
        "F1, best on dev": "72.0 ± 2.0",
        "learnt": "2,050",
        "stored, MB": "8.2",
        "training, s": "10.0 ± 0",
        "answer, ms": "2",
        "first step, s": "0.5",
        "peak GPU, GB": "2",
    }
    assert "**squad2, mpnet**" in text
    assert "Mean ± standard deviation, 3 seeds; H200; 3 minutes in all; commit 01234567." in text
    assert text.startswith("What is what?")


def test_of_snapshots_the_last_is_shown_first_and_of_heads_and_ensembles_the_best_by_held_out_examples() -> None:
    text = suite_markdown(
        record(
            entry("a", "tune", 0, {"0.5": model(60, epochs=0.5), "1": model(70)}),
            entry("b", "heads", 0, {"x@1": model(99, held_out=1), "y@1": model(50), "z@1": model(80, held_out=2)}),
            entry("c", "ensemble", 0, {"full": model(60), "max": model(50, held_out=51), "mean": model(80)}),
        )
    )
    first, every = text.split("Every model:")
    assert [row[:2] for row in table_rows(first)[1:]] == [["`a`", "`1`"], ["`b`", "`y@1`"], ["`c`", "`max`"]]
    assert [row[1] for row in table_rows(every)[1:6]] == ["`0.5`", "`1`", "`x@1`", "`y@1`", "`z@1`"]
    assert "±" not in first.partition("Mean")[0]


def test_a_loss_is_shown_beside_the_score_of_every_model_that_has_one() -> None:
    alone = record(entry("a", "tune", 0, {"1": model(70), "2": model(71)}))
    assert "loss" not in suite_markdown(alone)
    seeds = [entry("a", "tune", n, {"1": model(70) | {"loss": 0.6 + n / 10}, "2": model(71)}) for n in (0, 1)]
    header, *rows = table_rows(suite_markdown(record(*seeds)).partition("Every model:")[2])
    assert [row[header.index("loss on dev")] for row in rows] == ["0.65", "\N{EN DASH}"]


def test_heads_that_were_judged_after_every_epoch_have_a_table_of_it() -> None:
    def heads(first: float) -> dict[str, Any]:
        known = model(60) | {"held_out_curve": [[1.0, first], [2.0, 50.0]]}
        longer = model(60) | {"held_out_curve": [[1.0, None], [2.0, 40.0], [2.5, 41.0]]}
        return {"x@1": known, "y@1": longer, "own_output@1": model(50)}

    entries = [entry("b", "heads", seed, heads(first)) for seed, first in enumerate((44.0, 46.0))]
    text = suite_markdown(record(*entries, entry("a", "tune", 0, {"1": model(70)})))
    assert table_rows(text.partition("Held out, after each epoch:")[2]) == [
        ["cell", "model", "1", "2", "2.5"],
        ["`b`", "`x@1`", "45.0", "50.0", "\N{EN DASH}"],
        ["`b`", "`y@1`", "\N{EN DASH}", "40.0", "41.0"],
    ]
    assert "Held out, after" not in suite_markdown(record(entry("b", "heads", 0, {"x@1": model(60)})))


def test_comparisons_say_what_a_paired_test_says() -> None:
    pairs = [("a", "b"), ("b", "a"), ("a", "c"), ("a", "unmeasured")]
    text = suite_markdown(
        record(
            entry("a", "tune", 0, {"1": model(1, outcomes=EASY)}),
            entry("b", "plain", 0, {"1": model(1, outcomes=HARD)}),
            entry("c", "plain", 0, {"1": model(1, outcomes=EASY)}),
            pairs=[{"first": first, "second": second} for first, second in pairs],
            more=["unmeasured"],
        )
    )
    rows = table_rows(text.partition("| first |")[1] + text.partition("| first |")[2])
    assert rows[0] == ["first", "second", "points", "95 % interval", "p", "first is", "with each seed"]
    assert [(row[0], row[1], row[2], row[5], row[6]) for row in rows[1:]] == [
        ("`a:1`", "`b:1`", "+30.0", "higher", "+30.0"),
        ("`b:1`", "`a:1`", "\N{MINUS SIGN}30.0", "lower", "\N{MINUS SIGN}30.0"),
        ("`a:1`", "`c:1`", "0.0", "no difference", "0.0"),
    ]
    assert "Not measured yet: `unmeasured`." in text


def test_dirty_trees_and_diverged_cells_are_named() -> None:
    failed = entry("b", "tune", 0, {}, diverged="the loss is nan")
    text = suite_markdown(record(entry("a", "tune", 0, {"1": model(1)}) | {"dirty": True}, failed))
    assert "| `a`† |" in text
    assert "† measured with changes that no commit has." in text
    assert "Loss not finite with some seed: `b`." in text


def test_labels_are_scored_by_their_own_metric() -> None:
    plain = {"scores": {"plain": {"accuracy": 0.75, "f1": 0.5}}, "held_out": 0.5}
    header, row = table_rows(suite_markdown(record(entry("a", "tune", 0, {"1": model(1) | plain}))))
    assert dict(zip(header, row, strict=True))["accuracy"] == "0.750"


def test_the_same_record_gives_the_same_bytes() -> None:
    content = record(
        entry("a", "tune", 0, {"1": model(1, outcomes=EASY)}),
        entry("b", "tune", 0, {"1": model(1, outcomes=HARD)}),
        pairs=[{"first": "a", "second": "b"}],
    )
    assert suite_markdown(content) == suite_markdown(content)


def test_an_empty_record_says_what_is_missing() -> None:
    assert suite_markdown(record(more=["a"])) == "What is what?\n\nNot measured yet: `a`."
