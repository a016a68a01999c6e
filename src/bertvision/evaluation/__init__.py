"""From outputs to scores: span decoding, thresholds, official metrics, confidence."""
