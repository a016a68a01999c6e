"""`bertvision answer`: answer a question from texts, with the position and probability of the answer."""

import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from bertvision.cli.output import ProgressBar, print_json, print_lines, print_note
from bertvision.errors import BertVisionError

if TYPE_CHECKING:
    from bertvision.packs.answer import Document, FoundAnswer

STANDARD_INPUT = "-"

LONGEST = 300
"""Longest answer that is printed in full, in characters; JSON has all of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of `bertvision answer`."""

    question: str
    """The question to answer."""

    context: str = ""
    """Where to look for the answer: a text file (plain or .gz), a folder of them, or - for standard input. Required."""

    top: int = 3
    """Number of answers to show, including the best one."""

    pack: str | None = None
    """Folder of a question-answering pack, or its name on the hub (default: the included pack)."""

    passages: int = 32
    """Most passages that the encoder reads: those of all texts that match the words of the question best (BM25)."""

    encoder: str | None = None
    """Path or name of the pack's encoder (default: the one that the pack names)."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device; 'auto' uses a GPU if there is one."""

    runtime: Literal["auto", "torch", "onnx", "openvino", "openvino-bf16"] = "auto"
    """Runtime: 'torch' for ordinary packs, one of the others for packs written by 'bertvision export'; 'auto' takes the
    fastest of these that agrees with PyTorch."""

    json: bool = False
    """Print {"answer", "score", "start", "end", "file", "alternatives"} as JSON; if there is no answer, it is null."""


def run(options: Options) -> int:
    """Answer."""
    if not options.context:
        raise BertVisionError("--context is missing: a text file, a folder, or - for standard input.")
    from bertvision.packs.answer import TOGETHER, answer_question  # noqa: PLC0415 - help should open at once
    from bertvision.packs.open_pack import open_pack  # noqa: PLC0415
    from bertvision.packs.question_answerer import QuestionAnswerer  # noqa: PLC0415

    documents = _documents(options.context)
    pack = open_pack(options.pack, runtime=options.runtime)
    task = pack.card.task
    if task.kind != "spans":
        raise BertVisionError(
            f"the pack {pack.folder} is for {task.name}, which has {task.kind} and no answers in a text. Use: "
            f"bertvision predict {task.name} FILE --pack {pack.folder}"
        )
    answerer = QuestionAnswerer(pack, encoder=options.encoder, device=options.device)
    with ExitStack() as open_bar:
        # no bar for the usual few passages, which take a second or two
        bar = open_bar.enter_context(ProgressBar("answer")) if options.passages > TOGETHER else None
        found = answer_question(
            answerer,
            options.question,
            documents,
            top=options.top,
            read=options.passages,
            tell=None if bar is None else lambda done, total: bar.show(done, total, {}, doing="reading passages"),
        )
    if found.read < found.passages:
        print_note(f"{found.read:,} of {found.passages:,} passages were read; --passages N reads more.")
    if options.json:
        print_json(found.as_json())
        return 0
    print_lines([_line(found.best), *(f"  {_line(other)}" for other in found.alternatives)])
    return 0


def _documents(context: str) -> "list[Document]":
    """Read the texts that --context names; a note tells of files that are not text."""
    from bertvision.packs.answer import Document, read_documents  # noqa: PLC0415 - help should open at once
    from bertvision.tasks.files import decode_text  # noqa: PLC0415

    if context == STANDARD_INPUT:  # bytes, as Python would decode text by the locale
        return [Document(STANDARD_INPUT, decode_text(sys.stdin.buffer.read(), "standard input"))]
    documents, skipped = read_documents(Path(context))
    if skipped:
        files = "1 file" if len(skipped) == 1 else f"{len(skipped):,} files"
        print_note(f"{files} without text in UTF-8 left out, first {skipped[0]}.")
    return documents


def _line(found: "FoundAnswer") -> str:
    """An answer with its probability and position, on one line."""
    if found.text is None:
        return f"no answer  ({found.score:.3f})"
    text = " ".join(found.text.split())  # an answer may contain line breaks
    if len(text) > LONGEST:  # a text without spaces is one word, however long
        text = f"{text[:LONGEST]} …"
    return f"{text}  ({found.score:.3f}, {found.file}:{found.start}-{found.end})"
