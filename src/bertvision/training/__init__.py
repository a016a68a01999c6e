"""Learning: schedules, checkpoints, and stage 1, the encoder."""
