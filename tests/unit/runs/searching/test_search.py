import json
import math
import shutil
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Self

import optuna
import pytest

from bertvision.errors import BertVisionError, DivergedError
from bertvision.lock import lock_folder
from bertvision.runs.fitting.fit import fit_heads
from bertvision.runs.judging.evaluate import evaluate
from bertvision.runs.judging.finished import open_run
from bertvision.runs.searching import search_tune
from bertvision.runs.searching.search import SearchPlace, search
from bertvision.runs.searching.search_file import parse_space
from bertvision.runs.searching.search_groups import SearchGroups
from bertvision.runs.searching.search_heads import HeadTrials
from bertvision.runs.searching.search_request import SearchRequest
from bertvision.runs.searching.search_study import tell
from bertvision.training.checkpoint import save_checkpoint
from tiny_run import WINDOWS, same_heads, save_tiny_encoder, write_labels, write_questions

SPACE = {
    "lr": {"low": 1e-3, "high": 1e-1, "log": True},
    "head": {"layer_mix": {"dropout": [0.0, 0.2]}, "adapter_pool": {"size": {"low": 2, "high": 6}}},
}


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_tiny_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_labels(tmp_path_factory.mktemp("data"), train=60)


def asking(encoder: str, data: str, space: dict[str, Any] | None = None, **changes: Any) -> SearchRequest:  # noqa: ANN401
    fields: dict[str, Any] = {
        "task": "sst2",
        "epochs": 2.0,
        "batch": 8,
        "together": 4,
        "held_out": 0.3,
        "device": "cpu",
    }
    fields |= {"data": data, "encoder": encoder, "windows": WINDOWS, **changes}
    return SearchRequest(space=parse_space(space or SPACE), **fields)


def results(record: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Every trial without what clocks say."""
    return [(row["trial"], row["state"], row["value"], row["parameters"], row["rungs"]) for row in record["trials"]]


@pytest.fixture(scope="module")
def whole(encoder: str, data: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A search that nobody interrupted."""
    out = tmp_path_factory.mktemp("whole") / "run"
    search(asking(encoder, data), SearchPlace(out=out, trials=8))
    return out


def read(out: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((out / "trials.json").read_text(encoding="utf-8"))
    return record


def test_the_worst_stop_at_rungs_and_the_best_is_kept_and_scored_on_dev(whole: Path) -> None:
    record = read(whole)
    assert record["objective"] == "held_out_accuracy"
    states = [row["state"] for row in record["trials"]]
    assert len(states) == 8
    assert {"complete", "pruned"} == set(states)
    for row in record["trials"]:
        assert (len(row["rungs"]) == 3) == (row["state"] == "complete")
        assert row["seconds"] > 0
        assert row["provenance"]["python"]
    complete = [row for row in record["trials"] if row["state"] == "complete"]
    best = max(complete, key=lambda row: row["value"])
    assert record["best"]["trial"] == best["trial"]
    assert record["history"][-1]["best"] == best["value"]
    assert sum(record["importance"]["all"].values()) == pytest.approx(1.0, abs=1e-3)
    evaluated = evaluate(whole / "best", resamples=100).record
    assert evaluated.rows[0].held_out == best["value"]
    assert evaluated.rows[0].scores["plain"].values["accuracy"].value == record["best"]["dev"]["accuracy"]


def test_the_head_of_a_trial_is_the_one_that_it_would_be_alone(
    whole: Path, encoder: str, data: str, tmp_path: Path
) -> None:
    record, request = read(whole), asking(encoder, data)
    row = record["trials"][record["best"]["trial"]]
    rungs = tuple(step / 6 for step in (1, 4))  # of 42 examples in batches of 8; epochs of the rungs before the last
    alone = request.fit((request.spec(request.space.point(row["parameters"])),), rungs)
    fit_heads(alone, tmp_path / "alone")
    assert same_heads(tmp_path / "alone", whole / "best")


def test_heads_that_are_not_the_best_take_no_room(whole: Path) -> None:
    assert len(list(whole.glob("groups/*/heads/*"))) == 1
    assert list(whole.glob("groups/*/*checkpoint*")) == []


def test_a_search_is_no_run_but_names_its_best(whole: Path) -> None:
    with pytest.raises(BertVisionError, match=r"is a search. Name the run of its best trial: .*/best"):
        open_run(whole)


def test_a_finished_search_is_not_done_again(
    whole: Path, encoder: str, data: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = read(whole)
    monkeypatch.setattr(HeadTrials, "__init__", lambda *_: pytest.fail("an encoder was loaded"))
    again = search(asking(encoder, data), SearchPlace(out=whole, trials=8)).record
    assert results(again) == results(before)
    assert again["best"] == before["best"]


def test_dev_has_no_say(whole: Path, encoder: str, data: str, tmp_path: Path) -> None:
    other = tmp_path / "data"
    shutil.copytree(data, other)
    rows = (other / "dev.tsv").read_text(encoding="utf-8").splitlines()
    turned = [rows[0], *(f"{row[:-1]}{1 - int(row[-1])}" for row in rows[1:])]
    (other / "dev.tsv").write_text("\n".join(turned) + "\n", encoding="utf-8")
    record = search(asking(encoder, str(other)), SearchPlace(out=tmp_path / "run", trials=8)).record
    assert results(record) == results(read(whole))
    assert record["best"]["dev"]["accuracy"] == pytest.approx(1 - read(whole)["best"]["dev"]["accuracy"])
    (other / "dev.tsv").unlink()
    without = search(asking(encoder, str(other)), SearchPlace(out=tmp_path / "none", trials=4)).record
    assert without["best"]["dev"] == {}


@pytest.mark.parametrize("at", [1, 3])
def test_a_killed_search_ends_as_if_it_had_not_been_killed(  # noqa: PLR0917 - fixtures are arguments
    whole: Path, encoder: str, data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    request, place = asking(encoder, data), SearchPlace(out=tmp_path / "run", trials=8)
    saved: list[int] = []

    def kill(*words: Any) -> None:  # noqa: ANN401 - as the function
        if len(saved) == at:
            raise KeyboardInterrupt
        saved.append(at)
        save_checkpoint(*words)

    with monkeypatch.context() as patch:
        patch.setattr("bertvision.training.fit.save_checkpoint", kill)
        with pytest.raises(KeyboardInterrupt):
            search(request, place)
    record = search(request, place).record
    assert results(record) == results(read(whole))
    assert same_heads(tmp_path / "run" / "best", whole / "best")


def test_trials_that_a_kill_left_without_a_group_are_made_anew(
    encoder: str, data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request, place = asking(encoder, data), SearchPlace(out=tmp_path / "run", trials=4)

    def kill(*_words: Any) -> None:  # noqa: ANN401 - as the function
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("bertvision.runs.searching.search_groups.write_json", kill)
        with pytest.raises(KeyboardInterrupt):
            search(request, place)
    record = search(request, place).record
    assert [row["trial"] for row in record["trials"]] == [4, 5, 6, 7]


def test_a_group_that_its_process_ends_before_it_lets_go_is_not_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = optuna.create_study(direction="maximize")
    groups = SearchGroups(folder=tmp_path, study=study, request=asking("", ""), trials=1, size=1, alone=True)
    for _ in range(2):  # new, and then left behind
        with groups.next() as group:
            assert group is not None
            path = group.path

    def end_first(folder: Path, *, wait: bool = False) -> AbstractContextManager[None]:
        if folder == path:
            tell(study, 0, 0.5, notes={})
        return lock_folder(folder, wait=wait)

    monkeypatch.setattr("bertvision.runs.searching.search_groups.lock_folder", end_first)
    with groups.next() as nothing:
        assert nothing is None


def test_more_trials_go_on_with_a_finished_search(encoder: str, data: str, tmp_path: Path) -> None:
    request = asking(encoder, data)
    first = search(request, SearchPlace(out=tmp_path, trials=4)).record
    more = search(request, SearchPlace(out=tmp_path, trials=6)).record
    assert results(more)[:4] == results(first)
    assert len(more["trials"]) == 6
    with pytest.raises(BertVisionError, match=r"epochs was 2\.0, is 3\.0"):
        search(asking(encoder, data, epochs=3.0), SearchPlace(out=tmp_path, trials=6))


def test_machines_share_a_database_and_the_best_head_is_made_where_it_is_missing(
    encoder: str, data: str, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'shared.db'}"
    request = asking(encoder, data)
    one = search(request, SearchPlace(out=tmp_path / "one", trials=4, storage=url)).record
    two = search(request, SearchPlace(out=tmp_path / "two", trials=4, storage=url)).record
    assert results(one) == results(two)
    assert same_heads(tmp_path / "one" / "best", tmp_path / "two" / "best")


def test_convex_heads_are_solved_and_stand_outside_the_rungs(encoder: str, data: str, tmp_path: Path) -> None:
    record = search(
        asking(encoder, data, {"head": {"last_layer": {}}}), SearchPlace(out=tmp_path / "run", trials=2)
    ).record
    assert [(row["state"], row["solved"], row["rungs"]) for row in record["trials"]] == [("complete", True, {})] * 2
    leaderboard = json.loads((tmp_path / "run" / "best" / "leaderboard.json").read_text(encoding="utf-8"))
    assert leaderboard[0]["solved"] is True


def test_options_that_do_not_go_together_end_a_trial_and_not_the_search(
    encoder: str, data: str, tmp_path: Path
) -> None:
    space = {"lr": [1e-2], "head": {"layer_mix": {"layers": ["0..1", "0..9"]}}}
    record = search(asking(encoder, data, space), SearchPlace(out=tmp_path / "run", trials=6)).record
    by_layers = {row["parameters"]["layer_mix.layers"]: row for row in record["trials"]}
    assert by_layers["0..9"]["state"] == "pruned"
    assert "0..2 is expected" in by_layers["0..9"]["failure"]
    assert record["trials"][record["best"]["trial"]]["parameters"]["layer_mix.layers"] == "0..1"


def test_a_search_without_a_complete_trial_says_why(encoder: str, data: str, tmp_path: Path) -> None:
    space = {"head": {"layer_mix": {"layers": "0..9"}}}
    result = search(asking(encoder, data, space), SearchPlace(out=tmp_path / "run", trials=2))
    assert result.record["best"] is None
    assert "no trial was completed" in result.notices[0]
    assert "0..2 is expected" in result.notices[0]


def test_a_trial_whose_outputs_are_not_finite_fails(
    encoder: str, data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bertvision.runs.fitting.fit_run.all_finite", lambda _outputs: False)
    space = {"lr": [1e-2], "head": {"layer_mix": {}, "last_layer": {}}}
    record = search(asking(encoder, data, space), SearchPlace(out=tmp_path / "run", trials=8)).record
    assert {row["parameters"]["head"] for row in record["trials"]} == {"layer_mix", "last_layer"}
    assert all("outputs on held-out examples were not finite" in row["failure"] for row in record["trials"])
    assert record["best"] is None


def test_heads_for_other_kinds_are_refused_before_a_trial_begins(encoder: str, data: str, tmp_path: Path) -> None:
    with pytest.raises(BertVisionError, match="head 'context_conv' is not for labels"):
        search(asking(encoder, data, {"head": {"context_conv": {}}}), SearchPlace(out=tmp_path / "run", trials=2))
    assert not (tmp_path / "run").exists()


def test_heads_for_questions_are_searched_too(encoder: str, tmp_path: Path) -> None:
    data = write_questions(tmp_path / "data", train=30, dev=6)
    request = asking(encoder, data, task="squad2", rungs=2, reduction=2)
    record = search(request, SearchPlace(out=tmp_path / "run", trials=3)).record
    assert record["objective"] == "held_out_best_f1"
    assert "f1_fitted" in record["best"]["dev"]


TUNE = {"kind": "tune", "learn": ["layernorm", "top:1"], "lr": {"low": 1e-4, "high": 1e-1, "log": True}}


def test_ways_of_tuning_are_searched_one_run_after_the_other(encoder: str, data: str, tmp_path: Path) -> None:
    request = asking(encoder, data, TUNE, reduction=2)
    record = search(request, SearchPlace(out=tmp_path / "run", trials=4)).record
    assert [row["trial"] for row in record["trials"]] == [0, 1, 2, 3]
    assert "pruned" in {row["state"] for row in record["trials"]}
    assert len(list((tmp_path / "run").glob("groups/*/run"))) == 1
    best = record["trials"][record["best"]["trial"]]
    row = evaluate(tmp_path / "run" / "best", resamples=100).record.rows[0]
    assert row.held_out == best["value"]
    assert row.scores["plain"].values["accuracy"].value == record["best"]["dev"]["accuracy"]
    line = (tmp_path / "run" / "best" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()[-1]
    assert "accuracy" not in json.loads(line)  # no snapshot was scored on dev
    other = SearchPlace(out=tmp_path / "two", trials=4, storage=f"sqlite:///{tmp_path / 'run' / 'study.db'}")
    with pytest.raises(BertVisionError, match="was tuned on another machine"):
        search(request, other)


def test_a_tuned_trial_that_diverges_is_noted(
    encoder: str, data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def diverge(*_words: Any, judge: Any, **_more: Any) -> None:  # noqa: ANN401 - as the function
        judge(2.0, math.nan)

    monkeypatch.setattr(search_tune, "tune", diverge)
    record = search(asking(encoder, data, TUNE), SearchPlace(out=tmp_path / "run", trials=1)).record
    assert record["trials"][0]["failure"] == "its score is not defined."


def test_a_tuned_trial_that_cannot_be_made_stops_the_search(
    encoder: str, data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_words: Any, **_more: Any) -> None:  # noqa: ANN401 - as the function
        raise BertVisionError("the disk is full.")

    monkeypatch.setattr(search_tune, "tune", full)
    with pytest.raises(BertVisionError, match=r"trial 0 with \{.*: the disk is full."):
        search(asking(encoder, data, TUNE), SearchPlace(out=tmp_path / "run", trials=1))
    assert issubclass(DivergedError, BertVisionError)


def test_too_few_trials_or_jobs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BertVisionError, match="--trials is 0, at least 1 is expected; --jobs is 0"):
        SearchPlace(out=tmp_path, trials=0, jobs=0).check()


def test_a_tuned_encoder_that_saw_what_judges_is_refused(encoder: str, data: str, tmp_path: Path) -> None:
    from bertvision.runs.tuning.tune import tune  # noqa: PLC0415
    from tiny_run import tiny_request  # noqa: PLC0415

    tune(tiny_request("sst2", data, encoder, learn="layernorm"), tmp_path / "tuned")  # holds out a tenth
    several = {"kind": "multitask", "lr": [1e-2]}
    for space, task in ((SPACE, "sst2"), (TUNE, "sst2"), (several, "sts,sst2")):
        with pytest.raises(BertVisionError, match=r"held out other examples .* Use --held-out 0.1"):
            search(asking(str(tmp_path / "tuned"), data, space, task=task), SearchPlace(out=tmp_path / "run", trials=2))
    assert not (tmp_path / "run").exists()


def test_a_process_that_was_killed_is_told_and_the_search_goes_on(
    encoder: str, data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class KilledPool:
        """As a pool whose process is killed at once."""

        def __init__(self, *_: object, **__: object) -> None:
            self.future: Future[None] = Future()
            self.future.set_exception(BrokenProcessPool("terminated abruptly"))

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def submit(self, *_: object) -> "Future[None]":
            return self.future

    request = asking(encoder, data, rungs=1)
    with monkeypatch.context() as patch:
        patch.setattr("bertvision.runs.searching.search.ProcessPoolExecutor", KilledPool)
        with pytest.raises(BertVisionError, match=r"a process of --jobs 2 was killed.*the same command goes on"):
            search(request, SearchPlace(out=tmp_path / "run", trials=2, jobs=2))
    record = search(request, SearchPlace(out=tmp_path / "run", trials=2)).record
    assert [row["state"] for row in record["trials"]] == ["complete", "complete"]
