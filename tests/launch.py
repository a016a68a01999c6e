"""Starts Python anew, in a process of its own, or in two that are really two and work together."""

import os
import subprocess
import sys

from conftest import ROOT

ENVIRONMENT = os.environ | {
    "ACCELERATE_USE_CPU": "true",  # else Accelerate takes a GPU where there is one
    "OMP_NUM_THREADS": "1",
    "PYTHONPATH": os.pathsep.join([str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")]),
}


def launch(*words: str) -> "subprocess.CompletedProcess[str]":
    """Run a script, or `-m` and a module, in two processes."""
    return run_python("-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", *words)


def run_python(*words: str) -> "subprocess.CompletedProcess[str]":
    """Run a script, or `-m` and a module."""
    command = [sys.executable, *words]
    return subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=300)
