"""A run that is killed with SIGKILL and resumed ends as one that was left alone, to the last bit."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bertvision.cli.main import main
from tiny_run import read_lines, same_state, save_tiny_encoder, tiny_request, words, write_questions

PATIENCE = 120
"""Seconds to wait for the first checkpoint on a slow machine."""


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
    time.sleep(random.uniform(0, 0.4))  # noqa: S311 - any moment will do
    process.send_signal(signal.SIGKILL)
    _, messages = process.communicate()
    assert process.returncode == -signal.SIGKILL, messages.decode()


@pytest.mark.slow
def test_a_killed_run_is_resumed_to_the_same_end(tmp_path: Path) -> None:
    encoder = save_tiny_encoder(tmp_path / "encoder", dropout=0.2)
    data = write_questions(tmp_path / "data", train=80)
    request = tiny_request(
        "squad2", data, encoder, epochs=30, snapshots=(0.3, 10, 20), save_every=2, schedule="cosine", warmup=0.1
    )
    run, whole = tmp_path / "run", tmp_path / "whole"
    kill_at_a_random_moment(words(request, run), run)
    done = read_lines(run)[-1]["step"] if (run / "metrics.jsonl").exists() else 0
    assert not (run / "result.json").exists(), f"it was faster than the kill: step {done}"
    assert main(words(request, run, "--resume")) == 0
    assert main(words(request, whole)) == 0
    assert same_state(run, whole), f"killed after step {done}"
    assert sorted(path.name for path in run.iterdir()) == sorted(path.name for path in whole.iterdir())
