"""What quality costs: F1 against parameters, training time and inference time."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from bertvision.errors import BertVisionError, UnknownNameError

Cost = Literal["parameters", "training_seconds", "inference_seconds"]
"""What quality is set against."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CostRow:
    """A model, how good it is, and what it costs.

    Attributes:
        name: name of the model, unlike any other's.
        f1: in percent.
        parameters: numbers that learn.
        training_seconds: None if nobody measured.
        inference_seconds: over the same examples for all models; None if nobody measured.
    """

    name: str
    f1: float
    parameters: int
    training_seconds: float | None = None
    inference_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EfficiencyRow:
    """A model's cost and what it is worth.

    Attributes:
        cost: the model.
        efficiency: (F1 - 50) / log10(parameters).
        best_at: the costs at which no other model is as good for less, or better for the same.
    """

    cost: CostRow
    efficiency: float
    best_at: tuple[Cost, ...]


def efficiency(f1: float, parameters: int) -> float:
    """F1 points above 50 for each power of ten of parameters, as document 001 has it.

    Args:
        f1: in percent.
        parameters: numbers that learn.

    Raises:
        BertVisionError: there are fewer than two parameters, or the F1 is no percentage.

    Example:
        >>> round(efficiency(75.2, 42_548_738), 2)
        3.3
    """
    if parameters < 2:
        raise BertVisionError(f"{parameters} parameters have no logarithm to divide by; at least 2 are expected.")
    if not 0.0 <= f1 <= 100.0:
        raise BertVisionError(f"F1 is {f1:g}; 0 to 100 percent is expected.")
    return (f1 - 50.0) / math.log10(parameters)


def efficiency_table(rows: Sequence[CostRow]) -> tuple[EfficiencyRow, ...]:
    """Every model with its efficiency and the costs at which it is on the Pareto front, in the given order.

    Raises:
        BertVisionError: two models have one name, or a number cannot be.
    """
    names = [row.name for row in rows]
    double = next((name for name in names if names.count(name) > 1), None)
    if double is not None:
        raise BertVisionError(f"two models are called '{double}'; different names are expected.")
    worth = [efficiency(row.f1, row.parameters) for row in rows]
    fronts: dict[Cost, set[str]] = {cost: set(pareto_front(rows, cost)) for cost in get_args(Cost)}
    return tuple(
        EfficiencyRow(
            cost=row, efficiency=value, best_at=tuple(cost for cost, front in fronts.items() if row.name in front)
        )
        for row, value in zip(rows, worth, strict=True)
    )


def pareto_front(rows: Sequence[CostRow], cost: Cost) -> tuple[str, ...]:
    """Names of the models that no other beats at a cost, the cheapest first; unmeasured ones are left out.

    One beats another if it is as good for less, or better for the same or less. Equal ones do not beat each other.

    Raises:
        BertVisionError: there is no such cost.
    """
    if cost not in get_args(Cost):
        raise UnknownNameError("cost", cost, get_args(Cost))
    measured = [(value, row) for row in rows if (value := getattr(row, cost)) is not None]
    measured.sort(key=lambda pair: (pair[0], -pair[1].f1))
    front: list[tuple[float, CostRow]] = []
    for value, row in measured:
        if not front or row.f1 > front[-1][1].f1 or (value, row.f1) == (front[-1][0], front[-1][1].f1):
            front.append((value, row))
    return tuple(row.name for _, row in front)
