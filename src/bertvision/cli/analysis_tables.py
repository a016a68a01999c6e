"""Prints the main tables of an analysis; analysis.json holds all of it."""

import json
from collections.abc import Iterable, Sequence

from bertvision.amounts import in_words
from bertvision.analysis.context_lengths import ContextGroup
from bertvision.analysis.layer_weights import LayerReport
from bertvision.analysis.question_types import PartScores, QuestionGroup
from bertvision.analysis.seeds import SeedMean
from bertvision.analysis.settings import head_labels
from bertvision.cli.output import print_table
from bertvision.runs.analysing.analysis_record import AnalysedModel, AnalysisRecord, SeedGroup

Cells = list[list[object]]


def print_analysis(record: AnalysisRecord) -> None:
    """Print every table that is not empty."""
    count = in_words(record.examples, "example")
    title = f"{record.run}: {record.task} {record.split}, {count}, best first by held-out examples"
    _print_models(title, record)
    compared = [model for name in (record.first, record.second) for model in record.models if model.name == name]
    shown = compared or list(record.models[:1])
    _print_types(shown)
    _print_contexts(record)
    _print_labels(record, shown)
    _print_layers(record)
    _print_sweeps(record)
    _print_curves(record)
    _print_efficiency(record)


def _print_models(title: str, record: AnalysisRecord) -> None:
    columns = ["model", record.metric]
    threshold = record.at != "plain"
    columns += ["threshold"] * threshold
    spans = any(model.second_answers for model in record.models)
    columns += ["empty among errors", "second right", "of them with answer"] * spans
    calibrated = any(model.calibration for model in record.models)
    columns += ["temperature", "calibration error", "with temperature"] * calibrated
    cells: Cells = []
    for model in record.models:
        line: list[object] = [model.name, model.score, *([model.threshold] if threshold else [])]
        if spans:
            second = model.second_answers
            line += [
                None if second is None else second.predicted_empty_share,
                None if second is None else second.second_right_share,
                None if second is None else second.second_right_has_answer_share,
            ]
        if calibrated:
            found = model.calibration
            line += [None] * 3 if found is None else [found.temperature, found.before.error, found.after.error]
        cells.append(line)
    print_table(title, columns, cells)


def _print_types(models: Sequence[AnalysedModel]) -> None:
    """F1 by question word, with and without an answer, of one or two models side by side."""
    types = [model.question_types for model in models if model.question_types is not None]
    if not types:
        return
    columns = ["question word", "questions"]
    for model in models:
        columns += [f"F1 of {model.name}", "with answer", "without"]
    groups = zip(*([one.overall, *one.words] for one in types), strict=True)  # one group per model
    cells = [[row[0].name, _count(row[0]), *(cell for group in row for cell in _f1(group))] for row in groups]
    print_table("Question types", columns, cells)


def _count(group: QuestionGroup) -> int:
    return 0 if group.all is None else group.all.count


def _f1(group: QuestionGroup) -> Iterable[float | None]:
    parts: tuple[PartScores | None, ...] = (group.all, group.has_answer, group.no_answer)
    return (None if part is None else part.f1 for part in parts)


def _print_contexts(record: AnalysisRecord) -> None:
    lengths = record.context_lengths
    if lengths is None:
        return
    groups: dict[str, ContextGroup] = {
        "all": lengths.all,
        f"{record.first} right": lengths.first,
        f"{record.second} right": lengths.second,
        f"{record.first} alone": lengths.first_only,
        f"{record.second} alone": lengths.second_only,
    }
    cells: Cells = []
    for name, group in groups.items():
        units = [
            (None, "") if mean is None else (mean.mean, f"{mean.interval.low:.1f} to {mean.interval.high:.1f}")
            for mean in (group.tokens, group.words)
        ]
        cells.append([name, group.count, *units[0], *units[1]])
    columns = ["questions answered exactly", "questions", "mean tokens", "95 % interval", "mean words", "95 % interval"]
    print_table("Context lengths", columns, cells)


def _print_labels(record: AnalysisRecord, models: Sequence[AnalysedModel]) -> None:
    """Confusion matrices, counts of tags, and histograms of scores, of one or two models."""
    for model in models:
        if model.confusion is not None:
            names = [row.label for row in model.confusion.labels]
            counts = zip(model.confusion.labels, model.confusion.counts, strict=True)
            cells = [[row.label, *given, row.gold, row.predicted, row.recall, row.precision] for row, given in counts]
            columns = ["true \\ given", *names, "true", "given", "recall", "precision"]
            print_table(f"Labels by {model.name}", columns, cells)
        if model.tags is not None:
            cells = [[row.label, row.gold, row.predicted, row.right, row.recall, row.precision] for row in model.tags]
            print_table(f"Tags by {model.name}", ["tag", "true", "given", "right", "recall", "precision"], cells)
        if model.histogram is not None:
            found = model.histogram
            edges = zip(found.edges[:-1], found.edges[1:], found.golds, found.predictions, strict=True)
            cells = [[f"{low:.3g} to {high:.3g}", gold, given] for low, high, gold, given in edges]
            title = f"Scores by {model.name}, {found.outside:,} predictions beyond the limits of {record.task}"
            print_table(title, ["score", "true", "given"], cells)


def _print_layers(record: AnalysisRecord) -> None:
    """The share of each layer in layer weights and in attention over layers, with their centre of gravity."""
    weights = [(one.group, "all" if len(one.report.sets) == 1 else None, one.report) for one in record.layer_weights]
    cells = [line for group, output, report in weights for line in _layer_rows(group, output, report, ())]
    _print_layer_table("Learned layer weights", cells)
    attention = [line for one in record.attention for line in _layer_rows(one.group, None, one.all, one.outputs)]
    _print_layer_table(f"Attention over layers, mean over {record.split}", attention)
    asked = [(one, one.question) for one in record.attention if one.question is not None]
    cells = [line for one, report in asked for line in _layer_rows(one.group, None, report, one.outputs)]
    _print_layer_table(f"Attention over layers for {record.question}", cells)


def _layer_rows(group: SeedGroup, output: str | None, report: LayerReport, outputs: Sequence[str]) -> Cells:
    layers = f"{report.layers[0]} to {report.layers[-1]}"
    return [
        [
            group.models[0],
            found.centre.seeds,
            output or (outputs[number] if outputs else f"set {number}"),
            found.centre.mean,
            _interval(found.centre),
            layers,
            " ".join(f"{share.mean:.2f}" for share in found.shares),
        ]
        for number, found in enumerate(report.sets)
    ]


def _print_layer_table(title: str, cells: Cells) -> None:
    columns = ["head", "seeds", "output", "centre of gravity", "95 % interval", "layers", "share of each layer"]
    if cells:
        print_table(title, columns, cells)


def _print_sweeps(record: AnalysisRecord) -> None:
    labels = head_labels((sweep.head, sweep.options) for sweep in record.depth_sweeps)
    for sweep, label in zip(record.depth_sweeps, labels, strict=True):
        gains: list[float | None] = [None] * len(sweep.points)
        if sweep.cumulative is not None:
            gains[1:] = [one.mean for one in sweep.cumulative.differences]
        cells: Cells = [
            [
                point.depth,
                None if point.score is None else point.score.mean,
                "" if point.score is None else _interval(point.score),
                gain,
                point.cost_share,
                point.seconds,
                point.seconds_share,
            ]
            for point, gain in zip(sweep.points, gains, strict=True)
        ]
        words = [label, f"lr {sweep.lr:g}", f"{sweep.fraction:g} of the examples"]
        title = f"Depth sweep of {', '.join(words)}: seconds over {record.cost.timed_examples} examples"
        if sweep.cumulative is not None and sweep.cumulative.expected_layer is not None:
            title += f"; gains are centred on layer {sweep.cumulative.expected_layer:.2f}"
        columns = ["depth", record.metric, "95 % interval", "gain", "share of layers", "seconds", "share of seconds"]
        print_table(title, columns, cells)


def _print_curves(record: AnalysisRecord) -> None:
    cells: Cells = []
    labels = head_labels((curve.head, json.loads(curve.options)) for curve in record.less_data)
    for curve, name in zip(record.less_data, labels, strict=True):
        points = zip(curve.fractions, curve.scores, curve.rates, strict=True)
        cells += [[name, part, score.mean, _interval(score), score.seeds, rate] for part, score, rate in points]
    if cells:
        columns = ["head", "share of examples", record.metric, "95 % interval", "seeds", "learning rate"]
        print_table("Less data", columns, cells)
    if record.freeze is not None:
        found = record.freeze
        rows = zip(found.epochs, found.own, found.heads, found.names, found.held_out, strict=True)
        title = "Snapshots" if found.freeze_point is None else f"Snapshots: freeze point {found.freeze_point:g} epochs"
        metric = record.logged_metric
        columns = ["epochs", f"{metric} of own output", f"{metric} of best head", "head", "held out"]
        print_table(title, columns, [list(row) for row in rows])


def _print_efficiency(record: AnalysisRecord) -> None:
    if not record.efficiency:
        return
    cells: Cells = [
        [
            row.cost.name,
            row.cost.f1,
            row.cost.parameters,
            row.efficiency,
            row.cost.training_seconds,
            row.cost.inference_seconds,
            ", ".join(name.replace("_", " ") for name in row.best_at),
        ]
        for row in record.efficiency
    ]
    columns = ["model", "F1", "parameters", "efficiency", "training seconds", "inference seconds", "best at"]
    title = f"What quality costs: inference over {record.cost.timed_examples} examples on {record.cost.device}"
    print_table(title, columns, cells)


def _interval(value: SeedMean) -> str:
    return "" if value.low is None or value.high is None else f"{value.low:.3g} to {value.high:.3g}"
