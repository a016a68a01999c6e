"""The kind `ensemble`: an ensemble of several tuned runs of one encoder."""

from collections.abc import Sequence
from typing import Any

from bertvision.bench.ensemble_settings import EnsembleSettings
from bertvision.bench.environment import BenchEnvironment
from bertvision.bench.heads_settings import fitting_ways
from bertvision.bench.measured import Model, ensemble_scores, pack_golds
from bertvision.bench.tune_cell import snapshot_model, tuned_run
from bertvision.evaluation.bootstrap import LEAST_RESAMPLES
from bertvision.runs.judging.ensemble import gather_candidates
from bertvision.runs.judging.subject import load_subject

COSTS = ("parameters", "bytes", "inference_seconds")
"""Costs of an ensemble that are sums over the members it uses."""


def measure_ensemble(settings: EnsembleSettings, seed: int, environment: BenchEnvironment) -> dict[str, Any]:
    """Tune the runs that are not finished, score their last snapshots, and join these in every way asked for.

    An ensemble is named by the way it is joined, a member by its `learn`.

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
            "seconds": _sum(members, "seconds"),  # all have to be tuned, even if only some are used
            **{key: _sum(used, key) for key in COSTS},
            **ensemble_scores(subjects[0], joined),
        }
    return {
        "models": models,
        "golds": pack_golds(task, subjects[0].part.examples),
        "trainable": sum(one.trainable for one in tuned),
        "weights": tuned[0].snapshots[-1].fingerprint,
    }


def _sum(models: Sequence[Model], key: str) -> float | None:
    """The sum of a value over models; None if one of them is None."""
    values = [model[key] for model in models]
    return None if None in values else round(sum(values), 7)
