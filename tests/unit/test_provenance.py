import subprocess

import pytest

from bertvision import provenance as module
from bertvision.provenance import provenance


def no_git(*_words: object, **_settings: object) -> None:
    raise FileNotFoundError("git")


def test_a_checkout_tells_its_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {"rev-parse": "abc\n", "status": ""}
    monkeypatch.setattr(
        subprocess, "run", lambda words, **_: subprocess.CompletedProcess(words, 0, answers[words[1]], "")
    )
    assert (provenance()["commit"], provenance()["dirty"]) == ("abc", False)


def test_without_git_the_environment_may_name_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", no_git)
    monkeypatch.delenv(module.COMMIT, raising=False)
    assert provenance()["commit"] is None
    monkeypatch.setenv(module.COMMIT, "abc")
    assert (provenance()["commit"], provenance()["dirty"]) == ("abc", None)
