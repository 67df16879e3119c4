"""Logs as JSON, one object a line, on standard output. Never any text that was sent to be translated."""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}


# Made once: `json.dumps` with an argument makes one for every line.
_encode = json.JSONEncoder(default=str).encode


class JsonFormatter(logging.Formatter):
    """Writes a log record with its `extra` fields as one line of JSON. Thread-safe."""

    def format(self, record: logging.LogRecord) -> str:
        """Build the line: JSON without line breaks; other scripts and control characters are escaped."""
        fields: dict[str, Any] = {
            "ts": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "msg": record.getMessage(),
        }
        fields |= {name: value for name, value in vars(record).items() if name not in _STANDARD}
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return _encode(fields)


def configure_logging(level: str) -> None:
    """Send everything that is logged in this process to standard output as JSON.

    `level` is the least severe of our own loggers; libraries log warnings only.
    """
    # What a line does not show need not be found out: the standard library's own advice for speed.
    logging._srcfile = None
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    # The reader of the log may be gone; there is nobody else to tell, and requests go on.
    logging.raiseExceptions = False
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("dragoman").setLevel(level.upper())
