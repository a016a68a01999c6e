"""Fit a question-answering pack's no-answer threshold on questions outside its training data, and score it on others.

python tools/fit_pack_threshold.py PACK --dev dev.json.gz                    # on the built-in questions
python tools/fit_pack_threshold.py PACK --on other.json --dev dev.json.gz    # on others, in SQuAD's form

Held-out training questions often differ from those that users ask: few have no answer, or all of those are made up.
The threshold and the scores at it are written to the pack's card.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bertvision.atomic import write_json, write_text
from bertvision.evaluation.decode import SpanPredictions, decode_spans
from bertvision.evaluation.outputs import SpanScores
from bertvision.evaluation.score import score_squad2
from bertvision.evaluation.threshold import fit_threshold
from bertvision.pack_files import PACK_FILE
from bertvision.packs.model_card import model_card
from bertvision.packs.models import PackModels
from bertvision.packs.pack import README, Pack
from bertvision.packs.reader import PackQuery
from bertvision.provenance import portable
from bertvision.tasks.examples import Questions
from bertvision.tasks.load import TASKS
from bertvision.tasks.sources import find_builtin
from bertvision.tasks.squad import read_questions
from bertvision.tasks.task import SquadLayout
from bertvision.tasks.windows import build_windows

BUILTIN = "builtin"


def main(argv: Sequence[str] | None = None) -> int:
    """Fit the threshold, score it, and write the card."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pack", type=Path)
    parser.add_argument("--on", default=BUILTIN, help="a file of questions; 'builtin' takes those that it learns from")
    parser.add_argument("--dev", type=Path, required=True, help="a file of other questions")
    given = parser.parse_args(argv)
    print(fit_pack_threshold(given.pack, given.on, given.dev))
    return 0


def fit_pack_threshold(folder: Path, on: str, dev: Path) -> dict[str, float]:
    """Set a pack's threshold and the scores in its card; returns both.

    Args:
        folder: folder of the pack.
        on: file of the questions to fit on, or `builtin`.
        dev: file of the questions to score on.
    """
    pack = Pack.load(folder)
    models = PackModels([pack])
    path = find_builtin(TASKS["squad2"]).paths["train"] if on == BUILTIN else Path(on)
    fitted, predictions = _ask(models, path)
    threshold = fit_threshold(predictions, fitted, no_answer_share=None)
    questions, predictions = _ask(models, dev)
    values = score_squad2(questions.golds(), threshold.answers(predictions, questions)).values
    source = {"threshold fitted on": f"{len(fitted)} {'built-in questions' if on == BUILTIN else path.name}"}
    made = pack.card.provenance
    card = replace(
        pack.card,
        threshold=threshold.value,
        scores={name: values[name] for name in pack.card.scores},
        data=pack.card.data | source,
        provenance=made | {"command": portable(str(made["command"])) if made.get("command") else None},
    )
    write_json(folder / PACK_FILE, card.as_json())
    write_text(folder / README, model_card(card))
    return {"threshold": threshold.value, **values}


def _ask(models: PackModels, path: Path) -> tuple[Questions, SpanPredictions]:
    """The questions of a file, and the predictions of the first pack of `models`."""
    card = models.cards[0]
    questions, _ = read_questions(SquadLayout(), path)
    windows = build_windows(card.task, questions, models.tokenizer, card.windows)
    (scores,) = models.read([PackQuery(0, (windows,))])
    if not isinstance(scores, SpanScores):
        raise TypeError(f"the pack answers {card.task.kind}, questions are expected")
    return questions, decode_spans(windows, scores.start, scores.end)


if __name__ == "__main__":
    sys.exit(main())
