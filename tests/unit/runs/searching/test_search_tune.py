"""Trials that tune an encoder for several tasks."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from bertvision.encoder.tuned import tunings
from bertvision.runs.judging.evaluate import evaluate
from bertvision.runs.searching import search_tune
from bertvision.runs.searching.search import SearchPlace, search
from bertvision.runs.searching.search_file import parse_space
from bertvision.runs.searching.search_request import SearchRequest
from bertvision.runs.searching.search_study import report
from tiny_run import WINDOWS, read_lines, save_tiny_encoder, write_labels, write_several

SPACE: dict[str, Any] = {
    "kind": "multitask",
    "lr": {"low": 1e-4, "high": 1e-1, "log": True},
    "order": ["round-robin", "temperature"],
    "input": ["apart", "pair"],
    "dropout": [0.1],
    "head": {"layer_mix": {"dropout": [0.0, 0.2]}, "last_layer": {}},
    "task": {"sts": {"cap": [9, "none"]}},
}


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_tiny_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_several(tmp_path_factory.mktemp("data"))


def asking(encoder: str, data: str, **changes: Any) -> SearchRequest:  # noqa: ANN401 - any field
    fields: dict[str, Any] = {"task": "sst2,sts", "space": parse_space(SPACE), "batch": 8, "held_out": 0.3}
    fields |= {"data": data, "encoder": encoder, "windows": WINDOWS, "device": "cpu", "reduction": 2, "rungs": 2}
    return SearchRequest(**(fields | changes))


def results(record: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Every trial without what clocks say."""
    return [(row["trial"], row["state"], row["value"], row["parameters"], row["rungs"]) for row in record["trials"]]


def read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


@pytest.fixture(scope="module")
def whole(encoder: str, data: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A search that nobody interrupted."""
    out = tmp_path_factory.mktemp("whole") / "run"
    search(asking(encoder, data), SearchPlace(out=out, trials=4))
    return out


def test_the_mean_of_all_tasks_main_metrics_on_held_out_examples_decides(whole: Path) -> None:
    record = read(whole / "trials.json")
    assert (record["kind"], record["objective"]) == ("multitask", "held_out_mean")
    assert {"complete", "pruned"} == {row["state"] for row in record["trials"]}
    best = record["trials"][record["best"]["trial"]]
    assert best["value"] == max(row["value"] for row in record["trials"] if row["state"] == "complete")
    metrics = read(whole / "best" / "result.json")["metrics"]  # as computed anew from the files of the run
    assert best["value"] == pytest.approx((metrics["sst2.held_out_accuracy"] + metrics["sts.held_out_pearson"]) / 2)
    assert sum(record["importance"]["all"].values()) == pytest.approx(1.0, abs=1e-3)


def test_the_best_run_is_scored_on_dev_once_and_at_the_end(whole: Path) -> None:
    record, metrics = read(whole / "trials.json"), read(whole / "best" / "result.json")["metrics"]
    dev = record["best"]["dev"]
    assert {"sst2.accuracy", "sts.pearson", "sts.spearman"} <= set(dev)
    assert dev == {name: metrics[name] for name in dev}
    assert not any("held_out" in name for name in dev)
    logged = [line for line in read_lines(whole / "best") if "snapshot" in line]
    assert not any("sst2.accuracy" in line for line in logged)  # no snapshot was scored on dev
    said = read(whole / "best" / "predictions" / "sst2.json")
    right = [gold == given for gold, given in zip(said["gold"], said["predicted"], strict=True)]
    assert sum(right) / len(right) == pytest.approx(dev["sst2.accuracy"])
    assert len(list(whole.glob("groups/*/run"))) == 1  # those that are not the best take no room


def test_dev_has_no_say_and_a_killed_search_ends_as_if_it_had_not_been_killed(
    whole: Path, encoder: str, data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "data"
    shutil.copytree(data, other)
    (other / "SST-2" / "dev.tsv").unlink()
    rows = (other / "cs224n" / "sts-dev.csv").read_text(encoding="utf-8").splitlines()
    (other / "cs224n" / "sts-dev.csv").write_text("\n".join(rows[:-3]) + "\n", encoding="utf-8")
    request, place = asking(encoder, str(other)), SearchPlace(out=tmp_path / "run", trials=4)
    told: list[float] = []

    def kill(trial: Any, rung: int, score: float) -> None:  # noqa: ANN401 - as the function
        if len(told) == 3:
            raise KeyboardInterrupt
        told.append(score)
        report(trial, rung, score)

    with monkeypatch.context() as patch:
        patch.setattr(search_tune, "report", kill)
        with pytest.raises(KeyboardInterrupt):
            search(request, place)
    record = search(request, place).record
    assert results(record) == results(read(whole / "trials.json"))
    assert "sst2.accuracy" not in record["best"]["dev"]
    assert "sts.pearson" in record["best"]["dev"]


def test_a_head_that_does_not_fit_ends_a_trial_and_not_the_search(encoder: str, data: str, tmp_path: Path) -> None:
    heads = {"layer_mix": {"layers": ["0..1", "0..9"]}}
    space = parse_space({"kind": "multitask", "input": "pair", "task": {"sst2": {"head": heads}}})
    result = search(asking(encoder, data, space=space), SearchPlace(out=tmp_path / "run", trials=3))
    by_layers = {row["parameters"]["sst2.layer_mix.layers"]: row for row in result.record["trials"]}
    assert by_layers["0..9"]["state"] == "pruned"
    assert "0..2 is expected" in by_layers["0..9"]["failure"]
    assert by_layers["0..1"]["state"] == "complete"
    assert "none is pruned" in result.notices[0]  # tasks learn in sequence, for one epoch


def test_layers_that_the_encoder_lacks_end_a_trial_and_not_the_search(encoder: str, data: str, tmp_path: Path) -> None:
    space = parse_space({"kind": "multitask", "learn": ["top:30", "top:1"], "input": "pair"})
    result = search(asking(encoder, data, space=space), SearchPlace(out=tmp_path / "run", trials=4))
    by_learn = {row["parameters"]["learn"]: row for row in result.record["trials"]}
    assert by_learn["top:1"]["state"] == "complete"
    assert "layers only" in by_learn["top:30"]["failure"]


def test_the_best_run_knows_its_data_and_its_encoder_from_any_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home" / "deep").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "home" / "deep")
    save_tiny_encoder(Path("encoder"))
    write_labels(Path("data"), train=60)
    write_labels(tmp_path / "data", train=50)  # others of the same name, where a wrong path would lead
    space = parse_space({"kind": "tune", "lr": [5e-3]})
    search(asking("encoder", "data", task="sst2", space=space), SearchPlace(out=Path("runs/search"), trials=1))
    best = Path("runs/search/best")
    before = evaluate(best, resamples=100, device="cpu").record
    monkeypatch.chdir(tmp_path)
    record = evaluate(Path("home/deep") / best, resamples=100, device="cpu").record
    assert record.rows == before.rows
    assert record.data == "home/deep/data"
    assert tunings(f"home/deep/{best}")[0].encoder == "home/deep/encoder"
