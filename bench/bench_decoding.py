"""Span decoding of 12,000 windows against the usual n-best loop over numpy arrays."""

import numpy as np

from bertvision.bench.measure import side_by_side
from bertvision.bench.record import Claim
from bertvision.evaluation.decode import decode_spans
from bertvision.tasks.load import TASKS
from bertvision.tasks.tokenizer import TextTokenizer
from bertvision.tasks.windows import build_windows
from data import questions, save
from plain_decoding import plain_n_best

WINDOWS = 12_000


def main() -> None:
    """Measure, and write the record."""
    examples = questions(WINDOWS)
    windows = build_windows(TASKS["squad2"], examples, TextTokenizer.load())
    random = np.random.default_rng(0)
    start, end = (3 * random.standard_normal(len(windows.ids), dtype=np.float32) for _ in range(2))
    timings = side_by_side(
        {
            "ours": lambda: decode_spans(windows, start, end).probabilities,
            "plain n-best loop": lambda: plain_n_best(windows, start, end),
        }
    )
    claim = Claim(
        name="speed-decoding",
        what="span decoding, every legal span compared, 20 best with probabilities",
        command="python bench/bench_decoding.py",
        size=f"{len(windows):,} windows, mean {windows.lengths.mean():.0f} tokens",
        targets={"plain n-best loop": 20.0},
    )
    save(claim, timings)


if __name__ == "__main__":
    main()
