import re
import sys
from pathlib import Path
from typing import Any

import optuna
import pytest
from sqlalchemy.exc import IntegrityError, OperationalError

from bertvision.errors import BertVisionError, MissingExtraError
from bertvision.runs.searching.search_file import parse_space
from bertvision.runs.searching.search_study import (
    WholeRungPruner,
    all_trials,
    ask_trials,
    best_trial,
    database_errors,
    give_up,
    importances,
    last_score,
    notes_of,
    open_study,
    open_trial,
    report,
    running,
    tell,
)

SPACE = parse_space({"lr": {"low": 1e-4, "high": 1e-1, "log": True}, "head": {"layer_mix": {}, "layer_mean": {}}})


@pytest.fixture
def study(tmp_path: Path) -> optuna.Study:
    return open_study(f"sqlite:///{tmp_path / 'study.db'}", "s", kind="heads", reduction=3, settings={"epochs": 1})


def test_the_best_third_of_all_trials_at_a_rung_goes_on(study: optuna.Study) -> None:
    trials = [open_trial(study, number) for number in ask_trials(study, SPACE, 7, 0)]
    for trial, score in zip(trials, (0.1, 0.7, 0.3, 0.6, 0.2, 0.5, 0.4), strict=True):
        report(trial, 1, score)
    # of seven, three go on: 0.7, 0.6 and 0.5, wherever they stand
    assert [trial.should_prune() for trial in trials] == [True, False, True, False, True, False, True]


def test_later_trials_compete_with_those_before(study: optuna.Study) -> None:
    first = open_trial(study, *ask_trials(study, SPACE, 1, 0))
    report(first, 1, 0.9)
    assert not first.should_prune()
    second = open_trial(study, *ask_trials(study, SPACE, 1, 0))
    report(second, 1, 0.8)
    assert second.should_prune()


def test_trials_that_reported_nothing_are_not_pruned(study: optuna.Study) -> None:
    trial = open_trial(study, *ask_trials(study, SPACE, 1, 0))
    assert WholeRungPruner(3).prune(study, study.trials[trial.number]) is False


def test_tuned_encoders_are_pruned_by_optuna_s_own_halving(tmp_path: Path) -> None:
    study = open_study(f"sqlite:///{tmp_path / 'study.db'}", "s", kind="tune", reduction=4, settings={})
    assert isinstance(study.pruner, optuna.pruners.SuccessiveHalvingPruner)


def test_what_is_tried_depends_on_the_seed_and_on_what_was_tried_before(tmp_path: Path) -> None:
    def tried(name: str, seed: int, *, again: bool) -> list[dict[str, object]]:
        url = f"sqlite:///{tmp_path / name}"
        study = open_study(url, "s", kind="heads", reduction=3, settings={})
        for number in ask_trials(study, SPACE, 2, seed):
            tell(study, number, 0.5, notes={})
        if again:  # as another process would
            study = open_study(url, "s", kind="heads", reduction=3, settings={})
        ask_trials(study, SPACE, 2, seed)
        return [trial.params for trial in all_trials(study)]

    whole = tried("a.db", 0, again=False)
    assert whole == tried("b.db", 0, again=True)
    assert whole != tried("c.db", 1, again=False)
    assert whole[:2] != whole[2:]


def test_processes_that_begin_at_once_try_something_else_each(
    study: optuna.Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = open_study(f"sqlite:///{tmp_path / 'study.db'}", "s", kind="heads", reduction=3, settings={"epochs": 1})
    ask_trials(study, SPACE, 3, 0)
    monkeypatch.setattr(other, "get_trials", lambda **_options: [])  # it looked before the first had any
    ask_trials(other, SPACE, 3, 0)
    rates = [trial.params["lr"] for trial in all_trials(study)]
    assert len(set(rates)) == len(rates) == 6


def test_a_score_and_an_end_are_noted_once(study: optuna.Study) -> None:
    number = ask_trials(study, SPACE, 1, 0)[0]
    assert last_score(study, number) is None
    report(open_trial(study, number), 1, 0.5)
    report(open_trial(study, number), 1, 0.9)  # Optuna would warn, and warnings are errors here
    assert last_score(study, number) == 0.5
    tell(study, number, 0.5, notes={"seconds": 1.0})
    tell(study, number, None, notes={"seconds": 2.0})
    assert (study.trials[0].value, notes_of(study.trials[0])) == (0.5, {"seconds": 1.0})


def test_the_best_is_complete_and_of_equal_ones_the_first(study: optuna.Study) -> None:
    assert best_trial(all_trials(study)) is None
    numbers = ask_trials(study, SPACE, 5, 0)
    report(open_trial(study, 0), 1, 0.9)
    for number, value in zip(numbers, (None, 0.2, 0.7, 0.7), strict=False):
        tell(study, number, value, notes={})
    assert running(all_trials(study)) == [4]
    give_up(study, 4)
    best = best_trial(all_trials(study))
    assert best is not None
    assert (best.number, len(all_trials(study)), running(all_trials(study))) == (2, 4, [])


def test_importance_goes_to_what_makes_the_score(study: optuna.Study) -> None:
    assert importances(all_trials(study)) == {}
    for number in ask_trials(study, SPACE, 16, 0):
        tell(study, number, float(study.trials[number].params["head"] == "layer_mix"), notes={})
    assert importances(all_trials(study)) == {"all": {"head": 1.0, "lr": 0.0}}


def test_options_of_a_head_count_among_its_own_trials(tmp_path: Path) -> None:
    space = parse_space({"head": {"layer_mix": {"dropout": [0.0, 0.2]}, "layer_mean": {}}})
    study = open_study(f"sqlite:///{tmp_path / 'study.db'}", "s", kind="heads", reduction=3, settings={})
    for number in ask_trials(study, space, 16, 1):
        tell(study, number, float(study.trials[number].params.get("layer_mix.dropout", 0.1)), notes={})
    assert importances(all_trials(study))["layer_mix"] == {"layer_mix.dropout": 1.0}


def test_options_of_one_task_s_head_count_among_trials_with_that_head(tmp_path: Path) -> None:
    table = {"sts": {"head": {"layer_mix": {"dropout": [0.0, 0.2]}, "layer_mean": {}}}}
    space = parse_space({"kind": "multitask", "task": table})
    study = open_study(f"sqlite:///{tmp_path / 'study.db'}", "s", kind="multitask", reduction=3, settings={})
    assert isinstance(study.pruner, optuna.pruners.SuccessiveHalvingPruner)
    for number in ask_trials(study, space, 16, 1):
        tell(study, number, float(study.trials[number].params.get("sts.layer_mix.dropout", 0.1)), notes={})
    found = importances(all_trials(study))
    assert found["sts.layer_mix"] == {"sts.layer_mix.dropout": 1.0}
    assert list(found["all"]) == ["sts.head"]


def test_a_study_about_something_else_is_refused(study: optuna.Study, tmp_path: Path) -> None:
    assert study.user_attrs["settings"] == {"epochs": 1}
    with pytest.raises(BertVisionError, match=r"the study 's' was begun with another epochs. .* another --study"):
        open_study(f"sqlite:///{tmp_path / 'study.db'}", "s", kind="heads", reduction=3, settings={"epochs": 2})


@pytest.mark.parametrize(
    "url",
    [
        "nonsense",
        "postgresql+nodriver://me:secret@host/db",
        "postgresql://me:a@secret:word@host/db",
        "postgresql://me:a@secret@host.invalid/db",
        "mysql://me:secret@host/db",
        "sqlite:////no/such/folder/x.db",
    ],
)
def test_a_database_that_cannot_be_used_is_said_without_its_password(url: str) -> None:
    with pytest.raises(BertVisionError, match=r"--storage .* cannot be used: .* Expected is sqlite:///FILE") as caught:
        open_study(url, "s", kind="heads", reduction=3, settings={})
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_without_the_driver_of_postgresql_its_extra_is_named(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    expected = (
        rf"^--storage {re.escape(scheme)}://me:\*\*\*@host/db cannot be used: PostgreSQL needs the package 'psycopg'. "
        r"Install it: pip install 'bertvision\[postgresql\]'$"
    )
    with pytest.raises(MissingExtraError, match=expected):
        open_study(f"{scheme}://me:secret@host/db", "s", kind="heads", reduction=3, settings={})


def test_a_database_that_is_lost_on_the_way_is_an_error_that_says_why() -> None:
    url, lost = "postgresql://me:secret@host/db", OperationalError("", {}, Exception("gone"))
    expected = r"me:\*\*\*@host/db cannot be used: .*gone. Expected .* The same command goes on"
    with pytest.raises(BertVisionError, match=expected), database_errors(url):
        raise optuna.exceptions.StorageInternalError("An exception.") from lost
    with pytest.raises(ValueError, match="a bug"), database_errors(url):
        raise ValueError("a bug")


@pytest.mark.parametrize(
    "message", ["UNIQUE constraint failed: alembic_version.version_num", "table studies already exists"]
)
def test_a_database_that_another_process_is_just_making_is_opened_again(
    message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = IntegrityError if message.startswith("UNIQUE") else OperationalError
    failures = [kind("CREATE TABLE", {}, Exception(message))] * 2
    begin = optuna.storages.RDBStorage.__init__

    def begin_late(*args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - whatever it takes
        if failures:
            raise failures.pop()
        begin(*args, **kwargs)

    monkeypatch.setattr(optuna.storages.RDBStorage, "__init__", begin_late)
    monkeypatch.setattr("bertvision.runs.searching.search_study.time.sleep", lambda _seconds: None)
    study = open_study(f"sqlite:///{tmp_path / 'study.db'}", "s", kind="heads", reduction=3, settings={})
    assert (study.study_name, failures) == ("s", [])
    failures += [kind("CREATE TABLE", {}, Exception(message))] * 9
    with pytest.raises(BertVisionError, match="cannot be used"):
        open_study(f"sqlite:///{tmp_path / 'other.db'}", "s", kind="heads", reduction=3, settings={})


def test_braces_in_an_address_are_plain_text(tmp_path: Path) -> None:
    (tmp_path / "{a}").mkdir()
    study = open_study(f"sqlite:///{tmp_path}/{{a}}/s.db", "s", kind="heads", reduction=3, settings={})
    assert study.study_name == "s"
    assert (tmp_path / "{a}" / "s.db").is_file()
