"""Stores of two processes that are really two: `torchrun --nproc_per_node 2 tests/two_writers.py ENCODER DATA OUT`.

Without `torchrun`, one process writes the stores that theirs are compared with: nothing that other tests did in the
process of the tests can make a difference then.
"""

import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn, get_args
from unittest.mock import patch

import pytest
from accelerate import PartialState
from safetensors.torch import save_file

from bertvision.errors import BertVisionError
from bertvision.runs.fitting.extract import ExtractRequest, extract_states
from bertvision.store.codec import Keep
from bertvision.training.processes import leave_processes
from tiny_run import WINDOWS
from tiny_store import Count, small_shards


def request_of(encoder: str, data: str, keep: Keep = "fp16") -> ExtractRequest:
    """The request that one process makes, too."""
    return ExtractRequest(task="squad2", data=data, encoder=encoder, windows=WINDOWS, keep=keep, device="cpu")


def interrupt(request: ExtractRequest, store: Path, batches: int) -> None:
    """Leave an extraction after so many batches, in every process."""
    with pytest.MonkeyPatch.context() as context, suppress(KeyboardInterrupt):
        Count(context, batches)
        extract_states(request, store)


def fail(*_tensors: object, **_more: object) -> NoReturn:
    """Stands for a write to a full disk."""
    raise OSError(28, "full")


def message(request: ExtractRequest, store: Path, *, full: bool = False) -> str:
    """What an extraction that must fail says in this process; `full`: this process's disk is."""
    with patch("bertvision.tensor_files.save_file", fail if full else save_file):
        try:
            extract_states(request, store)
        except BertVisionError as error:
            return str(error)
    return "no error"


def alone(encoder: str, data: str, out: Path) -> None:
    """The stores of one process."""
    with pytest.MonkeyPatch.context() as context:
        small_shards(context)
        for keep in get_args(Keep):
            extract_states(request_of(encoder, data, keep), out / keep)


def together(encoder: str, data: str, out: Path) -> None:
    """Several extractions in one start, since starting takes longest; every process tells what it saw."""
    saw: dict[str, Any] = {}
    shown: list[int] = []
    with pytest.MonkeyPatch.context() as context:
        small_shards(context)
        count = Count(context)
        extract_states(request_of(encoder, data), out / "fp16", show=lambda step, *_, **__: shown.append(step))
        saw["windows"] = list(count.windows)
        saw["manifests"] = {
            split: len(manifest.shards)
            for split, manifest in extract_states(request_of(encoder, data, "int8"), out / "int8").items()
        }
        extract_states(request_of(encoder, data), out / "begun-by-one")
        saw["full"] = message(request_of(encoder, data), out / "full", full=PartialState().process_index == 1)
        saw["other"] = message(request_of(encoder, data, "bf16"), out / "fp16")
        interrupt(request_of(encoder, data), out / "begun-by-two", 3)
    saw |= {"processes": PartialState().num_processes, "shown": shown}
    (out / f"process{PartialState().process_index}.json").write_text(json.dumps(saw), encoding="utf-8")
    leave_processes()


if __name__ == "__main__":
    write = together if "WORLD_SIZE" in os.environ else alone
    write(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
