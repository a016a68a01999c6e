"""read_card: read the JSON file that describes an artefact, and check its format."""

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
    """Read a card: a JSON object with a format number.

    Args:
        path: of the file.
        build: makes the result from the object without `format`, `version` (of the writer) and, if `record` is given,
            `record`.
        format: expected format number.
        record: expected kind of record; None for cards without a kind.
        otherwise: advice for the error message.

    Raises:
        BertVisionError: the file is missing, not JSON, of another format or kind, or `build` rejects its content.
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
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise BertVisionError(f"{path} cannot be read ({reason}). {otherwise}".rstrip()) from None
