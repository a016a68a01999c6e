"""A small record of a suite, made up: two encoders' worth of nothing, with numbers that can be worked out by hand."""

from typing import Any

PROVENANCE = {"gpu": "H200", "processor": "x", "commit": "0123456789abcdef", "dirty": False}


def model(
    f1: float, *, epochs: float = 1.0, seconds: float = 10.0, held_out: float = 50.0, outcomes: str = "1 0"
) -> Any:  # noqa: ANN401 - JSON
    """What is told of a model."""
    values = {"f1": f1, "exact": f1 - 1}
    return {
        "epochs": epochs,
        "seconds": seconds,
        "parameters": 2050,
        "bytes": 8_200_000,
        "held_out": held_out,
        "scores": {"zero": {"f1": f1 - 5, "exact": 1.0}, "fitted": values, "best_on_split": values},
        "thresholds": {"zero": 0.0, "fitted": 0.1, "best_on_split": 0.2},
        "head": "last_layer",
        "inference_seconds": 0.002,
        "outcomes": outcomes,
    }


def entry(name: str, kind: str, seed: int, models: dict[str, Any], **more: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """A measured cell."""
    return {
        **plan(name, kind),
        "seed": seed,
        "seconds": 60.0,
        "dirty": False,
        "result": {"models": models, "first_step_seconds": 0.5, "peak_bytes": 2_000_000_000, **more},
        "provenance": PROVENANCE,
    }


def plan(name: str, kind: str) -> dict[str, Any]:
    """A cell that is asked for; its settings are its name's alone."""
    settings = {"task": "squad2", "encoder": "mpnet", "data": name, "learn": "full"}
    return {"name": name, "kind": kind, "settings": settings}


def record(*entries: dict[str, Any], pairs: list[dict[str, str]] | None = None, more: list[str] | None = None) -> Any:  # noqa: ANN401 - JSON
    """A record of some cells, and the names of cells that are not measured."""
    planned = {one["name"]: plan(one["name"], one["kind"]) for one in entries}
    planned |= {name: plan(name, "tune") for name in more or []}
    return {
        "format": 1,
        "record": "suite",
        "suite": "small",
        "about": "What is what?",
        "plan": list(planned.values()),
        "pairs": pairs or [],
        "cells": {f"{one['name']}-{one['seed']}": one for one in entries},
    }
