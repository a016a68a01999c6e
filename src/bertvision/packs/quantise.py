"""quantise_graph: a graph in float32 → one whose products with weights are computed in 8 bits, and little is lost."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from bertvision.errors import BertVisionError
from bertvision.packs.round_weights import Floats, round_weights
from bertvision.packs.runtimes import Inputs, onnx_session

NARROWEST = 128
"""Weights with a narrower side stay in float32: they cost nothing, and what an output says hangs on them."""

BALANCE = 0.6
"""Share of the differences between channels that moves from the states into the weights."""

UNEVEN = 4.0
"""Columns are brought to like ranges where the widest has so many times the range of the middle one."""

MIDDLE, MOST = 128, 255
"""What stands for 0 in states of both signs, and the largest of their whole numbers."""

ONE_SIDED = 0.5
"""States whose lowest number is smaller than this share of their usual highest one get a zero of their own."""


@dataclass(slots=True)
class StateSample:
    """What samples show of some states.

    Attributes:
        rows: number of rows seen.
        moments: sums of the products of every two columns.
        widest: the largest size of a number in each column.
        lowest: lowest number of all.
        highest: the highest number of every row, sample by sample.
    """

    rows: int
    moments: Floats
    widest: Floats
    lowest: float
    highest: list[Floats]

    @classmethod
    def nothing(cls, columns: int) -> Self:
        """Before the first sample."""
        none = np.zeros((columns, columns), dtype=np.float32)
        return cls(0, none, none[0].copy(), np.inf, [])

    def add(self, states: Floats) -> None:
        """One sample, (rows, columns)."""
        self.rows += len(states)
        self.moments += states.T @ states
        self.widest = np.maximum(self.widest, np.abs(states).max(axis=0))
        self.lowest = min(self.lowest, float(states.min()))
        self.highest.append(states.max(axis=1))


@dataclass(frozen=True, slots=True)
class Steps:
    """How the rows of prepared states become whole numbers: each by its own highest number.

    Attributes:
        zero: the whole number that stands for 0.
        least: lower limit on the highest number of a row, so that its lowest number fits, too;
            None where numbers of both signs count alike.
    """

    zero: int
    least: float | None


def quantise_graph(path: Path, samples: Iterable[Inputs]) -> None:
    """Replace a graph by one whose products with weights are computed in 8 bits.

    Every token's states get a scale of their own while it runs, so that none depends on its neighbours. A few channels
    of an encoder are many times wider than the others, and would leave these but a few of the 256 steps. So the columns
    are brought to like ranges first, with the inverse in the weights, as in SmoothQuant. States behind a GELU, which
    are hardly negative, spend their steps above 0. Weights are rounded so that what is lost at one is made up for by
    others, as in GPTQ.

    Args:
        path: file of the graph.
        samples: inputs of the graph, which show how wide channels are and how they correlate.

    Raises:
        BertVisionError: there is nothing that it would make faster.
    """
    model = onnx.load(path)
    products = _products(model)
    if not products:
        raise BertVisionError(f"no weights of the graph have {NARROWEST} rows and columns: leave --int8 out.")
    for name, seen in _look(model, list(products), samples).items():
        _Rewriter(model.graph, name).rewrite(products[name], seen)
    used = {name for node in model.graph.node for name in node.input}
    for weight in [weight for weight in model.graph.initializer if weight.name not in used]:
        model.graph.initializer.remove(weight)
    del model.graph.value_info[:]  # sizes of what was there before; they are found anew
    narrow = path.with_name(f".{path.name}.int8")
    onnx.save(model, narrow)
    narrow.replace(path)


def balance_columns(widest: Floats, weights: Sequence[Floats]) -> Floats:
    """Factors that bring the columns of states to like ranges.

    Args:
        widest: the largest size of a number in each column.
        weights: weights that the states are multiplied with, (columns, outputs).
    """
    states = np.maximum(widest, 1e-5)
    heaviest = np.maximum(np.max([np.abs(weight).max(axis=1) for weight in weights], axis=0), 1e-5)
    factor = heaviest ** (1 - BALANCE) / states**BALANCE
    even: Floats = (factor / np.exp(np.mean(np.log(factor)))).astype(np.float32)
    return even


def choose_steps(lowest: float, highest: Floats) -> Steps:
    """How the rows of states are rounded.

    Args:
        lowest: lowest number of all.
        highest: the highest number of every row.
    """
    usual = float(np.median(highest))
    if usual <= 0 or lowest < -ONE_SIDED * usual:
        return Steps(MIDDLE, None)
    zero = max(1, int(np.ceil(MOST * -lowest / (usual - lowest))))
    return Steps(zero, -lowest * (MOST - zero) / zero)


def _products(model: onnx.ModelProto) -> dict[str, list[onnx.NodeProto]]:
    """Every product of states and weights, by the states."""
    sizes = {weight.name: tuple(weight.dims) for weight in model.graph.initializer}
    found: dict[str, list[onnx.NodeProto]] = defaultdict(list)
    for node in model.graph.node:
        size = sizes.get(node.input[1], ()) if node.op_type == "MatMul" else ()
        if len(size) == 2 and min(size) >= NARROWEST:
            found[node.input[0]].append(node)
    return dict(found)


def _look(model: onnx.ModelProto, names: Sequence[str], samples: Iterable[Inputs]) -> dict[str, StateSample]:
    """What samples show of some states."""
    watched = onnx.ModelProto()
    watched.CopyFrom(model)
    watched.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in names)
    session = onnx_session(watched.SerializeToString())
    found: dict[str, StateSample] = {}
    for inputs in samples:
        for name, values in zip(names, session.run(list(names), dict(inputs)), strict=True):
            columns = values.shape[-1]
            if name not in found:
                found[name] = StateSample.nothing(columns)
            found[name].add(values.reshape(-1, columns))
    return found


class _Rewriter:
    """Puts products in 8 bits in the place of those with some states."""

    def __init__(self, graph: onnx.GraphProto, states: str) -> None:
        self._graph = graph
        self._states = states
        self._added: list[onnx.NodeProto] = []

    def rewrite(self, nodes: Sequence[onnx.NodeProto], seen: StateSample) -> None:
        """Replace products.

        Args:
            nodes: the products.
            seen: statistics of the states that they read.
        """
        held = {weight.name: weight for weight in self._graph.initializer}
        weights = [numpy_helper.to_array(held[node.input[1]]) for node in nodes]
        steps, even = choose_steps(seen.lowest, np.concatenate(seen.highest)), self._states
        moments = seen.moments / seen.rows
        if steps.least is None and seen.widest.max() > UNEVEN * np.median(seen.widest):
            factor = balance_columns(seen.widest, weights)
            even, moments = self._add("Mul", even, self._hold("factor", factor)), moments * np.outer(factor, factor)
            weights = [weight / factor[:, None] for weight in weights]
        whole, highest = self._round(even, steps)
        place = next(number for number, node in enumerate(self._graph.node) if node in nodes)
        rounded = round_weights(np.concatenate(weights, axis=1), moments)
        ends = np.cumsum([weight.shape[1] for weight in weights])
        for node, weight, end in zip(nodes, weights, ends.tolist(), strict=True):
            mine = slice(end - weight.shape[1], end)
            inputs = [
                self._hold(f"{node.input[1]}_rounded", rounded.whole[:, mine]),
                self._hold(f"{node.input[1]}_scale", rounded.scale[mine]),
                self._hold(f"{node.input[1]}_zero", np.zeros(weight.shape[1], dtype=np.int8)),
            ]
            product = self._add("MatMul", whole, self._add("DequantizeLinear", *inputs, axis=1))
            self._added.append(helper.make_node("Mul", [product, highest], [node.output[0]]))
            self._graph.node.remove(node)
        for added in reversed(self._added):
            self._graph.node.insert(place, added)

    def _round(self, even: str, steps: Steps) -> tuple[str, str]:
        """Prepared states as whole numbers, and what every row of them must be multiplied with."""
        last = self._hold("last", np.array([-1]))
        if steps.least is None:
            highest = self._add("ReduceMax", self._add("Abs", even), last, keepdims=1)
        else:
            highest = self._add("ReduceMax", even, last, keepdims=1)
            highest = self._add("Max", highest, self._hold("least", np.float32(steps.least)))
        share = self._add("Div", even, highest)
        how = [self._hold("step", np.float32(1 / (MOST - steps.zero))), self._hold("zero", np.uint8(steps.zero))]
        return self._add("DequantizeLinear", self._add("QuantizeLinear", share, *how), *how), highest

    def _hold(self, word: str, value: NDArray[Any] | np.generic) -> str:
        name = f"{self._states}_{word}"
        self._graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def _add(self, kind: str, *inputs: str, **options: Any) -> str:  # noqa: ANN401 - attributes of an operator
        name = f"{self._states}_{len(self._added)}_{kind}"
        self._added.append(helper.make_node(kind, list(inputs), [name], **options))
        return name
