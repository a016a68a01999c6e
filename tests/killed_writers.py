"""Kills a writer of a small store at every write in turn, and amid writes: `python tests/killed_writers.py OUT`."""

import json
import os
import resource
import signal
import sys
from itertools import count
from pathlib import Path

import pytest

from bertvision.errors import BertVisionError
from bertvision.lock import lock_folder
from bertvision.store.codec import Keep
from bertvision.store.reader import StoreReader
from folders import everything
from tiny_store import Source, small_shards, write_store

LENGTHS = (5, 2, 7, 1, 3, 3, 6, 4, 2)
SIZES = (0, 100, 400, 550)
"""Bytes after which a file is cut off: `content.json` has some 300, the shards in fp16 have 536, 560 and 200."""


def make(folder: Path, keep: Keep) -> None:
    """Write the store."""
    with lock_folder(folder):
        write_store(folder / "train", Source(*LENGTHS), keep=keep)


def kill_at(moment: int, folder: Path) -> None:
    """End this process, as `kill -9` does, when it opens, renames or removes a file of the store that many times."""
    left = moment

    def look(event: str, args: tuple[object, ...]) -> None:
        nonlocal left
        if event in {"open", "os.rename", "os.remove"} and str(args[0]).startswith(str(folder)):
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left -= 1

    sys.addaudithook(look)


def kill_beyond(size: int) -> None:
    """Let the system end this process amid a write, as soon as a file would have more bytes."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)


def killed(keep: Keep, out: Path) -> list[dict[str, object]]:
    """A child for every size, then one for every moment until one comes through; what was seen of each that did not."""
    make(out / "whole", keep)
    expected = everything(out / "whole")
    moments: list[dict[str, object]] = []
    for number in count(-len(SIZES)):
        folder = out / str(number)
        child = os.fork()
        if child == 0:
            if number < 0:
                kill_beyond(SIZES[number])
            else:
                kill_at(number, folder)
            make(folder, keep)
            os._exit(0)
        if os.waitpid(child, 0)[1] == 0:
            break
        try:
            readable = StoreReader(folder / "train").broken() == []
        except BertVisionError:
            readable = None
        shards = len(list(folder.glob("train/0*.safetensors")))
        make(folder, keep)
        moments.append({"shards": shards, "readable": readable, "same": everything(folder) == expected})
    return moments


if __name__ == "__main__":
    small_shards(pytest.MonkeyPatch())
    keeps: list[Keep] = ["fp16", "int8"]
    found = {keep: killed(keep, Path(sys.argv[1]) / keep) for keep in keeps}
    print(json.dumps(found))  # noqa: T201 - this is the output
