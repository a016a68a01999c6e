"""TaskParts: the training and held-out examples of a fit, and how they become token windows; no encoder runs."""

from collections.abc import Mapping
from dataclasses import dataclass

from bertvision.encoder.load import mean_pooled, usual_pool
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
    """The examples of a task, and how they are tokenized and encoded.

    Attributes:
        task: the task.
        whole: every split as it was loaded.
        notices: messages for the user.
        train: training examples, without those held out.
        held_out: held-out training examples; None if there are none.
        tokenizer: the encoder's.
        options: length and stride of token windows.
        pool: how tokens are pooled, for labels, tags and scores, unless heads pool them by attention.
        pairs: how the two texts of a pair are encoded; `together` for single texts.
    """

    task: Task
    whole: Mapping[str, Examples]
    notices: tuple[str, ...]
    train: Examples
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
        """Examples with their windows; of pairs that are encoded separately, the windows of the first texts."""
        return Part(examples=examples, windows=self._cut(self._sides(examples)[0]))

    def texts(self, part: Part) -> list[TokenRows]:
        """The windows that are encoded for a part: one set; for pairs that are encoded separately, one per text."""
        return [part.windows, *(self._cut(side) for side in self._sides(part.examples)[1:])]

    def _cut(self, examples: Examples) -> Windows:
        return build_windows(self.task, examples, self.tokenizer, self.options)

    def _sides(self, examples: Examples) -> tuple[Examples, ...]:
        """The examples as they are; pairs that are encoded separately, as first texts and second texts."""
        if not self.separate:
            return (examples,)
        if not isinstance(examples, Texts):
            raise TypeError("only texts come in pairs")
        if examples.pairs is None:
            raise TypeError("there are no second texts")
        return examples.sides()


def split_parts(request: FitRequest, loaded: TaskData) -> TaskParts:
    """Split the training examples as the request says, and choose pooling and the way to encode pairs.

    Raises:
        BertVisionError: there is no such encoder or no training split, there are too few examples, or the request's
            `pool`, `pairs` and `source` do not go together.
    """
    whole_train = training_split(loaded)
    tokenizer = TextTokenizer.load(base_encoder(request.main_encoder))  # first: says so if there is no such encoder
    attention = request.pool == ATTENTION
    pairs: Pairs = "together"
    if isinstance(whole_train, Texts) and whole_train.pairs is not None:
        default: Pairs = "aligned" if mean_pooled(request.main_encoder) and not attention else "together"
        pairs = default if request.pairs == "auto" else request.pairs
    if attention:
        _check_attention(request, loaded.task, pairs)
    if request.store is not None and pairs != "together":
        raise BertVisionError("a store keeps pairs together. Use --pairs together, or --from stream.")
    train, held_out = split_train(whole_train, fraction=request.largest, held_out=request.held_out, seed=request.seed)
    return TaskParts(
        task=loaded.task,
        whole=loaded.splits,
        notices=loaded.notices,
        train=train,
        held_out=held_out,
        tokenizer=tokenizer,
        options=request.windows,
        pool=request.pool if request.pool in ("cls", "mean") else usual_pool(request.main_encoder),
        pairs=pairs,
    )


def _check_attention(request: FitRequest, task: Task, pairs: Pairs) -> None:
    """Refuse tasks and settings that attention pooling does not support."""
    if task.kind == "spans":
        raise BertVisionError(f"--pool attention is for labels, tags and scores; {task.name} needs every token's row.")
    if pairs != "together":
        raise BertVisionError("--pool attention reads the two texts of a pair together. Use --pairs together.")
    if request.store is not None:
        raise BertVisionError("--pool attention needs every token, and a store of texts keeps one. Use --from stream.")
