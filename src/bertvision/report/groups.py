"""Group: all results for one task on the same data, which share a part of the report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertvision.evaluation.held_out import HELD_OUT_PREFIX
from bertvision.report.document import slug
from bertvision.report.inputs import Contents, ReportInputs
from bertvision.report.numbers import Unit, score_unit
from bertvision.report.read_runs import request_text
from bertvision.runs.judging.evaluation_record import EvaluatedRow
from bertvision.runs.judging.judge import BEST, FITTED, PLAIN, ZERO, ScoresAt

OWN_OUTPUT = "own output"
ENSEMBLE = "ensemble"
"""Names that have a colour besides the heads' names."""

COUNTED = ("train", "learnt")
"""Names that have a colour if labels are counted: of the training split, and of the examples of the first epoch."""

BUILT_IN = "built-in set"


@dataclass(slots=True, kw_only=True)
class Group(Contents):
    """All results for one task on the same data.

    Attributes:
        key: part of the ids of its sections, tables and figures.
        task: name of the task.
        data: place of its data, `BUILT_IN` for the built-in set; with the columns, if any were asked for.
    """

    key: str
    task: str
    data: str

    @property
    def title(self) -> str:
        """Heading of its part of the report."""
        return f"{self.task}, {self.data}"

    @property
    def metrics(self) -> list[str]:
        """Names of its metrics, the main one first; from evaluations, else from logs."""
        for row in self.rows():
            return main_first(next(iter(row.scores.values())).values)
        for run in self.runs:
            for metrics in run.metrics:
                return main_first([name for name in metrics if not name.startswith(HELD_OUT_PREFIX)] or list(metrics))
        return []

    @property
    def main(self) -> str:
        """The main metric."""
        return self.metrics[0] if self.metrics else "score"

    @property
    def held_out(self) -> str:
        """Name in logs of the held-out metric for model selection: best F1 if it was logged, else the main metric."""
        best = f"{HELD_OUT_PREFIX}best_f1"
        logged = {name for run in self.runs for metrics in run.metrics for name in metrics}
        return best if best in logged else HELD_OUT_PREFIX + self.main.removeprefix(HELD_OUT_PREFIX)

    @property
    def unit(self) -> Unit:
        """The unit of its scores."""
        return score_unit(name.removeprefix(HELD_OUT_PREFIX) for name in self.metrics)

    def rows(self) -> list[EvaluatedRow]:
        """All evaluated models, ensembles included."""
        rows = [row for evaluation in self.evaluations for row in evaluation.content.rows]
        return rows + [ensemble.content.ensemble for ensemble in self.ensembles]


def group_runs(inputs: ReportInputs) -> list[Group]:
    """Group all results by task and data, in the order of their first appearance.

    Different columns of the same files are different data: their scores have no metric in common.
    """
    groups: dict[tuple[str, str], Group] = {}
    columns = {Path(run.name).resolve(): _columns_text(run.request) for run in inputs.runs}
    columns |= {Path(search.run).resolve(): _columns_text(search.content) for search in inputs.searches}

    def of(task: object, data: object, *folders: Path) -> Group:
        asked = next((columns[folder] for folder in map(Path.resolve, folders) if folder in columns), "")
        names = str(task), (BUILT_IN if data in (None, "builtin") else str(data)) + asked
        if names not in groups:
            key = slug(", ".join(names), {group.key for group in groups.values()})
            groups[names] = Group(key=key, task=names[0], data=names[1])
        return groups[names]

    places = {}
    for run in inputs.runs:
        group = of(run.request["task"], run.request.get("data"), Path(run.name))
        group.runs.append(run)
        places[Path(run.name).parent] = group
    for evaluation in inputs.evaluations:
        group = of(evaluation.content.task, evaluation.content.data, *evaluation.path.parents)
        group.evaluations.append(evaluation)
    for ensemble in inputs.ensembles:  # in the folder of a run, or in one of its own
        folders = [*ensemble.path.parents, *map(Path, ensemble.content.runs)]
        of(ensemble.content.task, ensemble.content.data, *folders).ensembles.append(ensemble)
    for analysis in inputs.analyses:
        of(analysis.content.task, analysis.content.data, *analysis.path.parents).analyses.append(analysis)
    for labels in inputs.labels:
        of(labels.content["task"], labels.content["data"], *labels.path.parents).labels.append(labels)
    for search in inputs.searches:
        of(search.content.get("task"), search.content["data"], Path(search.run)).searches.append(search)
    for freeze in inputs.freezes:  # its file does not name the data, but the runs in its folder do
        group = places.get(Path(freeze.run)) or of(freeze.content.get("task"), None)
        group.freezes.append(freeze)
    return list(groups.values())


def _columns_text(request: Mapping[str, Any]) -> str:
    """The columns that a request names, as text to put after the place of its data; empty if it names none."""
    asked = request.get("columns") or {}
    text = request_text({name: asked.get(name) for name in ("text", "text_pair", "label", "kind")})
    return text and f" ({text})"


def main_first(metrics: Sequence[str] | Mapping[str, Any]) -> list[str]:
    """Names of metrics, the main one first: for questions F1, else the order is kept."""
    names = list(metrics)
    if "f1" in names and score_unit(names) == "percent":
        names.remove("f1")
        names.insert(0, "f1")
    return names


def headline(row: EvaluatedRow) -> tuple[str, ScoresAt]:
    """The scores of a model in overviews, and their name: at the fitted threshold if there is one.

    Scores at the best threshold on the split itself are taken only if there are no others.
    """
    at = next(name for name in (FITTED, PLAIN, ZERO, *row.scores) if name in row.scores)
    return at, row.scores[at]


def threshold_words(at: str, split: str) -> str:
    """A threshold as text, such as `fitted on held-out`."""
    return {PLAIN: "none", ZERO: "zero", FITTED: "fitted on held-out", BEST: f"best on {split}"}.get(at, at)


def colour_of(row: EvaluatedRow) -> str:
    """The name that decides a model's colour: its head, `OWN_OUTPUT` or `ENSEMBLE`."""
    return OWN_OUTPUT if row.own else row.head or ENSEMBLE


def all_models(inputs: ReportInputs) -> tuple[str, ...]:
    """All names that have a colour: own output, ensemble, then heads in the order of their first appearance."""
    heads = [row["head"] for run in inputs.runs for row in run.leaderboard]
    parameters = [row["parameters"] for search in inputs.searches for row in search.content["trials"]]
    heads += [values["head"] for values in parameters if "head" in values]
    heads += [
        row.head for evaluation in inputs.evaluations for row in evaluation.content.rows if row.head and not row.own
    ]
    return OWN_OUTPUT, ENSEMBLE, *dict.fromkeys(heads), *(COUNTED if inputs.labels else ())
