"""From names to a folder of results: the parts wired together."""
