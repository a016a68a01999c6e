"""Decoding of start and end logits to the n best answers; all legal spans of all questions are compared."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from bertvision.errors import BertVisionError
from bertvision.tasks.examples import FloatArray, IntArray, Questions
from bertvision.tasks.windows import Windows

Scores = NDArray[np.float32]

CHUNK = 1 << 18
"""Most numbers in one padded table of scores: a megabyte, which stays in the processor's cache."""


@dataclass(frozen=True, slots=True)
class SpanPredictions:
    """The best answers of every question, best first.

    Attributes:
        null: (questions,) score of "no answer": the smallest over the question's windows.
        scores: (questions, best) start score + end score; -inf where the context has fewer legal spans.
        starts: (questions, best) first character of each answer in its context.
        ends: (questions, best) the character after its last one.
    """

    null: FloatArray
    scores: FloatArray
    starts: IntArray
    ends: IntArray

    @property
    def margin(self) -> FloatArray:
        """Score of "no answer" minus that of the best answer, (questions,); above a threshold the answer is empty."""
        return self.null - self.scores[:, 0]

    @property
    def probabilities(self) -> FloatArray:
        """Softmax over "no answer" (first) and the n-best answers, (questions, 1 + best)."""
        logits = np.concatenate([self.null[:, None], self.scores], axis=1)
        exponents = np.exp(logits - logits.max(axis=1, keepdims=True))
        shares: FloatArray = exponents / exponents.sum(axis=1, keepdims=True)
        return shares

    def texts(self, examples: Questions, threshold: float | None = 0.0) -> dict[str, str]:
        """The best answer of every question by id, "" where the margin exceeds the threshold (None: never)."""
        silent = self.margin > (np.inf if threshold is None else threshold)
        rows = zip(examples.ids, examples.context_index.tolist(), silent.tolist(), strict=True)
        spans = zip(self.starts[:, 0].tolist(), self.ends[:, 0].tolist(), strict=True)
        return {
            key: "" if quiet else examples.contexts[context][start:end].strip()
            for (key, context, quiet), (start, end) in zip(rows, spans, strict=True)
        }


def decode_spans(windows: Windows, start: Scores, end: Scores, *, limit: int = 30, best: int = 20) -> SpanPredictions:
    """The n best answers of every question over all its windows; see `SpanDecoder`, which is for many models.

    Args:
        windows: the windows of one split, as built.
        start: (tokens,) score of every token of `windows` as an answer's first.
        end: (tokens,) the same for its last.
        limit: most tokens in an answer.
        best: how many answers to give.
    """
    return SpanDecoder(windows, limit=limit, best=best).decode(start, end)


@final
class SpanDecoder:
    """Decodes the scores of any number of models on the same windows; where legal spans lie is computed once.

    Every span of at most `limit` context tokens is compared. A window's n best spans start at the n tokens whose own
    best span is best, so only those tokens' spans are ever laid out; a question's are among those of its windows.
    """

    def __init__(self, windows: Windows, *, limit: int = 30, best: int = 20) -> None:
        """See where legal spans are.

        Args:
            windows: the windows of one split, as built.
            limit: most tokens in an answer.
            best: how many answers to give.

        Raises:
            BertVisionError: there can be no answer of so few tokens.
        """
        if limit < 1 or best < 1:
            raise BertVisionError(
                f"answers of {limit} tokens and {best} of them were asked for; both must be at least 1."
            )
        self._windows = windows
        self._limit = limit
        self._best = best
        self._begins = np.flatnonzero(np.diff(windows.example, prepend=-1))  # each question's first window
        size = windows.context[:, 1] - windows.context[:, 0]
        chunks = [rows for rows in _chunks(size, limit) if size[rows[0]] > 0]  # empty contexts have no span
        self._tables = [_Table(windows, rows, size[rows], limit) for rows in chunks]

    def decode(self, start: Scores, end: Scores) -> SpanPredictions:
        """The n best answers of every question over all its windows, by (tokens,) scores of first and last tokens.

        Raises:
            BertVisionError: there are more or fewer scores than tokens.
        """
        windows = self._windows
        check_scores(windows, start, end)
        firsts = windows.bounds[:-1]
        null = np.minimum.reduceat(start[firsts].astype(np.float64) + end[firsts], self._begins)

        scores, first, last = self._window_spans(start, end)
        legal = np.isfinite(scores)
        window = np.broadcast_to(np.arange(len(windows))[:, None], scores.shape)[legal]
        starts, ends = np.zeros(scores.shape, dtype=np.int64), np.zeros(scores.shape, dtype=np.int64)
        starts[legal], ends[legal] = windows.characters(window, first[legal], last[legal])
        return SpanPredictions(null, *_merge_windows(self._begins, scores, starts, ends))

    def _window_spans(self, start: Scores, end: Scores) -> tuple[FloatArray, IntArray, IntArray]:
        """Scores, first and last tokens of every window's best spans, each (windows, best), best first."""
        context = self._windows.context
        scores = np.full((len(self._windows), self._best), -np.inf)
        first, last = np.zeros(scores.shape, dtype=np.int64), np.zeros(scores.shape, dtype=np.int64)

        def decode(table: _Table) -> None:
            starts, ends = table.fill(start, end)
            row, rank, at, length, score = _best_in_rows(starts, ends, self._limit, self._best)
            place = table.rows[row], rank
            scores[place] = score
            first[place] = context[table.rows[row], 0] + at
            last[place] = first[place] + length

        if len(self._tables) == 1:  # threads take longer to start than it does
            decode(self._tables[0])
        else:
            with ThreadPoolExecutor() as pool:  # numpy lets go of the interpreter inside its loops
                list(pool.map(decode, self._tables))
        return scores, first, last


@final
class _Table:
    """Some windows as rows of one width.

    Attributes:
        rows: their numbers.
    """

    def __init__(self, windows: Windows, rows: IntArray, sizes: IntArray, limit: int) -> None:
        self.rows = rows
        self._begin = windows.bounds[rows] + windows.context[rows, 0]
        self._width = int(sizes.max())
        self._beyond = np.arange(self._width + limit - 1) >= sizes[:, None]

    def fill(self, start: Scores, end: Scores) -> tuple[Scores, Scores]:
        """Scores of context tokens as first, (rows, width), and as last, (rows, width + limit - 1), -inf beyond."""
        starts = _rows_from(start, self._begin, self._width)
        starts[self._beyond[:, : self._width]] = -np.inf
        ends = _rows_from(end, self._begin, self._beyond.shape[1])
        ends[self._beyond] = -np.inf  # so that no span crosses the end of its window
        return starts, ends


def check_scores(windows: Windows, start: Scores, end: Scores) -> None:
    """Refuse scores that are not one for each token.

    Raises:
        BertVisionError: there are more or fewer.
    """
    if not len(start) == len(end) == len(windows.ids):
        raise BertVisionError(f"{len(start)} start and {len(end)} end scores for {len(windows.ids)} tokens.")


def _best_in_rows(
    starts: Scores, ends: Scores, limit: int, best: int
) -> tuple[IntArray, IntArray, IntArray, IntArray, Scores]:
    """The best spans of every row: row, rank in the row, first token, number of further tokens, and score of each span.

    Args:
        starts: (rows, width) start scores, -inf where no span may start.
        ends: (rows, width + limit - 1) end scores, -inf where no span may end.
        limit: most tokens in a span.
        best: number of spans of a row.
    """
    rows, width = starts.shape
    reach = starts + _forward_maximum(ends, limit)[:, :width]  # score of the best span that starts here
    least = np.full(rows, np.finfo(np.float32).min)  # lower bound of the n best: at first anything but -inf
    if width >= best:
        nth = np.partition(reach, width - best, axis=1)[:, width - best]  # n spans are at least this good
        least = np.maximum(least, nth)
    candidate = np.flatnonzero(reach >= least[:, None])  # tokens where one of the n best spans may start
    row, at = np.divmod(candidate, width)
    spans = sliding_window_view(ends, limit, axis=1)[row, at]  # (candidates, lengths)
    spans += starts.ravel()[candidate, None]
    found = np.flatnonzero(spans >= least[row, None])
    score = spans.ravel()[found]
    candidate, length = np.divmod(found, limit)  # from here on numbers into `row` and `at`, one per span
    order = np.argsort((row[candidate] << 32) | _descending(score), kind="stable")
    counts = np.bincount(row[candidate], minlength=rows)
    rank = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
    order, rank = order[rank < best], rank[rank < best]
    return row[candidate[order]], rank, at[candidate[order]], length[order], score[order]


def _descending(scores: Scores) -> IntArray:
    """32-bit integer sort keys that ascend as the scores descend, made from the bits of the floats."""
    bits = scores.view(np.int32).astype(np.int64)
    ascending = np.where(bits < 0, -(bits & 0x7FFF_FFFF), bits)
    return 0x8000_0000 - ascending


def _rows_from(values: Scores, begins: IntArray, width: int) -> Scores:
    """Copies of `values[begin : begin + width]` for every begin, (begins, width); 0 beyond the end."""
    reserve = int(begins.max()) + width - len(values)
    if reserve > 0:
        values = np.concatenate([values, np.zeros(reserve, dtype=values.dtype)])
    return np.asarray(sliding_window_view(values, width)[begins], dtype=np.float32)


def _forward_maximum(values: Scores, reach: int) -> Scores:
    """Sliding maximum of each value and the `reach - 1` after it in its row, in log2(reach) passes."""
    largest = values.copy()
    covered = 1
    while covered < reach:
        step = min(covered, reach - covered)
        np.maximum(largest[:, :-step], largest[:, step:], out=largest[:, :-step])
        covered += step
    return largest


def _chunks(sizes: IntArray, limit: int) -> list[IntArray]:
    """Groups of windows of similar sizes, such that a table padded to the longest has at most `CHUNK` elements."""
    order = np.argsort(-sizes, kind="stable")
    chunks = []
    begin = 0
    while begin < len(order):
        stop = begin + max(1, CHUNK // (int(sizes[order[begin]]) + limit))
        chunks.append(order[begin:stop])
        begin = stop
    return chunks


def _merge_windows(
    begins: IntArray, scores: FloatArray, starts: IntArray, ends: IntArray
) -> tuple[FloatArray, IntArray, IntArray]:
    """The best spans of every question from those of its windows, (windows, best) → (questions, best).

    A span in the overlap of two windows is found in both: it counts once, with its better score.
    """
    windows = np.diff(np.append(begins, len(scores)))  # per question
    merged = scores[begins], starts[begins], ends[begins]
    several = np.flatnonzero(windows > 1)
    if not len(several):
        return merged
    most, best = int(windows[several].max()), scores.shape[1]
    member = begins[several, None] + np.minimum(np.arange(most), windows[several, None] - 1)
    table = (len(several), most * best)
    all_scores = scores[member].reshape(table)
    all_starts, all_ends = starts[member].reshape(table), ends[member].reshape(table)
    # by characters, then by score: repeats stand behind the best of their kind
    order = np.lexsort((-all_scores, all_ends, all_starts), axis=1)
    all_scores, all_starts, all_ends = (
        np.take_along_axis(v, order, axis=1) for v in (all_scores, all_starts, all_ends)
    )
    again = (np.diff(all_starts, axis=1) == 0) & (np.diff(all_ends, axis=1) == 0)
    all_scores[:, 1:][again] = -np.inf
    kept = np.argsort(-all_scores, axis=1, kind="stable")[:, :best]
    for whole, part in zip(merged, (all_scores, all_starts, all_ends), strict=True):
        whole[several] = np.take_along_axis(part, kept, axis=1)
    return merged
