"""Write one record of evaluations, analyses and ensembles of heads on the snapshots of one tuned encoder.

python bench/span_analysis.py HEADS … --ensembles ENSEMBLE … --encoder all-mpnet-base-v2 --name span-analysis-mpnet
"""

import argparse
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from bertvision.atomic import write_text
from bertvision.errors import BertVisionError
from data import RESULTS

Record = dict[str, Any]
METRICS = ("exact", "f1", "HasAns_exact", "NoAns_exact")
COUNTS = ("has_answer_errors", "predicted_empty", "first_right", "first_right_has_answer_share")
SECOND = ("first_wrong", "second_right", "second_right_has_answer_share")
TUNE = "bertvision tune squad2 --data DIR --encoder {encoder} --learn full --lr 3e-5 --schedule constant --warmup 0"
FIT = "bertvision fit squad2 --data DIR --encoder RUN@0.3 --heads {heads} --seeds 3 --from stream --held-out 0.05"
COMMANDS = (
    f"{TUNE} --epochs 1 --snapshots 0.3,1 --out RUN",
    f"{FIT} --out HEADS",
    "bertvision evaluate HEADS",
    "bertvision analyse HEADS",
    "bertvision ensemble HEADS [HEADS] --how max|mean|greedy --out ENSEMBLE",
)


def read(path: Path) -> Record:
    """The content of a JSON file."""
    content: Record = json.loads(path.read_text(encoding="utf-8"))
    return content


def snapshot_of(evaluation: Record) -> str:
    """The snapshot that an evaluation's heads read, as epochs of tuning."""
    return str(evaluation["encoder"]).rpartition("@")[2]


def snapshot_record(heads: Path) -> tuple[str, Record]:
    """The encoder's fingerprint, and the record of all heads of one snapshot, the best by held-out score first."""
    kept = heads / "evaluation" / "dev"
    evaluation, analysis = read(kept / "evaluation.json"), read(heads / "analysis.json")
    models = {model["name"]: model for model in analysis["models"]}
    compared = (analysis["first"], analysis["second"])
    record = {
        "snapshot": snapshot_of(evaluation),
        "first": compared[0],
        "second": compared[1],
        "answers": _tests(next(row for row in evaluation["rows"] if row["name"] == compared[0]), METRICS),
        "models": [
            model_record(row, models[row["name"]], read(kept / row["name"] / "no_answer.json"))
            for row in evaluation["rows"]
        ],
        "question_words": {name: models[name]["question_types"] for name in compared},
        "context_lengths": analysis["context_lengths"],
        "layer_weights": [_layers(found, found["report"]) for found in analysis["layer_weights"]],
        "attention": [_layers(found, found["all"]) for found in analysis["attention"]],
    }
    return str(evaluation["fingerprints"]["weights"]), record


def model_record(row: Record, model: Record, margins: Mapping[str, float]) -> Record:
    """A model's scores, paired tests against the own output, and counts of its errors.

    Raises:
        BertVisionError: the counts by the evaluation differ from those in the analysis.
    """
    overall = model["question_types"]["overall"]
    counts = overall["has_answer"]["count"], overall["no_answer"]["count"]
    errors = {at: errors_at(row["scores"][at], counts, margins) for at in ("zero", "fitted")}
    found = {name: model["second_answers"][name] for name in (*COUNTS, *SECOND)}
    if any(found[name] != count for name, count in errors["fitted"].items()):
        raise BertVisionError(f"{row['name']}: its answers give {errors['fitted']}, its analysis {found}.")
    return {
        **{name: row[name] for name in ("name", "own", "seed", "parameters", "held_out")},
        "head": row["name"] if row["own"] else row["head"],
        "scores": _scores(row),
        "against": _tests(row, ["f1"]),
        "errors": {"zero": errors["zero"], "fitted": found},
    }


def errors_at(scores: Record, counts: tuple[int, int], margins: Mapping[str, float]) -> Record:
    """Counts of errors on questions with an answer, and of those that are empty predictions, at the scores' threshold.

    An empty prediction is wrong for a question with an answer and right for one without, so the number of all empty
    predictions less that of the correct ones is the number of wrong ones.
    """
    has, none = (
        round(count * scores["values"][name]["value"] / 100)
        for count, name in zip(counts, ("HasAns_exact", "NoAns_exact"), strict=True)
    )
    empty = sum(margin > scores["threshold"] for margin in margins.values()) - none
    return {
        "has_answer_errors": counts[0] - has,
        "predicted_empty": empty,
        "first_right": has + none,
        "first_right_has_answer_share": has / (has + none),
    }


def ensemble_record(ensemble: Record, snapshots: Mapping[str, str]) -> Record:
    """An ensemble's members, scores and paired tests; `snapshots` has the snapshots by fingerprint of the encoder."""
    names = {
        member["row"]["name"]: f"{snapshots[member['encoder']]}:{member['row']['name'].rpartition(':')[2]}"
        for member in ensemble["members"]
    }
    weights = {names[member["row"]["name"]]: member["weight"] for member in ensemble["members"] if member["weight"]}
    return {
        "how": ensemble["how"],
        "snapshots": sorted({snapshots[member["encoder"]] for member in ensemble["members"]}, key=float),
        "compared_with": names[ensemble["against"]],
        "candidates": len(names),
        "members": weights,
        "held_out": ensemble["ensemble"]["held_out"],
        "parameters": ensemble["ensemble"]["parameters"],
        "scores": _scores(ensemble["ensemble"]),
        "against": _tests(ensemble["ensemble"], ["f1"]),
    }


def rounded(value: Any) -> Any:  # noqa: ANN401 - anything that JSON can hold
    """The same JSON value with floats rounded to four decimals."""
    if isinstance(value, dict):
        return {name: rounded(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(inner) for inner in value]
    return round(value, 4) if isinstance(value, float) else value


def written(record: Record) -> str:
    """JSON with every innermost object on one line, which halves the size and is easier to read."""
    text = json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False)
    return re.sub(r"\{[^{}\[\]]*\}", lambda found: re.sub(r"\s*\n\s*", " ", found[0]), text) + "\n"


def _scores(row: Record) -> Record:
    return {
        at: {"threshold": found["threshold"], **{name: found["values"][name]["value"] for name in METRICS}}
        for at, found in row["scores"].items()
    }


def _tests(row: Record, metrics: Iterable[str]) -> Record:
    return {
        at: {name: found["against"][name] for name in metrics}
        for at, found in row["scores"].items()
        if found["against"]
    }


def _layers(found: Record, report: Record) -> Record:
    sets = [{"shares": one["shares"], "centre": one["centre"]} for one in report["sets"]]
    return {
        "head": found["group"]["head"],
        "options": found["group"]["options"],
        "outputs": found.get("outputs", ["start", "end"] if len(sets) == 2 else ["both"]),
        "layers": report["layers"],
        "sets": sets,
    }


def whole_record(runs: Iterable[Path], ensembles: Iterable[Path]) -> Record:
    """The record of all snapshots and ensembles."""
    runs = list(runs)
    first, analysis = read(runs[0] / "evaluation" / "dev" / "evaluation.json"), read(runs[0] / "analysis.json")
    found = dict(snapshot_record(run) for run in runs)
    snapshots = {fingerprint: record["snapshot"] for fingerprint, record in found.items()}
    overall = analysis["models"][0]["question_types"]["overall"]
    return {
        "examples": first["examples"],
        "has_answer": overall["has_answer"]["count"],
        "held_out_examples": first["held_out_examples"],
        "encoder_parameters": analysis["cost"]["trained_parameters"],
        "snapshots": sorted(found.values(), key=lambda record: float(record["snapshot"])),
        "ensembles": [ensemble_record(read(path / "ensemble.json"), snapshots) for path in ensembles],
        "provenance": {name: value for name, value in first["provenance"].items() if name != "command"},
    }


def main() -> None:
    """Read the runs, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--ensembles", nargs="+", type=Path, required=True)
    parser.add_argument("--encoder", required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--note", default="")
    options = parser.parse_args()
    found = rounded(whole_record(options.runs, options.ensembles))
    models = sorted(found["snapshots"][0]["models"], key=lambda model: str(model["name"]))  # as they were asked for
    heads = ",".join(dict.fromkeys(model["head"] for model in models if not model["own"]))
    record = {
        "format": 1,
        "kind": "span-analysis",
        "name": options.name,
        "what": f"span heads on {options.encoder}, fully tuned for some of an epoch: ensembles, errors, layers",
        "note": options.note,
        "commands": [command.format(encoder=options.encoder, heads=heads) for command in COMMANDS],
        **found,
    }
    write_text(RESULTS / f"{options.name}.json", written(record))
    for snapshot in record["snapshots"]:
        print(f"{snapshot['snapshot']}: {snapshot['first']} against {snapshot['second']}")


if __name__ == "__main__":
    main()
