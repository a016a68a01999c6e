"""What computes the graph of an exported pack: ONNX Runtime or OpenVINO; neither torch nor transformers is imported."""

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from bertvision.errors import BertVisionError, MissingExtraError

GraphRuntime = Literal["onnx", "openvino"]
"""Every one of them."""

Inputs = Mapping[str, NDArray[Any]]
RunGraph = Callable[[Inputs], Sequence[NDArray[np.float32]]]
"""Inputs by name → the outputs in their order."""

MODULES: dict[GraphRuntime, str] = {"onnx": "onnxruntime", "openvino": "openvino"}
"""Which library each is; its extra is called as the runtime is."""

SLOW_FUSIONS = ["SkipLayerNormFusion", "BiasGeluFusion"]
"""Left out: a sum with a LayerNorm or a GELU behind it takes longer as one operator than as two."""

CLEARLY = 1.2
"""So many times as fast as ONNX Runtime another runtime must be to be taken by itself: it takes longer to start."""


def installed_runtimes() -> list[GraphRuntime]:
    """Those that can be used here."""
    return [name for name in get_args(GraphRuntime) if find_spec(MODULES[name]) is not None]


def choose_runtime(milliseconds: Mapping[str, float]) -> GraphRuntime:
    """The runtime for a graph whose times were measured: ONNX Runtime, unless another one here is clearly faster."""
    here = [name for name in installed_runtimes() if name in milliseconds]
    if not here:
        return "onnx"
    best = min(here, key=lambda name: milliseconds[name])
    clear = "onnx" not in here or milliseconds["onnx"] > CLEARLY * milliseconds[best]
    return best if clear else "onnx"


def load_graph(path: Path, runtime: GraphRuntime, *, threads: int = 0) -> RunGraph:
    """Load a graph.

    Args:
        path: of its file.
        runtime: what computes it.
        threads: to compute with; 0 leaves that to the runtime, which takes one for each core.

    Raises:
        BertVisionError: the runtime is not installed, or cannot read the graph.
    """
    if runtime == "openvino":
        return _load_openvino(path, threads)
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
    options.add_session_config_entry(
        "session.intra_op.allow_spinning", "0"
    )  # threads that wait leave the cores to others
    try:
        return onnxruntime.InferenceSession(
            str(graph) if isinstance(graph, Path) else graph,
            options,
            providers=["CPUExecutionProvider"],
            disabled_optimizers=SLOW_FUSIONS,
        )
    except Exception as error:  # noqa: BLE001 - its errors have no common class but this
        raise _unreadable(graph, "ONNX Runtime", error) from None


def _load_openvino(path: Path, threads: int) -> RunGraph:
    try:
        import openvino  # noqa: PLC0415 - an extra
    except ImportError:
        raise MissingExtraError("--runtime openvino", "openvino", "openvino") from None
    # single precision everywhere: by itself it would round to 16 bits on processors that are faster with these
    given = {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
    if threads:
        given["INFERENCE_NUM_THREADS"] = str(threads)
    try:
        request = openvino.Core().compile_model(path, "CPU", given).create_infer_request()
    except Exception as error:  # noqa: BLE001 - its errors have no common class but this
        raise _unreadable(path, "OpenVINO", error) from None
    return lambda inputs: list(request.infer(dict(inputs), share_inputs=True).values())


def _unreadable(graph: Path | bytes, runtime: str, error: Exception) -> BertVisionError:
    what = graph if isinstance(graph, Path) else "this"
    return BertVisionError(f"{what} is no graph that {runtime} reads ({error}). Export the pack again.")
