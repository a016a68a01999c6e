"""`bertvision score`: score a file of predictions with the task's official metrics."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from bertvision.cli.output import print_json, print_note, print_table
from bertvision.cli.task_options import load_with_notes
from bertvision.errors import BertVisionError
from bertvision.evaluation.metrics import confusion_matrix
from bertvision.evaluation.prediction_files import read_answers, read_no_answer, read_targets
from bertvision.evaluation.score import Scoring, score_paper, score_squad1, score_squad2, score_targets
from bertvision.pretrained import BUILTIN_ENCODER
from bertvision.tasks.examples import Examples, as_questions, gold_targets
from bertvision.tasks.load import check_task_name
from bertvision.tasks.own import OwnColumns
from bertvision.tasks.task import Task
from bertvision.tasks.tokenizer import TextTokenizer

PAIRED_RESAMPLES = 1000
"""Bootstrap resamples of --against, unless --bootstrap is given."""

PROBABILITY = 1.0
"""The official script's default threshold: no probability is above it, so that every answer counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of `bertvision score`."""

    task: str
    """Name of a task; 'bertvision ls tasks' lists them."""

    gold: Path
    """The task's file with the gold answers, labels or scores (plain or .gz)."""

    predictions: Path
    """File of predictions. SQuAD: JSON of answers by question id, "" for no answer. Other tasks: JSON by id, a JSON
    list, a table with a column 'prediction', or one prediction per line; tags are lists, or text with --separator."""

    columns: OwnColumns = field(default_factory=OwnColumns)

    na_prob: Path | None = None
    """SQuAD 2.0: JSON of no-answer scores by question id; adds the best_* metrics."""

    na_threshold: float = PROBABILITY
    """SQuAD 2.0: questions whose no-answer score is above this threshold count as answered with "no answer"."""

    scorer: Literal["official", "paper"] = "official"
    """SQuAD: 'paper' compares word pieces as the BERTVision paper did; only for comparison with its tables, and for
    predictions that follow its rule: paper_answers.json of an evaluation or ensemble."""

    encoder: str = BUILTIN_ENCODER
    """Encoder whose tokenizer makes the word pieces for --scorer paper."""

    bootstrap: int | None = None
    """Add 95 % bootstrap intervals of each metric with this many resamples, as <metric>_low and <metric>_high."""

    against: Path | None = None
    """Predictions of another model: adds each metric's difference, its interval and the p-value of a paired bootstrap
    test."""

    confusion: bool = False
    """Add the confusion matrix, as confusion/<right>/<predicted>; for tasks with one label per text."""

    seed: int = 0
    """Random seed of the resampling."""

    skip_bad: bool = False
    """Skip gold rows that cannot be read, and report how many and why, instead of stopping."""

    json: bool = False
    """Print metric names and values as one flat JSON object."""


def run(options: Options) -> int:
    """Score the predictions."""
    check_task_name(options.task)
    if not options.gold.is_file():
        raise BertVisionError(f"{options.gold} is not a file. Expected the task's file with the right answers.")
    loaded = load_with_notes(options.task, str(options.gold), options.columns, skip_bad=options.skip_bad)
    examples = next(iter(loaded.splits.values()))
    scoring = _score(loaded.task, examples, options.predictions, options)
    values = dict(scoring.values)
    if options.bootstrap is not None:
        values |= scoring.intervals(options.bootstrap, options.seed)
    if options.against is not None:
        other = _score(loaded.task, examples, options.against, options)
        values |= scoring.compared_with(other, options.bootstrap or PAIRED_RESAMPLES, options.seed)
    if options.confusion:
        values |= _confusion(loaded.task, examples, options.predictions)
    for what in ("missing", "extra"):
        if values.get(what):
            effect = "they score 0" if what == "missing" else "they are left aside"
            print_note(f"{int(values[what]):,} predictions are {what}; {effect}.")
    if options.json:
        print_json(values)
    else:
        print_table(f"{loaded.task.name}: {options.predictions}", ["metric", "value"], list(values.items()))
    return 0


def _score(task: Task, examples: Examples, path: Path, options: Options) -> Scoring:
    """Score one file of predictions."""
    if task.kind != "spans":
        if options.na_prob is not None or options.scorer != "official":
            raise BertVisionError(
                f"--na-prob and --scorer are for questions with answers in a text, not for {task.name}."
            )
        return score_targets(task, gold_targets(examples), read_targets(path, task, examples.ids))
    _check_no_answer_options(task, options)
    questions, answers = as_questions(examples), read_answers(path)
    if options.scorer == "paper":
        return score_paper(questions.golds(), answers, TextTokenizer.load(options.encoder))
    if task.answerable_only:
        return score_squad1(questions.golds(), answers)
    # --na-prob belongs to the predictions; for those of --against there are no such values
    own_file = options.na_prob is not None and path == options.predictions
    no_answer = read_no_answer(options.na_prob) if own_file and options.na_prob else None
    if no_answer is not None and options.na_threshold == PROBABILITY:
        silenced = sum(bool(answers.get(key)) and value > PROBABILITY for key, value in no_answer.items())
        if silenced:
            print_note(
                f'{silenced:,} answers count as "", for their no-answer values are above 1, the default of '
                "--na-threshold, which is for probabilities. Name the threshold that goes with these values."
            )
    return score_squad2(questions.golds(), answers, no_answer=no_answer, threshold=options.na_threshold)


def _check_no_answer_options(task: Task, options: Options) -> None:
    """Refuse --na-prob where no scorer reads it, and --na-threshold without it."""
    if options.na_prob is not None and (options.scorer == "paper" or task.answerable_only):
        scorer = "--scorer paper" if options.scorer == "paper" else task.name
        raise BertVisionError(
            f"--na-prob is for the official scorer of questions that may have no answer, not for {scorer}. "
            "Leave it out."
        )
    if options.na_prob is None and options.na_threshold != PROBABILITY:
        raise BertVisionError(
            f"--na-threshold is {options.na_threshold:g}, but there are no no-answer scores to compare with it. "
            "Name their file: --na-prob FILE."
        )


def _confusion(task: Task, examples: Examples, path: Path) -> dict[str, float]:
    """The counts of the confusion matrix by `confusion/<right>/<predicted>`."""
    if task.kind != "labels":
        raise BertVisionError(f"--confusion is for tasks with one label per text; {task.name} asks for {task.kind}.")
    golds, predictions = gold_targets(examples), read_targets(path, task, examples.ids)
    counts = confusion_matrix(golds.astype(np.int64), predictions.astype(np.int64), classes=len(task.labels))
    return {
        f"confusion/{right}/{predicted}": int(counts[i, j])
        for i, right in enumerate(task.labels)
        for j, predicted in enumerate(task.labels)
    }
