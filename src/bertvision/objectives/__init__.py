"""Losses: by targets, by a teacher's outputs, and of triplets of vectors."""

from bertvision.objectives.losses import example_losses, pool_rows, span_losses
from bertvision.tasks.task import Pool

__all__ = ["Pool", "example_losses", "pool_rows", "span_losses"]
