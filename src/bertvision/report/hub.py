"""What the Hugging Face hub calls the built-in encoder and the kinds of tasks."""

HUB_BUILTIN = "sentence-transformers/all-MiniLM-L6-v2"

PIPELINES = {
    "spans": "question-answering",
    "labels": "text-classification",
    "tags": "text-classification",
    "scores": "sentence-similarity",
}
"""Pipeline tag of each kind of task."""
