import io
import json
import logging

import pytest

from server.logs import JsonFormatter, configure_logging


def line(message: str, **extra: object) -> dict[str, object]:
    record = logging.makeLogRecord({"name": "dragoman", "levelname": "INFO", "msg": message, **extra})
    text = JsonFormatter().format(record)
    assert "\n" not in text
    assert text.isascii()
    parsed: dict[str, object] = json.loads(text)
    return parsed


def test_fields_stand_beside_the_message() -> None:
    found = line("request", code=200, route="/translate")
    assert (found["level"], found["msg"], found["code"], found["route"]) == (
        "info",
        "request",
        200,
        "/translate",
    )
    assert str(found["ts"]).endswith("+00:00")


def test_control_and_direction_characters_are_escaped() -> None:
    assert line("a\u202eb\nc\x1b")["msg"] == "a\u202eb\nc\x1b"


def test_an_exception_is_one_field() -> None:
    try:
        raise ValueError("x")
    except ValueError as error:
        record = logging.makeLogRecord({"msg": "failed", "exc_info": (type(error), error, None)})
    assert "ValueError: x" in json.loads(JsonFormatter().format(record))["exception"]


class Gone(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError


def test_a_log_that_nobody_reads_any_more_stops_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = logging.Logger("root")
    monkeypatch.setattr(logging, "root", root)
    for name in ("raiseExceptions", "_srcfile", "logThreads", "logProcesses", "logMultiprocessing"):
        monkeypatch.setattr(logging, name, getattr(logging, name))
    monkeypatch.setattr(logging.getLogger("dragoman"), "level", logging.NOTSET)
    closed = io.StringIO()
    closed.close()
    for stream in (Gone(), closed):
        monkeypatch.setattr("sys.stdout", stream)
        configure_logging("info")
        root.warning("lost")
    assert capsys.readouterr().err == ""
