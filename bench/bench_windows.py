"""Building token windows with targets, against the usual tokenizer call with stride and offsets, without targets."""

import os

from transformers import AutoTokenizer

from bertvision.bench.measure import side_by_side
from bertvision.bench.record import Claim
from bertvision.pretrained import builtin_encoder_folder
from bertvision.tasks.load import TASKS
from bertvision.tasks.tokenizer import TextTokenizer
from bertvision.tasks.windows import build_windows
from data import questions, save

QUESTIONS = 17_630


def main() -> None:
    """Measure, and write the record."""
    os.environ["TOKENIZERS_PARALLELISM"] = "true"  # both sides may use every core
    examples = questions(QUESTIONS)
    contexts = [examples.contexts[number] for number in examples.context_index]
    tokenizer = TextTokenizer.load()
    usual = AutoTokenizer.from_pretrained(builtin_encoder_folder())

    def usual_call() -> list[list[int]]:
        encoded = usual(
            examples.questions,
            contexts,
            truncation="only_second",
            max_length=384,
            stride=128,
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
        )
        ids: list[list[int]] = encoded["input_ids"]
        return ids

    windows = build_windows(TASKS["squad2"], examples, tokenizer)
    if usual_call() != [
        windows.ids[a:b].tolist() for a, b in zip(windows.bounds[:-1], windows.bounds[1:], strict=True)
    ]:
        raise AssertionError("the ids are not the same")
    timings = side_by_side(
        {
            "ours": lambda: build_windows(TASKS["squad2"], examples, tokenizer),
            "usual tokenizer call": usual_call,
        },
        rounds=3,
    )
    claim = Claim(
        name="speed-windows",
        what="token windows with labels, identical ids",
        command="python bench/bench_windows.py",
        size=f"{len(examples):,} questions, {len(windows):,} windows",
        targets={"usual tokenizer call": 3.0},
    )
    save(claim, timings)


if __name__ == "__main__":
    main()
