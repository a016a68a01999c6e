"""A notice where texts are longer than a window, so that nobody reads their ends."""

from bertvision.tasks.task import Task
from bertvision.tasks.tokenizer import TextTokenizer
from bertvision.tasks.windows import WindowOptions, Windows

LEAST_SHARE = 0.01
"""A smaller share of cut texts changes no score."""


def cut_notice(task: Task, windows: Windows, options: WindowOptions, tokenizer: TextTokenizer) -> tuple[str, ...]:
    """How many texts were cut, and how long they may be; none for questions, whose contexts have several windows.

    Args:
        task: whose texts they are.
        windows: the windows that heads learn from; of pairs apart, those of the first texts.
        options: the options that they were cut with.
        tokenizer: the encoder's, which knows its limit.
    """
    if task.kind == "spans" or not windows.truncated or windows.truncated < LEAST_SHARE * len(windows):
        return ()
    longer = tokenizer.limit is None or options.length < tokenizer.limit
    upto = "" if tokenizer.limit is None else f" This encoder takes up to {tokenizer.limit}."
    more = f" Read more of them: --length.{upto}" if longer else " This encoder takes no more."
    count = f"{windows.truncated:,} of {len(windows):,} texts to learn from"
    return (f"{count} are longer than {options.length} tokens; what comes after is not read.{more}",)
