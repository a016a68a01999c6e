"""What computes the graph of an exported pack: ONNX Runtime or OpenVINO; neither torch nor transformers is imported."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from bertvision.errors import BertVisionError, MissingExtraError

GraphRuntime = Literal["onnx", "openvino", "openvino-bf16"]
"""Every one of them; the last computes in bfloat16, which some processors multiply twice as fast."""

Inputs = Mapping[str, NDArray[Any]]
RunGraph = Callable[[Inputs], Sequence[NDArray[np.float32]]]
"""Inputs by name → the outputs in their order."""

MODULES: dict[GraphRuntime, str] = {"onnx": "onnxruntime", "openvino": "openvino", "openvino-bf16": "openvino"}
"""Which library each is."""

ROUNDING: frozenset[GraphRuntime] = frozenset({"openvino-bf16"})
"""Those that compute with fewer bits than a graph has."""

LENGTH_STEP: dict[GraphRuntime, int] = {"onnx": 1, "openvino": 16, "openvino-bf16": 16}
"""A window by itself is padded to a multiple of so many tokens: OpenVINO prepares itself for every new length, which
takes half as long as a window, and computes whole blocks of tokens sooner than parts of them."""

SLOW_FUSIONS = ["SkipLayerNormFusion", "BiasGeluFusion"]
"""Left out: a sum with a LayerNorm or a GELU behind it takes longer as one operator than as two."""

SPIN = "50"
"""Microseconds for which an idle thread of ONNX Runtime stays awake; then it leaves its core to others."""

CLEARLY = 1.1
"""So many times as fast as ONNX Runtime another runtime must be to be taken by itself: it takes longer to start, by
a quarter to a third of a second, and times that are nearly the same come out now so, now so."""


def usable_runtimes() -> list[GraphRuntime]:
    """Runtimes whose library is installed, and whose number format this processor supports."""
    return [name for name in get_args(GraphRuntime) if _usable(name)]


def choose_runtime(milliseconds: Mapping[str, float], agreement: Mapping[str, float], enough: float) -> GraphRuntime:
    """The runtime for a graph that was measured: ONNX Runtime, unless another one here is clearly faster.

    Args:
        milliseconds: time for one example, by runtime.
        agreement: share of the predictions that are those of PyTorch, by runtime.
        enough: least agreement of a runtime; where all have less, the one with the most is taken.
    """
    known: list[GraphRuntime] = [name for name in get_args(GraphRuntime) if name in milliseconds]
    right = [name for name in known if agreement[name] >= enough]
    wrong = [name for name in known if name not in right]
    ranked = sorted(right, key=lambda name: milliseconds[name] * (1.0 if name == "onnx" else CLEARLY))
    ranked += sorted(wrong, key=lambda name: -agreement[name])
    # asked of one after the other: to know of bfloat16 takes importing OpenVINO
    return next((name for name in ranked if _usable(name)), "onnx")


def _usable(runtime: GraphRuntime) -> bool:
    return find_spec(MODULES[runtime]) is not None and (runtime not in ROUNDING or _multiplies_bf16())


@cache
def _multiplies_bf16() -> bool:
    """Whether this processor has bfloat16; on others OpenVINO would round all the same, and gain nothing."""
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
        BertVisionError: the runtime is not installed, cannot read the graph, or computes in what this processor lacks.
    """
    if runtime != "onnx":
        return _load_openvino(path, runtime, threads)
    session = onnx_session(path, threads)

    def run(inputs: Inputs) -> Sequence[NDArray[np.float32]]:
        found: Sequence[NDArray[np.float32]] = session.run(None, dict(inputs))
        return found

    return run


def onnx_session(graph: Path | bytes, threads: int = 0) -> Any:  # noqa: ANN401 - onnxruntime carries no types
    """A graph in ONNX Runtime, by its file or by what would stand there.

    Raises:
        BertVisionError: ONNX Runtime is not installed, or cannot read the graph.
    """
    try:
        import onnxruntime  # noqa: PLC0415 - an extra that only exported packs need
    except ImportError:
        raise MissingExtraError("an exported pack", "onnxruntime", "onnx") from None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3  # errors alone: it warns of what it optimises
    options.add_session_config_entry("session.intra_op.spin_duration_us", SPIN)
    try:
        return onnxruntime.InferenceSession(
            str(graph) if isinstance(graph, Path) else graph,
            options,
            providers=["CPUExecutionProvider"],
            disabled_optimizers=SLOW_FUSIONS,
        )
    except Exception as error:  # noqa: BLE001 - its errors have no common class but this
        raise _unreadable(graph, "ONNX Runtime", error) from None


def _load_openvino(path: Path, runtime: GraphRuntime, threads: int) -> RunGraph:
    try:
        import openvino  # noqa: PLC0415 - an extra
    except ImportError:
        raise MissingExtraError(f"--runtime {runtime}", "openvino", "openvino") from None
    rounds = runtime in ROUNDING
    if rounds and not _multiplies_bf16():
        raise BertVisionError("this processor has no bfloat16. Use --runtime openvino, or leave it out.")
    given = {
        "INFERENCE_PRECISION_HINT": "bf16" if rounds else "f32",  # by itself it would round wherever that is faster
        "PERFORMANCE_HINT": "LATENCY",
        "ENABLE_CPU_PINNING": "NO",  # a thread that may not move waits for whatever else has its core
    }
    if threads:
        given["INFERENCE_NUM_THREADS"] = str(threads)
    try:
        request = openvino.Core().compile_model(path, "CPU", given).create_infer_request()
    except Exception as error:  # noqa: BLE001 - its errors have no common class but this
        raise _unreadable(path, "OpenVINO", error) from None
    return lambda inputs: list(request.infer(dict(inputs), share_inputs=True).values())


def _unreadable(graph: Path | bytes, runtime: str, error: Exception) -> BertVisionError:
    what = graph if isinstance(graph, Path) else "this"
    *_, why = type(error).__name__, *str(error).strip().splitlines()  # OpenVINO's reason stands below where it was met
    return BertVisionError(f"{what} is no graph that {runtime} reads ({why}). Export the pack again.")
