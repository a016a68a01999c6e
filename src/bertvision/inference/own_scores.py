"""The outputs of a tuned run's snapshot with the head that it was tuned with."""

from collections.abc import Sequence
from dataclasses import replace

from bertvision.encoder.encoder import Encoder
from bertvision.encoder.load import load_encoder
from bertvision.encoder.snapshot import Snapshot
from bertvision.evaluation.outputs import Outputs
from bertvision.heads import load_head
from bertvision.inference.outputs import PassOptions, row_scores, span_scores
from bertvision.objectives import Pool
from bertvision.tasks.task import Task
from bertvision.tasks.windows import Windows
from bertvision.training.model import TunedModel


def own_scores(  # noqa: PLR0913 - what outputs depend on
    own: Snapshot, encoder: Encoder, splits: Sequence[Windows], *, name: str, passes: PassOptions, task: Task
) -> list[Outputs]:
    """The outputs of a snapshot with its own head on all windows, split by split.

    Args:
        own: the snapshot.
        encoder: its encoder, from `load_frozen`.
        splits: token windows of each split.
        name: by which the encoder was loaded.
        passes: how the forward pass is computed.
        task: the task it was tuned for.

    Raises:
        BertVisionError: the head cannot be loaded.
    """
    if own.pooled:  # transformers would pool only the first of packed windows
        encoder = load_encoder(name, device=encoder.device, pooler=True)
        passes = replace(passes, packed=False)
    pool: Pool = "mean" if own.pool == "mean" else "cls"
    spans = task.kind == "spans"
    head = load_head(own.folder)
    model = TunedModel(encoder, head, pool=None if spans else pool, pooled=own.pooled).to(encoder.device)
    return [
        span_scores(model, windows, passes) if spans else row_scores(model, windows, passes, pool=pool)
        for windows in splits
    ]
