"""Suites without anything heavy: cells of a kind that answers at once."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bertvision.bench import run as run_module
from bertvision.bench.cells import Kind
from bertvision.bench.ensemble_settings import EnsembleSettings
from bertvision.bench.environment import BenchEnvironment
from bertvision.bench.heads_settings import HeadsSettings
from bertvision.bench.results import open_results, read_suite_record, without_times
from bertvision.bench.run import SuiteRun, run_suite
from bertvision.bench.sentence_settings import SentenceSettings
from bertvision.bench.settings import TuneSettings
from bertvision.bench.suite import Cell, Pair, Suite
from bertvision.errors import BertVisionError, DivergedError, MissingExtraError
from bertvision.lock import lock_folder
from bertvision.provenance import COMMAND


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    number: int = 0
    task: str = "sst2"

    @property
    def by_chance(self) -> bool:
        return self.number != 0


Calls = list[tuple[int, int]]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """What was measured: number and seed."""
    made: Calls = []

    def measure(settings: Number, seed: int, environment: BenchEnvironment) -> dict[str, Any]:
        assert environment.show is None
        made.append((settings.number, seed))
        clock[0] += 10.0 * settings.number
        if settings.number == 3:
            raise DivergedError("the loss is nan")
        if settings.number == 4:
            raise BertVisionError("no data")
        if settings.number == 6:
            raise MissingExtraError("number 6", "six", "bench")
        return {"models": {}, "number": settings.number}

    clock = [0.0]
    monkeypatch.setattr(run_module, "KINDS", {"number": Kind(Number, measure)})
    monkeypatch.setattr("bertvision.bench.run.time.monotonic", lambda: clock[0])
    return made


def suite(*numbers: int, name: str = "n") -> Suite:
    cells = [Cell(name=f"{name}{number}", kind="number", settings=Number(number=number)) for number in numbers]
    pairs = (Pair(first=cells[0].name, second=cells[-1].name),)
    return Suite(name="small", about="numbers", cells=tuple(cells), pairs=pairs)


def measure(tmp_path: Path, what: Suite, **more: Any) -> SuiteRun:  # noqa: ANN401 - any option
    return run_suite(what, BenchEnvironment(work=tmp_path / "work"), tmp_path / "results" / "small.json", **more)


def test_all_cells_with_the_first_seed_come_before_the_next_seed(calls: Calls, tmp_path: Path) -> None:
    done = measure(tmp_path, suite(2, 1), seeds=range(2))
    assert calls == [(2, 0), (1, 0), (2, 1), (1, 1)]
    assert (done.measured, done.left) == (4, [])
    record = json.loads(done.record.read_text(encoding="utf-8"))
    assert (record["suite"], record["about"], record["pairs"]) == (
        "small",
        "numbers",
        [{"first": "n2", "second": "n1"}],
    )
    assert [cell["name"] for cell in record["plan"]] == ["n2", "n1"]
    one = next(iter(record["cells"].values()))
    assert (one["name"], one["seed"], one["settings"], one["seconds"]) == ("n2", 0, {"number": 2, "task": "sst2"}, 20.0)
    assert one["result"] == {"models": {}, "number": 2}
    assert one["dirty"] == one["provenance"]["dirty"]


@pytest.mark.usefixtures("calls")
def test_a_record_tells_of_no_folder_of_this_machine(tmp_path: Path) -> None:
    token = COMMAND.set(f"bertvision bench small --work {tmp_path}/work")
    try:
        done = measure(tmp_path, suite(1), seeds=range(1))
    finally:
        COMMAND.reset(token)
    (cell,) = json.loads(done.record.read_text(encoding="utf-8"))["cells"].values()
    assert cell["provenance"]["command"] == "bertvision bench small --work work"


def test_what_was_measured_is_not_measured_again_whatever_it_is_called(calls: Calls, tmp_path: Path) -> None:
    measure(tmp_path, suite(2, 1), seeds=range(1))
    before = read_suite_record(tmp_path / "results" / "small.json")
    done = measure(tmp_path, suite(1, 2, name="m"), seeds=range(1))
    assert (len(calls), done.measured) == (2, 0)
    after = read_suite_record(done.record)
    assert after["cells"] == before["cells"]
    assert [cell["name"] for cell in after["plan"]] == ["m1", "m2"]
    measure(tmp_path, suite(1, 5), seeds=range(1))
    assert calls[2:] == [(5, 0)]


@pytest.mark.usefixtures("calls")
def test_two_processes_can_write_to_one_record(tmp_path: Path) -> None:
    path, both = tmp_path / "results" / "small.json", suite(1, 2)
    mine, others = open_results(path, both), open_results(path, both)
    mine.add(both.cells[0], 0, {"models": {}}, 1.0)
    others.add(both.cells[1], 0, {"models": {}}, 1.0)
    mine.add(both.cells[0], 1, {"models": {}}, 1.0)
    cells = read_suite_record(path)["cells"].values()
    assert sorted((cell["name"], cell["seed"]) for cell in cells) == [("n1", 0), ("n1", 1), ("n2", 0)]
    assert [one.name for one in path.parent.iterdir()] == ["small.json"]


def test_a_default_that_has_changed_is_measured_anew(calls: Calls, tmp_path: Path) -> None:
    done = measure(tmp_path, suite(0), seeds=range(1))
    content = json.loads(done.record.read_text(encoding="utf-8"))
    [cell] = content["cells"].values()
    cell["settings"]["number"] = 7  # what the default was then
    done.record.write_text(json.dumps(content), encoding="utf-8")
    measure(tmp_path, suite(0), seeds=range(1))
    assert calls == [(0, 0), (0, 0)]


@pytest.mark.usefixtures("calls")
def test_a_busy_machine_leaves_no_seconds(tmp_path: Path) -> None:
    done = measure(tmp_path, suite(1), seeds=range(1), timed=False)
    (cell,) = read_suite_record(done.record)["cells"].values()
    assert cell["seconds"] is None
    assert cell["result"]["number"] == 1
    assert [job.estimate for job in done.jobs] == [None]


def test_times_are_left_out_and_nothing_else() -> None:
    model = {"seconds": 3.0, "inference_seconds": 0.1, "epochs": 2.0}
    result = {"models": {"2": model}, "first_step_seconds": 9.0, "peak_bytes": 7, "golds": None}
    assert without_times(result) == {
        "models": {"2": {"seconds": None, "inference_seconds": None, "epochs": 2.0}},
        "first_step_seconds": None,
        "peak_bytes": 7,
        "golds": None,
    }


def test_cells_of_another_record_are_taken_over_and_own_ones_stay(calls: Calls, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    other = measure(elsewhere, suite(1, 2), seeds=range(2), timed=False)
    done = measure(tmp_path, suite(1), seeds=range(1))
    own = read_suite_record(done.record)["cells"]
    done = measure(tmp_path, suite(1, 2), seeds=range(2), join=[other.record])
    assert (len(calls), done.measured, done.left) == (5, 0, [])
    found = read_suite_record(done.record)["cells"]
    assert found.keys() == read_suite_record(other.record)["cells"].keys()
    assert own.items() <= found.items()
    (elsewhere / "no.json").write_text("{}")
    with pytest.raises(BertVisionError, match="no record of a suite"):
        measure(tmp_path, suite(1), join=[elsewhere / "no.json"])


def test_a_killed_suite_keeps_every_finished_cell(calls: Calls, tmp_path: Path) -> None:
    with pytest.raises(BertVisionError, match="no data"):
        measure(tmp_path, suite(1, 4, 2), seeds=range(1))
    assert len(read_suite_record(tmp_path / "results" / "small.json")["cells"]) == 1
    measure(tmp_path, suite(1, 2), seeds=range(1))
    assert calls == [(1, 0), (4, 0), (2, 0)]


def test_a_cell_that_diverged_is_a_result_and_others_go_on(calls: Calls, tmp_path: Path) -> None:
    done = measure(tmp_path, suite(3, 1), seeds=range(1))
    assert (done.diverged, done.left, len(calls)) == (("n3, seed 0",), [], 2)
    found = {cell["name"]: cell["result"] for cell in read_suite_record(done.record)["cells"].values()}
    assert found["n3"] == {"models": {}, "diverged": "the loss is nan"}


def test_it_stops_before_a_cell_that_would_not_fit(calls: Calls, tmp_path: Path) -> None:
    # 10 and 20 s are spent; the third, if it takes as long as the longest of its kind, would end after 50
    done = measure(tmp_path, suite(1, 2, 5), seeds=range(2), max_seconds=45.0)
    assert calls == [(1, 0), (2, 0)]
    assert [(job.cell.name, job.seed, job.estimate) for job in done.left] == [
        ("n5", 0, 20.0),
        ("n1", 1, 10.0),  # as with the other seed
        ("n2", 1, 20.0),
        ("n5", 1, 20.0),
    ]
    measure(tmp_path, suite(1, 2, 5), seeds=range(1), max_seconds=45.0)
    assert calls[2:] == [(5, 0)]


def test_a_cell_whose_package_is_missing_is_passed_over_and_stays_to_be_measured(calls: Calls, tmp_path: Path) -> None:
    done = measure(tmp_path, suite(6, 1), seeds=range(1))
    assert calls == [(6, 0), (1, 0)]
    assert (done.measured, [job.cell.name for job in done.left]) == (1, ["n6"])
    assert done.skipped == {
        "n6, seed 0": "number 6 needs the package 'six'. Install it: pip install 'bertvision[bench]'"
    }
    assert [cell["name"] for cell in read_suite_record(done.record)["cells"].values()] == ["n1"]


def test_a_cell_that_chance_does_not_rule_is_measured_with_one_seed(calls: Calls, tmp_path: Path) -> None:
    done = measure(tmp_path, suite(0, 1), seeds=range(3))
    assert calls == [(0, 0), (1, 0), (1, 1), (1, 2)]
    assert done.left == []


def test_an_estimate_is_that_of_the_same_task_where_there_is_one(calls: Calls, tmp_path: Path) -> None:
    what = suite(1, 5)
    results = open_results(measure(tmp_path, what, seeds=range(1)).record, what)
    others = [Cell(name="x", kind="number", settings=Number(number=7, task=task)) for task in ("sst2", "rte")]
    [fifth] = [cell for cell in results.cells.values() if cell["name"] == "n5"]
    fifth["settings"]["task"] = "cola"
    assert [results.estimate(cell, 0) for cell in others] == [10.0, 50.0]
    fifth["seconds"] = None  # nobody knows
    assert [results.estimate(cell, 0) for cell in others] == [10.0, 10.0]
    assert len(calls) == 2


def test_other_seeds_may_be_measured_elsewhere_and_joined(calls: Calls, tmp_path: Path) -> None:
    other = measure(tmp_path / "elsewhere", suite(0, 1), seeds=range(1, 3))
    assert calls == [(1, 1), (1, 2)]  # what is not left to chance has seed 0 alone
    done = measure(tmp_path, suite(0, 1), seeds=range(3), join=[other.record])
    assert calls[2:] == [(0, 0), (1, 0)]
    assert done.left == []


def test_only_the_named_cells_are_measured(calls: Calls, tmp_path: Path) -> None:
    done = measure(tmp_path, suite(1, 2, 5), seeds=range(1), only=["n2"])
    assert (calls, done.left) == ([(2, 0)], [])


def test_a_record_of_another_kind_is_not_overwritten(calls: Calls, tmp_path: Path) -> None:
    path = tmp_path / "results" / "small.json"
    path.parent.mkdir()
    path.write_text('{"format": 1, "kind": "speed"}', encoding="utf-8")
    with pytest.raises(BertVisionError, match=r"small.json is no record of a suite in format 1"):
        measure(tmp_path, suite(1))
    assert calls == []
    assert json.loads(path.read_text(encoding="utf-8")) == {"format": 1, "kind": "speed"}


def test_a_record_that_cannot_be_written_is_found_out_before_anything_is_measured(calls: Calls, tmp_path: Path) -> None:
    (tmp_path / "results").write_text("a file")
    with pytest.raises(BertVisionError, match="results is a file, or lies in one"):
        measure(tmp_path, suite(1))
    assert calls == []


def test_runs_are_removed_when_no_later_cell_reads_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there: list[list[str]] = []

    def make(kind: str) -> Kind:
        def measure(settings: Any, seed: int, environment: BenchEnvironment) -> dict[str, Any]:  # noqa: ANN401 - of either kind
            environment.run(kind, settings, seed).mkdir(parents=True)
            there.append(sorted(path.name.partition("-")[0] for path in environment.work.glob("[!.]*")))
            return {"models": {}}

        return Kind(Number, measure)

    kinds = {kind: make(kind) for kind in ("tune", "heads", "ensemble")}
    monkeypatch.setattr(run_module, "KINDS", kinds)
    tuned = TuneSettings(epochs=1)
    cells = (
        Cell(name="tuned", kind="tune", settings=tuned),
        Cell(name="other", kind="tune", settings=TuneSettings(epochs=2)),
        Cell(name="heads", kind="heads", settings=HeadsSettings(on=tuned)),
        Cell(name="both", kind="ensemble", settings=EnsembleSettings(of=(tuned, TuneSettings(epochs=2)))),
    )
    what = Suite(name="small", about="", cells=cells, pairs=())
    measure(tmp_path, what, seeds=range(1))
    assert there == [["tune"], ["tune", "tune"], ["heads", "tune", "tune"], ["ensemble", "tune", "tune"]]
    assert not (tmp_path / "work").exists()
    (tmp_path / "results" / "small.json").unlink()
    measure(tmp_path, what, seeds=range(1), keep=True)
    assert len(list((tmp_path / "work").iterdir())) == 4


def test_vectors_stay_until_the_last_cell_that_reads_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there: list[int] = []

    def measure_some(settings: SentenceSettings, _: int, environment: BenchEnvironment) -> dict[str, Any]:
        (environment.work / settings.vectors).mkdir(parents=True, exist_ok=True)
        there.append(len(list(environment.work.glob("vectors-*"))))
        return {"models": {}}

    monkeypatch.setattr(run_module, "KINDS", {"sentences": Kind(SentenceSettings, measure_some)})
    settings = [SentenceSettings(task=task, per_class=size) for task, size in (("rte", 2), ("cola", 2), ("rte", 3))]
    cells = tuple(Cell(name=str(n), kind="sentences", settings=one) for n, one in enumerate(settings))
    measure(tmp_path, Suite(name="small", about="", cells=cells, pairs=()), seeds=range(1))
    assert there == [1, 2, 1]
    assert not (tmp_path / "work").exists()


def test_one_process_at_a_time_measures_in_a_folder(calls: Calls, tmp_path: Path) -> None:
    with lock_folder(tmp_path / "work"), pytest.raises(BertVisionError, match="is in use by another process"):
        measure(tmp_path, suite(1))
    assert calls == []


def test_an_estimate_needs_a_cell_of_the_kind(calls: Calls, tmp_path: Path) -> None:
    what = suite(1, 2)
    results = open_results(tmp_path / "small.json", what)
    assert results.estimate(what.cells[0], 0) is None
    assert calls == []
