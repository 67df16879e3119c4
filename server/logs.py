"""Logs as JSON, one object a line, on standard output. Never any text that was sent to be translated."""

import asyncio
import contextlib
import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, TextIO

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}


# Made once: `json.dumps` with an argument makes one for every line.
_encode = json.JSONEncoder(default=str).encode


class JsonFormatter(logging.Formatter):
    """Writes a log record with its `extra` fields as one line of JSON. Thread-safe."""

    def format(self, record: logging.LogRecord) -> str:
        """Build the line.

        Args:
            record: what is logged.

        Returns:
            JSON without line breaks; other scripts and control characters are escaped.
        """
        fields: dict[str, Any] = {
            "ts": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "msg": record.getMessage(),
        }
        fields |= {name: value for name, value in vars(record).items() if name not in _STANDARD}
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return _encode(fields)


class TurnLog(logging.Handler):
    """Writes what is logged in one turn of the event loop with one call; from other threads, at once.

    A line costs a system call, and around it the event loop gives up Python's lock and has to get it back
    from the worker threads. Warnings and worse are not held back. Thread-safe.
    """

    def __init__(self, stream: TextIO) -> None:
        """Write to a stream.

        Args:
            stream: where lines go.
        """
        super().__init__()
        self._stream = stream
        self._lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Take a line; called with the handler's lock held.

        Args:
            record: what is logged.
        """
        try:
            self._lines.append(self.format(record) + "\n")
            loop = asyncio._get_running_loop()
            if loop is None or record.levelno >= logging.WARNING:
                self.flush()
            elif len(self._lines) == 1:
                loop.call_soon(self.flush)
        except Exception:  # noqa: BLE001 - as every handler of the standard library
            self.handleError(record)

    def flush(self) -> None:
        """Write what was taken."""
        with self.lock or contextlib.nullcontext():
            lines, self._lines = self._lines, []
            # The reader of the log may be gone; there is nobody else to tell, and requests go on.
            with contextlib.suppress(OSError, ValueError):
                if lines:
                    self._stream.write("".join(lines))
                    self._stream.flush()


def configure_logging(level: str) -> None:
    """Send everything that is logged in this process to standard output as JSON.

    Args:
        level: least severe level of our own loggers; libraries log warnings only.
    """
    # What a line does not show need not be found out: the standard library's own advice for speed.
    logging._srcfile = None
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    handler = TurnLog(sys.stdout)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("dragoman").setLevel(level.upper())
