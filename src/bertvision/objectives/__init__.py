"""Outputs → losses: of examples by their targets, by what a teacher says, and of triplets of vectors."""

from bertvision.objectives.losses import example_losses, pool_rows, span_losses
from bertvision.tasks.task import Pool

__all__ = ["Pool", "example_losses", "pool_rows", "span_losses"]
