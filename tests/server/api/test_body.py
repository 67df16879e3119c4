import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.api.body import parse_fields
from server.errors import DragomanError, MalformedBodyError, UnsupportedMediaTypeError

JSON = {"content-type": "application/json"}
FORM = {"content-type": "application/x-www-form-urlencoded"}


@pytest.mark.parametrize(
    ("body", "headers", "query", "fields", "typed"),
    [
        (b'{"q":"a","n":1}', JSON, b"", {"q": "a", "n": 1}, True),
        (b'{"q":"a"}', {"content-type": 'Application/JSON; charset="UTF-8"'}, b"q=b", {"q": "a"}, True),
        (b'\xef\xbb\xbf{"q":"a"}', JSON, b"", {"q": "a"}, True),
        (b'{"q":"\\ud83d\\ude00"}', JSON, b"", {"q": "😀"}, True),
        (b"q=a+b&source=en", FORM, b"", {"q": "a b", "source": "en"}, False),
        (b"q=%F0%9F%98%80", FORM, b"", {"q": "😀"}, False),
        (b"q=a&q=b&q=c", FORM, b"", {"q": ["a", "b", "c"]}, False),
        (b"q=a&source=", FORM, b"", {"q": "a", "source": ""}, False),
        (b"q=a", FORM, b"q=b&source=en", {"q": "b", "source": "en"}, False),
        (b"", {}, b"q=a&source=en", {"q": "a", "source": "en"}, False),
        (b"q=a", {}, b"", {"q": "a"}, False),
        (b' {"q":"a"}', {}, b"", {"q": "a"}, True),
        (b"", FORM, b"", {}, False),
    ],
)
def test_fields_are_found(
    body: bytes, headers: dict[str, str], query: bytes, fields: object, typed: bool
) -> None:
    assert parse_fields(body, headers, query) == (fields, typed)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b'{"q":"a',
        b"[1]",
        b'"x"',
        b"null",
        b'{"q":NaN}',
        b'{"q":-Infinity}',
        b'{"q":1e400}',
        b'{"q":' + b"9" * 5000 + b"}",
        b'{"q":"a","q":"b"}',
        b'{"x":{"q":1,"q":2}}',
        b'{"q":"\xff\xfe"}',
        b'{"q":"\xed\xa0\x80"}',
        b'{"q":"\\ud800"}',
        b'{"\\udc00":1}',
        b'{"q":["a","\\uDBFF"]}',
        b'{"q":"a\x00b"}',
        b'{"q":"a\nb"}',
        '{"q":"a"}'.encode("utf-16"),
        '{"q":"a"}'.encode("utf-16-le"),
        '{"q":"é"}'.encode("latin-1"),
        b'{"q":' + b"[" * 33 + b"]" * 33 + b"}",
        *(b"[" * depth for depth in (100, 10_000, 1_000_000)),
        b'{"a":' * 100_000,
    ],
)
def test_json_that_is_none_is_refused(body: bytes) -> None:
    with pytest.raises(MalformedBodyError):
        parse_fields(body, JSON, b"")


def test_brackets_in_a_string_are_no_nesting() -> None:
    text = '["{' * 1000
    body = b'{"q":"' + text.replace('"', '\\"').encode() + b'"}'
    assert parse_fields(body, JSON, b"") == ({"q": text}, True)


@pytest.mark.parametrize("text", [b"word ", rb"\n", rb"\"", rb"\\"])
def test_looking_for_nesting_needs_no_memory(text: bytes) -> None:
    body = b'{"q":"' + b"[" * 33 + text * (400_000 // len(text)) + b'"}'
    tracemalloc.start()
    parse_fields(body, JSON, b"")
    _, most_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most_bytes < 4 * len(body)


@pytest.mark.parametrize("body", [b"q=%FF%FE", b"q=%ED%A0%80", b"q=\xff", b"&".join([b"a=1"] * 1001)])
def test_forms_that_are_none_are_refused(body: bytes) -> None:
    with pytest.raises(MalformedBodyError):
        parse_fields(body, FORM, b"")


@pytest.mark.parametrize("charset", ["latin-1", "utf-16", "utf-7", "nonsense"])
def test_other_charsets_are_refused(charset: str) -> None:
    with pytest.raises(MalformedBodyError):
        parse_fields(b'{"q":"a"}', {"content-type": f"application/json; charset={charset}"}, b"")


PARTS = {"content-type": "multipart/form-data; boundary=X"}
PART = b'--X\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n'


def test_parts_of_a_form_are_fields() -> None:
    body = (
        PART % (b"q", "Grüße\r\n--Y".encode()) + PART % (b"q", b"") + PART % (b"target", b"de") + b"--X--\r\n"
    )
    expected = {"q": ["Grüße\r\n--Y", ""], "target": "de", "source": "en"}
    assert parse_fields(body, PARTS, b"source=en") == (expected, False)


def test_a_boundary_may_look_like_a_charset() -> None:
    boundary = b"a;charset=latin-1"
    body = (PART % (b"q", b"a") + b"--X--\r\n").replace(b"--X", b"--" + boundary)
    headers = {"content-type": f'Multipart/Form-Data; boundary="{boundary.decode()}"'}
    assert parse_fields(body, headers, b"") == ({"q": "a"}, False)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"", "multipart/form-data; boundary=X"),
        (PART % (b"q", b"a"), "multipart/form-data; boundary=X"),
        (PART % (b"q", b"a") + b"--X--\r\n", "multipart/form-data"),
        (PART % (b"q", b"a") + b"--X--\r\n", "multipart/form-data; boundary=Y"),
        (PART % (b"q", b"\xff") + b"--X--\r\n", "multipart/form-data; boundary=X"),
        (PART % (b"q", b"a") * 1001 + b"--X--\r\n", "multipart/form-data; boundary=X"),
        (b"--X\r\nA: b\r\n\r\na\r\n--X--\r\n", "multipart/form-data; boundary=X"),
        (b"--X\r\nA: " + b"b" * 10_000 + b"\r\n\r\na\r\n--X--\r\n", "multipart/form-data; boundary=X"),
    ],
)
def test_parts_that_are_none_are_refused(body: bytes, kind: str) -> None:
    with pytest.raises(MalformedBodyError):
        parse_fields(body, {"content-type": kind}, b"")


def test_files_are_refused() -> None:
    body = PART.replace(b'%s"', b'q"; filename="a.txt"') % b"a" + b"--X--\r\n"
    with pytest.raises(UnsupportedMediaTypeError):
        parse_fields(body, PARTS, b"")


@pytest.mark.parametrize("kind", ["text/plain", "multipart/mixed; boundary=x", "application/xml", "nonsense"])
def test_other_media_types_are_refused(kind: str) -> None:
    with pytest.raises(UnsupportedMediaTypeError):
        parse_fields(b'{"q":"a"}', {"content-type": kind}, b"")


@pytest.mark.parametrize("encoding", ["gzip", "br", "zstd", "deflate, gzip"])
def test_compressed_bodies_are_refused(encoding: str) -> None:
    with pytest.raises(UnsupportedMediaTypeError):
        parse_fields(b"\x1f\x8b", JSON | {"content-encoding": encoding}, b"")


@given(st.binary(max_size=200), st.sampled_from([JSON, FORM, PARTS, {}]), st.binary(max_size=50))
def test_any_bytes_give_fields_or_a_refusal(body: bytes, headers: dict[str, str], query: bytes) -> None:
    try:
        fields, _ = parse_fields(body, headers, query)
    except DragomanError as error:
        assert len(str(error)) < 200
    else:
        assert all(isinstance(name, str) for name in fields)
