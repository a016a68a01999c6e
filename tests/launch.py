"""Starts Python anew: in a process of its own, in one that is killed, or in two that work together."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from conftest import ROOT

ENVIRONMENT = os.environ | {
    "ACCELERATE_USE_CPU": "true",  # else Accelerate takes a GPU where there is one
    "OMP_NUM_THREADS": "1",
    "PYTHONPATH": os.pathsep.join([str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")]),
}

PATIENCE = 120
"""Seconds to wait for the first checkpoint on a slow machine."""


def launch(*words: str) -> "subprocess.CompletedProcess[str]":
    """Run a script, or `-m` and a module, in two processes."""
    return run_python("-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", *words)


def run_python(*words: str) -> "subprocess.CompletedProcess[str]":
    """Run a script, or `-m` and a module."""
    command = [sys.executable, *words]
    return subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=300)


def kill_at_a_random_moment(command: list[str], run: Path) -> None:
    """Start a run in a process of its own, and kill it at some time after its first checkpoint."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bertvision", *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=os.environ | {"OMP_NUM_THREADS": "1"},  # as in this process
    )
    end = time.monotonic() + PATIENCE
    while not list(run.glob("checkpoint-*")) and process.poll() is None and time.monotonic() < end:
        time.sleep(0.005)
    time.sleep(random.uniform(0, 0.3))  # noqa: S311 - any moment will do
    process.send_signal(signal.SIGKILL)
    _, messages = process.communicate()
    assert process.returncode == -signal.SIGKILL, messages.decode()


def what_two_saw(out: Path) -> list[dict[str, Any]]:
    """What each of two processes wrote about itself."""
    return [json.loads((out / f"process{number}.json").read_text(encoding="utf-8")) for number in (0, 1)]
