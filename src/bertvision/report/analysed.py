"""Tables and figures of an analysis: errors, calibration and efficiency of the models of a run."""

from collections.abc import Iterator, Sequence
from typing import Any

from bertvision.analysis.confusion import LabelCounts
from bertvision.analysis.question_types import PartScores
from bertvision.report.analysed_layers import layer_blocks
from bertvision.report.bars import Bars
from bertvision.report.document import Figure, Table, interval_cell, number_cell, slug, text_cell, without_empty
from bertvision.report.groups import OWN_OUTPUT
from bertvision.report.inputs import FileContent
from bertvision.report.labels import confusion_plot, scores_plot
from bertvision.report.numbers import Unit
from bertvision.report.plots import Axis, Lines, Point
from bertvision.runs.analysing.analysis_record import AnalysedModel, AnalysisRecord

TRUE = "true"
"""Label and colour of true labels and scores, and of uncalibrated confidence; not in the palette, so drawn in grey."""

MOST_COMPARED = 2
"""Models in tables and figures that compare answers."""


def analysis_blocks(analysis: FileContent[AnalysisRecord], unit: Unit) -> list[Table | Figure]:
    """All tables and figures of an analysis."""
    return [*_Analysis(analysis).blocks(), *layer_blocks(analysis, unit)]


class _Analysis:
    """Makes the tables and figures of one analysis, except those about layers."""

    def __init__(self, analysis: FileContent[AnalysisRecord]) -> None:
        self._content = analysis.content
        self._record = analysis.key
        self._run = analysis.run
        self._models: Sequence[AnalysedModel] = analysis.content.models
        chosen = [m for m in self._models if m.name in (analysis.content.first, analysis.content.second)]
        self._compared = (chosen or list(self._models))[:MOST_COMPARED]

    def blocks(self) -> Iterator[Table | Figure]:
        yield from self._question_types()
        yield from self._second_answers()
        yield from self._context_lengths()
        yield from self._confusion()
        yield from self._tags()
        yield from self._scores()
        yield from self._calibration()
        yield from self._efficiency()

    def _table(self, name: str, title: str, columns: Sequence[str], rows: Sequence[Any], note: str = "") -> Table:
        kept_columns, kept_rows = without_empty(columns, rows)
        key = f"{name}-{self._record}"
        return Table(key=key, title=f"{title}: {self._run}", columns=kept_columns, rows=kept_rows, note=note)

    def _figure(self, name: str, title: str, caption: str, plot: Any) -> Figure:  # noqa: ANN401 - any plot
        key = f"figure-{name}-{self._record}"
        return Figure(key=key, title=f"{title}: {self._run}", caption=caption, plot=plot, record=self._record)

    def _question_types(self) -> Iterator[Table | Figure]:
        models = [(model, model.question_types) for model in self._compared if model.question_types is not None]
        if not models:
            return
        places = [group.name for group in models[0][1].words]
        points = [
            Point(label=model.name, model=colour(model), x=float(places.index(group.name)), y=group.all.f1)
            for model, types in models
            for group in types.words
            if group.all is not None and group.name in places
        ]
        yield self._figure(
            "words",
            "Which questions are hard",
            "F1 by the first question word; the most frequent word stands first.",
            Bars(
                places=tuple(places),
                x_title="question word",
                y=Axis(title="F1 (in %)", unit="percent"),
                points=tuple(points),
            ),
        )
        columns = ("model", "question word", "questions", "exact", "F1", "F1, has answer", "F1, no answer")
        rows = [
            (
                text_cell(model.name, model=colour(model)),
                text_cell(group.name),
                number_cell(None if group.all is None else group.all.count, "count", record=self._record),
                number_cell(None if group.all is None else group.all.exact, "percent", record=self._record),
                number_cell(_f1(group.all), "percent", record=self._record, strong=True),
                number_cell(_f1(group.has_answer), "percent", record=self._record),
                number_cell(_f1(group.no_answer), "percent", record=self._record),
            )
            for model, types in models
            for group in [types.overall, *types.words]
        ]
        yield self._table("words", "Scores by question word", columns, rows)

    def _second_answers(self) -> Iterator[Table]:
        rows = [
            (
                text_cell(model.name, model=colour(model)),
                number_cell(errors.first_right, "count", record=self._record),
                number_cell(errors.first_wrong, "count", record=self._record),
                number_cell(errors.has_answer_errors, "count", record=self._record),
                number_cell(errors.predicted_empty_share, "share", record=self._record),
                number_cell(errors.second_right_share, "share", record=self._record),
                number_cell(errors.second_right_has_answer_share, "share", record=self._record),
            )
            for model in self._models
            if (errors := model.second_answers) is not None
        ]
        if rows:
            columns = ["model", "first right", "first wrong", "has-answer errors", "of these left empty (share)"]
            columns += ["second right when first is wrong (share)", "of these with an answer (share)"]
            yield self._table("second-answers", "Errors, and the answers just behind", columns, rows)

    def _context_lengths(self) -> Iterator[Table]:
        lengths = self._content.context_lengths
        if lengths is None:
            return
        first, second = self._content.first, self._content.second
        named = {
            "all questions": lengths.all,
            f"right by {first}": lengths.first,
            f"right by {second}": lengths.second,
            f"right by {first} alone": lengths.first_only,
            f"right by {second} alone": lengths.second_only,
        }
        rows = []
        for name, group in named.items():
            tokens, count = group.tokens, number_cell(group.count, "count", record=self._record)
            if tokens is None:
                rows.append(
                    (text_cell(name), count, number_cell(None), interval_cell(None, None, "number"), number_cell(None))
                )
                continue
            rows.append(
                (
                    text_cell(name),
                    count,
                    number_cell(tokens.mean, record=self._record, strong=True),
                    interval_cell(tokens.interval.low, tokens.interval.high, "number", record=self._record),
                    number_cell(tokens.median, record=self._record),
                )
            )
        columns = ("questions", "how many", "mean context (tokens)", "95 % interval", "median (tokens)")
        yield self._table("contexts", "How long the contexts are", columns, rows)

    def _confusion(self) -> Iterator[Table | Figure]:
        for model in self._compared:
            if model.confusion is None:
                continue
            labels = tuple(counts.label for counts in model.confusion.labels)
            yield self._figure(
                f"confusion-{slug(model.name)}",
                f"What {model.name} takes for what",
                "Rows are true labels, columns predicted ones; a row is shaded by its own shares.",
                confusion_plot(labels, model.confusion.counts),
            )
        for model in self._compared[:1]:
            if model.confusion is not None:
                yield from self._labels("labels", model, model.confusion.labels)

    def _tags(self) -> Iterator[Table | Figure]:
        for model in self._compared[:1]:
            if model.tags is not None:
                yield from self._labels("tags", model, model.tags)

    def _labels(self, name: str, model: AnalysedModel, labels: Sequence[LabelCounts]) -> Iterator[Table | Figure]:
        places = tuple(counts.label for counts in labels)
        points = [Point(label=TRUE, model=TRUE, x=float(n), y=float(counts.gold)) for n, counts in enumerate(labels)]
        points += [
            Point(label=model.name, model=colour(model), x=float(n), y=float(counts.predicted))
            for n, counts in enumerate(labels)
        ]
        yield self._figure(
            name,
            "How often each label is true, and given",
            "",
            Bars(places=places, x_title="label", y=Axis(title="examples (count)", unit="count"), points=tuple(points)),
        )
        columns = ("label", "true", "given", "right", "recall", "precision")
        rows = [
            (
                text_cell(counts.label),
                *(
                    number_cell(count, "count", record=self._record)
                    for count in (counts.gold, counts.predicted, counts.right)
                ),
                *(number_cell(share, "share", record=self._record) for share in (counts.recall, counts.precision)),
            )
            for counts in labels
        ]
        yield self._table(name, f"Labels given by {model.name}", columns, rows)

    def _scores(self) -> Iterator[Figure]:
        for model in self._compared[:1]:
            if (histogram := model.histogram) is not None:
                places = tuple(f"{low:.3g}" for low in histogram.edges[:-1])
                points = [
                    Point(label=label, model=name, x=float(n), y=float(count))
                    for label, name, counts in (
                        (TRUE, TRUE, histogram.golds),
                        (model.name, colour(model), histogram.predictions),
                    )
                    for n, count in enumerate(counts)
                ]
                y = Axis(title="examples (count)", unit="count")
                bars = Bars(places=places, x_title="score, from", y=y, points=tuple(points))
                yield self._figure("histogram", "How scores are spread", "", bars)
            if model.scatter is not None and model.scatter.golds:
                plot = scores_plot(model.name, colour(model), model.scatter.golds, model.scatter.predictions)
                yield self._figure("scatter", "Predicted against true scores", "", plot)

    def _calibration(self) -> Iterator[Table | Figure]:
        models = [(model, model.calibration) for model in self._models if model.calibration is not None]
        if not models:
            return
        first, calibration = next((pair for pair in models if pair[0] in self._compared), models[0])
        points = [
            Point(label=label, model=name, x=group.confidence, y=group.accuracy)
            for label, name, bins in (
                ("as it is", TRUE, calibration.before.bins),
                ("with temperature", colour(first), calibration.after.bins),
            )
            for group in bins
            if group.confidence is not None and group.accuracy is not None
        ]
        yield self._figure(
            "calibration",
            f"How sure {first.name} should be",
            "On the dashed line confidence is as large as the share that is right.",
            Lines(
                x=Axis(title="confidence (mean of a bin, 0 to 1)", unit="share"),
                y=Axis(title="share that is right (0 to 1)", unit="share"),
                points=tuple(points),
                diagonal=True,
            ),
        )
        columns = ("model", "temperature", "confidence", "accuracy", "error before", "error after")
        rows = [
            (
                text_cell(model.name, model=colour(model)),
                number_cell(scaling.temperature, record=self._record),
                number_cell(scaling.before.confidence, "share", record=self._record),
                number_cell(scaling.before.accuracy, "share", record=self._record),
                number_cell(scaling.before.error, "share", record=self._record),
                number_cell(scaling.after.error, "share", record=self._record, strong=True),
            )
            for model, scaling in models
        ]
        note = "Expected calibration error; the temperature is fitted on held-out training examples."
        yield self._table("calibration", "Calibration", columns, rows, note)

    def _efficiency(self) -> Iterator[Table]:
        named = {model.name: model for model in self._models}
        rows = [
            (
                text_cell(row.cost.name, model=colour(named[row.cost.name])),
                number_cell(row.cost.f1, "percent", record=self._record),
                number_cell(row.cost.parameters, "count", record=self._record),
                number_cell(row.cost.training_seconds, "seconds", record=self._record),
                number_cell(row.cost.inference_seconds, "seconds", record=self._record),
                number_cell(row.efficiency, record=self._record, strong=True),
                text_cell(", ".join(row.best_at).replace("_", " ")),
            )
            for row in self._content.efficiency
        ]
        if rows:
            columns = ("model", "F1 (in %)", "parameters", "training (s)", "inference (s)", "efficiency", "best at")
            note = "Efficiency is (F1 - 50) / log₁₀(parameters); “best at”: no other model is as good for less of that."
            yield self._table("efficiency", "Efficiency", columns, rows, note)


def colour(model: AnalysedModel) -> str:
    """The name that decides a model's colour (see `Palette`): its head, or the own output."""
    return OWN_OUTPUT if model.own else model.head


def _f1(part: PartScores | None) -> float | None:
    return None if part is None else part.f1
