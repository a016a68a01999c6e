"""AnalysisRecord: the analysis of a run as one JSON file, with provenance."""

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
    """The analysis of a head or an encoder's own output; fields that do not apply to the kind of task are None.

    Attributes:
        name: name of its folder in the evaluation, such as `000-layer_mix` or `own_output`.
        head: the head's name.
        own: whether it is the encoder's own output.
        seed: seed of the head's training; None where it has none of its own.
        parameters: number of the head's parameters.
        depth: the last layer that it needs.
        held_out: its main metric on held-out training examples; None without any, or where not defined.
        threshold: no-answer threshold of this analysis; None if there is none.
        score: the record's metric on the split, at that threshold; None where not defined.
        question_types: for spans: scores by question word, with and without an answer.
        second_answers: for spans: errors, and how often the second best answer was right.
        confusion: for labels: confusion matrix.
        tags: for tags: how often each is true, predicted, and both.
        histogram: for scores: histograms of gold and predicted scores.
        scatter: for scores: predicted against gold scores.
        calibration: for spans and labels: confidence against accuracy; None where nothing was held out, or where the
            held-out examples are the split.
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
    """Heads that differ only in their seed.

    Attributes:
        head: the head's name.
        options: all of its options.
        lr: learning rate; None for the own output.
        fraction: share of the training examples; None for the own output.
        models: names of the heads, in the order of their seeds.
    """

    head: str
    options: dict[str, Any]
    lr: float | None
    fraction: float | None
    models: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedLayers:
    """Learned layer weights, which are the same for every token, over seeds."""

    group: SeedGroup
    report: LayerReport


@dataclass(frozen=True, slots=True, kw_only=True)
class AttendedLayers:
    """Attention over layers, which differs from token to token, over seeds.

    Attributes:
        group: the heads.
        outputs: names of the sets in the reports: start and end, labels, or score.
        all: mean over the tokens of the split.
        question: mean over the tokens of the example `AnalysisRecord.question`; None without one.
    """

    group: SeedGroup
    outputs: tuple[str, ...]
    all: LayerReport
    question: LayerReport | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthPoint:
    """Prefix heads of one depth.

    Attributes:
        depth: the last layer that they read, where the encoder stops.
        score: the record's metric on the split, over seeds; None where not defined.
        cost_share: depth divided by the number of layers: the part of the encoder that runs.
        seconds: of the encoder up to that depth and one head, for the timed examples; None if not measured.
        seconds_share: these seconds divided by those of the whole encoder and the deepest head of the sweep.
        models: names of the heads, in the order of their seeds.
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
        options: its options except `layers`.
        lr: learning rate.
        fraction: share of the training examples.
        points: the heads of each depth, in ascending order.
        cumulative: the score that each further layer adds; None if a depth between the first and the last is missing,
            or has other seeds or no score.
    """

    head: str
    options: dict[str, Any]
    lr: float
    fraction: float
    points: tuple[DepthPoint, ...]
    cumulative: CumulativeScores | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderCost:
    """The cost of the encoder, which all heads share.

    Attributes:
        layers: number of its layers, without the embedding output.
        trained_parameters: number of parameters that were tuned, own output included; None if unknown, or if the
            encoder was not tuned.
        timed_examples: number of examples that were timed.
        device: the device, `cpu` or `cuda`.
        depths: the layers after which the encoder was stopped.
        seconds: (depths,) seconds up to each of them, without any head; the lowest of several measurements.
    """

    layers: int
    trained_parameters: int | None
    timed_examples: int
    device: str
    depths: tuple[int, ...]
    seconds: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalysisRecord(Record):
    """The analysis of a run; see docs/analysis.md.

    Attributes:
        run: what was analysed: `RUN` or `RUN@0.3`.
        task: name of the task.
        kind: kind of the task.
        encoder: the encoder whose states were read.
        data: where the split's files are; None is the built-in set.
        split: name of the split.
        examples: number of examples in the split.
        held_out_examples: number of training examples that were held out.
        question: id of the example whose attention is reported separately; None without one.
        metric: name of the metric of all scores here, the task's main one; for questions F1 in percent.
        at: name of the no-answer threshold of all scores here: `fitted` on held-out questions, or `zero`; `plain` for
            tasks without one.
        logged_metric: name of the metric in curves that come from the logs of tuned runs.
        first: the best head by held-out score; None for a tuned run, which has no heads.
        second: the model that it is compared with: the encoder's own output, or else the second best head; None if
            there is neither.
        errors: name of the file in the same folder with the errors of the two; None where nothing was compared.
        models: all models, best first by held-out score.
        context_lengths: for spans: context lengths of the questions that `first` and `second` answer correctly.
        layer_weights: learned layer weights of all heads that have them.
        attention: attention over layers of all heads that have it.
        learning: loss and score over training steps.
        less_data: score over the share of training examples, for heads that were fitted on several shares.
        freeze: score over the snapshots of a tuned run; None unless this run is one of the fits on them.
        efficiency: F1 against cost, in the order of `models`; empty if no metric is an F1.
        depth_sweeps: scores of prefix heads against cost.
        cost: cost of the encoder.
        fingerprints: what saved outputs depend on.
        command: the command that repeats it.
        seconds: wall-clock seconds that it took.
        provenance: conditions under which it was made; see `provenance`.
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
