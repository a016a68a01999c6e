"""Over HTTP: replies, every limit with its status and JSON, the token, log lines, metrics, the page's files."""

import asyncio
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bertvision.packs.pack import Pack
from bertvision.server.app import PAGE_FILES
from bertvision.server.jobs import Job
from bertvision.server.limits import Limits
from bertvision.server.logs import LOGGER, JsonLines, log_to_standard_error
from bertvision.server.middleware import OPEN, RequestMiddleware
from bertvision.server.service import PackService
from tiny_server import CONTEXT, QUESTION, app_with, make_packs

SECONDS = 10.0
ASKED = {"question": QUESTION, "context": CONTEXT}
TOKEN = "a-secret"  # noqa: S105 - of a test


@pytest.fixture(scope="module")
def packs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Pack]:
    return make_packs(tmp_path_factory.mktemp("packs"))


@pytest.fixture(scope="module")
def service(packs: dict[str, Pack]) -> PackService:
    return PackService(list(packs.values()), device="cpu")


@pytest.fixture(scope="module")
def client(service: PackService) -> Iterator[TestClient]:
    with TestClient(app_with(service, body_bytes=2000, text_characters=100)) as found:
        yield found


class Gate:
    """Keeps the first pass waiting until it is opened."""

    def __init__(self) -> None:
        self.passes: list[int] = []
        self.entered = threading.Event()
        self.opened = threading.Event()

    def __call__(self, jobs: Sequence[Job]) -> None:
        self.passes.append(len(jobs))
        self.entered.set()
        assert self.opened.wait(SECONDS)


@contextmanager
def busy(service: PackService, clients: int = 1, **limits: Any) -> Iterator[tuple[TestClient, Gate, Callable[[], Any]]]:  # noqa: ANN401
    """A server whose model is busy with one request; `ask` sends another from a thread of its own."""
    gate = Gate()
    with (
        TestClient(app_with(service, before=gate, **limits)) as client,
        ThreadPoolExecutor(clients + 1) as threads,
    ):

        def ask() -> Any:  # noqa: ANN401 - a future
            return threads.submit(client.post, "/v1/answer", json=ASKED)

        first = ask()
        assert gate.entered.wait(SECONDS)
        yield client, gate, ask
        gate.opened.set()
        assert first.result(SECONDS).status_code in (200, 503)


def problem_of(reply: Any) -> tuple[int, str, str]:  # noqa: ANN401 - a reply
    error = reply.json()["error"]
    assert error["request_id"] == reply.headers["x-request-id"]
    assert reply.headers["content-type"] == "application/json"
    return reply.status_code, error["code"], error["message"]


def test_an_answer_has_its_place_its_runners_up_and_every_head(client: TestClient) -> None:
    reply = client.post("/v1/answer", json=ASKED | {"top": 4})
    assert reply.status_code == 200
    said = reply.json()
    assert set(said) == {"pack", "answer", "score", "start", "end", "no_answer", "alternatives", "heads"}
    assert said["answer"] == CONTEXT[said["start"] : said["end"]]
    assert len(said["alternatives"]) == 3
    scores = [said["score"], *(one["score"] for one in said["alternatives"])]
    assert scores == sorted(scores, reverse=True)
    assert [head["head"] for head in said["heads"]] == ["layer_mix", "last_layer"]


def test_labels_scores_layers_and_packs(client: TestClient) -> None:
    assert client.post("/v1/classify", json={"text": "a good"}).json()["pack"] == "sst2"
    assert len(client.post("/v1/classify", json={"text": "a good", "pack": "moods"}).json()["labels"]) == 3
    assert isinstance(client.post("/v1/score", json={"text": "a", "text_pair": "b"}).json()["score"], float)
    layers = client.post("/v1/layers", json=ASKED).json()["heads"]
    assert [len(head["layers"]) for head in layers] == [3, 3]
    assert client.post("/v1/layers", json={"text": "a good"}).json()["heads"][0]["layers"][2]["share"] == 1.0
    listed = client.get("/v1/packs").json()
    assert listed["text_characters"] == 100
    assert [pack["name"] for pack in listed["packs"]][:3] == ["squad2", "sst2", "sts"]
    assert listed["packs"][0]["encoder"] == "encoder"  # where it lies is nobody's business


def test_requests_of_many_clients_share_passes(service: PackService) -> None:
    with busy(service, clients=24, wait_ms=0) as (client, gate, ask):
        waiting = [ask() for _ in range(24)]
        until = time.monotonic() + SECONDS
        while client.get("/healthz").json()["queue"] < 24 and time.monotonic() < until:
            time.sleep(0.01)
        gate.opened.set()
        replies = [one.result(SECONDS) for one in waiting]
        assert {reply.status_code for reply in replies} == {200}
        assert len({reply.text for reply in replies}) == 1
        assert gate.passes == [1, 24]
        metrics = client.get("/metrics").text
        assert "bertvision_batch_requests_count 2.0" in metrics
        assert 'bertvision_requests_total{path="/v1/answer",status="200"} 25.0' in metrics


def test_a_body_that_is_too_large_is_refused_by_its_length_and_by_what_comes(client: TestClient) -> None:
    for body in (b" " * 2001, iter([b" " * 1500] * 2)):  # the second does not say how long it is
        status, code, message = problem_of(client.post("/v1/answer", content=body))
        assert (status, code) == (413, "body_too_large")
        assert "2,000 bytes at most" in message


def test_a_body_that_does_not_come_is_not_waited_for() -> None:
    sent: list[Any] = []

    async def never() -> Any:  # noqa: ANN401 - a message
        await asyncio.sleep(SECONDS)

    async def send(message: Any) -> None:  # noqa: ANN401
        sent.append(message)

    async def app(*_: Any) -> None:  # noqa: ANN401
        raise AssertionError("nothing is served")

    border = RequestMiddleware(
        app, limits=Limits(seconds=1.0), token=None, hosts=None, paths=frozenset(), count=lambda *_: None
    )
    scope = {"type": "http", "path": "/v1/answer", "method": "POST", "headers": []}
    asyncio.run(border(scope, never, send))
    assert sent[0]["status"] == 408
    assert json.loads(sent[1]["body"])["error"]["code"] == "slow_body"


@pytest.mark.parametrize(
    ("path", "body", "code", "message"),
    [
        ("answer", ASKED | {"context": "a" * 101}, "text_too_long", "100 characters at most, got 101"),
        ("classify", {"text": "a" * 101}, "text_too_long", "100 characters at most"),
        ("answer", {"question": "a"}, "invalid", "context: Field required"),
        ("answer", ASKED | {"question": " "}, "invalid", "the question is empty"),
        ("answer", ASKED | {"top": 0}, "invalid", "top: Input should be greater than or equal to 1"),
        ("answer", ASKED | {"top": 21}, "invalid", "top: "),
        ("answer", ASKED | {"pack": "sst2"}, "invalid", "unknown pack 'sst2'"),
        ("answer", ASKED | {"tpo": 1}, "invalid", "tpo: Extra inputs are not permitted"),
        ("answer", [1], "invalid", "the body: "),
        ("answer", ASKED | {"question": "\ud800"}, "invalid", "half of a surrogate pair"),
        ("answer", ASKED | {"\ud800": 1}, "invalid", "valid string"),
        ("classify", {"text": "a", "text_pair": "b"}, "invalid", "reads single texts, got a pair"),
        ("score", {"text": "a"}, "invalid", "reads pairs of texts, got one text"),
        ("layers", {"text": "a", "question": "b"}, "invalid", "question and context are expected, or text"),
        ("layers", {"question": "b"}, "invalid", "question and context are expected, or text"),
    ],
)
def test_what_cannot_be_read_is_told(client: TestClient, path: str, body: Any, code: str, message: str) -> None:  # noqa: ANN401
    reply = client.post(f"/v1/{path}", content=json.dumps(body), headers={"content-type": "application/json"})
    status, got, words = problem_of(reply)
    assert (status, got) == (422, code)
    assert message in words


@pytest.mark.parametrize("body", [b"{", b"[" * 1999, b"\xff", b'{"top": 1' + b"0" * 1900])
def test_what_is_no_json_is_told(client: TestClient, body: bytes) -> None:
    reply = client.post("/v1/answer", content=body, headers={"content-type": "application/json"})
    assert problem_of(reply)[:2] == (400, "no_json")


@pytest.mark.parametrize(
    ("headers", "body", "message"),
    [
        (
            {"content-type": "text/plain"},
            b"{}",
            "content-type is 'text/plain'. Send the header content-type: application",
        ),
        ({}, b"{}", "content-type is ''. Send the header"),
        ({"content-type": "application/json"}, b"", "the body is empty. Send an object of JSON."),
        ({"content-type": "application/json"}, b"[1]", "the body: an object of JSON is expected, got list."),
        ({"content-type": "application/json"}, b'"a"', "the body: an object of JSON is expected, got str."),
    ],
)
def test_a_body_that_is_no_object_is_told_with_what_to_send(
    client: TestClient, headers: dict[str, str], body: bytes, message: str
) -> None:
    status, code, words = problem_of(client.post("/v1/answer", content=body, headers=headers))
    assert (status, code) == (422, "invalid")
    assert message in words


def test_those_who_watch_ask_with_head(client: TestClient) -> None:
    for path in ("/healthz", "/", "/v1/packs"):
        assert client.head(path).status_code == 200
    assert client.head("/v1/answer").status_code == 405


def test_other_paths_and_methods_are_told_in_json(client: TestClient) -> None:
    assert problem_of(client.get("/nothing"))[:2] == (404, "not_found")
    reply = client.get("/v1/answer")
    assert problem_of(reply) == (405, "wrong_method", "this path takes POST, got GET.")
    assert reply.headers["allow"] == "POST"
    metrics = client.get("/metrics").text
    assert "/nothing" not in metrics
    assert 'path="other",status="404"' in metrics
    assert 'path="/v1/answer",status="405"' in metrics


def test_no_pack_of_a_kind_is_told(packs: dict[str, Pack]) -> None:
    with TestClient(app_with(PackService([packs["sst2"]], device="cpu"))) as client:
        status, _, message = problem_of(client.post("/v1/answer", json=ASKED))
    assert (status, message) == (422, "no pack here is for spans; served are: sst2.")


def test_a_full_queue_is_told_at_once(service: PackService) -> None:
    with busy(service, clients=2, queue=2) as (client, gate, ask):
        waiting = [ask() for _ in range(2)]
        while client.get("/healthz").json()["queue"] < 2:
            time.sleep(0.01)
        refused = client.post("/v1/answer", json=ASKED)
        assert problem_of(refused)[:2] == (429, "queue_full")
        assert refused.headers["retry-after"] == "1"
        gate.opened.set()
        assert [one.result(SECONDS).status_code for one in waiting] == [200, 200]
        assert client.post("/v1/answer", json=ASKED).status_code == 200


def test_a_reply_that_takes_too_long_is_told(service: PackService) -> None:
    with busy(service, seconds=1.0) as (_, gate, ask):
        reply = ask().result(SECONDS)
        assert problem_of(reply)[:2] == (503, "too_slow")
        gate.opened.set()
    assert gate.passes == [1]  # nobody waited for the second any more


FIELDS = ("question", "context", "text", "text_pair", "top", "pack")
VALUES = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=120) | st.lists(st.text(), max_size=2)
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    path=st.sampled_from(["answer", "classify", "score", "layers"]),
    body=st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=3), VALUES, max_size=6) | VALUES,
)
def test_whatever_is_sent_is_answered_or_refused(client: TestClient, path: str, body: Any) -> None:  # noqa: ANN401
    reply = client.post(f"/v1/{path}", content=json.dumps(body), headers={"content-type": "application/json"})
    assert reply.status_code in (200, 400, 413, 422)
    assert reply.status_code == 200 or problem_of(reply)


def test_a_mistake_of_ours_is_told_without_its_inside_and_logged(
    service: PackService, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_jobs: Sequence[Job]) -> None:
        raise RuntimeError("an inner secret")

    with TestClient(app_with(service, before=fail)) as client, caplog.at_level(logging.INFO, logger=LOGGER):
        reply = client.post("/v1/answer", json=ASKED)
        assert problem_of(reply)[:2] == (500, "internal")
        assert "inner secret" not in reply.text
        assert client.get("/healthz").status_code == 200
    (error,) = [record for record in caplog.records if record.levelname == "ERROR"]
    line = json.loads(JsonLines().format(error))
    assert line["request_id"] == reply.headers["x-request-id"]
    assert "inner secret" in line["traceback"]


def test_a_token_is_asked_for_everywhere_but_at_the_page_and_the_health(service: PackService) -> None:
    with TestClient(app_with(service, token=TOKEN)) as client:
        for path in OPEN:
            assert client.get(path).status_code == 200
        for path in ("/v1/packs", "/metrics", "/openapi.json", "/nothing"):
            for given in ({}, {"authorization": "Bearer wrong"}, {"authorization": f"Basic {TOKEN}"}):
                reply = client.get(path, headers=given)
                assert problem_of(reply)[:2] == (401, "token")
                assert reply.headers["www-authenticate"] == "Bearer"
                assert TOKEN not in reply.text
        assert client.post("/v1/answer", json=ASKED).status_code == 401
        assert client.post("/v1/answer", json=ASKED, headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200
        assert client.get("/v1/packs", headers={"authorization": f"bearer {TOKEN}"}).status_code == 200


def test_every_request_leaves_a_line_with_its_id_and_without_its_text(
    client: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger=LOGGER):
        mine = client.post("/v1/answer", json=ASKED, headers={"x-request-id": "mine-1", "authorization": "Bearer x-y"})
        odd = client.post("/v1/answer", json=ASKED, headers={"x-request-id": 'a"b'})
    assert mine.headers["x-request-id"] == "mine-1"
    assert odd.headers["x-request-id"].isalnum()
    lines = [json.loads(JsonLines().format(record)) for record in caplog.records if record.name == LOGGER]
    assert [line["request_id"] for line in lines] == ["mine-1", odd.headers["x-request-id"]]
    assert {name: lines[0][name] for name in ("event", "method", "path", "status", "level")} == {
        "event": "request", "method": "POST", "path": "/v1/answer", "status": 200, "level": "info",
    }  # fmt: skip
    assert lines[0]["seconds"] > 0
    whole = json.dumps(lines)
    assert CONTEXT not in whole
    assert "x-y" not in whole


def test_log_lines_are_json_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    loggers = [logging.getLogger(name) for name in (LOGGER, "uvicorn")]
    before = [(logger.handlers[:], logger.level, logger.propagate) for logger in loggers]
    try:
        log_to_standard_error()
        logging.getLogger(LOGGER).info("hello", extra={"fields": {"n": 1}})
        logging.getLogger("uvicorn.error").info("a\nb")
    finally:
        for logger, (handlers, level, propagate) in zip(loggers, before, strict=True):
            logger.handlers[:], logger.propagate = handlers, propagate
            logger.setLevel(level)
    first, second = (json.loads(line) for line in capsys.readouterr().err.splitlines())
    assert (first["event"], first["n"], second["event"]) == ("hello", 1, "a\nb")


def test_the_page_has_a_strict_policy_and_nothing_inline_or_from_elsewhere(client: TestClient) -> None:
    for path, (_, kind) in PAGE_FILES.items():
        reply = client.get(path)
        assert reply.status_code == 200
        assert reply.headers["content-type"] == kind
        assert "default-src 'none'" in reply.headers["content-security-policy"]
        assert "unsafe" not in reply.headers["content-security-policy"]
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert "//" not in reply.text.replace("http://www.w3.org/2000/svg", "").replace("// ", "")
    page = client.get("/").text
    assert "style=" not in page
    assert " onclick" not in page
    assert "innerHTML" not in client.get("/page.js").text
    for example in client.get("/examples.json").json():
        assert set(example) == {"title", "text", "questions"}


def test_the_description_names_every_route_and_every_refusal(client: TestClient) -> None:
    described = client.get("/openapi.json").json()
    assert set(described["paths"]) == {
        *(f"/v1/{name}" for name in ("answer", "classify", "score", "layers", "packs")),
        *("/healthz", "/metrics"),
    }
    answer = described["paths"]["/v1/answer"]["post"]
    assert set(answer["responses"]) == {"200", "400", "401", "408", "413", "421", "422", "429", "503"}
    refused = answer["responses"]["422"]["content"]["application/json"]["schema"]
    assert refused == {"$ref": "#/components/schemas/ProblemReply"}
