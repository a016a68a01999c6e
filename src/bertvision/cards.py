"""read_card: the JSON file that says what a folder holds; one that is damaged or of another format is refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from bertvision.errors import BertVisionError
from bertvision.provenance import package_version

T = TypeVar("T")


def read_card(
    path: Path,
    build: Callable[[dict[str, Any]], T],
    *,
    format: int,  # noqa: A002 - as the file calls it
    record: str | None = None,
    otherwise: str = "",
) -> T:
    """What a card says.

    Args:
        path: of the file.
        build: what it says, but for its format, its kind and the version that wrote it → the result.
        format: that is expected.
        record: the kind of record that is expected; None for cards that name none.
        otherwise: what to do where it cannot be read.

    Raises:
        BertVisionError: it is not there, is no JSON, of another format or kind, or lacks something that `build` needs.
    """
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        found, version = content.pop("format"), content.pop("version", None)
        if found != format:
            made = "" if version is None else f"; it was made by version {version}, this is {package_version()}"
            raise BertVisionError(f"{path} has format {found}, {format} is expected{made}. {otherwise}".rstrip())
        if record is not None and (kind := content.pop("record")) != record:
            raise BertVisionError(f"{path} is a record of kind '{kind}', '{record}' is expected. {otherwise}".rstrip())
        return build(content)
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise BertVisionError(f"{path} cannot be read ({reason}). {otherwise}".rstrip()) from None
