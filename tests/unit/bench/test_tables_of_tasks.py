"""Tables of task records: what is bold, what has a dagger, what is empty."""

from typing import Any

from tables_of_tasks import METRICS, distances_table, glue_table, grid_table, multitask_claims, multitask_tables


def table_rows(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("|") and "---" not in line]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def spread(*values: float) -> dict[str, Any]:
    mean = sum(values) / len(values)
    return {"mean": mean, "least": min(values), "most": max(values), "values": list(values)}


def way(name: str, value: float) -> dict[str, Any]:
    metrics = {metric: spread(value - 0.1, value + 0.1) for metric in METRICS}
    return {"encoder": "e", "way": name, "seeds": [0, 1], "metrics": metrics, "gaps": {"sst5": spread(0.1, 0.3)}}


def test_of_differences_those_are_bold_whose_seeds_are_apart() -> None:
    claims = [(0.001, True), (0.001, False), (0.2, True), (0.2, False), (0.001, True), (0.001, True)]
    metrics = {
        metric: {"value": -0.25, "low": -0.5, "high": 0.0, "p": p, "apart": apart}
        for metric, (p, apart) in zip(METRICS, claims, strict=True)
    }
    record = {
        "rows": [way("questions", 0.7), way("baseline", 0.5)],
        "tests": [{"encoder": "e", "way": "questions", "metrics": metrics}],
    }
    values, _, tests = multitask_tables(record).partition(" by (")
    assert "mean (range) of 2 seeds" in values
    shown = table_rows(values)
    assert shown[1][:4] == ["document 004", "baseline: texts apart", "0.440", ""]
    assert [row[1] for row in shown[4:]] == ["baseline: texts apart", "questions (Q&A)"]
    assert shown[-1][2] == "0.700 (0.600 to 0.800)"
    (row,) = (row for row in table_rows(tests) if row[1] == "questions (Q&A)" and len(row) == 8)
    assert [cell.partition(" ")[0] for cell in row[2:5]] == ["**-0.250**", "-0.250†", "-0.250"]
    assert row[2].endswith("(-0.500 to +0.000)")
    assert "0.200 (0.100 to 0.300)" in tests


def test_a_claim_holds_where_seeds_are_apart_with_every_encoder() -> None:
    def test(value: float, *, apart: bool = True) -> dict[str, Any]:
        return {"value": value, "low": value - 0.1, "high": value + 0.1, "p": 0.001, "apart": apart}

    def told(encoder: str, way: str, value: float, *, apart: bool) -> dict[str, Any]:
        metrics = {metric: test(value) for metric in METRICS} | {"sts.pearson": test(value, apart=apart)}
        return {"encoder": encoder, "way": way, "metrics": metrics}

    tests = [
        told("e", "questions", 0.2, apart=True),
        told("f", "questions", 0.3, apart=False),
        told("e", "triplets", -0.2, apart=True),
        told("f", "triplets", -0.3, apart=True),
    ]
    header, *rows = table_rows(multitask_claims({"tests": tests}))
    assert header == ["document 004 says", "there", "e", "f", "the claim"]
    assert rows[0] == [
        "questions improve similarity, STS Pearson",
        "+0.517 (0.326 → 0.843)",
        "**+0.200** (+0.100 to +0.300)",
        "+0.300† (+0.200 to +0.400)",
        "not shown",
    ]
    assert [row[-1] for row in rows[1:]] == ["holds", "holds", *["does not hold"] * 3]


def test_a_grid_has_held_out_values_beside_those_of_dev() -> None:
    metrics: dict[str, Any] = {}
    for name in METRICS:
        task, _, metric = name.partition(".")
        metrics |= {name: spread(0.5), f"{task}.held_out_{metric}": spread(0.25)}
    (header, row) = table_rows(grid_table({"rows": [{"lr": 1e-5, "dropout": 0.1, "metrics": metrics}]}))
    assert header[2] == "SST-5 accuracy, held-out / dev"
    assert row == ["1e-05", "0.1", *["0.250 / 0.500"] * 4]


def test_distances_stand_before_and_after() -> None:
    names = ("positive", "negative", "other", "in_order")
    moved = {"before": {name: spread(1.0) for name in names}, "after": {name: spread(0.5) for name in names}}
    row = {"encoder": "e", "loss": {"above_zero": 1, "logged": 9}, "tasks": {"sts": moved}}
    _, shown = table_rows(distances_table({"rows": [row]}))
    assert shown == ["e", "sts", *["1.00 → 0.50"] * 3, "1.000 → 0.500", "1 of 9"]


def test_glue_has_its_averages_after_the_tasks_of_each_length() -> None:
    models = {"own": spread(50.0, 52.0), "last_layer": spread(51.0, 51.0), "best": spread(60.0, 61.0)}
    row = {
        "epochs": 0.3,
        "task": "mrpc",
        "seeds": [0, 1],
        "metrics": ["f1", "accuracy"],
        "chosen": ["layer_mix", "layer_concat"],
        "models": models,
        "surely_better": 1,
        "surely_worse": 0,
    }
    alone = {**row, "epochs": 3.0, "models": {name: spread(70.0) for name in models}, "chosen": ["layer_mix"]}
    averages = [{"epochs": epochs, "tasks": "all", "models": row["models"]} for epochs in (0.3, 3.0)]
    shown = table_rows(glue_table({"rows": [row, {**alone, "seeds": [0]}], "averages": averages}))[1:]
    assert [line[:2] for line in shown] == [
        ["0.3", "mrpc, f1 and accuracy"],
        ["0.3", "**average, all**"],
        ["3", "mrpc, f1 and accuracy"],
        ["3", "**average, all**"],
    ]
    assert shown[0][2:] == [
        "51.0 (50.0 to 52.0)",
        "51.0 (51.0 to 51.0)",
        "60.5 (60.0 to 61.0)",
        "1 / 0 of 2",
        "`layer_mix` 1, `layer_concat` 1",
    ]
    assert shown[2][2] == "70.0"
