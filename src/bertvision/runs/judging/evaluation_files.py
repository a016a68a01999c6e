"""The folder of an evaluation: a record, and for every model its answers in the official form and its outputs."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from bertvision.atomic import whole_folder
from bertvision.evaluation.decode import SpanPredictions
from bertvision.evaluation.outputs import predicted_words
from bertvision.evaluation.prediction_files import SURE
from bertvision.lock import lock_folder
from bertvision.runs.judging.judge import FITTED, ZERO, Judge, Verdict
from bertvision.runs.judging.kept_outputs import ModelOutputs, save_outputs
from bertvision.tasks.examples import Questions, as_questions

PREDICTIONS, NO_ANSWER, ANSWERS, N_BEST = "predictions.json", "no_answer.json", "answers.json", "nbest.json"
BEST = 5
"""How many answers to each question are written; twenty are compared."""


def write_folder(
    folder: Path,
    judge: Judge,
    verdicts: Mapping[str, Verdict],
    outputs: Mapping[str, ModelOutputs],
    save: Callable[[Path], None],
) -> None:
    """Write an evaluation; its folder appears, or is replaced, only when it is whole.

    Args:
        folder: folder of the evaluation.
        judge: judge of the examples.
        verdicts: verdicts of every model, by name.
        outputs: outputs to keep, by name.
        save: writes the record into a folder.

    Raises:
        WriteError: it cannot be written; nothing half-written is left.
    """
    with (
        lock_folder(folder.absolute().parent, wait=True),  # another process may write the same one
        whole_folder(folder, "the evaluation", otherwise="Make room, and try again.") as part,
    ):
        for name, verdict in verdicts.items():
            place = part / name
            place.mkdir(parents=True)
            for file, content in _contents(judge, verdict).items():
                text = json.dumps(content, ensure_ascii=False, allow_nan=False)
                (place / file).write_text(text + "\n", encoding="utf-8")
            if name in outputs:
                save_outputs(outputs[name], place)
        save(part)


def _contents(judge: Judge, verdict: Verdict) -> dict[str, object]:
    """What every file of a model holds."""
    said = verdict.said
    if isinstance(said, SpanPredictions):
        examples = as_questions(judge.split.examples)
        files: dict[str, object] = {PREDICTIONS: said.texts(examples, None), N_BEST: n_best(examples, said)}
        if ZERO in verdict.thresholds:
            margins = np.nan_to_num(said.margin, posinf=SURE).tolist()
            threshold = verdict.thresholds.get(FITTED, 0.0)
            files[NO_ANSWER] = dict(zip(examples.ids, margins, strict=True))
            files[ANSWERS] = said.texts(examples, threshold)
        return files
    return {PREDICTIONS: dict(zip(judge.split.examples.ids, predicted_words(judge.task, said), strict=True))}


def n_best(examples: Questions, said: SpanPredictions) -> dict[str, list[dict[str, object]]]:
    """The most probable answers to every question, best first, "" for none; probabilities are over all compared."""
    shares = said.probabilities
    order = np.argsort(-shares[:, : 1 + BEST], axis=1, kind="stable")
    probable = np.take_along_axis(shares, order, axis=1).tolist()
    contexts = examples.context_index.tolist()
    starts, ends = said.starts[:, :BEST].tolist(), said.ends[:, :BEST].tolist()
    listed: dict[str, list[dict[str, object]]] = {}
    for row, (key, ranks) in enumerate(zip(examples.ids, order.tolist(), strict=True)):
        context, first, last = examples.contexts[contexts[row]], starts[row], ends[row]
        listed[key] = [
            {"text": context[first[rank - 1] : last[rank - 1]].strip() if rank else "", "probability": share}
            for rank, share in zip(ranks, probable[row], strict=True)
            if share > 0.0 or not rank
        ]
    return listed
