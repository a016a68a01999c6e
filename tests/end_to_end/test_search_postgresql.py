"""`bertvision search` with its trials in PostgreSQL, where a server can be run here."""

import importlib.util
import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from bertvision.cli.main import main
from tiny_run import save_tiny_encoder, write_labels

PASSWORD = "open-sesame"  # noqa: S105 - of a server that lives as long as this test

SPACE = """
lr = { low = 1e-3, high = 1e-1, log = true }
[head.layer_mix]
dropout = [0.0, 0.2]
[head.adapter_pool]
size = { low = 2, high = 6 }
"""


def binaries() -> Path | None:
    """Where PostgreSQL's programs are: on the path, or where Debian puts them."""
    found = shutil.which("initdb")
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return Path(found).parent if found else debian[-1].parent if debian else None


def server_user() -> str | None:
    """Who runs the server, which refuses to be run by root; None where there is nobody."""
    if os.geteuid() != 0:
        return pwd.getpwuid(os.geteuid()).pw_name
    return next((name for name in ("postgres", "nobody") if name in {one.pw_name for one in pwd.getpwall()}), None)


pytestmark = pytest.mark.skipif(
    binaries() is None or server_user() is None or importlib.util.find_spec("psycopg") is None,
    reason="needs the programs of PostgreSQL and psycopg",
)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """An empty database behind a socket of its own; its address has a password that is asked for."""
    place, programs, user = Path(tempfile.mkdtemp(prefix="bv-")), binaries(), server_user()  # a socket's path is short
    assert programs is not None
    assert user is not None
    other = user if os.geteuid() == 0 else None

    def do(*words: str) -> None:
        subprocess.run(words, check=True, capture_output=True, cwd=place, user=other)

    try:
        (place / "password").write_text(PASSWORD, encoding="utf-8")
        shutil.chown(place, user)
        shutil.chown(place / "password", user)
        secure = ("--username=me", "--auth=scram-sha-256", f"--pwfile={place / 'password'}", "--no-sync")
        do(f"{programs}/initdb", f"--pgdata={place}/data", *secure)
        asked = f"-c listen_addresses= -c unix_socket_directories={place} -c fsync=off"
        do(f"{programs}/pg_ctl", "start", "-w", "-D", f"{place}/data", "-l", f"{place}/log", "-o", asked)
        try:
            yield f"postgresql://me:{PASSWORD}@/postgres?host={place}"
        finally:
            do(f"{programs}/pg_ctl", "stop", "-m", "immediate", "-D", f"{place}/data")
    finally:
        shutil.rmtree(place, ignore_errors=True)


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    (tmp_path / "space.toml").write_text(SPACE, encoding="utf-8")
    data, encoder = write_labels(tmp_path / "data", train=60), save_tiny_encoder(tmp_path / "encoder")
    return [
        *("search", "sst2", "--data", data, "--encoder", encoder, "--space", str(tmp_path / "space.toml")),
        *("--length", "64", "--epochs", "2", "--batch", "8", "--held-out", "0.3", "--device", "cpu"),
        *("--together", "1", "--trials", "12"),
    ]


@pytest.mark.slow
def test_two_processes_share_one_database_and_no_password_is_written_down(
    command: list[str], address: str, tmp_path: Path
) -> None:
    words = [sys.executable, "-m", "bertvision", *command, "--storage", address, "--out"]
    both = [
        subprocess.Popen([*words, str(tmp_path / name)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for name in ("one", "two")
    ]
    said = [one.communicate(timeout=240) for one in both]
    assert [one.returncode for one in both] == [0, 0], said
    records = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(tmp_path.glob("*/trials.json"))]
    last = max(records, key=lambda record: record["best"]["dev"] is not None)  # whoever ended last
    assert len(last["trials"]) >= 12  # those who ask in the same moment may make a few more
    assert {row["state"] for row in last["trials"]} <= {"complete", "pruned"}
    assert {row["provenance"]["command"].rpartition("/")[2] for row in last["trials"]} == {"one", "two"}
    files = [path for name in ("one", "two") for path in (tmp_path / name).rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if PASSWORD.encode() in path.read_bytes()]
    assert PASSWORD not in str(said)
    assert "me:***@/postgres" in last["provenance"]["command"]


def test_a_wrong_password_is_an_error_that_does_not_tell_it(
    capsys: pytest.CaptureFixture[str], command: list[str], address: str, tmp_path: Path
) -> None:
    wrong = address.replace(PASSWORD, "sesame-shut")
    assert main([*command, "--storage", wrong, "--out", str(tmp_path / "run")]) == 2
    errors = capsys.readouterr().err
    assert "me:***@/postgres" in errors
    assert 'password authentication failed for user "me"' in errors
    assert "sesame-shut" not in errors
