"""The kind `tune`: an encoder is tuned, and every snapshot is scored."""

from typing import Any

from bertvision.bench.environment import BenchEnvironment
from bertvision.bench.measured import Model, judge_models, pack_golds, size_of
from bertvision.bench.settings import TuneSettings
from bertvision.encoder.snapshot import Snapshot
from bertvision.runs.analysing.analyse_curves import tuned_seconds
from bertvision.runs.folder import CONFIG, RunFolder
from bertvision.runs.judging.subject import OWN_OUTPUT, Subject, another_snapshot, load_subject
from bertvision.runs.tuning.peak_memory import PeakMemory
from bertvision.runs.tuning.tune import tune
from bertvision.runs.tuning.tuning import TuneResult

TUNE = "tune"


def measure_tune(settings: TuneSettings, seed: int, environment: BenchEnvironment) -> dict[str, Any]:
    """Tune an encoder, and score its own output at every snapshot.

    Raises:
        BertVisionError: data or encoder cannot be loaded, or do not fit the settings.
        DivergedError: the loss is not finite.
    """
    peak = PeakMemory(environment.device, environment.show)
    tuned = tuned_run(settings, seed, environment, peak)
    models = {}
    subject = load_subject(tuned.run)
    for snapshot in tuned.snapshots:
        subject = another_snapshot(subject, f"{tuned.run}@{snapshot.folder.name}")
        models[snapshot.folder.name] = snapshot_model(tuned, snapshot, subject, environment)
    return {
        "models": models,
        "golds": pack_golds(subject.parts.task, subject.part.examples),
        "trainable": tuned.trainable,
        "total": tuned.total,
        "first_step_seconds": first_step_seconds(tuned.snapshots[0]),
        "peak_bytes": peak.bytes,
        "weights": tuned.snapshots[0].fingerprint,
    }


def tuned_run(
    settings: TuneSettings, seed: int, environment: BenchEnvironment, peak: PeakMemory | None = None
) -> TuneResult:
    """The finished run of these settings; it is started or resumed if necessary, and does not score dev.

    Raises:
        BertVisionError: data or encoder cannot be loaded, or do not fit the settings.
        DivergedError: the loss is not finite.
    """
    run = environment.run(TUNE, settings, seed)
    return tune(
        settings.request(environment, seed),
        run,
        resume=(run / CONFIG).is_file(),
        show=environment.show if peak is None else peak.show,
        judge=_ignore_score,
    )


def snapshot_model(tuned: TuneResult, snapshot: Snapshot, subject: Subject, environment: BenchEnvironment) -> Model:
    """The result of a snapshot's own output.

    Raises:
        BertVisionError: the snapshot cannot be loaded.
    """
    return {
        "epochs": snapshot.fraction,
        "seconds": tuned_seconds(snapshot),
        "parameters": tuned.trainable,
        "bytes": size_of(snapshot.folder),
        **judge_models(subject, environment).models[OWN_OUTPUT],
    }


def first_step_seconds(snapshot: Snapshot) -> float | None:
    """Seconds of the first step of a run, compiling included; None if they are not in its log."""
    lines = RunFolder(snapshot.run).lines()
    return next((line["seconds"] for line in lines if line["step"] == 1 and "seconds" in line), None)


def _ignore_score(fraction: float, score: float | None) -> None:
    """Accept any score; with a callback for scores, a run uses held-out examples only, and not dev."""
