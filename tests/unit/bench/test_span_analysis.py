"""bench/span_analysis.py: runs and ensembles become one record."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import span_analysis
from bertvision.errors import BertVisionError
from conftest import ROOT
from span_analysis import ensemble_record, errors_at, model_record, rounded, written

Record = dict[str, Any]
MARGINS = {"a": 1.0, "b": -1.0, "c": 0.5, "d": 2.0, "e": -3.0}
"""a, b, c have an answer, d and e have none."""


def scores(threshold: float, *, has: float, none: float) -> Record:
    values = {"exact": 50.0, "f1": 51.0, "HasAns_exact": has, "NoAns_exact": none}
    test = {"value": 1.0, "low": 0.5, "high": 1.5, "p": 0.01, "claimed": True}
    return {
        "threshold": threshold,
        "values": {name: {"value": value, "low": 0.0, "high": 100.0} for name, value in values.items()},
        "against": dict.fromkeys(values, test),
    }


def row(name: str, **changes: object) -> Record:
    bound = scores(-1.0, has=0, none=100)
    at = {
        "zero": scores(0.0, has=100 / 3, none=50),
        "fitted": scores(0.75, has=200 / 3, none=50),
        "best_on_split": bound | {"against": {}},
    }
    head = name.partition("-")[2]
    plain = {"name": name, "head": head, "own": False, "seed": 0, "parameters": 7, "held_out": 60.0, "scores": at}
    return {**plain, **changes}


def analysed(name: str) -> Record:
    counts = {"has_answer": {"count": 3}, "no_answer": {"count": 2}}
    errors = {
        "questions": 5,
        "has_answer_errors": 1,
        "predicted_empty": 1,
        "first_right": 3,
        "first_right_has_answer_share": 2 / 3,
        "first_wrong": 2,
        "second_right": 1,
        "second_right_has_answer_share": 1.0,
    }
    return {"name": name, "question_types": {"overall": counts, "words": []}, "second_answers": errors}


def test_silence_is_counted_from_margins() -> None:
    zero, fitted = (row("000-x")["scores"][at] for at in ("zero", "fitted"))
    assert errors_at(zero, (3, 2), MARGINS) == {
        "has_answer_errors": 2,  # one of three is right
        "predicted_empty": 2,  # a and c; d is silent, too, and right
        "first_right": 2,
        "first_right_has_answer_share": 0.5,
    }
    assert errors_at(fitted, (3, 2), MARGINS)["predicted_empty"] == 1  # a alone


def test_a_model_keeps_its_scores_tests_and_errors() -> None:
    found = model_record(row("000-x"), analysed("000-x"), MARGINS)
    assert found["scores"]["fitted"]["threshold"] == 0.75
    assert set(found["against"]) == {"zero", "fitted"}  # the bound is compared with nothing
    assert found["against"]["zero"] == {"f1": {"value": 1.0, "low": 0.5, "high": 1.5, "p": 0.01, "claimed": True}}
    assert found["errors"]["fitted"]["second_right"] == 1
    assert model_record(row("own", own=True, head="last"), analysed("own"), MARGINS)["head"] == "own"


def test_answers_of_another_analysis_are_refused() -> None:
    with pytest.raises(BertVisionError, match=r"000-x: its answers give .* its analysis"):
        model_record(row("000-x"), analysed("000-x"), MARGINS | {"a": 0.7})


def ensemble() -> Record:
    names = {"/w/h-0.3:000-x": ("early", 0.0), "/w/h-1:000-x": ("late", 0.5), "/w/h-1:001-y": ("late", 0.5)}
    members = [{"weight": weight, "encoder": encoder, "row": row(name)} for name, (encoder, weight) in names.items()]
    return {"how": "greedy", "against": "/w/h-1:000-x", "members": members, "ensemble": row("ensemble", head=None)}


def test_members_are_named_by_snapshot_and_not_by_path() -> None:
    found = ensemble_record(ensemble(), {"early": "0.3", "late": "1"})
    assert found["members"] == {"1:000-x": 0.5, "1:001-y": 0.5}
    assert found["compared_with"] == "1:000-x"
    assert found["snapshots"] == ["0.3", "1"]
    assert found["candidates"] == 3


def test_numbers_are_rounded_wherever_they_stand() -> None:
    assert rounded({"a": [1.23456, {"b": (0.00004, 3, None, True)}]}) == {"a": [1.2346, {"b": [0.0, 3, None, True]}]}


def test_innermost_objects_stand_on_one_line() -> None:
    record = {"a": {"b": {"c": 1, "d": "x y"}, "e": [1, 2]}}
    assert json.loads(written(record)) == record
    assert '"b": { "c": 1, "d": "x y" }' in written(record)


def run_folder(place: Path, *, snapshot: str, fingerprint: str) -> Path:
    """What evaluate and analyse leave of a fit with one head and the own output."""
    names = ("000-x", "own_output")
    kept = place / "evaluation" / "dev"
    for name in names:
        (kept / name).mkdir(parents=True)
        (kept / name / "no_answer.json").write_text(json.dumps(MARGINS), encoding="utf-8")
    rows = [row("000-x"), row("own_output", own=True, head="last_layer")]
    rows[1]["scores"] = {at: found | {"against": {}} for at, found in rows[1]["scores"].items()}
    value = {"mean": 0.5, "low": 0.4, "high": 0.6, "seeds": 3}
    report = {"layers": [0, 1], "sets": [{"weights": [value] * 2, "shares": [value] * 2, "centre": value}]}
    evaluation = {
        "encoder": f"/w/tuned@{snapshot}",
        "examples": 5,
        "held_out_examples": 4,
        "rows": rows,
        "fingerprints": {"weights": fingerprint},
        "provenance": {"commit": "abc", "command": "bertvision evaluate /w/h"},
    }
    analysis = {
        "first": "000-x",
        "second": "own_output",
        "models": [analysed(name) for name in names],
        "context_lengths": {},
        "attention": [],
        "cost": {"trained_parameters": 100},
        "layer_weights": [{"group": {"head": "x", "options": {}}, "report": report}],
    }
    (kept / "evaluation.json").write_text(json.dumps(evaluation), encoding="utf-8")
    (place / "analysis.json").write_text(json.dumps(analysis), encoding="utf-8")
    return place


def test_the_script_writes_snapshots_in_order_and_no_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    late = run_folder(tmp_path / "late", snapshot="1", fingerprint="late")
    early = run_folder(tmp_path / "early", snapshot="0.3", fingerprint="early")
    joined = tmp_path / "joined"
    joined.mkdir()
    (joined / "ensemble.json").write_text(json.dumps(ensemble()), encoding="utf-8")
    monkeypatch.setattr(span_analysis, "RESULTS", tmp_path)
    arguments = [str(late), str(early), "--ensembles", str(joined), "--encoder", "some-encoder", "--name", "found"]
    monkeypatch.setattr(sys, "argv", ["span_analysis.py", *arguments])
    span_analysis.main()
    text = (tmp_path / "found.json").read_text(encoding="utf-8")
    record = json.loads(text)
    assert [snapshot["snapshot"] for snapshot in record["snapshots"]] == ["0.3", "1"]
    assert [model["head"] for model in record["snapshots"][0]["models"]] == ["x", "own_output"]
    assert record["snapshots"][0]["layer_weights"][0]["outputs"] == ["both"]
    assert record["has_answer"] == 3
    assert record["provenance"] == {"commit": "abc"}
    assert "--encoder RUN@0.3 --heads x --seeds 3" in record["commands"][1]
    assert "/w/" not in text
    assert str(tmp_path) not in text


def test_the_published_record_is_small_and_has_no_paths() -> None:
    text = (ROOT / "results" / "span-analysis-mpnet.json").read_text(encoding="utf-8")
    assert len(text.encode()) < 150_000
    assert not any(place in text for place in ("/tmp", "/home", "/work", "/root"))  # noqa: S108 - looked for, not used
