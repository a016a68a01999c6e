"""`bertvision predict`: a file of any size in, predictions in the official form out."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bertvision.amounts import in_words
from bertvision.cli.output import ProgressBar, print_json, print_lines, print_note
from bertvision.errors import BertVisionError


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of `bertvision predict`."""

    task: str
    """The pack's task."""

    file: str
    """SQuAD's JSON; or CSV, TSV or JSONL with a column of texts; plain or .gz."""

    out: str = "predictions.json"
    """Where predictions go: JSON by id; a table if it ends with .tsv or .csv. No-answer scores go beside it."""

    pack: str | None = None
    """Folder of a pack, or its name on the hub (default: for questions, the one that is shipped)."""

    text: str | None = None
    """Column of the text (default: as in the task's own files)."""

    text_pair: str | None = None
    """Column of the second text (default: as in the task's own files)."""

    id: str | None = None
    """Column of the ids (default: as in the task's own files, or row numbers from 0 on)."""

    batch: int = 512
    """Examples in memory at a time."""

    encoder: str | None = None
    """Where the pack's encoder is (default: where the pack says)."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where to compute."""

    runtime: Literal["auto", "torch", "onnx", "openvino", "openvino-bf16"] = "auto"
    """What computes: torch, or another one if `bertvision export` wrote the pack; auto takes the fastest of these."""

    json: bool = False
    """Print what was written as JSON."""


def run(options: Options) -> int:
    """Predict."""
    from bertvision.packs.open_pack import open_pack  # noqa: PLC0415 - help should open at once
    from bertvision.packs.predict import predict_file  # noqa: PLC0415
    from bertvision.packs.stream import Columns  # noqa: PLC0415
    from bertvision.tasks.load import check_task_name  # noqa: PLC0415

    check_task_name(options.task)
    pack = open_pack(options.pack, runtime=options.runtime)
    if pack.card.task.name != options.task:
        raise BertVisionError(
            f"the pack {pack.folder} is for {pack.card.task.name}, not for {options.task}. Say: bertvision predict "
            f"{pack.card.task.name} {options.file} …, or name another pack with --pack."
        )
    total: list[int] = []
    with ProgressBar(f"predict {options.file}") as bar:
        done = predict_file(
            pack,
            options.file,
            options.out,
            columns=Columns(text=options.text, text_pair=options.text_pair, id=options.id),
            batch=options.batch,
            encoder=options.encoder,
            device=options.device,
            count=total.append,
            tell=lambda examples: bar.show(examples, total[0], {}, doing="predicting"),
        )
    if done.resumed:
        print_note(f"{in_words(done.resumed, 'example')} came from an earlier run.")
    files = [str(path) for path in (done.file, done.no_answer) if path is not None]
    if options.json:
        print_json({"examples": done.examples, "resumed": done.resumed, "files": files})
        return 0
    print_lines([f"{in_words(done.examples, 'example')} → {Path(files[0])}"])
    print_lines([f"no-answer scores → {name}" for name in files[1:]])
    return 0
