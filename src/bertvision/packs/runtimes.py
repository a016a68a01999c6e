"""Runtimes for the graph of an exported pack, ONNX Runtime and OpenVINO; neither torch nor transformers is imported."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from bertvision.errors import BertVisionError, MissingExtraError

GraphRuntime = Literal["onnx", "openvino", "openvino-bf16"]
"""All runtimes; `openvino-bf16` computes in bfloat16, which some processors multiply twice as fast as float32."""

Inputs = Mapping[str, NDArray[Any]]
RunGraph = Callable[[Inputs], Sequence[NDArray[np.float32]]]
"""Runs a graph: inputs by name → its outputs, in their order."""

MODULES: dict[GraphRuntime, str] = {"onnx": "onnxruntime", "openvino": "openvino", "openvino-bf16": "openvino"}
"""The module of every runtime."""

ROUNDING: frozenset[GraphRuntime] = frozenset({"openvino-bf16"})
"""Runtimes that compute with fewer bits than the graph's numbers have."""

LENGTH_STEP: dict[GraphRuntime, int] = {"onnx": 1, "openvino": 16, "openvino-bf16": 16}
"""A window that is computed alone is padded to a multiple of so many tokens: OpenVINO compiles the graph for every new
length, which takes half as long as a window, and computes full blocks of tokens faster than partial ones."""

SLOW_FUSIONS = ["SkipLayerNormFusion", "BiasGeluFusion"]
"""Disabled in ONNX Runtime: an addition fused with the LayerNorm or GELU after it is slower than the two operators."""

SPIN = "50"
"""Microseconds for which an idle thread of ONNX Runtime spins before it leaves its core to others."""

CLEARLY = 1.1
"""A runtime must be so many times as fast as ONNX Runtime to be preferred: it takes longer to start, by a quarter to a
third of a second, and smaller differences in measured times are noise."""


def usable_runtimes() -> list[GraphRuntime]:
    """Runtimes whose library is installed, and whose number format this processor supports."""
    return [name for name in get_args(GraphRuntime) if _usable(name)]


def choose_runtime(milliseconds: Mapping[str, float], agreement: Mapping[str, float], enough: float) -> GraphRuntime:
    """The usable runtime to prefer for a graph: ONNX Runtime, unless another one was clearly faster at export.

    Args:
        milliseconds: by runtime, the time for one example.
        agreement: by runtime, the share of predictions that are the same as PyTorch's.
        enough: minimum agreement; if no usable runtime reaches it, the one with the highest agreement is chosen.
    """
    known: list[GraphRuntime] = [name for name in get_args(GraphRuntime) if name in milliseconds]
    agreeing = [name for name in known if agreement[name] >= enough]
    others = [name for name in known if name not in agreeing]
    ranked = sorted(agreeing, key=lambda name: milliseconds[name] * (1.0 if name == "onnx" else CLEARLY))
    ranked += sorted(others, key=lambda name: -agreement[name])
    # lazily, one after the other: only importing OpenVINO tells whether the processor has bfloat16
    return next((name for name in ranked if _usable(name)), "onnx")


def _usable(runtime: GraphRuntime) -> bool:
    return find_spec(MODULES[runtime]) is not None and (runtime not in ROUNDING or _multiplies_bf16())


@cache
def _multiplies_bf16() -> bool:
    """Whether this processor multiplies bfloat16; on others OpenVINO would round just as much, but not be faster."""
    try:
        import openvino  # noqa: PLC0415 - an extra

        return "BF16" in openvino.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")
    except (ImportError, RuntimeError):  # installed, but not for this machine
        return False


def load_graph(path: Path, runtime: GraphRuntime, *, threads: int = 0) -> RunGraph:
    """Load a graph.

    Args:
        path: file of the graph.
        runtime: runtime that computes it.
        threads: number of threads; 0 leaves it to the runtime, which takes one for each core.

    Raises:
        BertVisionError: the runtime is not installed, cannot read the graph, or needs bfloat16 and the processor has
            none.
    """
    if runtime != "onnx":
        return _load_openvino(path, runtime, threads)
    session = onnx_session(path, threads)

    def run(inputs: Inputs) -> Sequence[NDArray[np.float32]]:
        outputs: Sequence[NDArray[np.float32]] = session.run(None, dict(inputs))
        return outputs

    return run


def onnx_session(graph: Path | bytes, threads: int = 0) -> Any:  # noqa: ANN401 - onnxruntime carries no types
    """Open a graph, a file or its content, in ONNX Runtime.

    Raises:
        BertVisionError: ONNX Runtime is not installed, or cannot read the graph.
    """
    try:
        import onnxruntime  # noqa: PLC0415 - an extra that only exported packs need
    except ImportError:
        raise MissingExtraError("an exported pack", "onnxruntime", "onnx") from None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3  # errors only: it warns about its own optimisations
    options.add_session_config_entry("session.intra_op.spin_duration_us", SPIN)
    try:
        return onnxruntime.InferenceSession(
            str(graph) if isinstance(graph, Path) else graph,
            options,
            providers=["CPUExecutionProvider"],
            disabled_optimizers=SLOW_FUSIONS,
        )
    except Exception as error:  # noqa: BLE001 - its errors have no other common class
        raise _unreadable(graph, "ONNX Runtime", error) from None


def _load_openvino(path: Path, runtime: GraphRuntime, threads: int) -> RunGraph:
    try:
        import openvino  # noqa: PLC0415 - an extra
    except ImportError:
        raise MissingExtraError(f"--runtime {runtime}", "openvino", "openvino") from None
    rounds = runtime in ROUNDING
    if rounds and not _multiplies_bf16():
        raise BertVisionError("this processor has no bfloat16. Use --runtime openvino, or leave it out.")
    settings = {
        "INFERENCE_PRECISION_HINT": "bf16" if rounds else "f32",  # by default it rounds wherever that is faster
        "PERFORMANCE_HINT": "LATENCY",
        "ENABLE_CPU_PINNING": "NO",  # a pinned thread waits for whatever else runs on its core
    }
    if threads:
        settings["INFERENCE_NUM_THREADS"] = str(threads)
    try:
        request = openvino.Core().compile_model(path, "CPU", settings).create_infer_request()
    except Exception as error:  # noqa: BLE001 - its errors have no other common class
        raise _unreadable(path, "OpenVINO", error) from None
    return lambda inputs: list(request.infer(dict(inputs), share_inputs=True).values())


def _unreadable(graph: Path | bytes, runtime: str, error: Exception) -> BertVisionError:
    what = graph if isinstance(graph, Path) else "this"
    *_, reason = type(error).__name__, *str(error).strip().splitlines()  # OpenVINO gives the reason in its last line
    return BertVisionError(f"{what} is no graph that {runtime} reads ({reason}). Export the pack again.")
