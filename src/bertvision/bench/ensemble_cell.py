"""The kind `ensemble`: what several tuned runs of one encoder say together."""

from collections.abc import Sequence
from typing import Any

from bertvision.bench.ensemble_settings import EnsembleSettings
from bertvision.bench.environment import BenchEnvironment
from bertvision.bench.measured import Model, pack_golds, told_ensemble
from bertvision.bench.settings import fitting_ways
from bertvision.bench.tune_cell import snapshot_model, tuned_run
from bertvision.evaluation.bootstrap import LEAST_RESAMPLES
from bertvision.runs.judging.ensemble import gather_candidates
from bertvision.runs.judging.subject import load_subject

COSTS = ("parameters", "bytes", "inference_seconds")
"""What an ensemble has of each member that counts."""


def measure_ensemble(settings: EnsembleSettings, seed: int, environment: BenchEnvironment) -> dict[str, Any]:
    """Tune what is not tuned yet, judge the last snapshots, and join them in every way.

    A model is called as its way; a member as what learned in it.

    Raises:
        BertVisionError: something in the settings does not fit, or a run diverged.
    """
    tuned = [tuned_run(one, seed, environment) for one in settings.of]
    names = [f"{one.run}@{one.snapshots[-1].folder.name}" for one in tuned]
    subjects = [load_subject(name) for name in names]
    members = [
        snapshot_model(one, one.snapshots[-1], subject, environment)
        for one, subject in zip(tuned, subjects, strict=True)
    ]
    task = subjects[0].parts.task
    ways = fitting_ways(settings.ensembles, task.kind)
    candidates = gather_candidates(
        names, ways=ways, resamples=LEAST_RESAMPLES, device=environment.device, show=environment.show
    )
    places = {subject.run.name: number for number, subject in enumerate(subjects)}
    models: dict[str, Model] = dict(zip(settings.labels, members, strict=True))
    for way in ways:
        joined = candidates.join(way, show=environment.show)
        used = [members[places[candidates.members[one.row.name].subject.run.name]] for one in joined.record.used]
        models[way] = {
            "epochs": max(one["epochs"] for one in members),
            "seconds": _sum(members, "seconds"),  # whoever chooses has tuned them all
            **{key: _sum(used, key) for key in COSTS},
            **told_ensemble(subjects[0], joined),
        }
    return {
        "models": models,
        "golds": pack_golds(task, subjects[0].part.examples),
        "trainable": sum(one.trainable for one in tuned),
        "weights": tuned[0].snapshots[-1].fingerprint,
    }


def _sum(models: Sequence[Model], key: str) -> float | None:
    """The sum over some models; None where it is not known of one."""
    values = [model[key] for model in models]
    return None if None in values else round(sum(values), 7)
