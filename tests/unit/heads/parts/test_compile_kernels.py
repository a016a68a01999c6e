import os
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import ROOT

pytest.importorskip("triton", reason="needs Triton")


@pytest.mark.parametrize("capability", ["80", "90"])
def test_every_kernel_can_be_compiled_for_gpus_that_are_not_here(capability: str, tmp_path: Path) -> None:
    program = ROOT / "tests" / "compile_kernels.py"
    environment = os.environ | {"TRITON_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, str(program), capability], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    sizes = dict(line.split() for line in done.stdout.splitlines())
    names = {"_project", "_project_backward", "_mix", "_mix_backward", "_attend", "_attend_backward"}
    assert set(sizes) == names
    assert all(int(size) for size in sizes.values())
