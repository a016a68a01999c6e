"""The folder of an evaluation: its record, and for every model its answers in the official format and its outputs."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from bertvision.atomic import whole_folder
from bertvision.evaluation.decode import SpanPredictions
from bertvision.evaluation.outputs import Outputs, as_spans, predicted_words
from bertvision.evaluation.paper_metric import decode_paper
from bertvision.evaluation.prediction_files import SURE
from bertvision.lock import lock_folder
from bertvision.runs.judging.judge import FITTED, ZERO, Judge, Verdict
from bertvision.runs.judging.kept_outputs import ModelOutputs, save_outputs
from bertvision.tasks.examples import Questions, as_questions

PREDICTIONS, NO_ANSWER, ANSWERS, N_BEST = "predictions.json", "no_answer.json", "answers.json", "nbest.json"
PAPER_ANSWERS = "paper_answers.json"
BEST = 5
"""How many answers to each question are written, of the twenty that are decoded."""


def write_folder(
    folder: Path,
    judge: Judge,
    verdicts: Mapping[str, Verdict],
    outputs: Mapping[str, ModelOutputs],
    save: Callable[[Path], None],
) -> None:
    """Write the folder of an evaluation or ensemble; it appears, or replaces an older one, only when it is complete.

    Args:
        folder: where it goes.
        judge: the one that scored the models.
        verdicts: answers and scores of every model, by name.
        outputs: outputs of every model, by name; they are saved.
        save: writes the record into a folder.

    Raises:
        WriteError: it cannot be written; nothing half-written is left.
    """
    with (
        lock_folder(folder.absolute().parent, wait=True),  # another process may be writing the same folder
        whole_folder(folder, "the evaluation", otherwise="Make room, and try again.") as part,
    ):
        for name, verdict in verdicts.items():
            place = part / name
            place.mkdir(parents=True)
            for file, content in _contents(judge, verdict, outputs[name].split).items():
                text = json.dumps(content, ensure_ascii=False, allow_nan=False)
                (place / file).write_text(text + "\n", encoding="utf-8")
            save_outputs(outputs[name], place)
        save(part)


def _contents(judge: Judge, verdict: Verdict, outputs: Outputs) -> dict[str, object]:
    """The content of every file of a model, by name."""
    predictions = verdict.predictions
    if isinstance(predictions, SpanPredictions):
        examples = as_questions(judge.split.examples)
        best_spans = predictions.texts(examples, None)
        files: dict[str, object] = {PREDICTIONS: best_spans, N_BEST: n_best(examples, predictions)}
        spans = as_spans(outputs)
        files[PAPER_ANSWERS] = decode_paper(judge.split.windows, spans.start, spans.end, examples)
        if ZERO in verdict.thresholds:
            margins = np.nan_to_num(predictions.margin, posinf=SURE).tolist()
            threshold = verdict.thresholds.get(FITTED, 0.0)
            files[NO_ANSWER] = dict(zip(examples.ids, margins, strict=True))
            files[ANSWERS] = predictions.texts(examples, threshold)
        return files
    return {PREDICTIONS: dict(zip(judge.split.examples.ids, predicted_words(judge.task, predictions), strict=True))}


def n_best(examples: Questions, predictions: SpanPredictions) -> dict[str, list[dict[str, object]]]:
    """The `BEST` answers to every question by id, and "" for no answer, most probable first.

    Probabilities are a softmax over "no answer" and all decoded answers, so those that are written may add up to less
    than 1. Answers of probability 0 are left out, but "" never is.
    """
    probabilities = predictions.probabilities
    order = np.argsort(-probabilities[:, : 1 + BEST], axis=1, kind="stable")  # 0 is no answer, 1 the best answer
    ordered = np.take_along_axis(probabilities, order, axis=1).tolist()
    contexts = examples.context_index.tolist()
    starts, ends = predictions.starts[:, :BEST].tolist(), predictions.ends[:, :BEST].tolist()
    listed: dict[str, list[dict[str, object]]] = {}
    for row, (key, ranks) in enumerate(zip(examples.ids, order.tolist(), strict=True)):
        context, start, end = examples.contexts[contexts[row]], starts[row], ends[row]
        listed[key] = [
            {"text": context[start[rank - 1] : end[rank - 1]].strip() if rank else "", "probability": probability}
            for rank, probability in zip(ranks, ordered[row], strict=True)
            if probability > 0.0 or not rank
        ]
    return listed
