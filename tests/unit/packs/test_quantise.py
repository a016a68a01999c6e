"""8 bits for products with weights: every row has its own scale, wide columns are brought in line, little is lost."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from bertvision.packs.quantise import MIDDLE, NARROWEST, balance_columns, choose_steps, quantise_graph
from bertvision.packs.runtimes import load_graph

Floats = NDArray[np.float32]

WIDTH, OUTPUTS, TOKENS = NARROWEST, 2 * NARROWEST, 30
ODD = 7
"""A column that is far wider than the others, as encoders have them."""


def make_states(seed: int) -> Floats:
    states = np.random.default_rng(seed).normal(size=(1, TOKENS, WIDTH)).astype(np.float32)
    states[..., ODD] *= 60
    return states


def make_weights() -> Floats:
    return np.random.default_rng(9).normal(size=(WIDTH, OUTPUTS)).astype(np.float32)


def write_product(path: Path) -> Path:
    """A graph of two products with the same states, and one that is too narrow to be worth it."""
    narrow = np.ones((OUTPUTS, 2), dtype=np.float32)
    nodes = [("x", "w", "y"), ("x", "u", "v"), ("y", "n", "z")]
    graph = helper.make_graph(
        [helper.make_node("MatMul", [first, second], [result]) for first, second, result in nodes],
        "product",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "tokens", WIDTH])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("y", "v", "z")],
        [
            numpy_helper.from_array(value, name)
            for name, value in {"w": make_weights(), "u": -make_weights(), "n": narrow}.items()
        ],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)
    return path


def quantised(path: Path, samples: list[Floats]) -> Path:
    quantise_graph(write_product(path), [{"x": one} for one in samples])
    return path


def product(path: Path, states: Floats) -> Floats:
    first, second, _ = load_graph(path, "onnx", threads=1)({"x": states})
    assert np.allclose(first, -second, rtol=1e-6, atol=1e-4)  # both read the same whole numbers
    return first


def error(found: Floats, exact: Floats) -> float:
    return float(np.sqrt(np.mean((found - exact) ** 2) / np.mean(exact**2)))


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return quantised(tmp_path_factory.mktemp("graph") / "graph.onnx", [make_states(seed) for seed in range(2, 6)])


def test_balanced_columns_have_like_ranges() -> None:
    widest = np.abs(make_states(0)[0]).max(axis=0)
    after = widest * balance_columns(widest, [make_weights()])
    assert after.max() / np.median(after) < 0.2 * widest.max() / np.median(widest)
    assert np.exp(np.mean(np.log(after / widest))) == pytest.approx(1.0, rel=1e-5)


def test_a_wide_column_no_longer_spoils_the_others(tmp_path: Path, graph: Path) -> None:
    from onnxruntime.quantization import QuantType, quantize_dynamic  # noqa: PLC0415 - what it is compared with

    quantize_dynamic(
        write_product(tmp_path / "f32.onnx"), tmp_path / "plain.onnx", per_channel=True, weight_type=QuantType.QInt8
    )
    states = make_states(1)
    exact = states @ make_weights()
    assert error(product(graph, states), exact) < 0.4 * error(product(tmp_path / "plain.onnx", states), exact)


def test_products_are_computed_in_whole_numbers_but_narrow_ones_are_not(graph: Path) -> None:
    held = {one.name: numpy_helper.to_array(one).dtype for one in onnx.load(graph).graph.initializer}
    assert [name for name, dtype in held.items() if dtype == np.float32 and name in {"w", "u", "n"}] == ["n"]
    assert sum(name.endswith("rounded") and dtype == np.int8 for name, dtype in held.items()) == 2


def test_a_row_is_rounded_by_itself_whatever_stands_beside_it(graph: Path) -> None:
    states = make_states(1)
    beside = np.concatenate([states, 1000 * make_states(8)])
    assert np.array_equal(product(graph, beside)[0], product(graph, states)[0])
    small = states.copy()
    small[0, 3] *= 1e-4
    exact = small @ make_weights()
    assert error(product(graph, small)[0, 3], exact[0, 3]) < 0.02


def test_a_row_of_zeros_stays_one(graph: Path) -> None:
    states = make_states(1)
    states[0, 4] = 0
    assert not product(graph, states)[0, 4].any()


def test_states_that_are_hardly_negative_spend_their_steps_above_zero(tmp_path: Path) -> None:
    samples = [np.maximum(make_states(seed), -0.1) for seed in range(3)]
    highest = np.concatenate([one[0].max(axis=1) for one in samples])
    steps = choose_steps(-0.1, highest)
    assert 0 < steps.zero < MIDDLE / 4
    assert steps.least is not None
    # the lowest number of a row that is as low as it gets has just room: -zero steps
    assert -0.1 / steps.least == pytest.approx(-steps.zero / (255 - steps.zero))
    assert choose_steps(-3.0, highest[highest < 5]) == choose_steps(-3.0, np.zeros(3, dtype=np.float32))  # both signs
    assert choose_steps(0.0, highest).zero == 1
    states = np.maximum(make_states(9), -0.1)
    found = product(quantised(tmp_path / "graph.onnx", samples), states)
    assert error(found, states @ make_weights()) < 0.02


def test_states_of_an_unusual_size_are_not_cut_off(graph: Path) -> None:
    states = (1e4 * make_states(1)).astype(np.float32)
    assert error(product(graph, states), states @ make_weights()) < 0.02
