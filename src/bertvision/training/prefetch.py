"""Batches made in the background: while heads learn from one, a thread prepares the next."""

from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import torch

T = TypeVar("T")
R = TypeVar("R")


def prefetch(make: Callable[[T], R], items: Iterable[T]) -> Generator[R]:
    """What `make` gives for every item, in order; the next one is made while the caller works on the last.

    At most one is made ahead. An error of `make` is raised here, in its turn. Close the iterator when leaving it early
    (`contextlib.closing`): that waits for the one being made, and ends the thread.
    """
    cores = torch.get_num_threads()
    # one core for the thread: operations split over cores that others work on wait for each other
    with ThreadPoolExecutor(1, "prefetch", initializer=torch.set_num_threads, initargs=(1,)) as thread:
        try:
            ahead: Future[R] | None = None
            for item in items:
                made, ahead = ahead, thread.submit(make, item)
                if made is not None:
                    yield made.result()
            if ahead is not None:
                yield ahead.result()
        finally:
            torch.set_num_threads(cores)  # threads of others, started later, would take over the 1
