"""`bertvision serve` as a user runs it: on a free port, with a token, stopped by a signal."""

import os
import signal
import socket
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from bertvision import pack_files
from bertvision.cli.main import main
from bertvision.packs.pack import Pack
from served import SECONDS, served
from tiny_server import CONTEXT, QUESTION, make_packs

ASKED = {"question": QUESTION, "context": CONTEXT}
Capture = pytest.CaptureFixture[str]
pytestmark = pytest.mark.allow_hosts(["127.0.0.1"])


@pytest.fixture(scope="module")
def packs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Pack]:
    return make_packs(tmp_path_factory.mktemp("packs"))


def test_two_packs_behind_a_token_stopped_while_requests_wait(packs: dict[str, Pack], tmp_path: Path) -> None:
    words = ["--pack", str(packs["squad2"].folder), "--pack", str(packs["sst2"].folder), "--wait-ms", "1000"]
    environment = {**os.environ, "BERTVISION_TOKEN": "a-secret"}
    bearer = {"authorization": "Bearer a-secret"}
    with served(tmp_path, *words, environment=environment) as server, ThreadPoolExecutor(8) as threads:
        assert server.address.startswith("http://127.0.0.1:")
        assert server.post("/v1/answer", ASKED)[0] == 401
        waiting = [threads.submit(server.post, "/v1/answer", ASKED, bearer) for _ in range(6)]
        waiting += [threads.submit(server.post, "/v1/classify", {"text": "good"}, bearer) for _ in range(2)]
        time.sleep(0.4)  # they wait for more now
        assert not any(one.done() for one in waiting)
        server.process.send_signal(signal.SIGTERM)
        replies = [one.result(SECONDS) for one in waiting]
        assert [status for status, _ in replies] == [200] * 8
        assert replies[0][1]["answer"] in CONTEXT
        assert server.process.wait(SECONDS) == 0
    lines = server.lines()
    requests = [line for line in lines if line["event"] == "request"]
    assert sorted(line["status"] for line in requests) == [200] * 8 + [401]
    assert len({line["request_id"] for line in requests}) == 9
    assert "a-secret" not in server.log.read_text(encoding="utf-8")


LOCAL = {"127.0.0.1", "LOCALHOST:8000", "[::1]:8000", "[::1]"}
FOREIGN = {"evil.example", "evil.example:8000", "localhost.evil.example", "127.0.0.1.evil.example", "[::2]"}


@pytest.mark.parametrize(
    ("words", "refused"),
    [
        ([], FOREIGN | {"qa.example"}),
        (["--allowed-host", "QA.example"], FOREIGN),
        (["--token", "a-secret"], set()),  # which web pages from elsewhere do not know
        (["--token", "a-secret", "--allowed-host", "qa.example"], FOREIGN),
        (["--host", "192.0.2.1"], set()),
        (["--host", "192.0.2.1", "--allowed-host", "qa.example"], FOREIGN),
    ],
)
def test_a_web_page_whose_name_was_made_to_lead_here_is_refused(
    packs: dict[str, Pack], monkeypatch: pytest.MonkeyPatch, words: list[str], refused: set[str]
) -> None:
    served_app: list[FastAPI] = []
    monkeypatch.setattr("bertvision.server.serve.serve", lambda app, **_: served_app.append(app))
    monkeypatch.delenv("BERTVISION_TOKEN", raising=False)
    assert main(["serve", "--pack", str(packs["sst2"].folder), "--device", "cpu", *words]) == 0
    client = TestClient(served_app[0])
    for host in LOCAL | FOREIGN | {"qa.example", "qa.example:443"}:
        reply = client.get("/healthz", headers={"host": host})
        wrong = host.partition(":443")[0] in refused
        assert reply.status_code == (421 if wrong else 200), host
        assert not wrong or reply.json()["error"]["code"] == "wrong_host"


def test_a_second_interrupt_ends_it_while_a_request_is_open(packs: dict[str, Pack], tmp_path: Path) -> None:
    with served(tmp_path, "--pack", str(packs["squad2"].folder), "--seconds", "5") as server:
        port = int(server.address.rstrip("/").rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(b"POST /v1/answer HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 100\r\n\r\n")
            time.sleep(0.3)  # it waits for the body now
            server.process.send_signal(signal.SIGINT)
            time.sleep(0.5)
            assert server.process.poll() is None
            server.process.send_signal(signal.SIGINT)
            assert server.process.wait(10.0) == 0


def test_a_crowd_is_refused_at_once_and_then_served_again(packs: dict[str, Pack], tmp_path: Path) -> None:
    limits = ["--queue", "4", "--batch", "1", "--wait-ms", "0"]
    long = ASKED | {"context": f"{CONTEXT} " * 2000}  # keeps the model busy for a while
    with (
        served(tmp_path, "--pack", str(packs["squad2"].folder), *limits) as server,
        ThreadPoolExecutor(40) as threads,
    ):

        def ask(_number: int) -> tuple[int, float]:
            begin = time.monotonic()
            status, _ = server.post("/v1/answer", long)
            return status, time.monotonic() - begin

        replies = list(threads.map(ask, range(40)))
        refused = [seconds for status, seconds in replies if status == 429]
        answered = [seconds for status, seconds in replies if status == 200]
        assert len(refused) + len(answered) == 40
        assert len(refused) >= 20
        assert len(answered) >= 5
        assert np.median(refused) < np.median(answered)
        assert server.post("/v1/answer", ASKED)[0] == 200


def test_a_server_that_was_killed_starts_again_and_answers_the_same(packs: dict[str, Pack], tmp_path: Path) -> None:
    words = ["--pack", str(packs["squad2"].folder)]
    with pytest.raises(AssertionError), served(tmp_path, *words) as server:  # noqa: PT012 - its exit code is not 0
        before = server.post("/v1/answer", ASKED)
        server.process.kill()
        server.process.wait(SECONDS)
    with served(tmp_path, *words) as server:
        assert server.post("/v1/answer", ASKED) == before
    assert before[0] == 200


def test_without_any_pack_it_is_said_what_to_do(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pack_files, "BUILTIN_PACKS", tmp_path)
    assert main(["serve"]) == 2
    assert "Name one with --pack: a folder that `bertvision pack RUN --out DIR` made" in capsys.readouterr().err


def test_a_port_that_is_taken_is_told(capsys: Capture, packs: dict[str, Pack]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["serve", "--pack", str(packs["sst2"].folder), "--port", str(port), "--device", "cpu"]) == 2
    assert f"cannot listen at 127.0.0.1, port {port}: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--port", "70000"], "--port is 70000, 0 to 65535 is expected"),
        (["--token", "a b "], "the token is empty or has spaces"),
        (["--token", ""], "the token is empty or has spaces"),
        (["--seconds", "inf"], "--seconds is inf, a finite number is expected"),
        (["--allowed-host", "http://a.example"], "--allowed-host is 'http://a.example', a name without scheme"),
        (["--allowed-host", "a.example:80"], "--allowed-host is 'a.example:80', a name without scheme and port"),
        (["--queue", "0"], "--queue is 0, at least 1 is expected"),
        (["--pack", "./nowhere"], "nowhere holds no pack"),
    ],
)
def test_options_that_cannot_be_are_told(capsys: Capture, words: list[str], message: str) -> None:
    assert main(["serve", *words]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("package", ["fastapi", "uvicorn", "prometheus_client"])
def test_without_the_extra_it_is_said_what_to_install(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    for name in ("app", "border", "dispatcher", "metrics", "schema", "serve", "service"):
        monkeypatch.delitem(sys.modules, f"bertvision.server.{name}", raising=False)
    monkeypatch.setitem(sys.modules, package, None)
    assert main(["serve"]) == 2
    assert (
        f"serving needs the package '{package}'. Install it: pip install 'bertvision[serve]'" in capsys.readouterr().err
    )


def test_who_can_reach_it_is_said_where_nobody_is_kept_out(
    capsys: Capture, packs: dict[str, Pack], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bertvision.server.serve.serve", lambda *_a, ready, **_k: ready("http://somewhere/"))
    monkeypatch.delenv("BERTVISION_TOKEN", raising=False)
    pack = str(packs["sst2"].folder)
    assert main(["serve", "--host", "0.0.0.0", "--pack", pack, "--device", "cpu"]) == 0  # noqa: S104 - nobody listens
    output = capsys.readouterr()
    assert output.out == "serving sst2 at http://somewhere/\n"
    assert "whoever reaches 0.0.0.0 can use this server; --token" in output.err
    assert main(["serve", "--host", "0.0.0.0", "--pack", pack, "--device", "cpu", "--token", "x"]) == 0  # noqa: S104
    assert "whoever" not in capsys.readouterr().err
