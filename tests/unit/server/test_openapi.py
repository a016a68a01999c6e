"""Whatever fits the server's own description of its requests, or just does not, is never answered with a 500."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from bertvision.server.service import PackService
from tiny_server import app_with, listening, make_packs

schemathesis = pytest.importorskip("schemathesis", reason="an extra for developers")
pytestmark = pytest.mark.allow_hosts(["127.0.0.1"])


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    packs = make_packs(tmp_path_factory.mktemp("packs"))
    service = PackService(list(packs.values()), device="cpu")
    with listening(app_with(service, text_characters=200, wait_ms=0)) as address:
        yield schemathesis.openapi.from_url(f"{address}openapi.json")


@pytest.mark.parametrize("path", ["/v1/answer", "/v1/classify", "/v1/score", "/v1/layers"])
def test_no_request_is_answered_with_a_500(described: Any, path: str) -> None:  # noqa: ANN401 - a schema
    operation = described[path]["POST"]
    modes = schemathesis.GenerationMode
    valid, wrong = (operation.as_strategy(generation_mode=mode) for mode in (modes.POSITIVE, modes.NEGATIVE))

    @settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(case=valid | wrong)
    def send(case: Any) -> None:  # noqa: ANN401 - a request
        reply = case.call()
        case.validate_response(reply, checks=[schemathesis.checks.not_a_server_error])
        assert reply.status_code in (200, 400, 405, 413, 422)

    send()
