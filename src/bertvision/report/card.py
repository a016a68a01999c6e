"""write_card: a model card for a run in the format of the Hugging Face hub, YAML front matter and Markdown."""

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from bertvision.encoder.tuned import base_encoder
from bertvision.errors import BertVisionError
from bertvision.pretrained import BUILTIN_ENCODER
from bertvision.report.document import Cell, Table
from bertvision.report.groups import Group, headline, threshold_words
from bertvision.report.hub import HUB_BUILTIN, PIPELINES
from bertvision.report.inputs import FileContent, RunFacts
from bertvision.report.markdown import code, markdown_table, plain
from bertvision.report.numbers import NOTHING, show_number
from bertvision.report.overview import is_evaluation_of
from bertvision.report.read_runs import request_text
from bertvision.report.scores import score_blocks
from bertvision.report.training import training_blocks
from bertvision.runs.judging.evaluation_record import EvaluationRecord

HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")

LIMITS = (
    "Scores are of the split named above and of nothing else. Thresholds were fitted, and heads chosen, on training "
    "examples that nobody learned from. Texts of another kind, language or length may fare worse: evaluate on your own "
    "with `--data`."
)

MOST_RESULTS = 10
"""Models in the `model-index` of the front matter, the best by held-out examples; the table of scores has all."""


def write_card(run: RunFacts, group: Group) -> str:
    """The model card (README.md) of a run; `group` has the evaluations of its task, of this run and others."""
    evaluations = [evaluation for evaluation in group.evaluations if is_evaluation_of(evaluation, run)]
    own = Group(key=group.key, task=group.task, data=group.data, runs=[run], evaluations=evaluations)
    name = Path(run.name).name
    parts = [
        "\n".join(["---", *_front(run, name, own), "---"]),
        f"# {plain(name)}",
        _about(run, own),
        "## Use",
        f"```sh\nbertvision evaluate {_shell(run.name)}\n```",
        "## Scores",
        *_scores(own),
        "## Training",
        *_training(run, own),
        "## Limits",
        LIMITS,
    ]
    return "\n\n".join(parts) + "\n"


def _front(run: RunFacts, name: str, group: Group) -> Iterator[str]:
    """Lines of the YAML front matter; texts are written as JSON, which is valid YAML."""
    yield "library_name: bertvision"
    kind = group.evaluations[0].content.kind if group.evaluations else None
    if kind in PIPELINES:
        yield f"pipeline_tag: {PIPELINES[kind]}"
    base = _base(str(run.request.get("encoder", "")))
    if base is not None:
        yield f"base_model: {json.dumps(base, ensure_ascii=False)}"
    yield f"tags: {json.dumps(['bertvision', group.task], ensure_ascii=False)}"
    results = [line for evaluation in group.evaluations for line in _results(evaluation, group)]
    if results:
        yield "model-index:"
        yield f"  - name: {json.dumps(name, ensure_ascii=False)}"
        yield "    results:"
        yield from results


def _results(evaluation: FileContent[EvaluationRecord], group: Group) -> Iterator[str]:
    record = evaluation.content
    dataset = {"name": group.title, "type": group.task, "split": record.split}
    for row in record.rows[:MOST_RESULTS]:
        at, scores = headline(row)
        shown = show_number(scores.values[group.main].value, group.unit)
        if shown == NOTHING:
            continue
        words = f"{group.main} of {row.name}"
        words += f", threshold {threshold_words(at, record.split)}" if scores.threshold is not None else ""
        yield f"      - task: {json.dumps({'type': PIPELINES.get(record.kind, 'other')})}"
        yield f"        dataset: {json.dumps(dataset, ensure_ascii=False)}"
        yield "        metrics:"
        yield f"          - type: {json.dumps(group.main)}"
        yield f"            name: {json.dumps(words, ensure_ascii=False)}"
        yield f"            value: {shown.replace(chr(0x2212), '-').replace(',', '')}"


def _base(encoder: str) -> str | None:
    """Name of the encoder on the hub, of a tuned one of its base model; None for a local folder."""
    try:
        base = base_encoder(encoder)
    except BertVisionError:  # a tuned run that no longer exists
        return None
    if base == BUILTIN_ENCODER:
        return HUB_BUILTIN
    return base if HUB_NAME.fullmatch(base) and not Path(base).exists() else None


def _about(run: RunFacts, group: Group) -> str:
    encoder = code(str(run.request.get("encoder", "")))
    what = f"{len(run.leaderboard)} heads on the frozen encoder {encoder}" if run.is_fit else f"The encoder {encoder}"
    how = "" if run.is_fit else f", tuned ({plain(str(run.request.get('learn', '')))})"
    return f"{what}{how} for {plain(group.title)}, made with BERTVision."


def _scores(group: Group) -> Sequence[str]:
    tables = [block for block in score_blocks(group) if isinstance(block, Table)]
    if not tables:
        return [f"Not evaluated yet: {code(f'bertvision evaluate {_shell(group.runs[0].name)}')}"]
    return [_table(table) for table in tables]


def _training(run: RunFacts, group: Group) -> Iterator[str]:
    yield from (_table(block) for block in training_blocks(group) if isinstance(block, Table))
    request = {name: request_text(value) for name, value in run.request.items() if name != "heads"}
    rows = [(Cell(text=name), Cell(text=value)) for name, value in request.items() if value]
    yield markdown_table(("asked for", "value"), rows, links=False)
    provenance = run.provenance
    if provenance.get("command"):
        yield f"Command: {code(str(provenance['command']))}"
    known = [(name, provenance.get(name)) for name in ("time", "commit", "processor", "gpu")]
    yield "Made: " + ", ".join(f"{name} {plain(str(value))}" for name, value in known if value is not None) + "."


def _table(table: Table) -> str:
    return f"**{plain(table.title)}**\n\n{markdown_table(table.columns, table.rows, links=False)}"


def _shell(name: str) -> str:
    return shlex.quote(" ".join(name.split()))
