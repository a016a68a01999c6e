"""quantise_graph: quantise the products with weights in a float32 ONNX graph to 8 bits, by calibration data."""

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
"""Weights with fewer rows or columns stay in float32: they are cheap, and outputs depend on them directly."""

BALANCE = 0.6
"""α of SmoothQuant: how much of the differences between the columns of states moves into the weights."""

UNEVEN = 4.0
"""Columns are balanced if the range of the widest one is more than so many times the median."""

MIDDLE, MOST = 128, 255
"""Zero point of states of both signs, and the largest unsigned 8-bit integer."""

ONE_SIDED = 0.5
"""States count as one-sided if no number is below minus this share of the median of their rows' highest numbers."""


@dataclass(slots=True)
class StateSample:
    """Statistics of the states that products read, over the calibration data; a row is a token.

    Attributes:
        rows: number of rows.
        moments: (columns, columns) sums of the products of every two columns.
        widest: (columns,) largest absolute value.
        lowest: the lowest number.
        highest: (rows,) the highest number of every row, one array per sample.
    """

    rows: int
    moments: Floats
    widest: Floats
    lowest: float
    highest: list[Floats]

    @classmethod
    def empty(cls, columns: int) -> Self:
        """Statistics of no rows."""
        zeros = np.zeros((columns, columns), dtype=np.float32)
        return cls(0, zeros, zeros[0].copy(), np.inf, [])

    def add(self, states: Floats) -> None:
        """Add a sample, (rows, columns)."""
        self.rows += len(states)
        self.moments += states.T @ states
        self.widest = np.maximum(self.widest, np.abs(states).max(axis=0))
        self.lowest = min(self.lowest, float(states.min()))
        self.highest.append(states.max(axis=1))


@dataclass(frozen=True, slots=True)
class Steps:
    """How states are quantised: each row is divided by its highest number, then all have the same step and zero point.

    Attributes:
        zero: the zero point, the integer that stands for 0.
        least: of one-sided states, a lower limit for the number that a row is divided by, so that its lowest number has
            an integer, too; None for states of both signs, whose rows are divided by their largest absolute value.
    """

    zero: int
    least: float | None


def quantise_graph(path: Path, samples: Iterable[Inputs]) -> None:
    """Replace the file of a graph by one whose products with large weights are computed in 8 bits.

    - Every token's states are quantised at run time with a scale of their own, so that no token depends on others.
    - A few columns of an encoder's states are many times wider than the others, which would be left with few of the 256
      steps. Columns are therefore scaled to similar ranges first, and the weights inversely, as in SmoothQuant.
    - States after a GELU are hardly ever negative: their zero point is chosen so that most steps are above 0.
    - Weights are rounded so that their errors compensate each other, as in GPTQ.

    Args:
        path: file of the graph.
        samples: calibration data: inputs of the graph.

    Raises:
        BertVisionError: no weights of the graph are large enough.
    """
    model = onnx.load(path)
    products = _products(model)
    if not products:
        raise BertVisionError(f"no weights of the graph have {NARROWEST} rows and columns: leave --int8 out.")
    for name, sample in _sample_states(model, list(products), samples).items():
        _Rewriter(model.graph, name).rewrite(products[name], sample)
    used = {name for node in model.graph.node for name in node.input}
    for weight in [weight for weight in model.graph.initializer if weight.name not in used]:
        model.graph.initializer.remove(weight)
    del model.graph.value_info[:]  # shapes of values that are no longer there; they are inferred again
    temporary = path.with_name(f".{path.name}.int8")
    onnx.save(model, temporary)
    temporary.replace(path)


def balance_columns(widest: Floats, weights: Sequence[Floats]) -> Floats:
    """Factors that bring the columns of states to similar ranges, (columns,); their geometric mean is 1.

    Args:
        widest: (columns,) largest absolute value of the states.
        weights: weights that the states are multiplied with, (columns, outputs) each.
    """
    states = np.maximum(widest, 1e-5)
    heaviest = np.maximum(np.max([np.abs(weight).max(axis=1) for weight in weights], axis=0), 1e-5)
    factor = heaviest ** (1 - BALANCE) / states**BALANCE
    normalised: Floats = (factor / np.exp(np.mean(np.log(factor)))).astype(np.float32)
    return normalised


def choose_steps(lowest: float, highest: Floats) -> Steps:
    """Zero point and limit for states with these statistics.

    Args:
        lowest: the lowest number.
        highest: (rows,) the highest number of every row.
    """
    usual = float(np.median(highest))
    if usual <= 0 or lowest < -ONE_SIDED * usual:
        return Steps(MIDDLE, None)
    zero = max(1, int(np.ceil(MOST * -lowest / (usual - lowest))))
    return Steps(zero, -lowest * (MOST - zero) / zero)


def _products(model: onnx.ModelProto) -> dict[str, list[onnx.NodeProto]]:
    """The products of states with large constant weights, by the name of the states."""
    sizes = {weight.name: tuple(weight.dims) for weight in model.graph.initializer}
    found: dict[str, list[onnx.NodeProto]] = defaultdict(list)
    for node in model.graph.node:
        size = sizes.get(node.input[1], ()) if node.op_type == "MatMul" else ()
        if len(size) == 2 and min(size) >= NARROWEST:
            found[node.input[0]].append(node)
    return dict(found)


def _sample_states(model: onnx.ModelProto, names: Sequence[str], samples: Iterable[Inputs]) -> dict[str, StateSample]:
    """Run a graph on calibration data; statistics of the states with these names."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    copy.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in names)
    session = onnx_session(copy.SerializeToString())
    found: dict[str, StateSample] = {}
    for inputs in samples:
        for name, values in zip(names, session.run(list(names), dict(inputs)), strict=True):
            columns = values.shape[-1]
            if name not in found:
                found[name] = StateSample.empty(columns)
            found[name].add(values.reshape(-1, columns))
    return found


class _Rewriter:
    """Replaces the products that read one tensor of states by products in 8 bits."""

    def __init__(self, graph: onnx.GraphProto, states: str) -> None:
        self._graph = graph
        self._states = states
        self._added: list[onnx.NodeProto] = []

    def rewrite(self, nodes: Sequence[onnx.NodeProto], sample: StateSample) -> None:
        """Replace products.

        Args:
            nodes: the products.
            sample: statistics of the states that they read.
        """
        initializers = {weight.name: weight for weight in self._graph.initializer}
        weights = [numpy_helper.to_array(initializers[node.input[1]]) for node in nodes]
        steps, states = choose_steps(sample.lowest, np.concatenate(sample.highest)), self._states
        moments = sample.moments / sample.rows
        if steps.least is None and sample.widest.max() > UNEVEN * np.median(sample.widest):
            factor = balance_columns(sample.widest, weights)
            states, moments = self._add("Mul", states, self._hold("factor", factor)), moments * np.outer(factor, factor)
            weights = [weight / factor[:, None] for weight in weights]
        quantised, divisor = self._quantise(states, steps)
        place = next(number for number, node in enumerate(self._graph.node) if node in nodes)
        rounded = round_weights(np.concatenate(weights, axis=1), moments)
        ends = np.cumsum([weight.shape[1] for weight in weights])
        for node, weight, end in zip(nodes, weights, ends.tolist(), strict=True):
            columns = slice(end - weight.shape[1], end)
            inputs = [
                self._hold(f"{node.input[1]}_rounded", rounded.integers[:, columns]),
                self._hold(f"{node.input[1]}_scale", rounded.scale[columns]),
                self._hold(f"{node.input[1]}_zero", np.zeros(weight.shape[1], dtype=np.int8)),
            ]
            # ONNX Runtime fuses this pattern of dequantised factors into one product of 8-bit integers
            product = self._add("MatMul", quantised, self._add("DequantizeLinear", *inputs, axis=1))
            self._added.append(helper.make_node("Mul", [product, divisor], [node.output[0]]))
            self._graph.node.remove(node)
        for added in reversed(self._added):
            self._graph.node.insert(place, added)

    def _quantise(self, states: str, steps: Steps) -> tuple[str, str]:
        """Add nodes that divide the rows of states by a number each, and quantise them.

        Returns:
            Names of the quantised (and dequantised) states, and of the divisors, (…, 1).
        """
        last = self._hold("last", np.array([-1]))
        if steps.least is None:
            divisor = self._add("ReduceMax", self._add("Abs", states), last, keepdims=1)
        else:
            divisor = self._add("ReduceMax", states, last, keepdims=1)
            divisor = self._add("Max", divisor, self._hold("least", np.float32(steps.least)))
        divided = self._add("Div", states, divisor)
        scale = [self._hold("step", np.float32(1 / (MOST - steps.zero))), self._hold("zero", np.uint8(steps.zero))]
        return self._add("DequantizeLinear", self._add("QuantizeLinear", divided, *scale), *scale), divisor

    def _hold(self, word: str, value: NDArray[Any] | np.generic) -> str:
        """Add a constant; its name in the graph."""
        name = f"{self._states}_{word}"
        self._graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def _add(self, kind: str, *inputs: str, **options: Any) -> str:  # noqa: ANN401 - attributes of an operator
        """Add a node; the name of its output."""
        name = f"{self._states}_{len(self._added)}_{kind}"
        self._added.append(helper.make_node(kind, list(inputs), [name], **options))
        return name
