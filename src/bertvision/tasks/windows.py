"""build_windows: texts → token windows; each different text is tokenised once, windows are assembled in numpy."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from bertvision.errors import BertVisionError
from bertvision.tasks.examples import Examples, FloatArray, IntArray, Questions, Texts, number_texts
from bertvision.tasks.task import Task
from bertvision.tasks.token_rows import TokenRows, join_rows, ranges
from bertvision.tasks.tokenizer import Special, TextTokenizer, TokenTexts


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowOptions:
    """How texts are cut into token windows."""

    length: int = 384
    """Maximum number of tokens in a window, including special tokens."""

    stride: int = 128
    """Overlap: tokens that neighbouring windows of a context share."""

    question: int = 64
    """Maximum number of tokens of a question; longer questions are truncated."""


@dataclass(frozen=True, slots=True)
class Windows(TokenRows):
    """Token windows, concatenated without padding, with their targets and their places in the examples.

    Attributes:
        ids, types, bounds: see `TokenRows`.
        example: (windows,) row of the example that each window was cut from; windows of one example are neighbours.
        targets: for spans (windows, 2), first and last token of the answer inside the window, 0 and 0 if the window
            does not contain it; (windows,) class numbers or scores; for tags (windows, labels), 1 if a text has the
            label.
        context: (windows, 2) first token of the context inside the window, and the one after its last; of texts, the
            second text of a pair, or the single text.
        context_token: (windows,) row of `offsets` of the window's first context token; unused where `offsets` is empty.
        offsets: (context tokens, 2) first character, and the one after the last, of every token of every context;
            (0, 2) if the examples are not questions.
        truncated: number of examples that lost tokens: truncated questions, or texts that do not fit into a window.
        second: (windows,) windows of the second texts of pairs that are encoded apart; else None.
    """

    example: IntArray
    targets: IntArray | FloatArray
    context: IntArray
    context_token: IntArray
    offsets: NDArray[np.int32]
    truncated: int
    second: TokenRows | None = None

    @property
    @override
    def sizes(self) -> IntArray:
        """Tokens that an encoder processes for each window, (windows,); for pairs encoded apart, of both texts."""
        return self.lengths if self.second is None else self.lengths + self.second.lengths

    def texts(self, rows: IntArray) -> TokenRows:
        """Encoder input of the windows at `rows`; for pairs encoded apart, all first texts, then all second texts."""
        if self.second is None:
            return self.select(rows)
        return join_rows([self.select(rows), self.second.select(rows)])

    def characters(self, window: IntArray, first: IntArray, last: IntArray) -> tuple[IntArray, IntArray]:
        """Character spans of token spans: first character in the context, and the one after the last, (spans,) each.

        Args:
            window: (spans,) window numbers.
            first: (spans,) first token of each span, counted inside its window.
            last: (spans,) last token of each span.
        """
        base = self.context_token[window] - self.context[window, 0]
        starts = self.offsets[base + first, 0].astype(np.int64)
        return starts, self.offsets[base + last, 1].astype(np.int64)


def build_windows(
    task: Task, examples: Examples, tokenizer: TextTokenizer, options: WindowOptions | None = None
) -> Windows:
    """Cut a split into token windows with their targets.

    A context that is too long for one window gives several, which overlap; other texts are truncated to one window.

    Raises:
        BertVisionError: the options leave no room for a context or text, or exceed the limit of the encoder.
    """
    options = options or WindowOptions()
    if tokenizer.limit is not None and options.length > tokenizer.limit:
        raise BertVisionError(
            f"window length {options.length} exceeds the {tokenizer.limit} tokens this encoder takes. "
            f"Use --length {tokenizer.limit} or less."
        )
    if isinstance(examples, Questions):
        return _question_windows(task, examples, tokenizer, options)
    return _text_windows(examples, tokenizer, options)


def build_windows_apart(task: Task, examples: Texts, tokenizer: TextTokenizer, options: WindowOptions) -> Windows:
    """Windows of pairs whose two texts are encoded apart; for single texts, the same as `build_windows`.

    In `truncated`, a pair counts twice if both of its texts were truncated.

    Raises:
        BertVisionError: as `build_windows`.
    """
    if examples.pairs is None:
        return build_windows(task, examples, tokenizer, options)
    first, second = (build_windows(task, side, tokenizer, options) for side in examples.sides())
    return replace(first, second=second, truncated=first.truncated + second.truncated)


def _question_windows(task: Task, examples: Questions, tokenizer: TextTokenizer, options: WindowOptions) -> Windows:
    template = tokenizer.pair
    if options.stride < 0 or options.question < 1:
        raise BertVisionError(
            f"the stride is {options.stride}, at least 0 is expected, and questions get {options.question} tokens, at "
            "least 1 is expected. Change --stride or --question (doc_stride or max_question_len of QuestionAnswerer)."
        )
    smallest_room = options.length - template.specials - options.question
    if smallest_room <= options.stride:
        raise BertVisionError(
            f"windows of {options.length} tokens leave {max(smallest_room, 0)} for the context after a question of "
            f"{options.question}; the stride is {options.stride} and must be smaller. Use a larger "
            "--length or a smaller --stride (max_seq_len and doc_stride of QuestionAnswerer)."
        )
    questions = tokenizer.encode(examples.questions, offsets=False)
    contexts = tokenizer.encode(examples.contexts)
    question_length = np.minimum(questions.lengths, options.question)
    context_length = contexts.lengths[examples.context_index]
    room = options.length - template.specials - question_length
    step = room - options.stride
    windows = 1 + np.maximum(0, -(-(context_length - room) // step))  # windows per question, (questions,)

    example = np.repeat(np.arange(len(examples)), windows)
    nth = ranges(np.zeros_like(windows), windows)
    begin = nth * step[example]  # first context token of the window; this and `end` count inside the context
    end = np.minimum(begin + room[example], context_length[example])
    context_token = contexts.bounds[examples.context_index][example] + begin
    ids, types, bounds = _assemble(
        [
            template.before,
            (questions, template.types[0], questions.bounds[example], question_length[example]),
            template.between,
            (contexts, template.types[1], context_token, end - begin),
            template.after,
        ],
        len(example),
    )
    prefix = len(template.before) + len(template.between) + question_length[example]
    first, last = _answer_tokens(examples, contexts)
    inside = (first[example] >= begin) & (last[example] < end) & (last >= first)[example]
    spans = np.stack([first[example], last[example]], axis=1) - begin[:, None] + prefix[:, None]
    targets = np.where(inside[:, None], spans, 0)
    return Windows(
        ids=ids,
        types=types,
        bounds=bounds,
        example=example,
        targets=targets if task.kind == "spans" else inside.astype(np.int64),
        context=np.stack([prefix, prefix + end - begin], axis=1),
        context_token=context_token,
        offsets=contexts.offsets,
        truncated=int((questions.lengths > options.question).sum()),
    )


def _answer_tokens(examples: Questions, contexts: TokenTexts) -> tuple[IntArray, IntArray]:
    """First and last context token that overlaps the first gold answer, (questions,); first > last without an answer.

    Tokens count inside their context. Characters are numbered through all contexts, so that offsets ascend and one
    `searchsorted` finds the tokens of all answers.
    """
    sizes = np.fromiter((len(text) + 1 for text in examples.contexts), np.int64, count=len(examples.contexts))
    base = np.cumsum(sizes) - sizes  # number of each context's first character
    token_base = np.repeat(base, contexts.lengths)
    answers = [answers[0] if answers else None for answers in examples.answers]
    answerable = examples.answerable
    starts = np.array([a.end - len(a.text.lstrip()) if a else 0 for a in answers], dtype=np.int64)
    ends = np.array([a.start + len(a.text.rstrip()) if a else 0 for a in answers], dtype=np.int64)
    context_base = base[examples.context_index]
    first = np.searchsorted(contexts.offsets[:, 1] + token_base, starts + context_base, side="right")
    last = np.searchsorted(contexts.offsets[:, 0] + token_base, ends + context_base, side="left") - 1
    first -= contexts.bounds[examples.context_index]
    last -= contexts.bounds[examples.context_index]
    return np.where(answerable, first, 1), np.where(answerable, last, 0)


def _text_windows(examples: Texts, tokenizer: TextTokenizer, options: WindowOptions) -> Windows:
    """Make one window of every text or pair; texts that are too long are truncated, in a pair the longer one first."""
    columns = [examples.texts] if examples.pairs is None else [examples.texts, examples.pairs]
    template = tokenizer.single if len(columns) == 1 else tokenizer.pair
    room = options.length - template.specials
    if room < 1:
        raise BertVisionError(f"windows of {options.length} tokens leave no room for text. Use a larger --length.")
    tokens, number = _encode_unique(tokenizer, [text for column in columns for text in column])
    number = number.reshape(len(columns), -1)  # (1 or 2 texts, examples)
    begins, lengths = tokens.bounds[number], tokens.lengths[number]
    kept = [np.minimum(lengths[0], room)] if len(columns) == 1 else _fit_pair(lengths[0], lengths[1], room)
    pieces: list[Piece] = [template.before]
    for segment, begin, length in zip(template.types, begins, kept, strict=True):
        pieces += [(tokens, segment, begin, length), template.between]
    pieces[-1] = template.after  # instead of `between`, which the loop adds after the last text, too
    ids, types, bounds = _assemble(pieces, len(examples))
    end = np.diff(bounds) - len(template.after)
    return Windows(
        ids=ids,
        types=types,
        bounds=bounds,
        example=np.arange(len(examples)),
        targets=examples.targets,
        context=np.stack([end - kept[-1], end], axis=1),
        context_token=begins[-1],
        offsets=tokens.offsets,
        truncated=int((lengths.sum(axis=0) > room).sum()),
    )


def _fit_pair(first: IntArray, second: IntArray, room: int) -> tuple[IntArray, IntArray]:
    """Lengths of two texts after truncation to `room` tokens in all; the longer one is cut first.

    As the strategy `longest_first` of transformers; if both are cut, each gets half.
    """
    short, long = np.minimum(first, second), np.maximum(first, second)
    kept_long = np.minimum(long, np.maximum(short, room - short))
    both_cut = short + kept_long > room
    kept_short = np.where(both_cut, room // 2, short)
    kept_long = np.where(both_cut, room - room // 2, kept_long)
    swapped = first > second
    return np.where(swapped, kept_long, kept_short), np.where(swapped, kept_short, kept_long)


def _encode_unique(tokenizer: TextTokenizer, texts: list[str]) -> tuple[TokenTexts, IntArray]:
    """Tokens of every different text, and the index of each text among those, (texts,)."""
    numbers: dict[str, int] = {}
    which = number_texts(texts, numbers)
    return tokenizer.encode(list(numbers), offsets=False), which


Piece = Special | tuple[TokenTexts, int, IntArray, IntArray]
"""A part of every window: special tokens, the same in all of them; or tokens of texts, as (all tokens, segment number,
(windows,) first token, (windows,) number of tokens)."""


def _assemble(pieces: list[Piece], windows: int) -> tuple[NDArray[np.int32], NDArray[np.uint8], IntArray]:
    """Concatenate the pieces of every window: token ids, segment numbers and bounds, as in `TokenRows`."""
    ids: list[NDArray[np.int32]] = []  # the tokens of all pieces, concatenated below
    types: list[NDArray[np.uint8]] = []
    starts = np.empty((windows, len(pieces)), dtype=np.int64)  # index into `ids` of each window's piece
    lengths = np.empty_like(starts)
    base = 0
    for column, piece in enumerate(pieces):
        match piece:
            case Special():
                ids.append(np.array(piece.ids, dtype=np.int32))
                types.append(np.array(piece.types, dtype=np.uint8))
                starts[:, column], lengths[:, column] = base, len(piece)
            case (tokens, segment, first, length):
                ids.append(tokens.ids)
                types.append(np.full(len(tokens.ids), segment, dtype=np.uint8))
                starts[:, column], lengths[:, column] = base + first, length
        base += len(ids[-1])
    source = ranges(starts.ravel(), lengths.ravel())
    bounds = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths.sum(axis=1))])
    return np.concatenate(ids)[source], np.concatenate(types)[source], bounds
