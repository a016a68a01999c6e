"""Record: what a command found, as one JSON file that says what it is."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from bertvision.atomic import write_json
from bertvision.errors import BertVisionError
from bertvision.tasks.files import read_json
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
        content = read_json(path)
        try:
            if content.pop("format") != FORMAT or content.pop("record") != cls.NAME:
                raise BertVisionError(f"{path} has another format than {FORMAT}. {cls.AGAIN}")
            return from_json(cls, content)
        except (AttributeError, KeyError, TypeError) as error:
            raise BertVisionError(f"{path} cannot be read ({error}). {cls.AGAIN}") from None
