"""JudgedRun: the models of a run with their verdicts, and the analyses that depend on their predictions."""

from collections.abc import Iterator, Mapping
from typing import Any, final

from bertvision.analysis.context_lengths import ContextLengths
from bertvision.analysis.efficiency import CostRow, EfficiencyRow, efficiency_table
from bertvision.analysis.side_by_side import error_csv
from bertvision.evaluation.score import defined
from bertvision.runs.analysing.analyse_curves import tuned_parameters, tuned_seconds
from bertvision.runs.analysing.analyse_models import analyse_model, compare_contexts, compare_models, threshold_name
from bertvision.runs.analysing.analysis_record import AnalysedModel
from bertvision.runs.judging.evaluate import best_first, evaluated_row
from bertvision.runs.judging.judge import Judge, Verdict
from bertvision.runs.judging.kept_outputs import ModelOutputs
from bertvision.runs.judging.measure_inference import InferenceSeconds
from bertvision.runs.judging.subject import Subject

F1 = ("f1", "micro_f1")
"""The metrics that efficiency may be measured by; the first one that a task has is taken."""


@final
class JudgedRun:
    """The models of a run with their scores on a split.

    Attributes:
        metric: the task's main metric.
        at: name of the no-answer threshold.
        first, second: names of the two models that are compared, as in `AnalysisRecord`; None if there are fewer.
    """

    def __init__(
        self, subject: Subject, outputs: Mapping[str, ModelOutputs], verdicts: Mapping[str, Verdict] | None
    ) -> None:
        """Score every model.

        Args:
            subject: the run and its split.
            outputs: outputs of every model, by name.
            verdicts: verdicts on these outputs, if they are known; None computes them.

        Raises:
            BertVisionError: a question is both in the split and held out.
        """
        task = subject.parts.task
        self._subject = subject
        self._outputs = outputs
        if verdicts is None:
            judge = Judge(task, subject.part, subject.held_out)
            verdicts = {name: judge.judge(model.split, model.held_out) for name, model in outputs.items()}
        self._verdicts = verdicts
        rows = [evaluated_row(subject, name, verdict, {}) for name, verdict in self._verdicts.items()]
        self._rows = sorted(rows, key=best_first)
        self.metric = task.main_metric
        self.at = threshold_name(next(iter(self._verdicts.values())))
        heads = [row.name for row in self._rows if not row.own]
        own = [row.name for row in self._rows if row.own]
        self.first = heads[0] if heads else None
        self.second = next(iter([*own, *heads[1:]]), None) if heads else None

    def models(self) -> tuple[AnalysedModel, ...]:
        """The analysis of each model, best first by held-out score."""
        return tuple(
            analyse_model(
                self._subject,
                row,
                self._verdicts[row.name],
                self._outputs[row.name],
                score=self._value(row.name, self.metric),
            )
            for row in self._rows
        )

    def leaderboard(self) -> list[dict[str, Any]]:
        """The run's leaderboard, with the name of each model and its score on the split."""
        heads = self._subject.run.heads
        return [{**row, "name": name, "score": self._value(name, self.metric)} for name, row in heads.items()]

    def contexts(self) -> ContextLengths | None:
        """Context lengths of the questions that the two models answer correctly; None if nothing can be compared."""
        compared = self._compared()
        return None if compared is None else compare_contexts(self._subject, *compared)

    def errors(self) -> tuple[str, str] | None:
        """Name and content of the file with the errors of the two models; None if nothing can be compared."""
        compared = self._compared()
        rows = None if compared is None else compare_models(self._subject, *compared)
        if rows is None or self.first is None or self.second is None:
            return None
        return f"errors-{self.first}-vs-{self.second}.csv", error_csv(rows, first=self.first, second=self.second)

    def efficiency(self, seconds: InferenceSeconds) -> tuple[EfficiencyRow, ...]:
        """F1 against cost of every model whose F1 and number of trained parameters are known."""
        names = self._verdicts[self._rows[0].name].scorings[self.at].values
        metric = next((name for name in F1 if name in names), None)
        return () if metric is None else efficiency_table(list(self._costs(metric, seconds)))

    def _costs(self, metric: str, seconds: InferenceSeconds) -> Iterator[CostRow]:
        percent = 1.0 if self._subject.parts.task.kind == "spans" else 100.0
        for row in self._rows:
            value = self._value(row.name, metric)
            own = self._subject.run.own if row.own else None
            parameters = row.parameters if own is None else tuned_parameters(own)
            spent = tuned_seconds(own) if own is not None else self._subject.run.heads[row.name]["seconds"]
            if value is not None and parameters is not None:
                yield CostRow(
                    name=row.name,
                    f1=percent * value,
                    parameters=parameters,
                    training_seconds=spent,
                    inference_seconds=seconds.total(row.name, row.depth),
                )

    def _value(self, name: str, metric: str) -> float | None:
        return defined(self._verdicts[name].scorings[self.at].values[metric])

    def _compared(self) -> tuple[Verdict, Verdict] | None:
        if self.first is None or self.second is None:
            return None
        return self._verdicts[self.first], self._verdicts[self.second]
