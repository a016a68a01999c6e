"""Where the pack that comes with the installation lies, if one does."""

from pathlib import Path

from bertvision.errors import BertVisionError

BUILTIN_PACKS = Path(__file__).parent / "builtin"
QUESTIONS = "qa-minilm"
"""Name of the pack that answers questions."""


def builtin_pack() -> Path:
    """The folder of the shipped question-answering pack.

    Raises:
        BertVisionError: this installation carries none.
    """
    folder = BUILTIN_PACKS / QUESTIONS
    if not (folder / "pack.json").is_file():
        raise BertVisionError(
            "this installation carries no question-answering pack. Name one with --pack: a folder that "
            "`bertvision pack RUN --out DIR` made, or a name on the hub; tools/make_qa_pack.py trains one."
        )
    return folder
