"""`bertvision predict`: predict all examples of a file of any size, in the official format."""

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
    """The task of the pack."""

    file: str
    """File to predict, plain or .gz: questions in SQuAD's format, or a table with a text column (CSV, TSV, JSONL, JSON
    or Parquet)."""

    out: str = "predictions.json"
    """File for the predictions: JSON by id; for labels, tags and scores a table if it ends with .tsv or .csv. No-answer
    scores of questions get a file beside it."""

    pack: str | None = None
    """Folder of a pack, or its name on the hub (default: for questions, the included pack)."""

    text: str | None = None
    """Column of the text (default: as in the task's own files)."""

    text_pair: str | None = None
    """Column of the second text (default: as in the task's own files)."""

    id: str | None = None
    """Column of the ids (default: as in the task's own files, else row numbers starting at 0)."""

    batch: int = 512
    """Number of examples to read and predict at a time."""

    encoder: str | None = None
    """Path or name of the pack's encoder (default: the one that the pack names)."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device; 'auto' uses a GPU if there is one."""

    runtime: Literal["auto", "torch", "onnx", "openvino", "openvino-bf16"] = "auto"
    """Runtime: 'torch' for ordinary packs, one of the others for packs written by 'bertvision export'; 'auto' takes the
    fastest of these that agrees with PyTorch."""

    json: bool = False
    """Print the number of examples and the files written as JSON."""


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
