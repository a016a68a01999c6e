"""Two processes that write into one place at the same time."""

import threading
from collections.abc import Callable


def while_writing(other: Callable[[], object]) -> threading.Thread:
    """Start another writer amid a write, and give it time to do harm if nothing holds it up."""
    thread = threading.Thread(target=other)
    thread.start()
    thread.join(0.3)
    return thread
