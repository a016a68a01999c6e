"""A notice for training texts that are longer than a window: what does not fit into it is cut off and never read."""

from bertvision.tasks.task import Task
from bertvision.tasks.tokenizer import TextTokenizer
from bertvision.tasks.windows import WindowOptions, Windows

LEAST_SHARE = 0.01
"""Smallest share of truncated texts that gives a notice; a smaller one hardly changes a score."""


def cut_notice(task: Task, windows: Windows, options: WindowOptions, tokenizer: TextTokenizer) -> tuple[str, ...]:
    """A notice that says how many texts were truncated and how to read more; none if they are few.

    Questions get none: their long contexts are split into several windows instead.

    Args:
        task: the task of the texts.
        windows: the training windows; of pairs that are encoded apart, those of the first texts.
        options: the options that the windows were cut with.
        tokenizer: the encoder's; has the largest length that the encoder takes.
    """
    if task.kind == "spans" or not windows.truncated or windows.truncated < LEAST_SHARE * len(windows):
        return ()
    has_room = tokenizer.limit is None or options.length < tokenizer.limit
    limit = "" if tokenizer.limit is None else f" This encoder takes up to {tokenizer.limit}."
    advice = f" Read more of them: --length.{limit}" if has_room else " This encoder takes no more."
    count = f"{windows.truncated:,} of {len(windows):,} texts to learn from"
    return (f"{count} are longer than {options.length} tokens; what comes after is not read.{advice}",)
