"""build_app: the service as an HTTP (ASGI) application, with an OpenAPI description and a page to try it."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.routing import Route

from bertvision import __version__
from bertvision.errors import BertVisionError
from bertvision.packs.inputs import takes_pairs
from bertvision.server.batcher import Batcher
from bertvision.server.dispatcher import Dispatcher
from bertvision.server.jobs import Job
from bertvision.server.limits import Limits, RefusedError
from bertvision.server.metrics import Metrics
from bertvision.server.middleware import RequestMiddleware, problem
from bertvision.server.schema import (
    AnswerReply,
    AnswerRequest,
    ClassifyReply,
    Health,
    LayersReply,
    LayersRequest,
    PackInfo,
    PacksReply,
    ProblemReply,
    ScoreReply,
    TextRequest,
)
from bertvision.server.service import PackService, Reply
from bertvision.tasks.task import TaskKind

PAGE = Path(__file__).parent / "page"
PAGE_FILES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
    "/examples.json": ("examples.json", "application/json"),
}
"""Path → file and content type."""

SPANS: tuple[TaskKind, ...] = ("spans",)
LABELS: tuple[TaskKind, ...] = ("labels", "tags")
SCORES: tuple[TaskKind, ...] = ("scores",)

REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": ProblemReply, "description": words}
    for status, words in {
        400: "The body is no JSON.",
        401: "The token is missing or wrong.",
        408: "The body did not arrive in time.",
        413: "The body is too large.",
        421: "The server does not answer to the host that was asked.",
        422: "A field is missing, wrong, empty or too long, or no such pack is served.",
        429: "Too many requests are waiting.",
        503: "The reply took too long, or the server is being stopped.",
    }.items()
}


NO_JSON = RefusedError(400, "no_json", "the body is no JSON in UTF-8. Send an object of JSON.")


def build_app(
    service: PackService, limits: Limits, *, token: str | None = None, hosts: frozenset[str] | None = None
) -> FastAPI:
    """Build the application: its routes, a batcher that lives as long as it, and `RequestMiddleware` around them.

    Args:
        service: packs to serve.
        limits: limits on requests.
        token: bearer token that requests must send; None needs no token.
        hosts: names allowed in the header Host, in lower case and without a port; None allows all.
    """
    batcher: Batcher[Job, Reply] = Batcher(service.run, limits)
    metrics = Metrics(lambda: len(batcher))
    batcher.on_pass = metrics.batch

    @asynccontextmanager
    async def run_batcher(_app: FastAPI) -> AsyncIterator[None]:
        batcher.start()
        try:
            yield
        finally:  # also when a second signal cancels this; waiting jobs are cancelled then, and are not computed
            await asyncio.to_thread(batcher.close)

    app = FastAPI(
        title="BERTVision",
        version=__version__,
        summary="Answers, labels and scores of packs over frozen encoders.",
        lifespan=run_batcher,
        docs_url=None,  # these pages load scripts from other servers
        redoc_url=None,
    )
    _add_problems(app)
    _add_requests(app, Dispatcher(service, batcher, limits))
    _add_views(app, service, batcher, metrics, limits)
    paths = frozenset(route.path for route in app.routes if isinstance(route, Route))
    app.add_middleware(RequestMiddleware, limits=limits, token=token, hosts=hosts, paths=paths, count=metrics.request)
    return app


def _add_requests(app: FastAPI, dispatcher: Dispatcher) -> None:
    @app.post("/v1/answer", response_model=AnswerReply, responses=REFUSALS)
    async def answer(request: AnswerRequest) -> Reply:
        """Answer a question from a text."""
        pack = dispatcher.choose(SPANS, request.pack)
        return await dispatcher.ask(Job(pack=pack, text=request.question, pair=request.context, top=request.top))

    @app.post("/v1/classify", response_model=ClassifyReply, responses=REFUSALS)
    async def classify(request: TextRequest) -> Reply:
        """Label a text or a pair of texts."""
        return await dispatcher.ask(
            Job(pack=dispatcher.choose(LABELS, request.pack), text=request.text, pair=request.text_pair)
        )

    @app.post("/v1/score", response_model=ScoreReply, responses=REFUSALS)
    async def score(request: TextRequest) -> Reply:
        """Score a text or a pair of texts."""
        return await dispatcher.ask(
            Job(pack=dispatcher.choose(SCORES, request.pack), text=request.text, pair=request.text_pair)
        )

    @app.post("/v1/layers", response_model=LayersReply, responses=REFUSALS)
    async def layers(request: LayersRequest) -> Reply:
        """Tell how much each layer contributed to an answer, a label or a score."""
        match request:
            case LayersRequest(question=str(question), context=str(context), text=None, text_pair=None):
                job = Job(pack=dispatcher.choose(SPANS, request.pack), text=question, pair=context, layers=True)
            case LayersRequest(question=None, context=None, text=str(text), text_pair=pair):
                pack = dispatcher.choose((*LABELS, *SCORES), request.pack)
                job = Job(pack=pack, text=text, pair=pair, layers=True)
            case _:
                raise BertVisionError("question and context are expected, or text, or text and text_pair.")
        return await dispatcher.ask(job)


def _add_views(
    app: FastAPI, service: PackService, batcher: Batcher[Job, Reply], metrics: Metrics, limits: Limits
) -> None:
    @app.get("/v1/packs", responses={401: REFUSALS[401]})
    async def packs() -> PacksReply:
        """Tell which packs are served."""
        infos = [
            PackInfo(
                name=name,
                task=card.task.name,
                kind=card.task.kind,
                pairs=takes_pairs(card),
                encoder=Path(card.encoder).name,
                heads=service.heads(number),
                labels=list(card.task.labels),
                threshold=card.threshold,
                scores=card.scores,
                licence=card.licence,
            )
            for number, (name, card) in enumerate(zip(service.names, service.cards, strict=True))
        ]
        return PacksReply(packs=infos, text_characters=limits.text_characters)

    @app.get("/healthz", responses={503: {"model": Health}})
    async def healthz(response: Response) -> Health:
        """Tell whether requests are served."""
        if batcher.closing:
            response.status_code = HTTPStatus.SERVICE_UNAVAILABLE
        return Health(status="stopping" if batcher.closing else "ok", queue=len(batcher))

    @app.get("/metrics", response_class=Response, responses={401: REFUSALS[401]})
    async def show_metrics() -> Response:
        """Give the numbers for Prometheus."""
        return Response(metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    for path, (name, content_type) in PAGE_FILES.items():
        _add_file(app, path, (PAGE / name).read_bytes(), content_type)


def _add_file(app: FastAPI, path: str, content: bytes, content_type: str) -> None:
    @app.get(path, include_in_schema=False)
    async def file() -> Response:
        return Response(content, media_type=content_type)


def _add_problems(app: FastAPI) -> None:
    def reply(request: Request, refused: RefusedError) -> Response:
        body, headers = problem(refused, request.state.request_id)
        return Response(body, refused.status, headers)

    @app.exception_handler(RefusedError)
    async def refuse(request: Request, error: RefusedError) -> Response:
        return reply(request, error)

    @app.exception_handler(BertVisionError)
    async def unreadable(request: Request, error: BertVisionError) -> Response:
        return reply(request, RefusedError(422, "invalid", str(error)))

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        if first["type"] == "json_invalid":
            return reply(request, NO_JSON)
        if first["loc"] == ("body",):
            return reply(request, RefusedError(422, "invalid", _describe_body(request, first)))
        where = ".".join(str(part) for part in first["loc"] if part != "body")
        return reply(request, RefusedError(422, "invalid", f"{where[:80]}: {first['msg']}."))

    @app.exception_handler(HTTPException)
    async def other(request: Request, error: HTTPException) -> Response:
        response = reply(request, _refuse_http(request, error))
        response.headers.update(error.headers or {})
        return response


def _refuse_http(request: Request, error: HTTPException) -> RefusedError:
    """An HTTP error of the framework as one of ours, with a message that says what to do."""
    match error.status_code:
        case 400:  # the body is not UTF-8, or nested too deeply
            return NO_JSON
        case 404:
            return RefusedError(404, "not_found", "there is nothing here; /openapi.json names every path.")
        case 405:
            takes = (error.headers or {}).get("Allow", "another method")
            return RefusedError(405, "wrong_method", f"this path takes {takes}, got {request.method[:20]}.")
        case status:
            return RefusedError(status, "refused", error.detail)


def _describe_body(request: Request, error: Mapping[str, Any]) -> str:
    """The message for an error of pydantic that is about the body as a whole."""
    if error["type"] == "missing":
        return "the body is empty. Send an object of JSON."
    if isinstance(error["input"], bytes):  # not parsed, since the content type is not that of JSON
        content_type = request.headers.get("content-type", "")[:80]
        return f"the body: its content-type is '{content_type}'. Send the header content-type: application/json"
    if error["type"] == "model_attributes_type":
        return f"the body: an object of JSON is expected, got {type(error['input']).__name__}."
    return f"the body: {error['msg']}."
