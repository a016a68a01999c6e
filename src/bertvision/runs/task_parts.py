"""TaskParts: a task's examples, split as a run splits them, and how they become token windows; no encoder runs."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from bertvision.encoder.load import mean_pooled
from bertvision.encoder.tuned import base_encoder
from bertvision.errors import BertVisionError
from bertvision.heads.options import ATTENTION
from bertvision.runs.fitting.fit_request import FitRequest
from bertvision.runs.parts import split_train, training_split
from bertvision.tasks.examples import Examples, Texts
from bertvision.tasks.load import TaskData
from bertvision.tasks.part import Part
from bertvision.tasks.task import Pairs, Pool, Task
from bertvision.tasks.token_rows import TokenRows
from bertvision.tasks.tokenizer import TextTokenizer
from bertvision.tasks.windows import WindowOptions, build_windows


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskParts:
    """A task's examples, and how they are cut.

    Attributes:
        task: what is asked.
        whole: every split as it was loaded.
        notices: what the user should know.
        learnt: training examples that heads learn from.
        held_out: training examples that nobody learns from; None if there are none.
        tokenizer: the encoder's.
        options: of token windows.
        pool: which row counts for labels, tags and scores, where heads do not pool tokens themselves.
        pairs: how the two texts of a pair are encoded; `together` where texts are single.
    """

    task: Task
    whole: Mapping[str, Examples]
    notices: tuple[str, ...]
    learnt: Examples
    held_out: Examples | None
    tokenizer: TextTokenizer
    options: WindowOptions
    pool: Pool
    pairs: Pairs

    @property
    def separate(self) -> bool:
        """Whether the texts of a pair are encoded each by itself."""
        return self.pairs != "together"

    def part(self, examples: Examples) -> Part:
        """Examples with their windows: of pairs apart, those of the first texts."""
        first = _first(examples) if self.separate else examples
        return Part(examples=examples, windows=build_windows(self.task, first, self.tokenizer, self.options))

    def texts(self, part: Part) -> list[TokenRows]:
        """The windows that are encoded for a part: of pairs apart, those of the first texts and of the second."""
        if not self.separate:
            return [part.windows]
        second = build_windows(self.task, _second(part.examples), self.tokenizer, self.options)
        return [part.windows, second]


def split_parts(request: FitRequest, loaded: TaskData) -> TaskParts:
    """Split a task's data as the request says.

    Raises:
        BertVisionError: they do not fit.
    """
    train = training_split(loaded)
    sentences = mean_pooled(request.main_encoder)
    paired = isinstance(train, Texts) and train.pairs is not None
    attention = request.pool == ATTENTION
    own: Pairs = "aligned" if sentences and not attention else "together"
    asked: Pairs = own if request.pairs == "auto" else request.pairs
    pairs = asked if paired else "together"
    if attention:
        _check_attention(request, loaded.task, pairs)
    if request.store is not None and pairs != "together":
        raise BertVisionError("a store keeps pairs together. Use --pairs together, or --from stream.")
    learnt, held_out = split_train(train, fraction=request.largest, held_out=request.held_out, seed=request.seed)
    return TaskParts(
        task=loaded.task,
        whole=loaded.splits,
        notices=loaded.notices,
        learnt=learnt,
        held_out=held_out,
        tokenizer=TextTokenizer.load(base_encoder(request.main_encoder)),
        options=request.windows,
        pool=request.pool if request.pool in ("cls", "mean") else "mean" if sentences else "cls",
        pairs=pairs,
    )


def _check_attention(request: FitRequest, task: Task, pairs: Pairs) -> None:
    """Refuse what `--pool attention` cannot do."""
    if task.kind == "spans":
        raise BertVisionError(f"--pool attention is for labels, tags and scores; {task.name} needs every token's row.")
    if pairs != "together":
        raise BertVisionError("--pool attention reads the two texts of a pair together. Use --pairs together.")
    if request.store is not None:
        raise BertVisionError("--pool attention needs every token, and a store of texts keeps one. Use --from stream.")


def _first(examples: Examples) -> Texts:
    return replace(_texts(examples), pairs=None)


def _second(examples: Examples) -> Texts:
    texts = _texts(examples)
    if texts.pairs is None:
        raise TypeError("there are no second texts")
    return replace(texts, texts=texts.pairs, pairs=None)


def _texts(examples: Examples) -> Texts:
    if not isinstance(examples, Texts):
        raise TypeError("only texts come in pairs")
    return examples
