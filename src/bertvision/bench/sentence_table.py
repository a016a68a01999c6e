"""The record of sentence cells → paired tests and Markdown tables."""

from collections.abc import Mapping
from statistics import mean, stdev
from typing import Any

from bertvision.bench.sentences import paired_tests, unpack_predictions
from bertvision.tasks.load import TASKS

OURS = "layer_concat"
RIVALS = ("last_layer", "embeddings", "setfit")
CLAIMED = 0.05
"""A difference is claimed where it is less likely than this."""

METHOD_NAMES = {
    "last_layer": "last layer, ours",
    "layer_concat": "all layers, ours",
    "embeddings": "embeddings + scikit-learn",
    "setfit": "SetFit",
}

Key = tuple[str, int | None]
"""Task and shots."""


def add_tests(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record with paired tests of all layers against each other method, where both learnt from all examples."""
    packed = {
        (cell["settings"]["task"], cell["settings"]["method"]): cell["predictions"]
        for cell in record["cells"]
        if cell["settings"]["shots"] is None
    }
    tests = []
    for task, method in packed:
        if method in RIVALS and (task, OURS) in packed:
            golds = unpack_predictions(record["golds"][task])
            metric = TASKS[task].metrics[0]
            test = paired_tests(TASKS[task], golds, packed[task, OURS], packed[task, method])[metric]
            tests.append({"task": task, "against": method, "metric": metric, **test})
    return {**record, "tests": tests}


def sentences_markdown(record: Mapping[str, Any]) -> str:
    """All examples with paired tests, then few of each class, then seconds."""
    cells = _by_method(record)
    methods = [method for method in METHOD_NAMES if any(method in found for found in cells.values())]
    whole = {key: found for key, found in cells.items() if key[1] is None}
    few = {key: found for key, found in cells.items() if key[1] is not None}
    parts = ["All training examples:", _whole_table(whole, methods, record)]
    if few:
        parts += ["Few examples of each class, mean ± standard deviation over seeds:", _few_table(few, methods)]
    return "\n\n".join([*parts, "Seconds:", _seconds_table(cells, methods)])


def _by_method(record: Mapping[str, Any]) -> dict[Key, dict[str, list[Mapping[str, Any]]]]:
    """Cells of all seeds by task and shots, then by method."""
    found: dict[Key, dict[str, list[Mapping[str, Any]]]] = {}
    for cell in record["cells"]:
        settings = cell["settings"]
        found.setdefault((settings["task"], settings["shots"]), {}).setdefault(settings["method"], []).append(cell)
    return found


def _whole_table(cells: Mapping[Key, Any], methods: list[str], record: Mapping[str, Any]) -> str:
    tests = {(test["task"], test["against"]): test for test in record["tests"]}
    there = [method for method in methods if any(method in found for found in cells.values())]
    rivals = [method for method in there if method in RIVALS]
    rows = []
    for (task, _), found in cells.items():
        values = [_values(task, found.get(method, [])) for method in there]
        rows.append(
            [
                f"{task}, {TASKS[task].metrics[0]}",
                *(_number(value, best=max(map(mean, filter(None, values)))) for value in values),
                *(_test(tests.get((task, method))) for method in rivals),
            ]
        )
    titles = [METHOD_NAMES[method] for method in there]
    return _table(["task", *titles, *(f"against {METHOD_NAMES[method]} (p)" for method in rivals)], rows)


def _few_table(cells: Mapping[Key, Any], methods: list[str]) -> str:
    rows = []
    for (task, shots), found in sorted(cells.items(), key=lambda pair: (pair[0][0], pair[0][1] or 0)):
        values = [_values(task, found.get(method, [])) for method in methods]
        best = max(map(mean, filter(None, values)))
        rows.append([f"{task}, {TASKS[task].metrics[0]}", str(shots), *(_number(value, best=best) for value in values)])
    return _table(["task", "of each class", *(METHOD_NAMES[method] for method in methods)], rows)


def _seconds_table(cells: Mapping[Key, Any], methods: list[str]) -> str:
    rows = []
    for (task, shots), found in cells.items():
        for method in (method for method in methods if method in found and shots in (None, 32)):
            some = found[method]
            means = [mean(cell["seconds"][name] for cell in some) for name in ("encode", "fit", "predict")]
            examples, parameters = some[0]["examples"], some[0]["parameters"]
            rows.append(
                [task, f"{examples:,}", METHOD_NAMES[method], *(f"{value:.1f}" for value in means), f"{parameters:,}"]
            )
    return _table(["task", "examples", "method", "encode", "fit", "predict dev", "learnt parameters"], rows)


def _values(task: str, cells: list[Mapping[str, Any]]) -> list[float]:
    return [100 * cell["metrics"][TASKS[task].metrics[0]] for cell in cells]


def _number(values: list[float], *, best: float) -> str:
    if not values:
        return ""
    text = f"{mean(values):.1f}" + (f" ± {stdev(values):.1f}" if len(values) > 1 else "")
    return f"**{text}**" if mean(values) == best else text


def _test(test: Mapping[str, Any] | None) -> str:
    if test is None:
        return ""
    words = "no difference" if test["p"] >= CLAIMED else "higher" if test["value"] > 0 else "lower"
    return f"{100 * test['value']:+.1f}, {words} ({test['p']:.3f})"


def _table(titles: list[str], rows: list[list[str]]) -> str:
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
