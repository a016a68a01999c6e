"""Files as runs leave them, made without any run: for tests of what reads them."""

import json
from pathlib import Path
from typing import Any

from bertvision.runs.judging.ensemble_record import EnsembleMember, EnsembleRecord
from bertvision.runs.judging.evaluation_record import EvaluatedRow, EvaluationRecord, Fingerprints
from bertvision.runs.judging.judge import Estimate, PairedTest, ScoresAt

EVIL = '<script>alert("x")</script> & "q" | `c` $\\_{}#%~^*'
"""A text that means something in every form of a report."""

HEADS = ("layer_mix", "last_layer")
PROVENANCE = {"time": "2026-01-02T03:04:05+00:00", "commit": "abc", "dirty": False, "packages": {"torch": "2"}}


def write(path: Path, content: object) -> Path:
    """A JSON file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def row_of(number: int, head: str, metrics: dict[str, float | None], **changes: Any) -> dict[str, Any]:  # noqa: ANN401 - any field
    """A row of a leaderboard."""
    row = {
        "head": head,
        "options": {},
        "lr": 0.001,
        "seed": 0,
        "fraction": 1.0,
        "solved": False,
        "parameters": 1925 + number,
        "depth": 6,
        "seconds": 0.5 + number,
        "folder": f"heads/{number:03}-{head}",
        "held_out": 0.5 - number / 10,
        "metrics": metrics,
    }
    return row | changes


def write_fit(
    folder: Path,
    *,
    task: str = "sst5",
    data: str | None = None,
    heads: tuple[str, ...] = HEADS,
    columns: dict[str, str] | None = None,
) -> Path:
    """A finished fit with a log, two steps long."""
    specs = [{"head": head, "options": {}} for head in heads]
    request = {
        "task": task,
        "data": data,
        "encoder": "minilm",
        "heads": specs,
        "epochs": 2.0,
        "columns": {"text": None} | (columns or {}),
    }
    provenance = PROVENANCE | {"command": f"bertvision fit {task} --out {folder}"}
    write(folder / "config.json", {"format": 2, "request": request, "weights": "w1", "provenance": provenance})
    rows = [
        row_of(number, head, {"held_out_accuracy": 0.5, "accuracy": 0.4567 - number / 10, "f1": 0.25})
        for number, head in enumerate(heads)
    ]
    write(folder / "leaderboard.json", rows)
    write(folder / "result.json", {"format": 2, "heads": len(heads)})
    lines: list[dict[str, Any]] = []
    for step in (1, 2):
        lines.append({"step": step, "losses": {str(number): 1.0 / step for number in range(len(heads))}})
        lines += [
            {"step": step, "validated": step, "head": number, "score": step / 10, "kept": True}
            for number in range(len(heads))
        ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return folder


def write_tuned(folder: Path, *, task: str = "sst5") -> Path:
    """A finished tuned run with two snapshots."""
    request = {"task": task, "data": None, "encoder": "minilm", "learn": "lora:4", "fraction": 1.0}
    write(folder / "config.json", {"format": 2, "request": request, "weights": "w1", "provenance": PROVENANCE})
    metrics = {"held_out_accuracy": 0.25, "accuracy": 0.35}
    write(folder / "result.json", {"format": 2, "trainable": 1234, "metrics": metrics})
    lines: list[dict[str, Any]] = [{"step": step, "loss": 1.0 / step} for step in (1, 2)]
    lines += [{"step": step, "snapshot": float(step), **metrics} for step in (1, 2)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return folder


def labels_at(value: float, *, claimed: bool | None = None) -> dict[str, ScoresAt]:
    """Scores of labels; compared with another model where `claimed` is given."""
    against = {}
    if claimed is not None:
        against = {"accuracy": PairedTest(value=0.1234, low=0.0, high=0.2, p=0.01 if claimed else 0.4, claimed=claimed)}
    values = {
        "accuracy": Estimate(value=value, low=value - 0.1, high=value + 0.1),
        "f1": Estimate(value=None, low=None, high=None),
    }
    return {"plain": ScoresAt(threshold=None, values=values, against=against)}


def spans_at(value: float) -> dict[str, ScoresAt]:
    """Scores of questions at three thresholds."""

    def at(threshold: float, more: float) -> ScoresAt:
        found = Estimate(value=value + more, low=value - 5, high=value + 5)
        return ScoresAt(threshold=threshold, values={"exact": found, "f1": found, "HasAns_f1": found})

    return {"zero": at(0.0, 0.0), "fitted": at(-1.5, 1.0), "best_on_split": at(-2.5, 2.0)}


def evaluated(name: str, head: str | None, scores: dict[str, ScoresAt], **changes: Any) -> EvaluatedRow:  # noqa: ANN401 - any field
    """A model that was evaluated."""
    known: dict[str, Any] = {"own": False, "options": {}, "seed": 0, "parameters": 1925, "depth": 6, "held_out": 0.5}
    return EvaluatedRow(name=name, head=head, scores=scores, **(known | changes))


def label_rows() -> list[EvaluatedRow]:
    """Two heads and the own output."""
    return [
        evaluated("000-layer_mix", "layer_mix", labels_at(0.4567, claimed=True)),
        evaluated("001-last_layer", "last_layer", labels_at(0.3, claimed=False), held_out=0.4, parameters=50_000),
        evaluated("own_output", "last_layer", labels_at(0.2), own=True, seed=None, held_out=None),
    ]


def write_evaluation(
    run: Path,
    rows: list[EvaluatedRow],
    *,
    kind: str = "labels",
    heads: dict[str, str] | None = None,
    **changes: Any,  # noqa: ANN401 - any field
) -> EvaluationRecord:
    """The record of an evaluation below a run."""
    known: dict[str, Any] = {
        "run": str(run),
        "task": "sst5",
        "encoder": "minilm",
        "data": None,
        "split": "dev",
        "examples": 60,
        "held_out_examples": 24,
        "resamples": 100,
        "seed": 0,
        "own": None,
        "fingerprints": Fingerprints(weights="w1", split="s1", held_out=None, heads=heads or {}),
        "command": f"bertvision evaluate {run}",
        "seconds": 1.5,
        "provenance": PROVENANCE,
    }
    record = EvaluationRecord(kind=kind, rows=rows, **(known | changes))
    folder = run / "evaluation" / record.split
    folder.mkdir(parents=True)
    record.save(folder)
    return record


def write_ensemble(run: Path, rows: list[EvaluatedRow], *, kind: str = "labels", task: str = "sst5") -> EnsembleRecord:
    """The record of an ensemble below a run."""
    record = EnsembleRecord(
        runs=[str(run)],
        how="mean",
        task=task,
        kind=kind,
        data=None,
        split="dev",
        examples=60,
        held_out_examples=24,
        resamples=100,
        seed=0,
        against=rows[0].name,
        steps=[],
        ensemble=evaluated("ensemble", None, rows[0].scores, seed=None),
        members=[EnsembleMember(weight=1 / len(rows), encoder="w1", row=row) for row in rows],
        command=f"bertvision ensemble {run}",
        seconds=0.5,
        provenance=PROVENANCE,
    )
    folder = run / "ensembles" / "dev" / "mean-1"
    folder.mkdir(parents=True)
    record.save(folder)
    return record


def write_freeze(folder: Path) -> Path:
    """Fits on two snapshots, and where tuning stops paying."""
    points = [
        {
            "snapshot": f"{epochs:g}",
            "epochs": epochs,
            "own": {"accuracy": epochs / 10},
            "head": row_of(0, "layer_mix", {"accuracy": epochs / 5, "held_out_accuracy": 0.5}),
            "held_out": 0.5,
        }
        for epochs in (0.5, 1.0)
    ]
    for point in points:
        write_fit(folder / f"at-{point['snapshot']}")
    freeze = {"snapshot": "0.5", "epochs": 0.5, "best_later": "1", "gained_beyond": 0.0}
    table = {"format": 1, "run": "tuned", "task": "sst5", "schedule": "constant", "tolerance": 0.01}
    write(folder / "freeze_points.json", table | {"freeze_point": freeze, "points": points})
    return folder


def label_run(folder: Path) -> Path:
    """A fit of labels with an evaluation and an ensemble."""
    run = write_fit(folder)
    write_evaluation(run, label_rows(), own="own_output")
    write_ensemble(run, label_rows())
    return run


def span_run(folder: Path) -> Path:
    """A fit of questions with an evaluation at three thresholds."""
    run = write_fit(folder, task="squad2")
    metrics = {"held_out_best_f1": 40.0, "exact": 41.0, "f1": 42.0, "f1_fitted": 43.0, "best_f1": 44.0}
    write(run / "leaderboard.json", [row_of(number, head, dict(metrics)) for number, head in enumerate(HEADS)])
    rows = [
        evaluated("000-layer_mix", "layer_mix", spans_at(61.26)),
        evaluated("001-last_layer", "last_layer", spans_at(50.0)),
    ]
    write_evaluation(run, rows, kind="spans", task="squad2")
    return run


def write_analysis(run: Path, **changes: Any) -> dict[str, Any]:  # noqa: ANN401 - any field
    """The record of an analysis with something of every kind, which no task alone has."""
    mean = {"mean": 0.3, "low": 0.2, "high": 0.4, "seeds": 2}
    sweep: dict[str, Any] = {"head": "layer_mix", "options": {}, "lr": 0.001, "fraction": 1.0}
    group = sweep | {"models": ["000-layer_mix"]}
    layers = {"layers": [0, 1], "sets": [{"weights": [mean, mean], "shares": [mean, mean], "centre": mean}]}
    lengths = {"mean": 120.5, "interval": {"low": 100.0, "high": 140.0}, "median": 118.0}
    counted = {"count": 7, "tokens": lengths, "words": lengths}
    point = {"depth": 1, "score": mean, "cost_share": 0.5, "seconds": 1.0, "seconds_share": 0.6, "models": []}
    cost = {
        "name": "000-layer_mix",
        "f1": 71.349,
        "parameters": 770,
        "training_seconds": 2.0,
        "inference_seconds": None,
    }
    content = {
        "format": 1,
        "record": "analysis",
        "run": str(run),
        "task": "sst5",
        "kind": "labels",
        "data": None,
        "split": "dev",
        "examples": 60,
        "held_out_examples": 24,
        "encoder": "minilm",
        "question": "q7",
        "metric": "accuracy",
        "logged_metric": "accuracy",
        "errors": None,
        "learning": {"losses": [], "scores": []},
        "less_data": [],
        "freeze": None,
        "cost": {
            "layers": 6,
            "trained_parameters": None,
            "timed_examples": 60,
            "device": "cpu",
            "depths": [6],
            "seconds": [1.0],
        },
        "fingerprints": {"weights": "w1", "split": "s1", "held_out": None, "heads": {}},
        "at": "plain",
        "first": "000-layer_mix",
        "second": "own_output",
        "models": [_model("000-layer_mix", own=False), _model("own_output", own=True)],
        "context_lengths": dict.fromkeys(("all", "first", "second", "first_only"), counted)
        | {"second_only": {"count": 0, "tokens": None, "words": None}},
        "layer_weights": [{"group": group, "report": layers}],
        "attention": [{"group": group, "outputs": ["start"], "all": layers, "question": layers}],
        "efficiency": [{"cost": cost, "efficiency": 7.4, "best_at": ["parameters"]}],
        "depth_sweeps": [
            sweep | {"points": [point, point | {"seconds_share": 1.0}], "cumulative": None},
        ],
        "command": f"bertvision analyse {run}",
        "seconds": 1.0,
        "provenance": PROVENANCE,
    }
    write(run / "analysis.json", content | changes)
    return content


def _model(name: str, *, own: bool) -> dict[str, Any]:
    part = {"count": 5, "exact": 40.0, "f1": 55.55}
    typed = {"name": "who", "all": part, "has_answer": part, "no_answer": None}
    labels = [
        {"label": label, "gold": 3, "predicted": 2, "right": 1, "recall": 0.333, "precision": None}
        for label in ("good", EVIL)
    ]
    bins: list[dict[str, Any]] = [{"low": 0.0, "high": 0.5, "count": 2, "confidence": 0.4, "accuracy": 0.5}]
    bins.append({"low": 0.5, "high": 1.0, "count": 0, "confidence": None, "accuracy": None})
    reliable = {"count": 2, "confidence": 0.4, "accuracy": 0.5, "error": 0.1, "bins": bins}
    second: dict[str, Any] = dict.fromkeys(
        ("questions", "first_right", "first_wrong", "has_answer_errors", "predicted_empty"), 4
    )
    second |= {"second_right": 1, "predicted_empty_share": 0.25, "first_right_has_answer_share": None}
    second |= {"second_right_share": 0.5, "second_right_has_answer_share": None}
    return {
        "name": name,
        "head": "layer_mix",
        "own": own,
        "seed": 0,
        "parameters": 770,
        "depth": 6,
        "held_out": 0.5,
        "threshold": None,
        "score": 0.4,
        "question_types": {"overall": typed | {"name": "all"}, "words": [typed]},
        "second_answers": second,
        "confusion": {"counts": [[2, 1], [0, 3]], "labels": labels},
        "tags": labels,
        "histogram": {"edges": [0.0, 2.5, 5.0], "golds": [1, 2], "predictions": [2, 1], "outside": 0},
        "scatter": {"golds": [1.0, 4.0], "predictions": [1.5, 3.5]},
        "calibration": {"temperature": 1.5, "fitted_on": 24, "before": reliable, "after": reliable},
    }


def write_search(folder: Path, **changes: Any) -> Path:  # noqa: ANN401 - any field
    """The folder of a search of three trials for two tasks, of which one could not be made."""
    request = {"task": "sst2,sts", "data": None, "encoder": "minilm", "space": {"kind": "multitask"}}
    write(folder / "config.json", {"format": 2, "request": request, "weights": "", "provenance": PROVENANCE})
    usual: dict[str, Any] = {"rungs": {"1": 0.4, "3": 0.5}, "seconds": 1.5, "failure": None, "state": "complete"}
    trials: list[dict[str, Any]] = [
        {"trial": 0, "value": 0.5, "parameters": {"lr": 0.01, "sts.cap": 9, "head": "layer_mix"}},
        {"trial": 1, "value": None, "parameters": {"lr": 0.02, "sts.cap": "none", "head": "layer_mix"}},
        {"trial": 2, "value": 0.7, "parameters": {"lr": 0.03, "sts.cap": 9, "balance": True}},
    ]
    trials = [usual | row for row in trials]
    trials[1] |= {"state": "pruned", "rungs": {}, "failure": "tokens do not fit"}
    record = {
        "format": 1,
        "record": "search",
        "task": "sst2,sts",
        "encoder": "minilm",
        "kind": "multitask",
        "objective": "held_out_mean",
        "best": {"trial": 2, "value": 0.7, "dev": {"sst2.accuracy": 0.75}},
        "importance": {"all": {"lr": 0.8, "sts.cap": 0.2}, "layer_mix": {"layer_mix.dropout": 1.0}},
        "history": [{"trial": 0, "value": 0.5, "best": 0.5}, {"trial": 2, "value": 0.7, "best": 0.7}],
        "trials": trials,
        "provenance": PROVENANCE | {"command": "bertvision search sst2,sts --space space.toml"},
    }
    write(folder / "trials.json", record | changes)
    return folder
