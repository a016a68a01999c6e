"""predict_file: a file of any size → predictions in the official form, at constant memory; a killed run goes on."""

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
from bertvision.packs.inputs import make_questions, make_texts, question_windows, text_windows
from bertvision.packs.open_pack import load_reader
from bertvision.packs.pack_folder import PackFolder
from bertvision.packs.reader import PackQuery, Reader
from bertvision.packs.stream import Columns, Row, no_example, stream_rows
from bertvision.provenance import file_digest
from bertvision.tasks.examples import Questions

BATCH = 512
"""Examples that are in memory at a time."""

OnCount = Callable[[int], None]
"""Function that gets a number of examples."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicted:
    """What came out.

    Attributes:
        file: the predictions.
        no_answer: how far "no answer" leads over the answer to each question, where questions may be without one.
        examples: number of examples.
        resumed: number of examples that an earlier run had done.
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

    The whole file is looked through first, so that a mistake in its last row is told before hours of computing. What is
    done stands in a folder `OUT.part` until all of it is; a run that was killed goes on there.

    Args:
        pack: pack that predicts.
        path: a file of the pack's task: SQuAD's JSON, or CSV, TSV or JSONL with a column of texts; plain or .gz.
        out: file of the predictions: JSON by id; for labels and scores a table if it ends with .tsv or .csv.
        columns: names of the columns, where they differ from those in the task's own files.
        batch: examples in memory at a time.
        encoder: path or name of the encoder; None takes the one that the pack names.
        device: device to compute on.
        count: function that gets the number of examples, once it is known.
        tell: function that gets the number of examples that are done.

    Raises:
        BertVisionError: something cannot be read or written, an id comes twice where predictions are kept by id, or
            `OUT.part` belongs to something else.
    """
    source, target = Path(path), Path(out)
    if batch < 1:
        raise BertVisionError(f"--batch is {batch}, at least 1 is expected.")
    if source.is_dir():
        raise DataError(f"{source} is a folder, a file is expected. Name one of the files in it.")
    if target.is_dir():
        raise BertVisionError(f"--out {target} is a folder, a file is expected. Name a file in it.")
    table = TABLES.get(target.suffix) if pack.card.task.kind != "spans" else None
    examples = _look_through(source, pack.card, columns, by_id=table is None)
    if count is not None:
        count(examples)
    reader = load_reader(pack, encoder=encoder, device=device)  # a pack that cannot be read leaves nothing behind
    folder = target.with_name(f"{target.name}.part")
    with lock_folder(folder):
        part = _Part(folder / "done.jsonl", _header(pack, source, columns))
        resumed = part.done
        waiting = islice(stream_rows(source, pack.card, columns), resumed, None)
        while some := list(islice(waiting, batch)):
            part.add(predict_rows(reader, some))
            if tell is not None:
                tell(part.done)
        no_answer = None if pack.card.threshold is None else target.with_name(f"{target.stem}.no_answer.json")
        _write(target, _object_lines(part, "prediction") if table is None else table(part))
        if no_answer is not None:
            _write(no_answer, _object_lines(part, "no_answer"))
        part.remove()
    with suppress(OSError):  # gone already, unless an earlier run had made it
        folder.rmdir()
    return Predicted(file=target, no_answer=no_answer, examples=part.done, resumed=resumed)


def _look_through(path: Path, card: PackCard, columns: Columns | None, *, by_id: bool) -> int:
    """How many examples a file has.

    Raises:
        DataError: it has none, one of them cannot be read, or an id comes twice and `by_id` one would be lost.
    """
    hashes = array("q")  # eight bytes an example, where the ids of a large file would fill the memory
    for row in stream_rows(path, card, columns):
        hashes.append(hash(row.id))
    if not hashes:
        raise no_example(path)
    values, counts = np.unique(np.frombuffer(hashes, dtype=np.int64), return_counts=True)
    doubtful = set(values[counts > 1].tolist())
    if by_id and doubtful:
        seen: set[str] = set()
        for row in stream_rows(path, card, columns):
            if row.id in seen:
                other = "" if card.task.kind == "spans" else " Or write a table, which keeps every row: --out FILE.tsv"
                raise DataError(
                    f"{path}: the id '{row.id}' stands there more than once, and predictions are kept by id. "
                    f"Give every example an id of its own.{other}"
                )
            if hash(row.id) in doubtful:
                seen.add(row.id)
    return len(hashes)


def pack_query(reader: Reader, rows: Sequence[Row]) -> tuple[PackQuery, Questions | None]:
    """What a pack is asked about examples; and for answers in a text, the questions, with numbers as their ids."""
    (card,) = reader.cards
    inputs = [row.input for row in rows]
    if card.task.kind != "spans":
        return PackQuery(0, text_windows(card, make_texts(card, inputs), reader.tokenizer)), None
    both = [(one[0], one[1]) for one in inputs if isinstance(one, tuple)]
    questions = make_questions([question for question, _ in both], [context for _, context in both])
    return PackQuery(0, (question_windows(card, questions, reader.tokenizer),)), questions


def predict_rows(reader: Reader, rows: Sequence[Row]) -> list[dict[str, Any]]:
    """What is written of each example."""
    (card,) = reader.cards
    query, questions = pack_query(reader, rows)
    (found,) = reader.read([query])
    if questions is not None:
        scores = as_spans(found)
        said = decode_spans(query.windows[0], scores.start, scores.end)
        texts = said.texts(questions, card.threshold).values()
        margins = np.nan_to_num(said.margin, posinf=SURE).tolist()
        return [
            {"id": row.id, "prediction": text, "no_answer": margin}
            for row, text, margin in zip(rows, texts, margins, strict=True)
        ]
    words = predicted_words(card.task, as_rows(found))
    return [{"id": row.id, "prediction": word} for row, word in zip(rows, words, strict=True)]


class _Part:
    """What is done, one line for each example below one that says what it belongs to.

    Attributes:
        done: how many examples.
    """

    def __init__(self, path: Path, header: dict[str, Any]) -> None:
        self._path = path
        self.done = 0
        if path.is_file():
            self._go_on(header)
        else:
            self._append([header])

    def add(self, results: list[dict[str, Any]]) -> None:
        """Keep what was predicted, so that nothing of it is lost."""
        self._append(results)
        self.done += len(results)

    def results(self) -> Iterator[dict[str, Any]]:
        """Everything that was predicted, in order."""
        with self._path.open(encoding="utf-8") as file:
            next(file)
            for line in file:
                yield json.loads(line)

    def remove(self) -> None:
        """Nothing of it is needed any more."""
        self._path.unlink()

    def _go_on(self, header: dict[str, Any]) -> None:
        """Count what is there; a line that was cut off is cut away."""
        whole = 0
        with self._path.open("rb+") as file:
            for number, line in enumerate(file):
                if not line.endswith(b"\n"):
                    break
                if number == 0 and json.loads(line) != header:
                    if not file.read(1):
                        break  # nothing had been done, as where a row was bad: no matter what it was to be
                    raise BertVisionError(
                        f"{self._path.parent} holds predictions of another file or pack. Remove it, or use another "
                        "--out."
                    )
                whole += len(line)
                self.done += number > 0
            file.truncate(whole)
        if not whole:
            self._append([header])

    def _append(self, lines: list[dict[str, Any]]) -> None:
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise BertVisionError(
                f"{self._path} cannot be written: {error.strerror}. Make room, and run the command again: it goes on."
            ) from None


def _header(pack: PackFolder, source: Path, columns: Columns | None) -> dict[str, Any]:
    files = sorted(path for path in pack.folder.rglob("*") if path.suffix in (".json", ".safetensors", ".onnx"))
    digest = hashlib.sha256("".join(file_digest(path) for path in files).encode()).hexdigest()
    return {"file": file_digest(source), "pack": digest, "columns": repr(columns or Columns())}


def _object_lines(part: _Part, field: str) -> Iterator[str]:
    yield "{"
    for number, result in enumerate(part.results(), start=1):
        pair = f"{json.dumps(result['id'], ensure_ascii=False)}: {json.dumps(result[field], ensure_ascii=False)}"
        yield f"  {pair}{',' if number < part.done else ''}"
    yield "}"


def _table_rows(part: _Part) -> Iterator[tuple[str, str]]:
    yield "index", "prediction"
    for result in part.results():
        value = result["prediction"]
        yield str(result["id"]), value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _tsv_lines(part: _Part) -> Iterator[str]:
    """Lines as in the files of GLUE: quote characters are text."""
    yield from map("\t".join, _table_rows(part))


def _csv_lines(part: _Part) -> Iterator[str]:
    """Lines by the usual rules of CSV: cells with commas or quote characters are quoted."""
    for row in _table_rows(part):
        line = io.StringIO()
        csv.writer(line, lineterminator="").writerow(row)
        yield line.getvalue()


TABLES: dict[str, Callable[[_Part], Iterator[str]]] = {".tsv": _tsv_lines, ".csv": _csv_lines}
"""Writers of tables, by the suffix of the file; all else is JSON."""


def _write(path: Path, lines: Iterator[str]) -> None:
    """Write lines; the file appears, or replaces an older one, only when it is whole."""
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
