"""Runs on disk → a page, Markdown, LaTeX tables and model cards, all with the same numbers."""
