"""DonePredictions: the predictions that a run has made so far, from which a killed run is resumed."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, final

from bertvision.errors import BertVisionError


@final
class DonePredictions:
    """The results so far, in a file of JSON lines: a header that identifies the job, then a line per example.

    Attributes:
        done: number of examples.
    """

    def __init__(self, path: Path, header: dict[str, Any]) -> None:
        """Open the file of an earlier run of the same job, or begin one.

        Args:
            path: of the file.
            header: what the predictions depend on.

        Raises:
            BertVisionError: the file belongs to another job, is damaged, or cannot be written.
        """
        self._path = path
        self.done = 0
        if path.is_file():
            self._resume(header)
        else:
            self._append([header])

    def add(self, results: list[dict[str, Any]]) -> None:
        """Append results, and flush them to disk."""
        self._append(results)
        self.done += len(results)

    def results(self) -> Iterator[dict[str, Any]]:
        """All results, in the order of the examples."""
        with self._path.open(encoding="utf-8") as file:
            next(file)
            for line in file:
                yield json.loads(line)

    def remove(self) -> None:
        """Delete the file."""
        self._path.unlink()

    def _resume(self, header: dict[str, Any]) -> None:
        """Count the results of an earlier run; an incomplete last line is removed.

        Raises:
            BertVisionError: they have another header, or a line is not JSON.
        """
        complete = 0  # bytes in complete lines
        with self._path.open("rb+") as file:
            for number, line in enumerate(file):
                if not line.endswith(b"\n"):
                    break
                try:
                    content = json.loads(line)
                except ValueError:
                    problem = f"{self._path.parent} is damaged: line {number + 1} of {self._path.name} is not JSON"
                    raise BertVisionError(f"{problem}. Remove it, or use another --out.") from None
                if number == 0 and content != header:
                    if not file.read(1):
                        break  # without results, as after an error in the first batch, the header does not matter
                    raise BertVisionError(
                        f"{self._path.parent} holds predictions of another file or pack. Remove it, or use another "
                        "--out."
                    )
                complete += len(line)
                self.done += number > 0
            file.truncate(complete)
        if not complete:
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
