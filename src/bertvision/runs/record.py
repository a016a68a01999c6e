"""Record: what a command found, as one JSON file that says what it is."""

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
    """What a command found.

    Attributes:
        NAME: what the file calls it.
        FILE: the file's name.
        AGAIN: what to do where it cannot be read, and the command for it, with ": " between.
    """

    NAME: ClassVar[str]
    FILE: ClassVar[str]
    AGAIN: ClassVar[str]

    def as_json(self) -> dict[str, Any]:
        """What its file holds."""
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
            BertVisionError: there is none, or it is of another format.
        """
        path = folder / cls.FILE
        if not path.is_file():
            raise BertVisionError(f"{path} is not there. Make it: {cls.AGAIN.partition(': ')[2]}")
        return read_card(path, partial(from_json, cls), format=FORMAT, record=cls.NAME, otherwise=cls.AGAIN)
