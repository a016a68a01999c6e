"""The kind `heads`: many heads are trained in one pass over each frozen snapshot, and joined into ensembles."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from bertvision.bench.environment import BenchEnvironment
from bertvision.bench.heads_settings import UNTUNED, HeadsSettings, fitting_ways
from bertvision.bench.measured import JudgedModels, Model, ensemble_scores, judge_models, pack_golds, size_of
from bertvision.bench.tune_cell import tuned_run
from bertvision.encoder.snapshot import Snapshot
from bertvision.evaluation.bootstrap import LEAST_RESAMPLES
from bertvision.heads import count_parameters, load_head
from bertvision.heads.files import WEIGHTS
from bertvision.runs.analysing.analyse_curves import tuned_parameters, tuned_seconds
from bertvision.runs.fitting.fit import FitResult, fit_heads
from bertvision.runs.fitting.fit_run import SPENT
from bertvision.runs.folder import CONFIG, RunFolder
from bertvision.runs.judging.ensemble import EnsembleResult, gather_candidates
from bertvision.runs.judging.members import FEWEST_MEMBERS
from bertvision.runs.judging.subject import OWN_OUTPUT, load_subject

HEADS_RUN = "heads"


def measure_heads(settings: HeadsSettings, seed: int, environment: BenchEnvironment) -> dict[str, Any]:
    """Fit heads on every snapshot asked for, score them and the snapshots' own outputs, and join them into ensembles.

    A head is named `HEAD@EPOCHS`, an ensemble of one snapshot `WAY@EPOCHS`, an ensemble of all snapshots `WAY`.

    Raises:
        BertVisionError: something in the settings does not fit.
    """
    labels = list(settings.specs(seed))
    levels = [_fit(settings, seed, environment, snapshot) for snapshot in _snapshots(settings, seed, environment)]
    models = {label: model for level in levels for label, model in level.models(labels).items()}
    groups = [*([level] for level in levels), *([levels] if len(levels) > 1 else [])]
    for group in groups:
        models |= _join(settings, group, environment)
    subject = levels[-1].judged.subject
    return {
        "models": models,
        "golds": pack_golds(subject.parts.task, subject.part.examples),
        "trainable": levels[-1].learnt,
        "weights": levels[-1].fingerprint,
    }


def _snapshots(settings: HeadsSettings, seed: int, environment: BenchEnvironment) -> list[Snapshot | None]:
    """The snapshots that heads read; None for the encoder before any tuning."""
    if settings.on is None:
        return [None]
    tuned = {snapshot.fraction: snapshot for snapshot in tuned_run(settings.on, seed, environment).snapshots}
    return [tuned[fraction] for fraction in settings.fractions]


def _fit(settings: HeadsSettings, seed: int, environment: BenchEnvironment, snapshot: Snapshot | None) -> "_Level":
    name = UNTUNED if snapshot is None else snapshot.folder.name
    encoder = environment.find_encoder(settings.encoder)
    if snapshot is not None:
        encoder = f"{snapshot.run}@{name}"
    run = environment.run(HEADS_RUN, settings, seed) / f"at-{name}"
    request = settings.request(environment, seed, encoder)
    fitted = fit_heads(request, run, resume=(run / CONFIG).is_file(), show=environment.show, dev=False)
    return _Level(name, snapshot, fitted, judge_models(load_subject(run), environment))


@final
@dataclass(frozen=True, slots=True)
class _Level:
    """A snapshot of the encoder with the heads that were fitted on it.

    Attributes:
        name: epochs of tuning, as in the names of models.
        snapshot: the snapshot; None for the encoder before any tuning.
        fitted: the run that fitted the heads.
        judged: scores and inference seconds of the heads.
    """

    name: str
    snapshot: Snapshot | None
    fitted: FitResult
    judged: JudgedModels

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the encoder before any tuning."""
        return self.snapshot.fingerprint if self.snapshot is not None else RunFolder(self.fitted.run).weights()

    @property
    def learnt(self) -> int:
        """Number of the encoder's trained parameters, without the head it was tuned with."""
        if self.snapshot is None:
            return 0
        return (tuned_parameters(self.snapshot) or 0) - count_parameters(load_head(self.snapshot.folder))

    @property
    def changed(self) -> int:
        """Bytes on disk of the encoder's changes."""
        return 0 if self.snapshot is None else size_of(self.snapshot.folder) - _weights(self.snapshot.folder)

    @property
    def tuned(self) -> float:
        """Seconds of tuning the encoder up to this snapshot."""
        return 0.0 if self.snapshot is None else tuned_seconds(self.snapshot) or 0.0

    @property
    def spent(self) -> float:
        """Seconds of training all heads together, the frozen passes included, but not those of solved heads."""
        lines = RunFolder(self.fitted.run).lines()
        return max((line[SPENT] for line in lines if SPENT in line), default=0.0)

    def models(self, labels: Sequence[str]) -> dict[str, Model]:
        """The results of all models, by `HEAD@EPOCHS`; `labels` are those of the heads in the order of the fit.

        The seconds of a head are those of fitting it alone: all seconds of the fit less those of the other heads.
        """
        rows = {Path(row["folder"]).name: row for row in self.fitted.leaderboard}
        of_heads = sum(row["seconds"] for row in rows.values())
        curves = self.curves()
        models: dict[str, Model] = {}
        for name, judged in self.judged.models.items():
            own = name == OWN_OUTPUT
            label = name if own else labels[int(name.partition("-")[0])]
            alone = 0.0 if own else max(self.spent - of_heads, 0.0) + rows[name]["seconds"]
            models[f"{label}@{self.name}"] = {
                "epochs": float(self.name),
                "seconds": round(self.tuned + alone, 3),
                "parameters": self.learnt + judged["head_parameters"],
                "bytes": self.changed + _weights(self.judged.subject.head_folder(name)),
                **judged,
                **({"held_out_curve": curves[name]} if len(curves[name]) > 1 else {}),
            }
        return models

    def curves(self) -> dict[str, list[list[float | None]]]:
        """Pairs of epochs and held-out score for every model; empty for models that this run did not train."""
        lines = [line for line in RunFolder(self.fitted.run).lines() if "validated" in line]
        curves = {}
        for name in self.judged.models:
            number = -1 if name == OWN_OUTPUT else int(name.partition("-")[0])
            scores = {line["validated"]: line["score"] for line in lines if line["head"] == number}
            curves[name] = [[at, None if one is None else round(one, 4)] for at, one in scores.items()]
        return curves

    def share(self, members: Sequence[str]) -> tuple[int, int, float]:
        """Parameters, bytes and inference seconds per example of an ensemble's members on this snapshot; 0 for none."""
        if not members:
            return 0, 0, 0.0
        models, seconds = self.judged.models, self.judged.seconds
        parameters = self.learnt + sum(models[name]["head_parameters"] for name in members)
        size = self.changed + sum(_weights(self.judged.subject.head_folder(name)) for name in members)
        spent = seconds.encoder[max(models[name]["depth"] for name in members)]
        spent += sum(seconds.heads.get(name, 0.0) for name in members)
        return parameters, size, spent / seconds.examples


def _join(settings: HeadsSettings, levels: Sequence[_Level], environment: BenchEnvironment) -> dict[str, Model]:
    """All ensembles of the models of one or several snapshots, by name."""
    ways = fitting_ways(settings.ensembles, levels[0].judged.subject.parts.task.kind)
    if not ways or sum(len(level.judged.models) for level in levels) < FEWEST_MEMBERS:
        return {}
    after = f"@{levels[0].name}" if len(levels) == 1 else ""
    candidates = gather_candidates(
        [level.fitted.run for level in levels],
        ways=ways,
        resamples=LEAST_RESAMPLES,
        device=environment.device,
        show=environment.show,
    )
    return {f"{way}{after}": _ensemble(levels, candidates.join(way, show=environment.show)) for way in ways}


def _ensemble(levels: Sequence[_Level], joined: EnsembleResult) -> Model:
    """The result of an ensemble."""
    used = [member.row.name for member in joined.record.used]
    shares = []
    for level in levels:
        before = f"{level.fitted.run}:" if len(levels) > 1 else ""
        shares.append(level.share([name.removeprefix(before) for name in used if name.startswith(before)]))
    parameters, size, seconds = (sum(column) for column in zip(*shares, strict=True))
    return {
        "epochs": float(levels[-1].name),
        "seconds": round(levels[-1].tuned + sum(level.spent for level in levels), 3),
        "parameters": parameters,
        "bytes": size,
        **ensemble_scores(levels[0].judged.subject, joined),
        "inference_seconds": round(seconds, 7),
    }


def _weights(folder: Path) -> int:
    """Bytes on disk of a head's weights."""
    return (folder / WEIGHTS).stat().st_size
