"""From outputs to scores: span decoding, thresholds, ensembles, official metrics, bootstrap tests."""
