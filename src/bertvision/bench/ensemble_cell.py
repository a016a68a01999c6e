"""The kind `ensemble`: what several tuned runs of one encoder say together."""

from typing import Any

from bertvision.bench.measured import Model, judge_models, pack_golds, size_of, told_ensemble
from bertvision.bench.place import Place
from bertvision.bench.settings import EnsembleSettings, fitting_ways
from bertvision.bench.tune_cell import tuned_run
from bertvision.encoder.snapshot import Snapshot
from bertvision.evaluation.bootstrap import LEAST_RESAMPLES
from bertvision.runs.analyse_curves import tuned_parameters, tuned_seconds
from bertvision.runs.ensemble import gather_candidates
from bertvision.runs.subject import OWN_OUTPUT, Subject, load_subject


def measure_ensemble(settings: EnsembleSettings, seed: int, place: Place) -> dict[str, Any]:
    """Tune what is not tuned yet, and join the last snapshots in every way; a model is called as its way.

    Raises:
        BertVisionError: something in the settings does not fit, or a run diverged.
    """
    last = [tuned_run(one, seed, place).snapshots[-1] for one in settings.of]
    names = [f"{one.folder.parent.parent}@{one.folder.name}" for one in last]
    subjects = [load_subject(name) for name in names]
    costs = {subject.run.name: _cost(subject, one, place) for subject, one in zip(subjects, last, strict=True)}
    ways = fitting_ways(settings.ensembles, subjects[0].parts.task.kind)
    candidates = gather_candidates(names, ways=ways, resamples=LEAST_RESAMPLES, device=place.device, show=place.show)
    models: dict[str, Model] = {}
    for way in ways:
        joined = candidates.join(way, show=place.show)
        used = [costs[candidates.members[one.row.name].subject.run.name] for one in joined.record.used]
        models[way] = {
            "epochs": max(one.fraction for one in last),
            "seconds": round(sum(one["seconds"] for one in costs.values()), 3),  # whoever chooses has tuned them all
            **{key: sum(one[key] for one in used) for key in ("parameters", "bytes", "inference_seconds")},
            **told_ensemble(subjects[0], joined),
        }
    return {
        "models": models,
        "golds": pack_golds(subjects[0].parts.task, subjects[0].part.examples),
        "trainable": sum(one["parameters"] for one in costs.values()),
        "weights": last[0].fingerprint,
    }


def _cost(subject: Subject, snapshot: Snapshot, place: Place) -> dict[str, Any]:
    """What a member costs; its answers are kept on the way."""
    judged = judge_models(subject, place).models[OWN_OUTPUT]
    return {
        "seconds": tuned_seconds(snapshot) or 0.0,
        "parameters": tuned_parameters(snapshot) or 0,
        "bytes": size_of(snapshot.folder),
        "inference_seconds": judged["inference_seconds"],
    }
