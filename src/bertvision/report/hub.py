"""Names of the built-in encoder and of the kinds of tasks on the Hugging Face hub."""

HUB_BUILTIN = "sentence-transformers/all-MiniLM-L6-v2"

PIPELINES = {
    "spans": "question-answering",
    "labels": "text-classification",
    "tags": "text-classification",
    "scores": "sentence-similarity",
}
"""Pipeline tag of each kind of task."""
