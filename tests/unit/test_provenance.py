import importlib.metadata
import subprocess

import pytest

from bertvision import __version__
from bertvision import provenance as module
from bertvision.provenance import package_version, portable, provenance, without_password


def no_git(*_words: object, **_settings: object) -> None:
    raise FileNotFoundError("git")


def test_a_checkout_tells_its_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(module.COMMIT, raising=False)
    answers = {"rev-parse": "abc\n", "status": ""}
    monkeypatch.setattr(
        subprocess, "run", lambda words, **_: subprocess.CompletedProcess(words, 0, answers[words[1]], "")
    )
    assert (provenance()["commit"], provenance()["dirty"]) == ("abc", False)
    answers["status"] = " M src/bertvision/errors.py\n"
    assert provenance()["dirty"] is True
    monkeypatch.setenv(module.COMMIT, "named")  # a copied tree may lie in a checkout of something else
    assert (provenance()["commit"], provenance()["dirty"]) == ("named", None)


def test_without_git_the_environment_may_name_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", no_git)
    monkeypatch.delenv(module.COMMIT, raising=False)
    assert provenance()["commit"] is None
    monkeypatch.setenv(module.COMMIT, "abc")
    assert (provenance()["commit"], provenance()["dirty"]) == ("abc", None)


def test_a_version_is_the_installed_one_and_none_without_an_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = {"bertvision": "9.9", "numpy": "8.8"}

    def version(name: str) -> str:
        if name not in installed:
            raise importlib.metadata.PackageNotFoundError(name)
        return installed[name]

    monkeypatch.setattr(importlib.metadata, "version", version)
    assert (package_version(), package_version("numpy"), package_version("torch")) == ("9.9", "8.8", None)
    packages = provenance()["packages"]
    assert isinstance(packages, dict)
    assert (packages["bertvision"], packages["numpy"], packages["torch"]) == ("9.9", "8.8", None)


def test_an_installation_has_the_version_of_its_source() -> None:
    assert package_version() in (__version__, None)  # None: it runs from its source alone


def test_paths_of_a_machine_become_names() -> None:
    text = "bertvision bench rival --data /home/me/sets --encoder a/b=/models/mp --results results/x --ask c='and/or'"
    named = "bertvision bench rival --data sets --encoder a/b=mpnet --results results/x --ask c='and/or'"
    assert portable(text, {"mp": "mpnet"}) == named
    assert portable("/models/mp") == "mp"
    assert (
        portable("bench --encoder a=/m/a,b=/m/b --data '/home/me/my sets'")
        == "bench --encoder a=a,b=b --data 'my sets'"
    )


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("postgresql://me:secret@host:5432/db", "postgresql://me:***@host:5432/db"),
        ("postgresql+psycopg://me:se:c@ret/@host/db", "postgresql+psycopg://me:***@host/db"),
        ("--storage=postgresql://:secret@/db?host=/run", "--storage=postgresql://:***@/db?host=/run"),
        ("postgresql://host/db?user=me&password=secret&x=1", "postgresql://host/db?user=me&password=***&x=1"),
        (
            "postgresql://host/db?sslpassword=secret&PASSWORD=secret",
            "postgresql://host/db?sslpassword=***&PASSWORD=***",
        ),
        ("postgresql://me@host/db", "postgresql://me@host/db"),
        ("sqlite:////tmp/a:b@c.db", "sqlite:////tmp/a:b@c.db"),
        ("http://host:80/a", "http://host:80/a"),
        ("sst5=Is it: good@all?", "sst5=Is it: good@all?"),
    ],
)
def test_passwords_of_addresses_are_not_told(word: str, said: str) -> None:
    assert without_password(word) == said
