import json
from pathlib import Path

import pytest

from bertvision.errors import BertVisionError
from bertvision.runs.folder import RunFolder, check_series

REQUEST = {"task": "squad2", "snapshots": (0.3, 1.0), "options": {"lr": 0.001, "batch": 8}}
OTHER = REQUEST | {"task": "sst2", "options": {"lr": 0.002, "batch": 8}}


@pytest.fixture
def begun(tmp_path: Path) -> RunFolder:
    folder = RunFolder(tmp_path / "run")
    folder.begin(REQUEST, "abc")
    return folder


def test_a_run_begins_with_what_was_asked_for_and_where_it_comes_from(begun: RunFolder) -> None:
    config = json.loads((begun.path / "config.json").read_text(encoding="utf-8"))
    assert config["request"] == json.loads(json.dumps(REQUEST))
    assert (config["format"], config["weights"]) == (2, "abc")
    assert {"time", "commit", "packages"} <= config["provenance"].keys()


def test_paths_that_a_run_was_asked_for_lead_to_the_same_place_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home" / "data").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "home")
    monkeypatch.chdir(tmp_path / "link")
    RunFolder(Path("runs/one")).begin(REQUEST, "abc")
    assert RunFolder(Path("runs/one")).path_from_here("data/") == "data/"  # as it was written
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").touch()
    run = RunFolder(Path("home/runs/one"))
    assert run.path_from_here("data") == "home/data"
    assert run.path_from_here("./data/../data") == "home/data"
    for unchanged in ("gone", "here", str(tmp_path / "elsewhere")):
        assert run.path_from_here(unchanged) == unchanged
    config = json.loads((run.path / "config.json").read_text(encoding="utf-8"))
    assert config.pop("made_in") == "../.."
    (run.path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    assert run.path_from_here("data") == "data"  # of an older version


def test_looking_at_a_folder_writes_nothing(tmp_path: Path) -> None:
    RunFolder(tmp_path / "run").check(REQUEST, resume=False)
    RunFolder(tmp_path / "run").check(REQUEST, resume=True)
    assert list(tmp_path.iterdir()) == []


def test_a_run_is_not_begun_twice(begun: RunFolder) -> None:
    with pytest.raises(BertVisionError, match=r"run holds a run already\. Go on with it: --resume\. Or use another"):
        begun.check(REQUEST, resume=False)
    begun.finish({"steps": 3})
    with pytest.raises(BertVisionError, match=r"run holds a run already\. It is finished\. Use another --out"):
        begun.check(REQUEST, resume=False)


def test_the_same_run_goes_on(begun: RunFolder) -> None:
    before = (begun.path / "config.json").read_bytes()
    begun.check(REQUEST, resume=True)
    begun.begin(REQUEST, "abc")
    assert (begun.path / "config.json").read_bytes() == before


def test_a_run_that_was_asked_for_something_else_does_not_go_on_and_says_what(begun: RunFolder) -> None:
    expected = (
        "was asked for something else: options.lr was 0.001, is 0.002; task was squad2, is sst2. "
        "Ask for the same, or use another --out."
    )
    with pytest.raises(BertVisionError) as caught:
        begun.check(OTHER, resume=True)
    assert str(caught.value).endswith(expected)
    with pytest.raises(BertVisionError, match=r"options\.lr was 0\.001"):
        begun.begin(OTHER, "abc")


def test_an_option_that_an_older_version_did_not_have_is_named(begun: RunFolder) -> None:
    with pytest.raises(BertVisionError, match=r"options\.new was None, is 5"):
        begun.check(REQUEST | {"options": {"lr": 0.001, "batch": 8, "new": 5}}, resume=True)


def test_a_run_does_not_go_on_with_other_weights(begun: RunFolder) -> None:
    with pytest.raises(BertVisionError, match=r"began with an encoder with fingerprint abc; the one here has xyz"):
        begun.begin(REQUEST, "xyz")


def test_a_run_does_not_go_on_with_other_examples(begun: RunFolder, tmp_path: Path) -> None:
    begun.begin(REQUEST, "abc", examples="new")  # of an older version, which did not write them down
    other = RunFolder(tmp_path / "other")
    other.begin(REQUEST, "abc", examples="old")
    other.begin(REQUEST, "abc", examples="old")
    with pytest.raises(BertVisionError, match=r"began with other training examples: the data have changed since"):
        other.begin(REQUEST, "abc", examples="new")


@pytest.mark.parametrize("name", ["notes.txt", "config.json"])
def test_a_folder_with_other_files_is_left_alone(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("{}", encoding="utf-8")  # such as the config of a model
    with pytest.raises(BertVisionError, match=r"is there already and is no run\. Use another --out"):
        RunFolder(tmp_path).check(REQUEST, resume=True)


def test_a_file_in_the_place_of_the_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("I am a file", encoding="utf-8")
    with pytest.raises(BertVisionError, match="run is there already and is no run"):
        RunFolder(tmp_path / "run").check(REQUEST, resume=False)


def test_an_empty_folder_or_what_a_kill_left_of_the_config_is_no_hindrance(tmp_path: Path) -> None:
    (tmp_path / ".config.json.x1y2").write_text('{"for', encoding="utf-8")
    RunFolder(tmp_path).check(REQUEST, resume=False)


@pytest.mark.parametrize("version", [1, 9])  # runs of format 1 held other questions out
def test_a_run_of_another_format_is_refused(begun: RunFolder, version: int) -> None:
    path = begun.path / "config.json"
    path.write_text(json.dumps({"format": version, "request": {}}), encoding="utf-8")
    with pytest.raises(BertVisionError, match=rf"config\.json has format {version}, 2 is expected. Make the run again"):
        begun.check(REQUEST, resume=True)
    with pytest.raises(BertVisionError, match="Make the run again"):
        begun.request()


def test_a_result_says_that_a_run_is_finished(begun: RunFolder) -> None:
    assert begun.result() is None
    begun.finish({"steps": 3, "metrics": {"f1": 0.5}})
    assert begun.result() == {"format": 2, "steps": 3, "metrics": {"f1": 0.5}}


def test_lines_are_kept_in_order(begun: RunFolder) -> None:
    assert begun.lines() == []
    begun.log({"step": 1, "loss": 0.5})
    begun.log({"step": 2, "pearson": None})
    assert begun.lines() == [{"step": 1, "loss": 0.5}, {"step": 2, "pearson": None}]


def test_lines_of_steps_that_will_be_made_again_are_dropped(begun: RunFolder) -> None:
    begun.forget_after(0)
    assert not (begun.path / "metrics.jsonl").exists()
    for step in (1, 2, 2, 3):
        begun.log({"step": step})
    begun.forget_after(2)
    assert begun.lines() == [{"step": 1}, {"step": 2}, {"step": 2}]


def test_a_line_that_was_cut_off_is_dropped(begun: RunFolder) -> None:
    begun.log({"step": 1})
    with (begun.path / "metrics.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"step": 2, "lo')
    assert begun.lines() == [{"step": 1}]
    begun.forget_after(5)
    begun.log({"step": 2})
    assert begun.lines() == [{"step": 1}, {"step": 2}]


def test_a_run_that_goes_on_writes_nothing_behind_a_line_that_was_cut_off(begun: RunFolder) -> None:
    begun.log({"step": 0, "head": 0})
    with (begun.path / "metrics.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"step": 0, "he')
    begun.begin(REQUEST, "abc")
    begun.log({"step": 0, "head": 1})
    assert begun.lines() == [{"step": 0, "head": 0}, {"step": 0, "head": 1}]


def test_a_log_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BertVisionError, match=r"metrics\.jsonl cannot be written: No such file or directory"):
        RunFolder(tmp_path / "nowhere").log({"step": 1})


def test_a_run_says_what_it_was_asked_for(begun: RunFolder, tmp_path: Path) -> None:
    assert begun.request() == json.loads(json.dumps(REQUEST))
    with pytest.raises(BertVisionError, match=r"none holds no run: config\.json is not there"):
        RunFolder(tmp_path / "none").request()


def test_several_runs_go_on_where_the_first_was_killed_before_it_began(tmp_path: Path) -> None:
    (tmp_path / "out" / "sst2").mkdir(parents=True)
    (tmp_path / "out" / "sst2" / ".lock").touch()
    for resume in (False, True):
        check_series(tmp_path / "out", resume=resume)
    (tmp_path / "out" / "sst2" / "notes.txt").touch()
    with pytest.raises(BertVisionError, match="is there already and holds no runs"):
        check_series(tmp_path / "out", resume=True)


def test_several_runs_begin_in_an_empty_folder_and_go_on_in_their_own(begun: RunFolder, tmp_path: Path) -> None:
    for resume in (False, True):
        check_series(tmp_path / "new", resume=resume)
    assert not (tmp_path / "new").exists()
    check_series(tmp_path, resume=True)
    with pytest.raises(BertVisionError, match=r"holds runs already\. Go on with them: --resume\. Or use another --out"):
        check_series(tmp_path, resume=False)
    for other in (begun.path, begun.path / "config.json"):  # a run, and no folder at all
        with pytest.raises(BertVisionError, match=r"is there already and holds no runs\. Use another --out"):
            check_series(other, resume=True)
