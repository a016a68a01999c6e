"""TaskParts: a task's examples, split as a run splits them, and how they become token windows; no encoder runs."""

from collections.abc import Mapping
from dataclasses import dataclass

from bertvision.encoder.load import usual_pool
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
from bertvision.tasks.windows import WindowOptions, Windows, build_windows


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
        options: options of token windows.
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
        return Part(examples=examples, windows=self._cut(self._sides(examples)[0]))

    def texts(self, part: Part) -> list[TokenRows]:
        """The windows that are encoded for a part: of pairs apart, those of the first texts and of the second."""
        return [part.windows, *(self._cut(side) for side in self._sides(part.examples)[1:])]

    def _cut(self, examples: Examples) -> Windows:
        return build_windows(self.task, examples, self.tokenizer, self.options)

    def _sides(self, examples: Examples) -> tuple[Examples, ...]:
        """What is encoded by itself: of pairs apart the first texts, and the second."""
        if not self.separate:
            return (examples,)
        if not isinstance(examples, Texts):
            raise TypeError("only texts come in pairs")
        if examples.pairs is None:
            raise TypeError("there are no second texts")
        return examples.sides()


def split_parts(request: FitRequest, loaded: TaskData) -> TaskParts:
    """Split a task's data as the request says.

    Raises:
        BertVisionError: they do not fit.
    """
    train = training_split(loaded)
    tokenizer = TextTokenizer.load(base_encoder(request.main_encoder))  # first, since it tells when there is no encoder
    usual = usual_pool(request.main_encoder)
    paired = isinstance(train, Texts) and train.pairs is not None
    attention = request.pool == ATTENTION
    own: Pairs = "aligned" if usual == "mean" and not attention else "together"
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
        tokenizer=tokenizer,
        options=request.windows,
        pool=request.pool if request.pool in ("cls", "mean") else usual,
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
