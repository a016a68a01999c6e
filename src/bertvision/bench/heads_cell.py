"""The kind `heads`: many heads learn in one pass over each frozen snapshot, and are joined into ensembles."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from bertvision.bench.environment import BenchEnvironment
from bertvision.bench.measured import JudgedModels, Model, judge_models, pack_golds, size_of, told_ensemble
from bertvision.bench.settings import UNTUNED, HeadsSettings, fitting_ways
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
    """Fit heads on every snapshot that is asked for, judge each and its encoder's own output, and join them.

    A model is called `HEAD@EPOCHS`, or `WAY@EPOCHS` where it is an ensemble, or `WAY` where it is one of all snapshots.

    Raises:
        BertVisionError: something in the settings does not fit.
    """
    words = list(settings.specs(seed))
    levels = [_fit(settings, seed, environment, snapshot) for snapshot in _snapshots(settings, seed, environment)]
    models = {label: model for level in levels for label, model in level.models(words).items()}
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
    """Those that heads read; None reads the encoder as it is."""
    if settings.on is None:
        return [None]
    there = {snapshot.fraction: snapshot for snapshot in tuned_run(settings.on, seed, environment).snapshots}
    return [there[fraction] for fraction in settings.fractions]


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
    """A frozen encoder with its heads.

    Attributes:
        name: epochs that it was tuned for.
        snapshot: snapshot of the encoder; None is the encoder as it is.
        fitted: its heads.
        judged: what they are worth.
    """

    name: str
    snapshot: Snapshot | None
    fitted: FitResult
    judged: JudgedModels

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the encoder before it was tuned."""
        return self.snapshot.fingerprint if self.snapshot is not None else RunFolder(self.fitted.run).weights()

    @property
    def learnt(self) -> int:
        """Parameters of the encoder that learned, without its own output."""
        if self.snapshot is None:
            return 0
        return (tuned_parameters(self.snapshot) or 0) - count_parameters(load_head(self.snapshot.folder))

    @property
    def changed(self) -> int:
        """Bytes that the encoder's changes take."""
        return 0 if self.snapshot is None else size_of(self.snapshot.folder) - _weights(self.snapshot.folder)

    @property
    def tuned(self) -> float:
        """Seconds that the encoder was tuned for."""
        return 0.0 if self.snapshot is None else tuned_seconds(self.snapshot) or 0.0

    @property
    def spent(self) -> float:
        """Seconds of the pass in which all heads learned, the encoder's included; solved heads take none of it."""
        lines = RunFolder(self.fitted.run).lines()
        return max((line[SPENT] for line in lines if SPENT in line), default=0.0)

    def models(self, words: Sequence[str]) -> dict[str, Model]:
        """What is told of each model, by its words and the epochs of the encoder."""
        rows = {Path(row["folder"]).name: row for row in self.fitted.leaderboard}
        others = sum(row["seconds"] for row in rows.values())
        curves = self.curves()
        found: dict[str, Model] = {}
        for name, judged in self.judged.models.items():
            own = name == OWN_OUTPUT
            label = name if own else words[int(name.partition("-")[0])]
            alone = 0.0 if own else max(self.spent - others, 0.0) + rows[name]["seconds"]
            found[f"{label}@{self.name}"] = {
                "epochs": float(self.name),
                "seconds": round(self.tuned + alone, 3),
                "parameters": self.learnt + judged["head_parameters"],
                "bytes": self.changed + _weights(self.judged.subject.head_folder(name)),
                **judged,
                **({"held_out_curve": curves[name]} if len(curves[name]) > 1 else {}),
            }
        return found

    def curves(self) -> dict[str, list[list[float | None]]]:
        """Epochs, and the held-out score after them, of every model; none of those that nobody trained here."""
        lines = [line for line in RunFolder(self.fitted.run).lines() if "validated" in line]
        found = {}
        for name in self.judged.models:
            number = -1 if name == OWN_OUTPUT else int(name.partition("-")[0])
            scores = {line["validated"]: line["score"] for line in lines if line["head"] == number}
            found[name] = [[at, None if one is None else round(one, 4)] for at, one in scores.items()]
        return found

    def share(self, members: Sequence[str]) -> tuple[int, int, float]:
        """Parameters, bytes and seconds per example of members on this encoder; nothing where there are none."""
        if not members:
            return 0, 0, 0.0
        models, seconds = self.judged.models, self.judged.seconds
        parameters = self.learnt + sum(models[name]["head_parameters"] for name in members)
        size = self.changed + sum(_weights(self.judged.subject.head_folder(name)) for name in members)
        spent = seconds.encoder[max(models[name]["depth"] for name in members)]
        spent += sum(seconds.heads.get(name, 0.0) for name in members)
        return parameters, size, spent / seconds.examples


def _join(settings: HeadsSettings, levels: Sequence[_Level], environment: BenchEnvironment) -> dict[str, Model]:
    """Every ensemble of the models of some levels."""
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
    """What is told of an ensemble."""
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
        **told_ensemble(levels[0].judged.subject, joined),
        "inference_seconds": round(seconds, 7),
    }


def _weights(folder: Path) -> int:
    """Bytes of a head's weights."""
    return (folder / WEIGHTS).stat().st_size
