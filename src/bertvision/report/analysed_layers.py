"""Figures of an analysis about layers: layer weights, attention over layers, and scores by depth."""

from collections.abc import Iterator, Sequence

from bertvision.analysis.layer_weights import LayerReport
from bertvision.report.document import Figure, Table, interval_cell, number_cell, text_cell
from bertvision.report.inputs import FileContent
from bertvision.report.numbers import Unit, metric_words
from bertvision.report.plots import Axis, Lines, Point
from bertvision.runs.analysing.analysis_record import AnalysisRecord, SeedGroup

Layers = tuple[SeedGroup, Sequence[str], LayerReport]
"""A head with all of its seeds, names of its outputs, and the share of each layer in each output."""


def layer_blocks(analysis: FileContent[AnalysisRecord], unit: Unit) -> Iterator[Table | Figure]:
    """Figures and tables of layer weights, attention over layers, and depth sweeps."""
    content = analysis.content
    learned: list[Layers] = [(weights.group, ("",), weights.report) for weights in content.layer_weights]
    attended: list[Layers] = [(attention.group, attention.outputs, attention.all) for attention in content.attention]
    in_question: list[Layers] = [
        (attention.group, attention.outputs, attention.question)
        for attention in content.attention
        if attention.question
    ]
    for name, title, groups in (
        ("weights", "Which layers heads learned to read", learned),
        ("attention", "Which layers heads attend to", attended),
        ("question", f"Which layers count for question {content.question}", in_question),
    ):
        if groups:
            yield from _layers(analysis, name, title, groups)
    yield from _depths(analysis, unit)


def _layers(
    analysis: FileContent[AnalysisRecord], name: str, title: str, groups: Sequence[Layers]
) -> Iterator[Table | Figure]:
    points, rows = [], []
    for group, outputs, report in groups:
        for place, weights in enumerate(report.sets):
            output = outputs[place] if place < len(outputs) else f"output {place}"
            label = " ".join([_label(group, groups), output]).strip()
            points += [
                Point(
                    label=label,
                    model=group.head,
                    x=float(layer),
                    y=share.mean,
                    low=share.low,
                    high=share.high,
                )
                for layer, share in zip(report.layers, weights.shares, strict=True)
            ]
            centre = weights.centre
            rows.append(
                (
                    text_cell(label, model=group.head),
                    number_cell(centre.mean, record=analysis.key, strong=True),
                    interval_cell(centre.low, centre.high, "number", record=analysis.key),
                    number_cell(centre.seeds, "count", record=analysis.key),
                )
            )
    key = analysis.key
    yield Figure(
        key=f"figure-{name}-{key}",
        title=f"{title}: {analysis.run}",
        caption="Share of each layer, by size without sign; bands are 95 % intervals over seeds. Layer 0 is the "
        "embedding output.",
        plot=Lines(
            x=Axis(title="layer (number)", unit="number"),
            y=Axis(title="share of the weights (0 to 1)", unit="share"),
            points=tuple(points),
        ),
        record=analysis.key,
    )
    columns = ("head", "centre of gravity (layer)", "95 % interval", "seeds")
    yield Table(
        key=f"{name}-{key}", title=f"Around which layer heads read: {analysis.run}", columns=columns, rows=tuple(rows)
    )


def _label(group: SeedGroup, groups: Sequence[Layers]) -> str:
    """A head's name; the name of its first model if several groups have the same head."""
    namesakes = [other for other, _, _ in groups if other.head == group.head]
    return group.head if len(namesakes) == 1 else group.models[0]


def _depths(analysis: FileContent[AnalysisRecord], unit: Unit) -> Iterator[Figure]:
    content = analysis.content
    timed = all(point.seconds_share is not None for sweep in content.depth_sweeps for point in sweep.points)
    points = [
        Point(
            label=f"{sweep.head} {place}" if len(content.depth_sweeps) > 1 else sweep.head,
            model=sweep.head,
            x=point.seconds_share if timed and point.seconds_share is not None else point.cost_share,
            y=point.score.mean,
            low=point.score.low,
            high=point.score.high,
        )
        for place, sweep in enumerate(content.depth_sweeps, start=1)
        for point in sweep.points
        if point.score is not None
    ]
    if points:
        what = "share of the deepest head's time" if timed else "share of the encoder's layers"
        yield Figure(
            key=f"figure-depth-{analysis.key}",
            title=f"What stopping early costs: {analysis.run}",
            caption="Heads that read the first layers alone let the encoder stop there, which is exact.",
            plot=Lines(
                x=Axis(title=f"{what} (0 to 1)", unit="share"),
                y=Axis(title=metric_words(content.metric, unit), unit=unit),
                points=tuple(points),
            ),
            record=analysis.key,
        )
