"""`bertvision evaluate`: score the models of a run, with intervals, thresholds and paired tests."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bertvision.amounts import in_words
from bertvision.cli.output import ProgressBar, print_json, print_lines, print_notes, print_table
from bertvision.cli.split_options import ResampledOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bertvision.runs.judging.evaluation_record import EvaluatedRow
    from bertvision.runs.judging.judge import Estimate, PairedTest

LARGEST_FRACTION = 1.0
"""Metrics above this are in percent, and are shown with fewer digits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(ResampledOptions):
    """Options of `bertvision evaluate`."""

    run: str
    """Finished run: RUN of fit, or RUN or RUN@0.3 (a snapshot) of tune."""


def run(options: Options) -> int:
    """Evaluate."""
    from bertvision.runs.judging.evaluate import evaluate  # noqa: PLC0415 - imports torch, and help should open at once

    with ProgressBar(f"evaluate {options.run}") as bar:
        result = evaluate(options.run, **options.resampled_fields(), show=bar.show)
    print_notes(result.notices)
    if options.json:
        print_json(result.record.as_json())
        return 0
    record = result.record
    count = in_words(record.examples, "example")
    title = f"{record.run}: {record.task} {record.split}, {count}, best first by held-out examples"
    print_scores(title, record.rows, kind=record.kind, split=record.split, against=record.own)
    print_lines([f"Record, answers and outputs are in {result.folder}"])
    return 0


def print_scores(title: str, rows: "Sequence[EvaluatedRow]", *, kind: str, split: str, against: str | None) -> None:
    """Print a row per model and threshold, with the first metric's interval and, if there is one, its paired test.

    Args:
        title: title of the table.
        rows: the models, best first.
        kind: kind of the task.
        split: the split, for the names of thresholds.
        against: name of the model that all others are compared with; None if there is none.
    """
    from bertvision.evaluation.squad_metric import SHOWN  # noqa: PLC0415 - imports numpy

    names = list(rows[0].scores[next(iter(rows[0].scores))].values)
    metrics = [name for name in SHOWN if name in names] if kind == "spans" else names
    lossy = any(row.loss is not None for row in rows)
    columns = ["model", "parameters", "held out"] + ["loss"] * lossy + ["threshold"] * ("zero" in rows[0].scores)
    columns += [metrics[0], "95 % interval", *metrics[1:]]
    if against is not None:
        columns.append(f"{metrics[0]} against {against}")
    cells = []
    for row in rows:
        for number, (at, scores) in enumerate(row.scores.items()):
            line: list[object] = [row.name, row.parameters, row.held_out] if number == 0 else ["", None, None]
            line += [row.loss if number == 0 else None] * lossy
            line += [] if scores.threshold is None else [_threshold_words(at, scores.threshold, split)]
            main = scores.values[metrics[0]]
            line += [main.value, _interval(main), *(_value(scores.values.get(name)) for name in metrics[1:])]
            cells.append(line + ([_difference(scores.against.get(metrics[0]))] if against is not None else []))
    print_table(title, columns, cells)


def _threshold_words(at: str, value: float, split: str) -> str:
    words = {"zero": "0", "fitted": f"fitted, {value:.3g}", "best_on_split": f"best on {split}, {value:.3g}"}
    return words[at]


def _value(estimate: "Estimate | None") -> float | None:
    return None if estimate is None else estimate.value


def _interval(estimate: "Estimate") -> str:
    if estimate.low is None or estimate.high is None:
        return ""
    digits = 1 if estimate.high > LARGEST_FRACTION else 3
    return f"{estimate.low:.{digits}f} to {estimate.high:.{digits}f}"


def _difference(compared: "PairedTest | None") -> str:
    """A difference and its p-value; "none" if it is not significant."""
    if compared is None or compared.value is None:
        return ""
    return f"{compared.value:+.3g}, p {compared.p:.2g}" if compared.claimed else f"none, p {compared.p:.2g}"
