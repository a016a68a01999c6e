"""8 bits for products with weights: wide columns are split, the product stays, and far less is lost."""

from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from bertvision.packs.quantise import NARROWEST, balance_columns, quantise_graph
from bertvision.packs.runtimes import load_graph

WIDTH, OUTPUTS, TOKENS = NARROWEST, 2 * NARROWEST, 30
ODD = 7
"""A column that is far wider than the others, as encoders have them."""


def make_states(seed: int) -> NDArray[np.float32]:
    states = np.random.default_rng(seed).normal(size=(1, TOKENS, WIDTH)).astype(np.float32)
    states[..., ODD] *= 60
    return states


def make_weights() -> NDArray[np.float32]:
    return np.random.default_rng(9).normal(size=(WIDTH, OUTPUTS)).astype(np.float32)


def write_product(path: Path) -> Path:
    """A graph of one product, and one that is too narrow to be worth it."""
    narrow = np.ones((OUTPUTS, 2), dtype=np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"], name="wide"), helper.make_node("MatMul", ["y", "v"], ["z"])],
        "product",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, "tokens", WIDTH])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("y", "z")],
        [numpy_helper.from_array(make_weights(), "w"), numpy_helper.from_array(narrow, "v")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)
    return path


def test_balanced_columns_have_like_ranges_and_the_same_product() -> None:
    states, weights = make_states(0)[0].astype(np.float64), make_weights()
    widest = np.abs(states).max(axis=0).astype(np.float32)
    columns = balance_columns(widest, [weights])
    assert set(columns.copied.tolist()) >= {ODD}
    wide = np.concatenate([states, states[:, columns.copied]], axis=1) * columns.factor
    assert np.allclose(wide @ columns.weights(weights), states @ weights, rtol=1e-5, atol=1e-3)
    before, after = widest, np.abs(wide).max(axis=0)
    assert after.max() / np.median(after) < 0.2 * before.max() / np.median(before)
    # the weights of the odd column stay of like size, too: it was split, and not only moved into them
    sizes = np.abs(columns.weights(weights)).max(axis=1)
    assert sizes.max() < 3 * np.median(sizes)


def test_a_wide_column_no_longer_spoils_the_others(tmp_path: Path) -> None:
    from onnxruntime.quantization import QuantType, quantize_dynamic  # noqa: PLC0415 - what it is compared with

    path = write_product(tmp_path / "graph.onnx")
    quantize_dynamic(path, tmp_path / "plain.onnx", per_channel=True, weight_type=QuantType.QInt8)
    exact = make_states(1) @ make_weights()
    quantise_graph(path, [{"x": make_states(seed)} for seed in range(2, 6)])
    ours, plain = (load_graph(one, "onnx", threads=1)({"x": make_states(1)}) for one in (path, tmp_path / "plain.onnx"))
    errors = [float(np.sqrt(np.mean((found[0] - exact) ** 2))) for found in (ours, plain)]
    assert errors[0] < 0.4 * errors[1]
    kinds = [node.op_type for node in onnx.load(path).graph.node]
    assert kinds.count("MatMulInteger") == 1  # the narrow one is computed as before
    assert kinds.count("MatMul") == 1
