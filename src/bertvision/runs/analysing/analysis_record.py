"""AnalysisRecord: what an analysis of a run found, as one JSON file with where it comes from."""

from dataclasses import dataclass
from typing import Any, ClassVar

from bertvision.analysis.calibration import Calibration
from bertvision.analysis.confusion import Confusion, LabelCounts
from bertvision.analysis.context_lengths import ContextLengths
from bertvision.analysis.cumulative import CumulativeScores
from bertvision.analysis.curves import DataCurve, FreezeCurve, LearningCurves
from bertvision.analysis.efficiency import EfficiencyRow
from bertvision.analysis.histograms import Scatter, ScoreHistogram
from bertvision.analysis.layer_weights import LayerReport
from bertvision.analysis.question_types import QuestionTypes
from bertvision.analysis.second_answers import SecondAnswers
from bertvision.analysis.seeds import SeedMean
from bertvision.runs.judging.evaluation_record import Fingerprints
from bertvision.runs.record import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalysedModel:
    """A head or an encoder's own output, and how it answers; what does not apply to the kind of task is None.

    Attributes:
        name: name of its folder in the evaluation, such as `000-layer_mix` or `own_output`.
        head: the head's name.
        own: whether it is the encoder's own output.
        seed: seed of the head's training; None where it has none of its own.
        parameters: parameters of the head.
        depth: the last layer that it needs.
        held_out: its main metric on held-out training examples.
        threshold: threshold at which questions are answered here; None where there is none.
        score: the record's metric on the split, at that threshold; None where it is not defined.
        question_types: spans: by question word, with and without an answer.
        second_answers: spans: errors, and the answers just behind.
        confusion: labels: which is taken for which, and how often each is given.
        tags: tags: how often each is true and given.
        histogram: scores: how predicted and true ones are spread.
        scatter: scores: predicted against true.
        calibration: spans and labels: confidence against accuracy; None where nothing was held out.
    """

    name: str
    head: str
    own: bool
    seed: int | None
    parameters: int
    depth: int
    held_out: float | None
    threshold: float | None
    score: float | None
    question_types: QuestionTypes | None = None
    second_answers: SecondAnswers | None = None
    confusion: Confusion | None = None
    tags: tuple[LabelCounts, ...] | None = None
    histogram: ScoreHistogram | None = None
    scatter: Scatter | None = None
    calibration: Calibration | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedGroup:
    """Heads that differ in their seed alone.

    Attributes:
        head: the head's name.
        options: all of its options.
        lr: learning rate; None for the own output.
        fraction: share of the training examples; None for the own output.
        models: names of the heads, by seed.
    """

    head: str
    options: dict[str, Any]
    lr: float | None
    fraction: float | None
    models: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedLayers:
    """Layer weights that hold for any token, over seeds."""

    group: SeedGroup
    report: LayerReport


@dataclass(frozen=True, slots=True, kw_only=True)
class AttendedLayers:
    """Attention over layers, which differs from token to token, over seeds.

    Attributes:
        group: the heads.
        outputs: names of the report's sets: start and end, labels, or score.
        all: mean over the tokens of the split.
        question: mean over the tokens of the example that was asked for; None without one.
    """

    group: SeedGroup
    outputs: tuple[str, ...]
    all: LayerReport
    question: LayerReport | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthPoint:
    """Prefix heads that read the layers up to a depth.

    Attributes:
        depth: the last layer that they read, where the encoder stops.
        score: the record's metric on the split, over seeds; None where it is not defined.
        cost_share: depth / layers of the encoder: the part of its layers that run.
        seconds: encoder up to that depth, and one head, over the timed examples.
        seconds_share: the part that they are of the whole encoder and the deepest head of the sweep.
        models: names of the heads, by seed.
    """

    depth: int
    score: SeedMean | None
    cost_share: float
    seconds: float | None
    seconds_share: float | None
    models: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthSweep:
    """One kind of head at several depths: quality against cost.

    Attributes:
        head: the head's name.
        options: all but `layers`.
        lr: learning rate.
        fraction: share of the training examples.
        points: points by depth.
        cumulative: what each further layer adds; None unless there is a head with the same seeds for every depth.
    """

    head: str
    options: dict[str, Any]
    lr: float
    fraction: float
    points: tuple[DepthPoint, ...]
    cumulative: CumulativeScores | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderCost:
    """What the encoder costs, which all heads share.

    Attributes:
        layers: number of its layers, without the embedding output.
        trained_parameters: number of parameters that were tuned, own output included; None if unknown, or none was.
        timed_examples: number of examples over which seconds were measured.
        device: device that they were measured on.
        depths: depths at which the encoder was stopped.
        seconds: (depths,) seconds up to each, without any head; the lowest of several.
    """

    layers: int
    trained_parameters: int | None
    timed_examples: int
    device: str
    depths: tuple[int, ...]
    seconds: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalysisRecord(Record):
    """What an analysis found; see docs/analysis.md.

    Attributes:
        run: what was analysed: `RUN` or `RUN@0.3`.
        task: its name.
        kind: kind of the task.
        encoder: the one whose states were read.
        data: where the split comes from; None is the built-in set.
        split: dev, or another.
        examples: number of its examples.
        held_out_examples: number of training examples that were held out.
        question: the example that attention was asked for; None without one.
        metric: the metric that scores here are; of questions F1 in percent.
        at: threshold that questions are answered at: `fitted` on held-out questions, else `zero`; `plain` where
            there is none.
        logged_metric: the name of the metric in the curves that come from logs of tuned runs.
        first: the best head by held-out score; None for a tuned run, which has none.
        second: the own output at the same snapshot, or without one the second best head; None for a single model.
        errors: file beside this one with the errors of the two; None where nothing was compared.
        models: models, best first by held-out examples.
        context_lengths: spans: of the questions that first and second answer; None otherwise.
        layer_weights: layer weights of every head that has learned some.
        attention: attention of every head that attends to layers.
        learning: loss and score over steps.
        less_data: score over the share of training examples, where a head has learned from several.
        freeze: score over snapshots; None where the run is not one of several fits on them.
        efficiency: F1 against cost, in the order of models; empty for metrics without an F1.
        depth_sweeps: prefix heads: score against cost.
        cost: cost of the encoder.
        fingerprints: what the outputs depend on.
        command: the command that repeats it.
        seconds: wall-clock seconds that it took.
        provenance: where it was made.
    """

    NAME: ClassVar[str] = "analysis"
    FILE: ClassVar[str] = "analysis.json"
    AGAIN: ClassVar[str] = "Analyse again: bertvision analyse RUN"

    run: str
    task: str
    kind: str
    encoder: str
    data: str | None
    split: str
    examples: int
    held_out_examples: int
    question: str | None
    metric: str
    at: str
    logged_metric: str
    first: str | None
    second: str | None
    errors: str | None
    models: tuple[AnalysedModel, ...]
    context_lengths: ContextLengths | None
    layer_weights: tuple[LearnedLayers, ...]
    attention: tuple[AttendedLayers, ...]
    learning: LearningCurves
    less_data: tuple[DataCurve, ...]
    freeze: FreezeCurve | None
    efficiency: tuple[EfficiencyRow, ...]
    depth_sweeps: tuple[DepthSweep, ...]
    cost: EncoderCost
    fingerprints: Fingerprints
    command: str
    seconds: float
    provenance: dict[str, Any]
