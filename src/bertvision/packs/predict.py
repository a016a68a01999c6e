"""predict_file: predictions for a file of any size, in constant memory; a killed run is resumed."""

import csv
import hashlib
import io
import json
import os
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from bertvision.device import Device
from bertvision.errors import BertVisionError, DataError
from bertvision.evaluation.decode import decode_spans
from bertvision.evaluation.outputs import as_rows, as_spans, predicted_words
from bertvision.evaluation.prediction_files import SURE
from bertvision.lock import lock_folder
from bertvision.packs.card import PackCard
from bertvision.packs.done_predictions import DonePredictions
from bertvision.packs.inputs import make_questions, make_texts, question_windows, text_windows
from bertvision.packs.open_pack import load_reader
from bertvision.packs.pack_folder import PackFolder
from bertvision.packs.reader import PackQuery, Reader
from bertvision.packs.stream import Columns, Row, no_example, stream_rows
from bertvision.provenance import file_digest
from bertvision.tasks.examples import Questions

BATCH = 512
"""Default number of examples that are in memory at a time."""

OnCount = Callable[[int], None]
"""Callback that gets a number of examples."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicted:
    """Result of `predict_file`.

    Attributes:
        file: file with the predictions.
        no_answer: file with the margins of "no answer" over the best answer by id; None if the pack has no threshold.
        examples: number of examples.
        resumed: number of them that an earlier, killed run had predicted.
    """

    file: Path
    no_answer: Path | None
    examples: int
    resumed: int


def predict_file(  # noqa: PLR0913 - what it depends on, by keyword
    pack: PackFolder,
    path: str | Path,
    out: str | Path,
    *,
    columns: Columns | None = None,
    batch: int = BATCH,
    encoder: str | None = None,
    device: Device = "auto",
    count: OnCount | None = None,
    tell: OnCount | None = None,
) -> Predicted:
    """Predict every example of a file.

    The whole file is checked first, so that an error in its last row is reported before hours of computing. Predictions
    are collected in a folder `OUT.part` until all are done; a killed run is resumed from there.

    Args:
        pack: pack that predicts.
        path: a file of the pack's task: SQuAD's JSON, or CSV, TSV or JSONL with a column of texts; plain or .gz.
        out: file of the predictions: JSON by id; for labels and scores a table if it ends with .tsv or .csv.
        columns: names of the columns, where they differ from those in the task's own files.
        batch: examples in memory at a time.
        encoder: path or name of the encoder; None takes the one that the pack names.
        device: device to compute on.
        count: callback that gets the number of examples, after the check.
        tell: progress callback that gets the number of examples done.

    Raises:
        BertVisionError: a file or the pack cannot be read, a file cannot be written, an id occurs twice where
            predictions are stored by id, `OUT.part` holds predictions of another file or pack or is damaged, `out` is
            the file to predict, a column is named that the pack does not read, or `batch` is below 1.
    """
    source, target = Path(path), Path(out)
    if batch < 1:
        raise BertVisionError(f"--batch is {batch}, at least 1 is expected.")
    if source.is_dir():
        raise DataError(f"{source} is a folder, a file is expected. Name one of the files in it.")
    if target.is_dir():
        raise BertVisionError(f"--out {target} is a folder, a file is expected. Name a file in it.")
    no_answer = None if pack.card.threshold is None else target.with_name(f"{target.stem}.no_answer.json")
    if source.resolve() in {made.resolve() for made in (target, no_answer) if made is not None}:
        raise BertVisionError(f"--out {target} would replace {source}, which is to be predicted. Use another --out.")
    table = TABLES.get(target.suffix) if pack.card.task.kind != "spans" else None
    examples = _check_examples(source, pack.card, columns, table)
    if count is not None:
        count(examples)
    reader = load_reader(pack, encoder=encoder, device=device)  # before the folder is made: none is left if this fails
    folder = target.with_name(f"{target.name}.part")
    with lock_folder(folder):
        part = DonePredictions(folder / "done.jsonl", _header(pack, source, columns))
        resumed = part.done
        remaining = islice(stream_rows(source, pack.card, columns), resumed, None)
        while rows := list(islice(remaining, batch)):
            part.add(predict_rows(reader, rows))
            if tell is not None:
                tell(part.done)
        _write(target, _object_lines(part, "prediction") if table is None else table(part))
        if no_answer is not None:
            _write(no_answer, _object_lines(part, "no_answer"))
        part.remove()
    with suppress(OSError):  # it is gone already, unless an earlier run had made it
        folder.rmdir()
    return Predicted(file=target, no_answer=no_answer, examples=part.done, resumed=resumed)


def _check_examples(path: Path, card: PackCard, columns: Columns | None, table: "TableLines | None") -> int:
    """Read a whole file, and return its number of examples.

    Args:
        path: of the file.
        card: card of the pack.
        columns: names of the columns.
        table: what writes predictions as a table; None if they are stored by id.

    Raises:
        DataError: there are none, one of them cannot be read, predictions are stored by id and an id occurs twice, or
            an id or a label would break the lines of a TSV file.
    """
    hashes = array("q")  # 8 bytes per example; the ids of a large file might not fit into memory
    plain = table is _tsv_lines
    for word in card.task.labels if plain else ():
        _check_plain("label", word, path)
    for row in stream_rows(path, card, columns):
        hashes.append(hash(row.id))
        if plain:
            _check_plain("id", row.id, path)
    if not hashes:
        raise no_example(path)
    values, counts = np.unique(np.frombuffer(hashes, dtype=np.int64), return_counts=True)
    repeated = set(values[counts > 1].tolist())  # different ids, too, may have the same hash
    if table is None and repeated:
        seen: set[str] = set()
        for row in stream_rows(path, card, columns):
            if row.id in seen:
                other = "" if card.task.kind == "spans" else " Or write a table, which keeps every row: --out FILE.tsv"
                raise DataError(
                    f"{path}: the id '{row.id}' stands there more than once, and predictions are kept by id. "
                    f"Give every example an id of its own.{other}"
                )
            if hash(row.id) in repeated:
                seen.add(row.id)
    return len(hashes)


def _check_plain(what: str, word: str, path: Path) -> None:
    """Refuse a word that breaks the lines of a TSV file.

    Raises:
        DataError: it has a tab or a line break.
    """
    if not {"\t", "\n", "\r"}.isdisjoint(word):
        raise DataError(
            f"{path}: the {what} {word!r} has a tab or a line break, which no TSV file can hold. Write CSV or JSON: "
            "--out FILE.csv"
        )


def pack_query(reader: Reader, rows: Sequence[Row]) -> tuple[PackQuery, Questions | None]:
    """The query for examples of a reader's only pack; in tasks of kind `spans` also the questions, with ids 0, 1, …."""
    (card,) = reader.cards
    inputs = [row.input for row in rows]
    if card.task.kind != "spans":
        return PackQuery(0, text_windows(card, make_texts(card, inputs), reader.tokenizer)), None
    pairs = [(pair[0], pair[1]) for pair in inputs if isinstance(pair, tuple)]
    questions = make_questions([question for question, _ in pairs], [context for _, context in pairs])
    return PackQuery(0, (question_windows(card, questions, reader.tokenizer),)), questions


def predict_rows(reader: Reader, rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Results of a reader's only pack for examples: "id", "prediction", and for questions "no_answer", the margin."""
    (card,) = reader.cards
    query, questions = pack_query(reader, rows)
    (outputs,) = reader.read([query])
    if questions is not None:
        scores = as_spans(outputs)
        answers = decode_spans(query.windows[0], scores.start, scores.end)
        texts = answers.texts(questions, card.threshold).values()
        margins = np.nan_to_num(answers.margin, posinf=SURE).tolist()
        return [
            {"id": row.id, "prediction": text, "no_answer": margin}
            for row, text, margin in zip(rows, texts, margins, strict=True)
        ]
    words = predicted_words(card.task, as_rows(outputs))
    return [{"id": row.id, "prediction": word} for row, word in zip(rows, words, strict=True)]


def _header(pack: PackFolder, source: Path, columns: Columns | None) -> dict[str, Any]:
    """What results depend on: digests of the examples and of the pack, and the columns."""
    files = sorted(path for path in pack.folder.rglob("*") if path.suffix in (".json", ".safetensors", ".onnx"))
    digest = hashlib.sha256("".join(file_digest(path) for path in files).encode()).hexdigest()
    return {"file": file_digest(source), "pack": digest, "columns": repr(columns or Columns())}


def _object_lines(part: DonePredictions, field: str) -> Iterator[str]:
    """The lines of a JSON object with one field of every result by id."""
    yield "{"
    for number, result in enumerate(part.results(), start=1):
        pair = f"{json.dumps(result['id'], ensure_ascii=False)}: {json.dumps(result[field], ensure_ascii=False)}"
        yield f"  {pair}{',' if number < part.done else ''}"
    yield "}"


def _table_rows(part: DonePredictions) -> Iterator[tuple[str, str]]:
    yield "index", "prediction"
    for result in part.results():
        value = result["prediction"]
        yield str(result["id"]), value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _tsv_lines(part: DonePredictions) -> Iterator[str]:
    """Lines as in the files of GLUE: without quoting."""
    yield from map("\t".join, _table_rows(part))


def _csv_lines(part: DonePredictions) -> Iterator[str]:
    """Lines by the usual rules of CSV: cells with commas or quote characters are quoted."""
    for row in _table_rows(part):
        line = io.StringIO()
        csv.writer(line, lineterminator="\r\n").writerow(row)  # cells with one of these characters are quoted
        yield line.getvalue().removesuffix("\r\n")


TableLines = Callable[[DonePredictions], Iterator[str]]

TABLES: dict[str, TableLines] = {".tsv": _tsv_lines, ".csv": _csv_lines}
"""Writers of tables by the suffix of the file; with any other suffix predictions are written as JSON."""


def _write(path: Path, lines: Iterator[str]) -> None:
    """Write lines; the file appears, or replaces an older one, only when it is complete."""
    temporary = path.with_name(f".{path.name}.part")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise BertVisionError(f"{path} cannot be written: {error.strerror}.") from None
