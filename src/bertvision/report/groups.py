"""Group: all that was found about one task on the same data, which is what a section of the report is about."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertvision.evaluation.held_out import HELD_OUT_PREFIX
from bertvision.report.document import slug
from bertvision.report.found import Findings, Found
from bertvision.report.numbers import Unit, score_unit
from bertvision.runs.judging.evaluation_record import EvaluatedRow
from bertvision.runs.judging.judge import BEST, FITTED, PLAIN, ZERO, ScoresAt

OWN_OUTPUT = "own output"
ENSEMBLE = "ensemble"
"""What has a colour beside the heads."""

COUNTED = ("train", "learnt")
"""Labels of what is there and of what is learned have colours, too, where they are counted."""

BUILT_IN = "built-in set"


@dataclass(slots=True, kw_only=True)
class Group(Findings):
    """A task, and what was found about it.

    Attributes:
        key: its place in the report.
        task: its name.
        data: where its examples come from, in words.
    """

    key: str
    task: str
    data: str

    @property
    def title(self) -> str:
        """Its heading."""
        return f"{self.task}, {self.data}"

    @property
    def metrics(self) -> list[str]:
        """Names of its metrics, the main one first."""
        for row in self.rows():
            return main_first(next(iter(row.scores.values())).values)
        for run in self.runs:
            for metrics in run.metrics:
                return main_first([name for name in metrics if not name.startswith(HELD_OUT_PREFIX)] or list(metrics))
        return []

    @property
    def main(self) -> str:
        """The metric that it is judged by."""
        return self.metrics[0] if self.metrics else "score"

    @property
    def held_out(self) -> str:
        """The metric of logs that its models are chosen by; of questions that may have no answer another one."""
        best = f"{HELD_OUT_PREFIX}best_f1"
        logged = {name for run in self.runs for metrics in run.metrics for name in metrics}
        return best if best in logged else HELD_OUT_PREFIX + self.main.removeprefix(HELD_OUT_PREFIX)

    @property
    def unit(self) -> Unit:
        """The unit of its scores."""
        return score_unit(name.removeprefix(HELD_OUT_PREFIX) for name in self.metrics)

    def rows(self) -> list[EvaluatedRow]:
        """Every model that was evaluated, ensembles included."""
        rows = [row for one in self.evaluations for row in one.content.rows]
        return rows + [one.content.ensemble for one in self.ensembles]


def group_runs(found: Found) -> list[Group]:
    """What was found, task by task, in the order in which it was named."""
    groups: dict[tuple[str, str], Group] = {}

    def of(task: object, data: object) -> Group:
        known = str(task), BUILT_IN if data in (None, "builtin") else str(data)
        if known not in groups:
            key = slug(", ".join(known), {group.key for group in groups.values()})
            groups[known] = Group(key=key, task=known[0], data=known[1])
        return groups[known]

    places = {}
    for run in found.runs:
        group = of(run.request["task"], run.request.get("data"))
        group.runs.append(run)
        places[Path(run.name).parent] = group
    for evaluation in found.evaluations:
        of(evaluation.content.task, evaluation.content.data).evaluations.append(evaluation)
    for joined in found.ensembles:
        of(joined.content.task, joined.content.data).ensembles.append(joined)
    for analysis in found.analyses:
        of(analysis.content.task, analysis.content.data).analyses.append(analysis)
    for counts in found.labels:
        of(counts.content["task"], counts.content["data"]).labels.append(counts)
    for tried in found.searches:
        of(tried.content.get("task"), tried.content["data"]).searches.append(tried)
    for freeze in found.freezes:  # its file does not name its data, but its runs do
        group = places.get(Path(freeze.run)) or of(freeze.content.get("task"), None)
        group.freezes.append(freeze)
    return list(groups.values())


def main_first(metrics: Sequence[str] | Mapping[str, Any]) -> list[str]:
    """Names of metrics: of questions F1 first, which they are judged by; else as the task has them."""
    names = list(metrics)
    if "f1" in names and score_unit(names) == "percent":
        names.remove("f1")
        names.insert(0, "f1")
    return names


def headline(row: EvaluatedRow) -> tuple[str, ScoresAt]:
    """The scores by which a model is shown: at the fitted threshold where there is one, never at the best on dev."""
    at = next(name for name in (FITTED, PLAIN, ZERO, *row.scores) if name in row.scores)
    return at, row.scores[at]


def threshold_words(at: str, split: str) -> str:
    """A threshold in words."""
    return {PLAIN: "none", ZERO: "zero", FITTED: "fitted on held-out", BEST: f"best on {split}"}.get(at, at)


def colour_of(row: EvaluatedRow) -> str:
    """The name whose colour a model has: its head's, but the own output and ensembles have one of their own."""
    return OWN_OUTPUT if row.own else row.head or ENSEMBLE


def all_models(found: Found) -> tuple[str, ...]:
    """Every name that has a colour: heads in the order in which they were found, the own output and ensembles first."""
    heads = [row["head"] for run in found.runs for row in run.leaderboard]
    tried = [row["parameters"] for one in found.searches for row in one.content["trials"]]
    heads += [chosen["head"] for chosen in tried if "head" in chosen]
    heads += [row.head for one in found.evaluations for row in one.content.rows if row.head and not row.own]
    return OWN_OUTPUT, ENSEMBLE, *dict.fromkeys(heads), *(COUNTED if found.labels else ())
