"""Records of runs for several tasks, of triplets and of GLUE: seeds joined, paths made names, tests in pairs."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import task_runs
from bertvision.errors import BertVisionError
from task_runs import KINDS, Run, collect
from task_tests import label_gaps, paired_tests

PROVENANCE = {
    "commit": "abc",
    "command": "bertvision multitask --data /home/me/sets --encoder /models/mp --out /tmp/w/x",
}
CALLED = {"mp": "all-mpnet-base-v2"}


def write(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")


def a_run(folder: Path, request: dict[str, Any], *, seed: int = 0, lr: float = 1e-4, dropout: float = 0.1) -> Run:
    options = {"seed": seed, "lr": lr, "dropout": dropout}
    config = {"request": {"encoder": "minilm", "options": options} | request, "provenance": PROVENANCE}
    write(folder / "config.json", config)
    return Run(folder, CALLED)


def several_tasks(folder: Path, predicted: list[int], *, seed: int = 0, **request: object) -> Run:
    """A run for sentiment whose golds are 0 and 1 in turn."""
    gold = [number % 2 for number in range(len(predicted))]
    right = sum(one == other for one, other in zip(gold, predicted, strict=True)) / len(gold)
    write(folder / "result.json", {"metrics": {"sst2.accuracy": right}})
    counts = [{str(label): which.count(label) for label in (0, 1)} for which in (gold, predicted)]
    write(folder / "labels.json", {"tasks": {"sst2": {"dev": counts[0], "predicted": counts[1]}}})
    ids = list(map(str, range(len(gold))))
    write(
        folder / "predictions" / "sst2.json", {"labels": ["0", "1"], "ids": ids, "gold": gold, "predicted": predicted}
    )
    return a_run(folder, {"balance": False, "input": "apart"} | request, seed=seed)


RIGHT, HALF, ZEROS = [0, 1] * 100, [0, 1] * 50 + [1, 0] * 50, [0] * 200


def test_ways_are_told_by_what_was_asked_for_and_triplets_by_the_run_they_go_on_with(tmp_path: Path) -> None:
    runs = [
        a_run(tmp_path / "near", {"encoder": "/models/mp", "loss": "document"}),
        several_tasks(tmp_path / "a", HALF, encoder="/models/mp"),
        several_tasks(tmp_path / "b", RIGHT, encoder=str(tmp_path / "near")),
        several_tasks(tmp_path / "c", RIGHT, encoder="/models/mp", balance=True, input="qa"),
    ]
    record = collect("multitask", runs, name="x", note="")
    found = [(row["encoder"], row["way"]) for row in record["rows"]]
    assert found == [("all-mpnet-base-v2", way) for way in ("baseline", "triplets", "balanced + questions")]
    assert [test["way"] for test in record["tests"]] == ["triplets", "balanced + questions"]


def test_seeds_are_joined_to_mean_least_and_most(tmp_path: Path) -> None:
    runs = [several_tasks(tmp_path / str(seed), said, seed=seed) for seed, said in ((1, HALF), (0, RIGHT))]
    (row,) = KINDS["multitask"](runs)["rows"]
    assert row["seeds"] == [0, 1]
    assert row["metrics"]["sst2.accuracy"] == {"mean": 0.75, "least": 0.5, "most": 1.0, "values": [1.0, 0.5]}


def test_a_way_without_its_baseline_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BertVisionError, match=r"minilm has seeds \[0\] for balanced, \[\] for the baseline"):
        KINDS["multitask"]([several_tasks(tmp_path / "a", RIGHT, balance=True)])


def test_the_command_writes_the_record_where_the_others_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = several_tasks(tmp_path / "a", RIGHT, encoder="/models/mp").folder
    monkeypatch.setattr(task_runs, "RESULTS", tmp_path)
    words = ["multitask", str(folder), "--name", "x", "--called", "mp=all-mpnet-base-v2", "--note", "one seed"]
    monkeypatch.setattr(sys, "argv", ["task_runs.py", *words])
    task_runs.main()
    record = json.loads((tmp_path / "x.json").read_text(encoding="utf-8"))
    assert (record["kind"], record["note"], record["rows"][0]["encoder"]) == (
        "multitask",
        "one seed",
        "all-mpnet-base-v2",
    )
    assert "x.json" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("seed", "lr", "wrong"), [(0, 1e-4, "b has the seed of a"), (1, 1e-3, "b did not learn as a did")]
)
def test_runs_that_differ_in_more_or_less_than_their_seed_are_not_joined(
    tmp_path: Path, seed: int, lr: float, wrong: str
) -> None:
    runs = [a_run(tmp_path / "a", {}), a_run(tmp_path / "b", {}, seed=seed, lr=lr)]
    with pytest.raises(BertVisionError, match=wrong):
        task_runs.distances(runs)


def test_no_path_of_the_machine_is_left_in_a_record(tmp_path: Path) -> None:
    record = collect("multitask", [several_tasks(tmp_path / "a", RIGHT)], name="x", note="")
    command = "bertvision multitask --data sets --encoder all-mpnet-base-v2 --out x"
    assert record["provenance"] == {"commit": "abc", "command": command}
    assert record["rows"][0]["command"] == command


def test_a_paired_test_counts_examples_and_tells_whether_seeds_are_apart(tmp_path: Path) -> None:
    better = [several_tasks(tmp_path / f"a{seed}", RIGHT, seed=seed).folder for seed in (0, 1)]
    mixed = [several_tasks(tmp_path / f"b{seed}", said, seed=seed).folder for seed, said in ((0, HALF), (1, RIGHT))]
    worse = [several_tasks(tmp_path / f"c{seed}", HALF, seed=seed).folder for seed in (0, 1)]
    clear, overlap = (paired_tests(better, others)["sst2.accuracy"] for others in (worse, mixed))
    assert (clear["value"], clear["apart"]) == (0.5, True)
    assert 0.4 < clear["low"] < 0.5 < clear["high"] < 0.6
    assert (overlap["value"], overlap["apart"]) == (0.25, False)
    assert overlap["p"] == clear["p"] == 2 / 2001
    same = paired_tests(better, better)["sst2.accuracy"]
    assert (same["value"], same["p"], same["apart"]) == (0.0, 1.0, False)


def test_runs_that_were_judged_on_other_examples_are_refused(tmp_path: Path) -> None:
    first = several_tasks(tmp_path / "a", RIGHT)
    second = several_tasks(tmp_path / "b", RIGHT[:100])
    with pytest.raises(BertVisionError, match="b was judged on other examples of sst2 than a"):
        paired_tests([first.folder], [second.folder])


def test_the_gap_of_labels_is_the_share_to_predict_otherwise(tmp_path: Path) -> None:
    run = several_tasks(tmp_path / "a", ZEROS)
    assert label_gaps(run.read("labels.json"), run.folder) == {"sst2": 0.5}
    run = several_tasks(tmp_path / "b", [1, 0] * 100)
    assert label_gaps(run.read("labels.json"), run.folder) == {"sst2": 0.0}


def test_a_grid_begins_with_the_largest_rate_and_the_smallest_dropout(tmp_path: Path) -> None:
    cells = [(0.4, 1e-5), (0.1, 1e-5), (0.1, 1e-3)]
    runs = [a_run(tmp_path / str(number), {}, lr=lr, dropout=drop) for number, (drop, lr) in enumerate(cells)]
    for run in runs:
        write(run.folder / "result.json", {"metrics": {"sst2.accuracy": 0.5}})
    assert [(row["dropout"], row["lr"]) for row in KINDS["grid"](runs)["rows"]] == cells[::-1]


def test_distances_are_means_over_seeds_and_logs_with_a_loss_are_counted(tmp_path: Path) -> None:
    runs = []
    for seed, (far, loss) in enumerate(((2.0, 0.0), (4.0, 0.5))):
        run = a_run(tmp_path / str(seed), {"encoder": "/models/mp", "loss": "document"}, seed=seed)
        means = {name: {"mean": far} for name in ("positive", "negative", "other")}
        told = {"dev": {"sst2": {**means, "in_order": 0.25}}}
        content = {"triplets": {"sst2": 9}, "left_out": {"sst2": {}}, "before": told, "after": told}
        write(run.folder / "distances.json", content)
        write(run.folder / "result.json", {"steps": 20})
        lines = [{"step": 1, "loss": 0.0, "lr": 1e-5}, {"step": 20, "loss": loss, "lr": 0.0}, {"snapshot": 1}]
        (run.folder / "metrics.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
        runs.append(run)
    (row,) = KINDS["distances"](runs)["rows"]
    assert row["encoder"] == "all-mpnet-base-v2"
    assert (row["steps"], row["loss"]) == (40, {"logged": 4, "above_zero": 1, "most": 0.5})
    assert row["tasks"]["sst2"]["after"]["negative"]["mean"] == 3.0
    assert row["tasks"]["sst2"]["before"]["in_order"]["mean"] == 0.25


def glue_run(folder: Path, seed: int, scores: dict[str, tuple[float, float, float]], *, claimed: bool = True) -> Run:
    """A run whose own output, last layer and chosen head have these points."""
    tasks = []
    for task, (own, last, best) in scores.items():
        heads = {"000-last_layer": last, "001-layer_mix": best}
        chosen = {"name": "001-layer_mix", "mean": best}
        models = {"best": chosen, "own": {"mean": own}, "heads": heads}
        tasks.append({"task": task, "metrics": ["accuracy"], "examples": {"dev": 71}, **models})
        against = {"accuracy": {"value": best - own, "claimed": claimed}}
        row = {"name": "001-layer_mix", "scores": {"plain": {"against": against}}}
        write(folder / task / "heads" / "evaluation" / "dev" / "evaluation.json", {"rows": [row]})
    write(folder / "glue.json", {"tasks": tasks, "missing": {"qqp": "no file is there"}})
    request = {"encoder": "/models/mp", "tuning": {"epochs": 0.3, "seed": seed}}
    write(folder / "config.json", {"request": request, "provenance": PROVENANCE})
    return Run(folder, CALLED)


def test_glue_averages_are_told_with_and_without_the_task_that_misleads(tmp_path: Path) -> None:
    runs = [
        glue_run(tmp_path / "0", 0, {"rte": (50.0, 52.0, 60.0), "wnli": (30.0, 31.0, 56.0)}),
        glue_run(tmp_path / "1", 1, {"rte": (54.0, 53.0, 50.0), "wnli": (40.0, 31.0, 56.0)}, claimed=False),
    ]
    record = KINDS["glue"](runs)
    rte = record["rows"][0]
    assert (rte["chosen"], rte["surely_better"], rte["surely_worse"]) == (["layer_mix"] * 2, 1, 0)
    assert rte["models"]["own"] == {"mean": 52.0, "least": 50.0, "most": 54.0, "values": [50.0, 54.0]}
    every, without = record["averages"]
    assert (every["tasks"], every["models"]["best"]["values"]) == ("all", [58.0, 53.0])
    assert (without["tasks"], without["models"]["last_layer"]["values"]) == ("without wnli", [52.0, 53.0])


def test_a_glue_run_that_was_cut_off_is_refused(tmp_path: Path) -> None:
    whole = glue_run(tmp_path / "0", 0, {"cola": (1.0, 1.0, 1.0), "rte": (1.0, 1.0, 1.0)})
    part = glue_run(tmp_path / "1", 1, {"cola": (1.0, 1.0, 1.0)})
    with pytest.raises(BertVisionError, match=r"1 has cola\. Expected cola, rte"):
        KINDS["glue"]([whole, part])
