import subprocess

import pytest

from bertvision import provenance as module
from bertvision.provenance import provenance


def no_git(*_words: object, **_settings: object) -> None:
    raise FileNotFoundError("git")


def test_a_checkout_tells_its_commit() -> None:
    assert len(str(provenance()["commit"])) == 40


def test_without_git_the_environment_may_name_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", no_git)
    monkeypatch.delenv(module.COMMIT, raising=False)
    assert provenance()["commit"] is None
    monkeypatch.setenv(module.COMMIT, "abc")
    assert (provenance()["commit"], provenance()["dirty"]) == ("abc", None)
