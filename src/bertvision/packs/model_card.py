"""The README.md of a pack, in the form that the Hugging Face hub reads."""

import json

from bertvision.packs.card import PackCard
from bertvision.pretrained import BUILTIN_ENCODER
from bertvision.report.hub import HUB_BUILTIN, PIPELINES
from bertvision.tasks.task import TaskKind


def model_card(card: PackCard) -> str:
    """The text of README.md: metadata for the hub as YAML, then data, scores, limits and licence for people."""
    metrics = {name: value for name, value in card.scores.items() if value is not None}
    front = {
        "library_name": "bertvision",
        "license": card.licence,
        "base_model": HUB_BUILTIN if card.encoder == BUILTIN_ENCODER else card.encoder,
        "pipeline_tag": PIPELINES[card.task.kind],
        "tags": ["bertvision", "task-pack", card.task.name],
        "metrics": list(metrics),
    }
    # JSON values are valid YAML, whatever characters they contain
    lines = ["---", *(f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in front.items()), "---", ""]
    lines += [
        f"# A task pack for {card.task.name}",
        "",
        f"{card.task.summary}. It lies over the frozen encoder `{card.encoder}` (fingerprint `{card.fingerprint}`).",
        "",
        f"- what changed in the encoder: {', '.join(card.learn) or 'nothing'}",
        f"- heads: {', '.join(card.heads)}{' (their mean)' if len(card.heads) > 1 else ''}",
    ]
    if card.task.labels:
        lines.append(f"- labels: {', '.join(card.task.labels)}")
    if card.threshold is not None:
        lines.append(f"- no-answer threshold: {card.threshold:.4g}")
    lines += ["", "```python", _example(card.task.kind), "```", "", "## Data", ""]
    lines += [f"- {name}: {value}" for name, value in card.data.items()]
    lines += ["", "## Scores", "", "| metric | value |", "|---|---|"]
    lines += [f"| {name} | {value:.4g} |" for name, value in metrics.items()]
    lines += ["", "## Limits", "", *_limits(card), "", "## Licence", "", card.licence, ""]
    return "\n".join(lines)


def _example(kind: TaskKind) -> str:
    name, call = {
        "spans": ("QuestionAnswerer", 'question="Who wrote it?", context="Ada wrote it."'),
        "labels": ("TextClassifier", '"A joy from start to end."'),
        "tags": ("TextClassifier", '"A joy from start to end."'),
        "scores": ("TextScorer", '{"text": "A cat sleeps.", "text_pair": "A cat is asleep."}'),
    }[kind]
    return f'from bertvision import {name}\n\nprint({name}.from_pretrained("PACK")({call}))'


def _limits(card: PackCard) -> list[str]:
    lines = [
        "- It knows what its training data show: other languages, other domains and longer texts come out worse.",
        "- The scores are those of one split of one data set, and of one seed.",
    ]
    if card.task.kind == "spans":
        lines.append("- Answers are pieces of the text. It does not reason, count or join facts from several places.")
        lines.append(
            "- The threshold was chosen on questions it did not learn from; where fewer have an answer, lower it, "
            "where more, raise it."
        )
    return lines
