"""Which layers the heads of a run use, over seeds: learned layer weights, and attention over layers on a split."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from bertvision.analysis.layer_weights import (
    LayerReport,
    layer_report,
    learned_weights,
    mean_attention,
    window_attention,
)
from bertvision.heads import Head, layers_read
from bertvision.runs.analysing.analysis_record import AttendedLayers, LearnedLayers, SeedGroup
from bertvision.runs.judging.read_subjects import SharedPass
from bertvision.runs.judging.subject import OWN_OUTPUT, Subject
from bertvision.tasks.examples import FloatArray, IntArray
from bertvision.tasks.part import Part
from bertvision.tasks.task import Task


def seed_groups(subject: Subject, heads: Mapping[str, Head]) -> list[SeedGroup]:
    """The heads of a run, grouped by everything but their seed; the own output is a group by itself."""
    groups: dict[str, list[str]] = {}
    for name, row in subject.run.heads.items():
        training = row["lr"], row.get("training")  # older leaderboards do not tell the latter
        key = json.dumps([row["head"], row["options"], training, row["fraction"]], sort_keys=True)
        groups.setdefault(key, []).append(name)
    listed = []
    for names in groups.values():
        names.sort(key=lambda name: int(subject.run.heads[name]["seed"]))
        row = subject.run.heads[names[0]]
        shared = {field: row[field] for field in ("head", "options", "lr", "fraction")}
        listed.append(SeedGroup(**shared, models=tuple(names)))
    if OWN_OUTPUT in heads:
        own = heads[OWN_OUTPUT]
        listed.append(SeedGroup(head=own.name, options=dict(own.options), lr=None, fraction=None, models=(OWN_OUTPUT,)))
    return listed


def learned_layers(groups: Sequence[SeedGroup], heads: Mapping[str, Head]) -> tuple[LearnedLayers, ...]:
    """The learned layer weights of every group; those whose heads have none are left out."""
    reports = [(group, learned_weights([heads[name] for name in group.models])) for group in groups]
    return tuple(LearnedLayers(group=group, report=report) for group, report in reports if report is not None)


def attended_layers(
    shared: SharedPass,
    subject: Subject,
    groups: Sequence[SeedGroup],
    heads: Mapping[str, Head],
    *,
    question: str | None,
) -> tuple[AttendedLayers, ...]:
    """The attention over layers of every group whose heads have any, in one pass over the split for all of them.

    Args:
        shared: the encoder.
        subject: the run and its split.
        groups: groups of the heads.
        heads: heads by name.
        question: id of an example whose attention is reported separately, too; None for none.
    """
    attending = {name: head for name, head in heads.items() if _attends(head)}
    if not attending:
        return ()
    attention = _attention_over(shared, subject.part, attending)
    rows = None
    if question is not None:
        rows = np.flatnonzero(subject.part.windows.example == subject.part.examples.ids.index(question))
    outputs = output_names(subject.parts.task)
    return tuple(
        AttendedLayers(
            group=group,
            outputs=outputs,
            all=attention.report(group, attending, None),
            question=None if rows is None else attention.report(group, attending, rows),
        )
        for group in groups
        if group.models[0] in attending
    )


def output_names(task: Task) -> tuple[str, ...]:
    """The names of a head's outputs."""
    match task.kind:
        case "spans":
            return "start", "end"
        case "labels" | "tags":
            return task.labels
        case "scores":
            return ("score",)


@dataclass(frozen=True, slots=True)
class _Attention:
    """The attention of heads over layers.

    Attributes:
        windows: (windows, outputs, layers) mean over the tokens of each window, by the head's name.
        lengths: (windows,) tokens per window.
    """

    windows: dict[str, FloatArray]
    lengths: IntArray

    def report(self, group: SeedGroup, heads: Mapping[str, Head], rows: IntArray | None) -> LayerReport:
        """The mean over the tokens of the windows at `rows`, and over the seeds of a group; None takes all windows."""
        seeds = [mean_attention(self.windows[name], self.lengths, rows) for name in group.models]
        return layer_report(np.stack(seeds), lowest=heads[group.models[0]].reads[0])


@torch.inference_mode()
def _attention_over(shared: SharedPass, part: Part, heads: Mapping[str, Head]) -> _Attention:
    """The attention of heads over layers, in one pass over a part."""
    layers = layers_read(heads.values())
    count = len(part.windows)
    windows = {
        name: np.empty((count, head.shape.outputs, len(head.reads)), dtype=np.float64) for name, head in heads.items()
    }
    lengths = np.ones(count, dtype=np.int64)
    for rows, batch in shared.batches(part, layers):
        for name, head in heads.items():
            with shared.autocast():
                attention = batch.attention(head.eval(), shared.pool)
            if attention is None:
                raise TypeError(f"{name} was seen to attend to layers")
            weights, mask = attention
            lengths[rows] = mask.sum(dim=1).cpu().numpy()
            tokens = weights.float().permute(0, 2, 3, 1)[mask].cpu().numpy()  # (tokens, outputs, layers)
            windows[name][rows] = window_attention(tokens, lengths[rows])
    return _Attention(windows, lengths)


@torch.inference_mode()
def _attends(head: Head) -> bool:
    """Whether a head has attention over layers, tried on one token."""
    token = torch.zeros(1, len(head.reads), 1, head.shape.width, device=head.project.weight.device)
    return head.layer_attention(token) is not None
