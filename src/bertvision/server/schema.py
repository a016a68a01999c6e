"""Bodies of requests and replies; the OpenAPI description is generated from them."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from bertvision.server.service import TOP

PackName = Annotated[str | None, Field(description="Name of a pack, see /v1/packs; left out, the first that fits.")]


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid")  # a misspelt field is an error instead of being ignored


class AnswerRequest(_Request):
    """A question, and the text to look for the answer in."""

    question: str
    context: str
    top: Annotated[int, Field(ge=1, le=TOP, description="How many answers to give, the best included.")] = 3
    pack: PackName = None


class TextRequest(_Request):
    """A text, or a pair of texts where the pack reads pairs."""

    text: str
    text_pair: str | None = None
    pack: PackName = None


class LayersRequest(_Request):
    """A question and its context, or a text, or a pair of texts."""

    question: str | None = None
    context: str | None = None
    text: str | None = None
    text_pair: str | None = None
    pack: PackName = None


class Answer(BaseModel):
    """An answer, its probability, and its place in the context; null stands for "no answer"."""

    answer: str | None
    score: float
    start: Annotated[int | None, Field(description="First character, counted in Unicode code points.")]
    end: Annotated[int | None, Field(description="The character after the last.")]


class HeadAnswer(Answer):
    """The answer of one head."""

    head: str
    no_answer: float


class AnswerReply(Answer):
    """The answer of all heads of a pack together, the next most probable ones, and the answer of each head."""

    pack: str
    no_answer: Annotated[float, Field(description='Probability of "no answer".')]
    alternatives: list[Answer]
    heads: list[HeadAnswer]


class Label(BaseModel):
    """A label and its probability."""

    label: str
    score: float


class HeadLabels(BaseModel):
    """The labels of one head."""

    head: str
    chosen: list[str]
    labels: list[Label]


class ClassifyReply(BaseModel):
    """The most probable label, or all tags more probable than 1/2; every label with its probability."""

    pack: str
    chosen: list[str]
    labels: list[Label]
    heads: list[HeadLabels]


class HeadScore(BaseModel):
    """The score of one head."""

    head: str
    score: float


class ScoreReply(BaseModel):
    """The score, on the scale of the task."""

    pack: str
    score: float
    heads: list[HeadScore]


class Layer(BaseModel):
    """The contribution of a layer, states times gradient; `share` is that of its absolute value among all layers."""

    layer: Annotated[int, Field(description="0 is the embedding output.")]
    contribution: float
    share: float


class HeadLayers(BaseModel):
    """The layers behind one head's prediction; `explains` is an answer, a label, "score", or null for "no answer"."""

    head: str
    explains: str | None
    layers: list[Layer]


class LayersReply(BaseModel):
    """How much each layer contributed, head by head."""

    pack: str
    heads: list[HeadLayers]


class PackInfo(BaseModel):
    """A pack that is served."""

    name: str
    task: str
    kind: Annotated[str, Field(description="spans, labels, tags or scores")]
    pairs: bool
    encoder: str
    heads: list[str]
    labels: list[str]
    threshold: float | None
    scores: dict[str, float | None]
    licence: str


class PacksReply(BaseModel):
    """All packs that are served, and what a request may hold."""

    packs: list[PackInfo]
    text_characters: int


class Health(BaseModel):
    """Whether requests are served."""

    status: str
    queue: int


class Problem(BaseModel):
    """Why a request was not served."""

    code: str
    message: str
    request_id: str


class ProblemReply(BaseModel):
    """The body of every reply that is an error."""

    error: Problem
