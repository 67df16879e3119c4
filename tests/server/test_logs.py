import asyncio
import io
import json
import logging

import pytest

from server.logs import JsonFormatter, TurnLog


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


class Stream(io.StringIO):
    """Counts how often it is written to."""

    writes = 0

    def write(self, text: str) -> int:
        self.writes += 1
        return super().write(text)


def log_to(stream: Stream) -> logging.Logger:
    log = logging.Logger("test")
    log.addHandler(TurnLog(stream))
    return log


def test_lines_of_one_turn_are_written_together() -> None:
    stream = Stream()

    async def main() -> None:
        log = log_to(stream)
        for number in range(3):
            log.info("line %d", number)
        assert stream.writes == 0
        await asyncio.sleep(0)

    asyncio.run(main())
    assert (stream.writes, stream.getvalue()) == (1, "line 0\nline 1\nline 2\n")


def test_warnings_take_the_others_along_at_once() -> None:
    stream = Stream()

    async def main() -> None:
        log = log_to(stream)
        log.info("first")
        log.warning("second")
        assert stream.getvalue() == "first\nsecond\n"

    asyncio.run(main())
    assert stream.writes == 1


def test_off_the_loop_nothing_is_held_back() -> None:
    stream = Stream()
    log_to(stream).info("now")
    assert stream.getvalue() == "now\n"


class Gone(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError


def test_a_log_that_nobody_reads_any_more_stops_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    closed = io.StringIO()
    closed.close()
    for stream in (Gone(), closed):
        log = logging.Logger("test")
        log.addHandler(TurnLog(stream))
        log.info("lost")
        log.warning("lost, too")
    assert capsys.readouterr().err == ""
