"""Logs: one JSON object per line on standard error; never a text, never a token."""

import json
import logging
import sys
from datetime import UTC, datetime

from typing_extensions import override

LOGGER = "bertvision.server"


class JsonLines(logging.Formatter):
    """Formats a record as one line of JSON: time, level, event, and the fields from `extra={"fields": …}`."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {"time": moment, "level": record.levelname.lower(), "event": record.getMessage()}
        line |= getattr(record, "fields", {})
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line)


def log_to_standard_error() -> None:
    """Send the log lines of this server and of uvicorn to standard error, as JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    for name in (LOGGER, "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.setLevel(logging.INFO)
        logger.propagate = False
