"""Start and end scores (logits) → n-best answers: an exact search of all legal spans, for all questions at once."""

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
"""Largest number of scores in a padded table: a megabyte, which fits into the processor's cache."""


@dataclass(frozen=True, slots=True)
class SpanPredictions:
    """The n-best answers of every question, best first.

    Attributes:
        null: (questions,) score of "no answer": the smallest over the question's windows.
        scores: (questions, best) start score + end score; -inf where the context has fewer legal spans.
        starts: (questions, best) first character of each answer in its context.
        ends: (questions, best) the character after its last one, so that an answer is `context[start:end]`.
    """

    null: FloatArray
    scores: FloatArray
    starts: IntArray
    ends: IntArray

    @property
    def margin(self) -> FloatArray:
        """Score of "no answer" minus that of the best answer, (questions,); above a threshold, the answer is ""."""
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
    """The n-best answers of every question over all its windows; for the outputs of many models use `SpanDecoder`.

    Args:
        windows: the windows of one split, as built.
        start: (tokens,) score of every token of `windows` as an answer's first.
        end: (tokens,) the same for its last.
        limit: largest number of tokens in an answer.
        best: number of answers per question.

    Raises:
        BertVisionError: `limit` or `best` is less than 1, or there is not one score per token.
    """
    return SpanDecoder(windows, limit=limit, best=best).decode(start, end)


@final
class SpanDecoder:
    """Decodes the scores of any number of models for the same windows; the layout of legal spans is computed once.

    Legal are all spans of at most `limit` context tokens. The n best spans of a window start at the n tokens whose best
    spans score highest, so only the spans of these tokens are listed. The n best of a question are among the n best of
    its windows.
    """

    def __init__(self, windows: Windows, *, limit: int = 30, best: int = 20) -> None:
        """Lay out the legal spans.

        Args:
            windows: the windows of one split, as built.
            limit: largest number of tokens in an answer.
            best: number of answers per question.

        Raises:
            BertVisionError: `limit` or `best` is less than 1.
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
        """The n-best answers of every question over all its windows.

        Args:
            start: (tokens,) score of every token of the windows as an answer's first.
            end: (tokens,) the same for its last.

        Raises:
            BertVisionError: there is not one score per token.
        """
        windows = self._windows
        check_scores(windows, start, end)
        cls = windows.bounds[:-1]  # the first token of a window stands for "no answer"
        null = np.minimum.reduceat(start[cls].astype(np.float64) + end[cls], self._begins)

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

        if len(self._tables) == 1:  # to start threads takes longer
            decode(self._tables[0])
        else:
            with ThreadPoolExecutor() as pool:  # numpy releases the interpreter lock in its loops
                list(pool.map(decode, self._tables))
        return scores, first, last


@final
class _Table:
    """Windows of similar context length, whose context tokens are the rows of a padded table.

    Attributes:
        rows: numbers of the windows.
    """

    def __init__(self, windows: Windows, rows: IntArray, sizes: IntArray, limit: int) -> None:
        self.rows = rows
        self._begin = windows.bounds[rows] + windows.context[rows, 0]
        self._width = int(sizes.max())
        self._padding = np.arange(self._width + limit - 1) >= sizes[:, None]

    def fill(self, start: Scores, end: Scores) -> tuple[Scores, Scores]:
        """Scores of context tokens as first, (rows, width), and last, (rows, width + limit - 1); padding is -inf."""
        starts = _rows_from(start, self._begin, self._width)
        starts[self._padding[:, : self._width]] = -np.inf
        ends = _rows_from(end, self._begin, self._padding.shape[1])
        ends[self._padding] = -np.inf  # so that no span crosses the end of its window
        return starts, ends


def check_scores(windows: Windows, start: Scores, end: Scores) -> None:
    """Check that there is one start and one end score per token.

    Raises:
        BertVisionError: there are more or fewer.
    """
    if not len(start) == len(end) == len(windows.ids):
        raise BertVisionError(f"{len(start)} start and {len(end)} end scores for {len(windows.ids)} tokens.")


def _best_in_rows(
    starts: Scores, ends: Scores, limit: int, best: int
) -> tuple[IntArray, IntArray, IntArray, IntArray, Scores]:
    """The best spans of every row.

    Args:
        starts: (rows, width) scores of first tokens.
        ends: (rows, width + limit - 1) scores of last tokens.
        limit: largest number of tokens in a span.
        best: spans per row, fewer where a row has fewer legal ones.

    Returns:
        Row, rank in the row, first place, last place minus first, and score, (spans,) each.
    """
    rows, width = starts.shape
    best_from = starts + _forward_maximum(ends, limit)[:, :width]  # score of the best span that starts here
    minimum = np.full(rows, np.finfo(np.float32).min)  # takes all legal spans, of rows with fewer tokens than `best`
    if width >= best:
        nth = np.partition(best_from, width - best, axis=1)[:, width - best]  # n spans are at least this good
        minimum = np.maximum(minimum, nth)
    first = np.flatnonzero(best_from >= minimum[:, None])  # where one of the n best spans may start
    row, at = np.divmod(first, width)
    spans = sliding_window_view(ends, limit, axis=1)[row, at]  # (firsts, lengths)
    spans += starts.ravel()[first, None]
    kept = np.flatnonzero(spans >= minimum[row, None])
    score = spans.ravel()[kept]
    source, length = np.divmod(kept, limit)
    row, at = row[source], at[source]
    order = np.argsort((row << 32) | _descending(score), kind="stable")
    counts = np.bincount(row, minlength=rows)
    rank = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
    order, rank = order[rank < best], rank[rank < best]
    return row[order], rank, at[order], length[order], score[order]


def _descending(scores: Scores) -> IntArray:
    """Non-negative integers below 2³² in the opposite order of the scores, from the bits of the floats."""
    bits = scores.view(np.int32).astype(np.int64)
    ascending = np.where(bits < 0, -(bits & 0x7FFF_FFFF), bits)
    return 0x8000_0000 - ascending


def _rows_from(values: Scores, begins: IntArray, width: int) -> Scores:
    """A copy of `width` values from every begin on, (begins, width); 0 beyond the end of `values`."""
    missing = int(begins.max()) + width - len(values)
    if missing > 0:
        values = np.concatenate([values, np.zeros(missing, dtype=values.dtype)])
    return np.asarray(sliding_window_view(values, width)[begins], dtype=np.float32)


def _forward_maximum(values: Scores, reach: int) -> Scores:
    """The maximum of every value and the `reach - 1` values after it in its row, in log2(reach) passes."""
    largest = values.copy()
    covered = 1
    while covered < reach:
        step = min(covered, reach - covered)
        np.maximum(largest[:, :-step], largest[:, step:], out=largest[:, :-step])
        covered += step
    return largest


def _chunks(sizes: IntArray, limit: int) -> list[IntArray]:
    """Numbers of windows, grouped by size so that a padded table of a group has at most `CHUNK` scores."""
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

    A span in the overlap of several windows counts once, with its best score.
    """
    windows = np.diff(np.append(begins, len(scores)))  # per question
    merged = scores[begins], starts[begins], ends[begins]
    doublings = np.ceil(np.log2(windows))
    # questions of 2, of 3 to 4, of 5 to 8 windows …: a single long context does not make the tables of all others wide
    for number in np.unique(doublings[doublings > 0]):
        several = np.flatnonzero(doublings == number)
        most = int(windows[several].max())
        member = begins[several, None] + np.minimum(np.arange(most), windows[several, None] - 1)
        found = _best_of_all(scores[member], starts[member], ends[member])
        for values, best in zip(merged, found, strict=True):
            values[several] = best
    return merged


def _best_of_all(scores: FloatArray, starts: IntArray, ends: IntArray) -> tuple[FloatArray, IntArray, IntArray]:
    """The best different spans of questions with the same number of windows, (questions, windows, best) → (…, best)."""
    questions, _, best = scores.shape
    table = questions, -1
    all_scores: FloatArray = scores.reshape(table)
    all_starts: IntArray = starts.reshape(table)
    all_ends: IntArray = ends.reshape(table)
    # by characters, then by score: of equal spans the best one comes first
    order = np.lexsort((-all_scores, all_ends, all_starts), axis=1)
    all_scores = np.take_along_axis(all_scores, order, axis=1)
    all_starts = np.take_along_axis(all_starts, order, axis=1)
    all_ends = np.take_along_axis(all_ends, order, axis=1)
    repeated = (np.diff(all_starts, axis=1) == 0) & (np.diff(all_ends, axis=1) == 0)
    all_scores[:, 1:][repeated] = -np.inf
    kept = np.argsort(-all_scores, axis=1, kind="stable")[:, :best]
    return (
        np.take_along_axis(all_scores, kept, axis=1),
        np.take_along_axis(all_starts, kept, axis=1),
        np.take_along_axis(all_ends, kept, axis=1),
    )
