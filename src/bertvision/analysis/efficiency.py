"""What quality costs: F1 against parameters, training time and inference time."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from bertvision.errors import BertVisionError, UnknownNameError

Cost = Literal["parameters", "training_seconds", "inference_seconds"]
"""A cost that is compared with F1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CostRow:
    """The F1 and the costs of a model.

    Attributes:
        name: name of the model, unique in a table.
        f1: in percent.
        parameters: number of trained parameters.
        training_seconds: None if not measured.
        inference_seconds: for the same examples with all models; None if not measured.
    """

    name: str
    f1: float
    parameters: int
    training_seconds: float | None = None
    inference_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EfficiencyRow:
    """A model with its efficiency.

    Attributes:
        cost: the model, its F1 and costs.
        efficiency: (F1 - 50) / log10(parameters).
        best_at: the costs in which it is on the Pareto front; see `pareto_front`.
    """

    cost: CostRow
    efficiency: float
    best_at: tuple[Cost, ...]


def efficiency(f1: float, parameters: int) -> float:
    """F1 points above 50 per power of ten of the number of parameters, as defined in document 001.

    Args:
        f1: in percent.
        parameters: number of trained parameters.

    Raises:
        BertVisionError: there are fewer than two parameters, or the F1 is not within 0 and 100.

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
    """Every model with its efficiency and the costs in which it is on the Pareto front, in the given order.

    Raises:
        BertVisionError: two models have the same name, or a number is not valid.
    """
    names = [row.name for row in rows]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise BertVisionError(f"two models are called '{repeated}'; different names are expected.")
    efficiencies = [efficiency(row.f1, row.parameters) for row in rows]
    fronts: dict[Cost, set[str]] = {cost: set(pareto_front(rows, cost)) for cost in get_args(Cost)}
    return tuple(
        EfficiencyRow(
            cost=row, efficiency=value, best_at=tuple(cost for cost, front in fronts.items() if row.name in front)
        )
        for row, value in zip(rows, efficiencies, strict=True)
    )


def pareto_front(rows: Sequence[CostRow], cost: Cost) -> tuple[str, ...]:
    """Names of the models on the Pareto front of F1 and a cost, the cheapest first; unmeasured ones are left out.

    On it are the models to which no other is superior: as good for less, or better for the same cost or less.

    Raises:
        UnknownNameError: there is no such cost.
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
