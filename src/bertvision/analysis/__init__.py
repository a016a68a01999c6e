"""Analyses of models: where they fail, how well calibrated they are, which layers they read, what quality costs."""
