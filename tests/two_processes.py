"""Runs in two processes that are really two: `torchrun --nproc_per_node 2 tests/two_processes.py ENCODER DATA OUT`."""

import json
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from accelerate import PartialState

from bertvision.errors import BertVisionError
from bertvision.runs.request import TeacherRequest, TuneRequest
from bertvision.runs.tuning.tune import tune
from bertvision.training.processes import leave_processes
from bertvision.training.schedule import rate_factor
from tiny_run import tiny_request


def plain_request(encoder: str, data: str) -> TuneRequest:
    """The request that one process makes, too: without dropout, and with a last batch of a single window."""
    snapshots = (0.2, 0.6, 1, 1.4, 2, 2.4)
    return tiny_request("squad2", data, encoder, epochs=3, dropout=0.0, held_out=0.0, lr=1e-3, snapshots=snapshots)


def taught_request(encoder: str, data: str, teacher: Path) -> TuneRequest:
    """The same, with a run as teacher."""
    return replace(plain_request(encoder, data), teacher=TeacherRequest(run=str(teacher)))


def interrupt(request: TuneRequest, out: Path, step: int) -> None:
    """Let both processes leave a run before the same step."""

    def leave(now: int, total: int, **more: Any) -> float:  # noqa: ANN401 - passed on
        if now == step:
            raise KeyboardInterrupt
        return rate_factor(now, total, **more)

    with patch("bertvision.training.tune.rate_factor", leave), suppress(KeyboardInterrupt):
        tune(request, out)


def message(request: TuneRequest, out: Path, *, resume: bool = False) -> str:
    """What a run that must fail says in this process."""
    try:
        tune(request, out, resume=resume)
    except BertVisionError as error:
        return str(error)
    return "no error"


def main(encoder: str, data: str, out: Path) -> None:
    """Several runs in one start, since starting takes longest; every process tells what it saw."""
    plain = plain_request(encoder, data)
    shown: list[int] = []
    result = tune(plain, out / "plain", show=lambda step, *_, **__: shown.append(step))
    dropping = replace(plain, options=replace(plain.options, dropout=0.2), save_every=4)
    tune(dropping, out / "whole")
    interrupt(dropping, out / "resumed", 7)
    tune(dropping, out / "resumed", resume=True)
    tune(taught_request(encoder, data, out / "plain"), out / "taught")
    saw = {
        "processes": PartialState().num_processes,
        "main": result.main,
        "metrics": result.metrics,
        "shown": shown,
        "again": message(plain, out / "plain"),
        "diverged": message(replace(plain, options=replace(plain.options, lr=1e30)), out / "diverged"),
    }
    (out / f"process{PartialState().process_index}.json").write_text(json.dumps(saw), encoding="utf-8")
    leave_processes()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
