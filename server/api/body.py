"""Request bodies to plain values, strictly: JSON, a form of either kind, or the query string of a POST.

What the standard parsers let through is refused here: other encodings than UTF-8, lone surrogates, NaN and
Infinity, numbers that overflow, fields that occur twice in a JSON object, nesting deeper than 32.
"""

import json
import math
import re
from collections.abc import Mapping
from typing import Any, NoReturn
from urllib.parse import parse_qsl

from multipart import MultipartError, MultipartSegment, PushMultipartParser, parse_options_header
from starlette.types import Receive, Scope

from server.errors import BodyTooLargeError, DragomanError, MalformedBodyError, UnsupportedMediaTypeError
from server.http.errors import ClientDisconnectedError
from server.http.protocol import FAULT_EXTENSION
from server.http.request_record import record_of

_MAX_DEPTH = 32
_MAX_FIELDS = 1000
_MAX_LENGTH_DIGITS = 19
# Possessive, or the expression would remember where each character of a text is, to go back to it.
_JSON_STRUCTURE = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}]', re.DOTALL)
_FORM = "application/x-www-form-urlencoded"
_PARTS = "multipart/form-data"
MEDIA_TYPES = ("application/json", _FORM, _PARTS)
"""What requests may be; LibreTranslate reads all three."""

_BOM = b"\xef\xbb\xbf"

Fields = dict[str, Any]


async def read_body(scope: Scope, receive: Receive, announced: str | None, max_body_bytes: int) -> bytes:
    """Read a whole body.

    Args:
        scope: ASGI scope; the request's record counts the bytes.
        receive: ASGI channel.
        announced: `Content-Length`, digits.
        max_body_bytes: largest body that is read.

    Raises:
        ClientDisconnectedError: the client went away before its end.
        BodyTooLargeError: it is larger, as announced or once that is seen.
        DragomanError: its framing is wrong.
    """
    record, fault_of = record_of(scope), scope["extensions"][FAULT_EXTENSION]
    too_large = BodyTooLargeError(f"the body is larger than {max_body_bytes} bytes")
    # The parser lets only digits through, but any number of them, and int() stops at 4300.
    if announced is not None and (len(announced) > _MAX_LENGTH_DIGITS or int(announced) > max_body_bytes):
        raise too_large
    body = bytearray()
    while True:
        message = await receive()
        fault: DragomanError | None = fault_of()
        if fault is not None:
            raise fault
        if message["type"] == "http.disconnect":
            record.disconnect_phase = "receiving"
            raise ClientDisconnectedError("the client went away while sending")
        body += message.get("body", b"")
        record.body_bytes = len(body)
        if len(body) > max_body_bytes:
            raise too_large
        if not message.get("more_body", False):
            return bytes(body)


def parse_fields(body: bytes, headers: Mapping[str, str], query: bytes) -> tuple[Fields, bool]:
    """Find the fields of a request, wherever LibreTranslate's clients put them.

    A JSON object is taken alone. Otherwise the fields of the form and of the query are put together; where
    both have one, the query's counts. A missing Content-Type is guessed from the body.

    Args:
        body: as received.
        headers: of the request; names in lower case.
        query: undecoded query string.

    Returns:
        The fields, and whether they are typed (JSON) or all strings. A field that occurs several times in a
        form, or as `name[]`, is a list of strings.

    Raises:
        UnsupportedMediaTypeError: the body is something else, or compressed.
        MalformedBodyError: the body is not what it claims to be.
    """
    if headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        raise UnsupportedMediaTypeError("compressed bodies are not accepted")
    media_type, parameters = parse_options_header(headers.get("content-type", ""))
    if parameters.get("charset", "utf-8").lower() not in ("utf-8", "utf8", "us-ascii", "ascii"):
        raise MalformedBodyError("only the charset utf-8 is accepted")
    if not media_type:
        media_type = "application/json" if body.lstrip()[:1] in (b"{", b"[") else _FORM
    if media_type == "application/json":
        return _parse_json(body), True
    if media_type not in MEDIA_TYPES:
        raise UnsupportedMediaTypeError(f"send {MEDIA_TYPES[0]}, {_FORM} or {_PARTS}")
    form = _parse_form(body) if media_type == _FORM else _parse_parts(body, parameters.get("boundary", ""))
    return _collect(form) | _collect(_parse_form(query)), False


def _decode(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise MalformedBodyError("the body is not valid UTF-8") from None


def _parse_json(body: bytes) -> Fields:
    text = _decode(body.removeprefix(_BOM))
    if text.count("[") + text.count("{") > _MAX_DEPTH:
        _check_depth(text)
    try:
        value = json.loads(
            text, object_pairs_hook=_unique, parse_constant=_refuse_constant, parse_float=_finite_float
        )
    except MalformedBodyError:
        raise
    except (ValueError, RecursionError):
        raise MalformedBodyError("the body is not valid JSON") from None
    if not isinstance(value, dict):
        raise MalformedBodyError("the body is not a JSON object")
    if "\\u" in text:  # the only way a lone surrogate can come in
        try:
            json.dumps(value, ensure_ascii=False).encode("utf-8")
        except UnicodeEncodeError:
            raise MalformedBodyError("a string holds half a surrogate pair") from None
    return value


def _check_depth(text: str) -> None:
    depth = 0
    for match in _JSON_STRUCTURE.finditer(text):
        symbol = match.group()[0]
        if symbol in "[{":
            depth += 1
            if depth > _MAX_DEPTH:
                raise MalformedBodyError(f"the JSON is nested deeper than {_MAX_DEPTH}")
        elif symbol in "]}":
            depth -= 1


def _unique(pairs: list[tuple[str, Any]]) -> Fields:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise MalformedBodyError("a field occurs twice in a JSON object")
    return fields


def _refuse_constant(_name: str) -> NoReturn:
    raise MalformedBodyError("NaN and Infinity are not JSON")


def _finite_float(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise MalformedBodyError("a number is too large")
    return number


def _parse_form(raw: bytes) -> list[tuple[str, str]]:
    text = _decode(raw)
    try:
        return parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=_MAX_FIELDS)
    except UnicodeDecodeError:
        raise MalformedBodyError("a form field is not valid UTF-8") from None
    except ValueError:
        raise MalformedBodyError(f"more than {_MAX_FIELDS} form fields") from None


def _parse_parts(body: bytes, boundary: str) -> list[tuple[str, str]]:
    """Read multipart/form-data (RFC 7578), as browsers' FormData and `curl -F` write it."""
    pairs: list[tuple[str, str]] = []
    name, value = "", bytearray()
    try:
        with PushMultipartParser(boundary, max_segment_count=_MAX_FIELDS, strict=True) as parser:
            for event in parser.parse(body):
                if isinstance(event, MultipartSegment):
                    if event.filename is not None:
                        raise UnsupportedMediaTypeError("files are not accepted here")
                    name, value = event.name, bytearray()
                elif event is None:
                    pairs.append((name, _decode(bytes(value))))
                else:
                    value += event
    except MultipartError:
        raise MalformedBodyError(f"the body is not valid {_PARTS}") from None
    return pairs


def _collect(pairs: list[tuple[str, str]]) -> Fields:
    fields: Fields = {}
    for name, value in pairs:
        is_array = name.endswith("[]")  # as PHP and jQuery write arrays, also those of one item
        name = name.removesuffix("[]")
        if isinstance(fields.get(name), list):
            fields[name].append(value)
        elif name in fields:
            fields[name] = [fields[name], value]
        else:
            fields[name] = [value] if is_array else value
    return fields
