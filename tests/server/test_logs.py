import json
import logging

from server.logs import JsonFormatter


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
