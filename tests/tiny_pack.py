"""Small packs over a tiny encoder, made by hand."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from bertvision.encoder.load import fingerprint, load_encoder
from bertvision.heads import HeadShape, build_head
from bertvision.inference.pair_rows import PARTS
from bertvision.packs.card import PackCard, Reads
from bertvision.packs.pack import Pack, write_pack
from bertvision.tasks.load import TASKS
from bertvision.tasks.task import Pairs, Task
from tiny_run import WIDTH, WINDOWS

TAGS = Task(
    name="moods",
    kind="tags",
    summary="moods",
    layout=TASKS["sst2"].layout,
    metrics=("micro_f1",),
    files={},
    labels=("good", "bad", "gold"),
)


def make_pack(
    folder: Path,
    encoder: str,
    task: Task,
    *,
    heads: Sequence[str] = ("last_layer",),
    reads: Reads | None = None,
    pairs: Pairs = "together",
    threshold: float | None = None,
    learn: Sequence[str] = (),
    changes: Sequence[dict[str, Any]] = (),
    seed: int = 0,
) -> Pack:
    """A pack with random heads."""
    torch.manual_seed(seed)
    shape = HeadShape(layers=3, width=WIDTH * PARTS[pairs], outputs=task.outputs)
    built = {}
    for number, name in enumerate(heads):
        head = build_head(name, shape)
        with torch.no_grad():
            for value in head.parameters():
                value.copy_(torch.randn(value.shape))
        built[f"{number:03}-{name}"] = head
    card = PackCard(
        task=task,
        encoder=encoder,
        fingerprint=fingerprint(load_encoder(encoder)),
        learn=tuple(learn),
        heads=tuple(built),
        reads=reads or ("tokens" if task.kind == "spans" else "rows"),
        pool="mean",
        pairs=pairs,
        windows=WINDOWS,
        threshold=threshold,
        scores={task.metrics[0]: 0.5},
        data={"source": "nothing"},
        licence="mit",
        provenance={},
    )
    return write_pack(folder, card, changes=changes, heads=built, keep="float32")
