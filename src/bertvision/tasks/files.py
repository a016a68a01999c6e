"""Read bytes, text, JSON and TOML from plain or gzipped files; every failure is a `DataError` that names the file."""

import codecs
import gzip
import json
import tomllib
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typing_extensions import override

from bertvision.errors import DataError

SHOWN_PROBLEMS = 5


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that could not be read: its place, such as `file:line`, and the problem."""

    where: str
    problem: str

    @override
    def __str__(self) -> str:
        return f"{self.where}: {self.problem}"


def describe_bad_rows(rows: list[BadRow]) -> str:
    """The first few bad rows, one per line, and the number of further ones."""
    lines = [f"  {row}" for row in rows[:SHOWN_PROBLEMS]]
    if len(rows) > SHOWN_PROBLEMS:
        lines.append(f"  … and {len(rows) - SHOWN_PROBLEMS:,} more")
    return "\n".join(lines)


def read_bytes(path: Path) -> bytes:
    """The content of a plain or `.gz` file.

    Raises:
        DataError: the file is missing, a folder, unreadable or empty, or is called `.gz` and is not a valid gzip file.
    """
    if path.is_dir():
        raise DataError(f"{path} is a folder, a file is expected. Name one of the files in it.")
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except FileNotFoundError:
        raise DataError(f"{path} does not exist. Check the path.") from None
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise DataError(f"{path} is not a whole gzip file ({error}). Copy or download it again.") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from None
    if not content.strip():
        raise DataError(f"{path} is empty. A file with text or data in it is expected.")
    return content


def read_text(path: Path) -> str:
    """The content of a file as text, without a byte order mark.

    Raises:
        DataError: as `read_bytes`, or the file is not UTF-8.
    """
    return decode_text(read_bytes(path), str(path))


def decode_text(content: bytes, name: str) -> str:
    """Bytes as text, without a byte order mark.

    Raises:
        DataError: they are not UTF-8; `name` stands in the message.
    """
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1  # the error counts from after a byte order mark
        raise DataError(f"{name}:{line}: {describe_not_utf8(error)}") from None


def describe_not_utf8(error: UnicodeDecodeError) -> str:
    """The problem with bytes that are not UTF-8, and a command that converts them."""
    byte = error.object[error.start]
    is_utf16 = error.object.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))  # "Unicode text" of spreadsheets
    encoding = "utf-16" if is_utf16 else "latin1"
    return f"not UTF-8 (byte 0x{byte:02x}). Convert the file, e.g. with: iconv -f {encoding} -t utf-8"


def check_unicode(text: str) -> None:
    """Refuse text with an unpaired surrogate: JSON escapes can express one, UTF-8 and tokenizers cannot.

    Raises:
        ValueError: there is an unpaired surrogate.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        half = ord(text[error.start])
        raise ValueError(f"character {error.start} is half of a surrogate pair (\\u{half:04x})") from None


def read_json(path: Path) -> Any:  # noqa: ANN401 - JSON holds anything; callers check what they take
    """The content of a JSON file.

    Raises:
        DataError: as `read_text`, or the file is not JSON.
    """
    text = read_text(path)
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise DataError(f"{path}:{error.lineno}: not JSON ({error.msg}, column {error.colno}).") from None
    except (RecursionError, ValueError) as error:  # nested too deeply, or a number of thousands of digits
        raise DataError(f"{path}: not JSON that can be read ({error}).") from None


def read_toml(path: Path) -> dict[str, Any]:
    """The content of a TOML file, which may begin with a byte order mark.

    Raises:
        DataError: the file cannot be read, or is not TOML.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DataError(f"{path} cannot be read as TOML ({error}).") from None
