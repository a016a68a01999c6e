"""quantise_graph: a graph in float32 → one whose products with weights are computed in 8 bits, and little is lost."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from bertvision.errors import BertVisionError
from bertvision.packs.graph import quiet
from bertvision.packs.runtimes import onnx_session

Inputs = Mapping[str, NDArray[Any]]
Floats = NDArray[np.float32]

NARROWEST = 128
"""Weights with a narrower side stay in float32: they cost nothing, and what an output says hangs on them."""

BALANCE = 0.7
"""Share of the differences between channels that moves from the states into the weights."""

USUAL = 0.99
"""Share of the channels whose range counts as usual; what lies beyond is split over several columns."""


SPREAD = 0.2
"""By how much the copies of a column differ in size."""


@dataclass(frozen=True, slots=True)
class Columns:
    """How the columns of some states are prepared.

    Attributes:
        copied: numbers of the columns that are appended, those of wide range several times.
        factor: of every column, the appended ones included.
    """

    copied: NDArray[np.int64]
    factor: Floats

    def weights(self, weight: Floats) -> Floats:
        """The weights that go with them, so that the product is what it was; (columns, outputs)."""
        place = np.concatenate([np.arange(len(weight)), self.copied])
        times = np.bincount(place, minlength=len(weight))[place]  # every copy carries its part
        widened: Floats = (weight[place] / (self.factor * times)[:, None]).astype(np.float32)
        return widened


def quantise_graph(path: Path, samples: Iterable[Inputs]) -> None:
    """Replace a graph by one whose products with weights are computed in 8 bits.

    All states before a product get one scale while it runs. A few channels of an encoder are many times wider than the
    others, and would leave these but a few of the 256 steps. So the columns are brought to like ranges first, with the
    inverse in the weights, as in SmoothQuant; and those that are wider still are split over several columns.

    Args:
        path: of the graph.
        samples: inputs of it, to see how wide channels are.

    Raises:
        BertVisionError: there is nothing that it would make faster.
    """
    from onnxruntime.quantization import QuantType, quantize_dynamic  # noqa: PLC0415 - an extra

    model = onnx.load(path)
    products = _products(model)
    if not products:
        raise BertVisionError(f"no weights of the graph have {NARROWEST} rows and columns: leave --int8 out.")
    for states, widest in _ranges(model, list(products), samples).items():
        _prepare(model, states, products[states], widest)
    del model.graph.value_info[:]  # sizes of what was there before; they are found anew
    names = [node.name for nodes in products.values() for node in nodes]
    narrow = path.with_name(f".{path.name}.int8")
    with quiet():
        quantize_dynamic(model, narrow, per_channel=True, weight_type=QuantType.QInt8, nodes_to_quantize=names)
    narrow.replace(path)


def balance_columns(widest: Floats, weights: Sequence[Floats]) -> Columns:
    """Bring the columns of states to like ranges.

    Args:
        widest: the largest size of a number in each column.
        weights: that they are multiplied with, (columns, outputs).
    """
    states = np.maximum(widest, 1e-5)
    heaviest = np.maximum(np.max([np.abs(weight).max(axis=1) for weight in weights], axis=0), 1e-5)
    usual = np.minimum(states, np.quantile(states, USUAL))
    factor = heaviest ** (1 - BALANCE) / usual**BALANCE
    factor /= np.exp(np.mean(np.log(factor)))
    times = np.ceil(states * factor / (usual * factor).max() - 1e-6).astype(np.int64)
    copied = np.repeat(np.arange(len(states)), times - 1)
    number = np.concatenate([np.zeros(len(states)), np.arange(len(copied)) - np.searchsorted(copied, copied) + 1])
    place = np.concatenate([np.arange(len(states)), copied])
    # copies of one size would all be rounded in the same direction
    return Columns(copied, (factor[place] / times[place] * (1 - SPREAD * number / times[place])).astype(np.float32))


def _products(model: onnx.ModelProto) -> dict[str, list[onnx.NodeProto]]:
    """Every product of states and weights, by the states."""
    sizes = {weight.name: tuple(weight.dims) for weight in model.graph.initializer}
    found: dict[str, list[onnx.NodeProto]] = defaultdict(list)
    for node in model.graph.node:
        size = sizes.get(node.input[1], ()) if node.op_type == "MatMul" else ()
        if len(size) == 2 and min(size) >= NARROWEST:
            found[node.input[0]].append(node)
    return dict(found)


def _ranges(model: onnx.ModelProto, states: Sequence[str], samples: Iterable[Inputs]) -> dict[str, Floats]:
    """The largest size of a number in every column of some states."""
    watched = onnx.ModelProto()
    watched.CopyFrom(model)
    watched.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in states)
    session = onnx_session(watched.SerializeToString())
    widest: dict[str, Floats] = {}
    for inputs in samples:
        for name, values in zip(states, session.run(list(states), dict(inputs)), strict=True):
            size = np.abs(values).reshape(-1, values.shape[-1]).max(axis=0)
            widest[name] = np.maximum(widest.get(name, size), size)
    return widest


def _prepare(model: onnx.ModelProto, states: str, nodes: Sequence[onnx.NodeProto], widest: Floats) -> None:
    """Let products read prepared columns, and give them the weights for these."""
    graph = model.graph
    held = {weight.name: weight for weight in graph.initializer}
    weights = [numpy_helper.to_array(held[node.input[1]]) for node in nodes]
    columns = balance_columns(widest, weights)
    few, wide, even = (f"{states}_{word}" for word in ("few", "wide", "even"))
    added = []
    if len(columns.copied):
        graph.initializer.append(numpy_helper.from_array(columns.copied, f"{few}_columns"))
        added.append(helper.make_node("Gather", [states, f"{few}_columns"], [few], axis=-1))
        added.append(helper.make_node("Concat", [states, few], [wide], axis=-1))
    graph.initializer.append(numpy_helper.from_array(columns.factor, f"{even}_factor"))
    added.append(helper.make_node("Mul", [wide if len(columns.copied) else states, f"{even}_factor"], [even]))
    place = next(number for number, node in enumerate(graph.node) if node in nodes)
    for node in reversed(added):
        graph.node.insert(place, node)
    for node, weight in zip(nodes, weights, strict=True):
        held[node.input[1]].CopyFrom(numpy_helper.from_array(columns.weights(weight), node.input[1]))
        node.input[0] = even
