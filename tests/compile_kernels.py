"""Compiles our Triton kernels for a GPU that need not be there: python compile_kernels.py CAPABILITY, such as 90.

Triton's interpreter, which runs them elsewhere in the tests, accepts more than its compiler does.
"""

import os
import sys
from collections.abc import Mapping

os.environ.pop("TRITON_INTERPRET", None)  # it would be interpreted, not compiled

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from bertvision.heads.parts.adapted import _project, _project_backward
from bertvision.heads.parts.mixtures import _mix, _mix_backward
from bertvision.heads.parts.window_attention import _attend, _attend_backward

POINTERS = {
    "inner": "*bf16",
    "shift": "*fp32",
    "factors": "*fp32",
    "scores": "*fp32",
    "upstream": "*fp32",
    "sums": "*fp32",
    "weights": "*fp32",
    "states": "*bf16",
    "mixed": "*bf16",
    "bounds": "*i32",
}
"""Types of pointers by the names of arguments, unless a case has others; all other arguments are integers."""

NARROW = {"parts": "*bf16", "read": "*bf16", "upstream": "*bf16", "gradient": "*bf16", "scale": "fp32"}
MIXED = {"factor": "fp32"}
ATTENTION = {"HEADS": 4, "SIZE": 24, "WIDE": 32, "ROWS": 64}
WIDE_ATTENTION = {"HEADS": 1, "SIZE": 128, "WIDE": 128, "ROWS": 32}
LAYERS = {"SETS": 16, "LAYERS": 32, "COLUMNS": 256}
ADAPTED = {"WIDTH": 400, "OUTPUTS": 2, "BY_INSTRUCTION": True, "ROWS": 64, "COLUMNS": 32}

CASES: tuple[tuple[triton.JITFunction, dict[str, str], dict[str, int]], ...] = (
    (_project, {}, ADAPTED),
    (_project_backward, {}, ADAPTED | {"STAGES": 1}),
    (_mix, MIXED, LAYERS),
    (_mix_backward, MIXED, LAYERS),
    (_attend, NARROW, ATTENTION),
    (_attend_backward, NARROW, ATTENTION),
    (_attend, NARROW, WIDE_ATTENTION),
    (_attend_backward, NARROW, WIDE_ATTENTION | {"tiles": 1}),
)
"""Each kernel, the types of its arguments that differ from `POINTERS`, and what it is compiled for."""


def compile_kernel(
    kernel: triton.JITFunction, types: Mapping[str, str], fixed: Mapping[str, int], capability: int
) -> int:
    """The size of the program in bytes."""
    names = kernel.arg_names
    signature = {name: "constexpr" if name in fixed else (POINTERS | dict(types)).get(name, "i32") for name in names}
    source = ASTSource(kernel, signature, constexprs={(names.index(name),): value for name, value in fixed.items()})
    compiled = triton.compile(source, target=GPUTarget("cuda", capability, 32), options={"num_warps": 4})
    return len(compiled.asm["cubin"])


if __name__ == "__main__":
    for kernel, types, fixed in CASES:
        sys.stdout.write(f"{kernel.__name__} {compile_kernel(kernel, types, fixed, int(sys.argv[1]))}\n")
