"""Record: the results of a command as one JSON file."""

from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

from bertvision.atomic import write_json
from bertvision.cards import read_card
from bertvision.errors import BertVisionError
from bertvision.typed_json import from_json

FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Base class of the results of a command, such as an evaluation; its fields are what the file holds.

    Attributes:
        NAME: the kind of record, as the file names it.
        FILE: name of the file.
        AGAIN: advice for a file that cannot be read: a few words, ": " and the command that makes it again.
    """

    NAME: ClassVar[str]
    FILE: ClassVar[str]
    AGAIN: ClassVar[str]

    def as_json(self) -> dict[str, Any]:
        """The content of its file."""
        return {"format": FORMAT, "record": self.NAME, **asdict(self)}

    def save(self, folder: Path) -> None:
        """Write it into a folder.

        Raises:
            BertVisionError: it cannot be written.
        """
        write_json(folder / self.FILE, self.as_json())

    @classmethod
    def read(cls, folder: Path) -> Self:
        """The record in a folder.

        Raises:
            BertVisionError: there is none, or it cannot be read, or is of another format.
        """
        path = folder / cls.FILE
        if not path.is_file():
            raise BertVisionError(f"{path} is not there. Make it: {cls.AGAIN.partition(': ')[2]}")
        return read_card(path, partial(from_json, cls), format=FORMAT, record=cls.NAME, otherwise=cls.AGAIN)
