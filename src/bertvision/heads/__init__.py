"""Hidden states → outputs: every head by name."""

from bertvision.errors import UnknownNameError
from bertvision.heads.head import Head, HeadShape
from bertvision.heads.last_layer import LastLayer
from bertvision.heads.pooled_output import PooledOutput

HEADS: dict[str, type[LastLayer] | type[PooledOutput]] = {"last_layer": LastLayer, "pooled_output": PooledOutput}
"""Every head by name."""

HeadOptions = dict[str, float | int | bool | str]
"""Options of a head, by name."""


def build_head(name: str, shape: HeadShape, options: HeadOptions | None = None) -> Head:
    """A head by name: the one place where words become a constructor call.

    Raises:
        UnknownNameError: there is no such head.
    """
    if name not in HEADS:
        raise UnknownNameError("head", name, HEADS)
    return HEADS[name](shape, **(options or {}))  # type: ignore[arg-type]  # checked by the constructor


__all__ = ["HEADS", "Head", "HeadOptions", "HeadShape", "LastLayer", "PooledOutput", "build_head"]
