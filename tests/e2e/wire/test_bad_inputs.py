"""Everything odd that a client may send, to a real server process: a defined answer, never a 5xx."""

import gzip
import itertools
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.support.server_process import RunningServer, serving

MAX_CHARS = 2000
MAX_TEXTS = 64
MAX_BODY_BYTES = 1 << 20
MAX_ERROR_BYTES = 4096
ANSWER_WITHIN_S = 30.0
JSON = {"Content-Type": "application/json"}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@pytest.fixture(scope="module")
def server(tiny_bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    log = tmp_path_factory.mktemp("server") / "log"
    with serving(
        tiny_bundle, log, max_text_chars=MAX_CHARS, max_texts=MAX_TEXTS, max_body_bytes=MAX_BODY_BYTES
    ) as server:
        yield server


@pytest.fixture(scope="module")
def client(server: RunningServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=ANSWER_WITHIN_S) as client:
        yield client


@dataclass(frozen=True)
class Case:
    """A request to POST /translate and what may come back."""

    name: str
    body: bytes
    expect: tuple[str, ...]  # codes of the error body, or "ok"
    headers: dict[str, str]


def raw(name: str, body: bytes, *expect: str, **headers: str) -> Case:
    return Case(name, body, expect, JSON | {key.replace("_", "-"): text for key, text in headers.items()})


def fields(name: str, *expect: str, **changes: Any) -> Case:
    given = {"q": "the cat sees a bird.", "source": "en", "target": "de"} | changes
    return Case(name, json.dumps(given).encode(), expect, JSON)


def text(name: str, q: str, *expect: str) -> Case:
    return fields(name, *(expect or ("ok",)), q=q)


def field(name: str, value: str) -> Case:
    """One field of JSON that json.dumps would not write."""
    return raw(
        name, b'{"q":"a","source":"en","target":"de",' + value.encode() + b"}", "malformed", "invalid_option"
    )


SPECIALS = ("<s>", "</s>", "<pad>", "<unk>", ">>fra<<")
VALID = b'{"q":"the cat sees a bird.","source":"en","target":"de"}'
# 400 words that are all different.
WORDS = ["".join(letters) for letters in itertools.product("bdfgk", "aeiou", "lmnr", "aeio")]
MANY_WORDS = [" ".join(WORDS[n:] + WORDS[:n]) for n in range(MAX_TEXTS)]
LONG_OK = ("ok", "text_too_long")
PART = '--x\r\nContent-Disposition: form-data; name="{}"\r\n\r\n{}\r\n'
PARTS = "".join(map(PART.format, ("q", "source", "target"), ("the cat", "en", "de"))).encode() + b"--x--\r\n"
FILE = PARTS.replace(b'"q"', b'"q"; filename="q.txt"')

CASES = [
    raw("1 empty body", b"", "malformed"),
    raw("2 truncated JSON", b'{"q":"a', "malformed"),
    raw("3 text/plain", VALID, "unsupported_media_type", Content_Type="text/plain"),
    Case("3 no content type, JSON", VALID, ("ok",), {}),
    Case("3 no content type, form", b"q=the+cat&source=en&target=de", ("ok",), {}),
    raw("4 multipart", b"--x\r\n", "malformed", Content_Type="multipart/form-data; boundary=x"),
    raw("4 multipart, whole", PARTS, "ok", Content_Type="multipart/form-data; boundary=x"),
    raw("4 a file", FILE, "unsupported_media_type", Content_Type="multipart/form-data; boundary=x"),
    Case("4 form", b"q=the+cat&source=en&target=de", ("ok",), FORM),
    raw("5 gzip", gzip.compress(VALID), "unsupported_media_type", Content_Encoding="gzip"),
    *(
        raw(f"5 {coding}", VALID, "unsupported_media_type", Content_Encoding=coding)
        for coding in ("br", "zstd", "x")
    ),
    raw("5 gzip bomb", gzip.compress(b" " * 20_000_000), "unsupported_media_type", Content_Encoding="gzip"),
    raw("6 UTF-16", VALID.decode().encode("utf-16"), "malformed"),
    raw("6 UTF-16 without mark", VALID.decode().encode("utf-16-le"), "malformed"),
    raw("7 UTF-8 with mark", b"\xef\xbb\xbf" + VALID, "ok"),
    raw("8 latin-1", b'{"q":"\xe9"}', "malformed", Content_Type="application/json; charset=latin-1"),
    raw("9 invalid UTF-8", b'{"q":"\xff\xfe","source":"en","target":"de"}', "malformed"),
    raw("10 CESU surrogate", b'{"q":"\xed\xa0\x80","source":"en","target":"de"}', "malformed"),
    raw("11 lone surrogate", b'{"q":"a\\ud800","source":"en","target":"de"}', "malformed"),
    raw("12 lone surrogate as a key", b'{"\\ud800":1,"q":"a","source":"en","target":"de"}', "malformed"),
    raw("13 surrogate pair", b'{"q":"a \\ud83d\\ude00","source":"en","target":"de"}', "ok"),
    text("14 NUL", "the cat\0sees"),
    raw("15 raw NUL", b'{"q":"a\x00b","source":"en","target":"de"}', "malformed"),
    raw("15 raw line break", b'{"q":"a\nb","source":"en","target":"de"}', "malformed"),
    text("16 empty text", ""),
    text("17 white space", "   \t\n"),
    text("17 no-break and ideographic space", "\u00a0\u3000"),
    text("18 zero width", "\u200b\u200c\u200d\ufeff"),
    text("18 combining marks", "\u0301\u0302" * 10),
    text("19 right to left", "\u202ethe cat\u2066 sees\u2069"),
    text("20 10,000 combining marks", "e" + "\u0301" * 10_000, "text_too_long"),
    text("20 1,900 combining marks", "e" + "\u0301" * 1_900, *LONG_OK),
    text("21 expands 18 times", "a" + "\ufdfa" * (MAX_CHARS - 1), *LONG_OK),
    text("22 private use, noncharacters, emoji chains", "\ue000\ufffe\U000e0001 👩‍👩‍👧‍👦 \U0010ffff"),
    text("23 a word without end", "a" * MAX_CHARS, *LONG_OK),
    text("23 CJK", "漢字" * 500, *LONG_OK),
    text("23 URL", "https://example.org/" + "x%20y/" * 300, *LONG_OK),
    text("24 one character too many", "a" * (MAX_CHARS + 1), "text_too_long"),
    text("25 a text as large as the body may be", "a" * MAX_BODY_BYTES, "body_too_large"),
    raw("26 60 MB", b" " * 60_000_000, "body_too_large"),
    fields("29 no texts", "invalid_request", q=[]),
    fields("30 too many texts", "too_many_texts", q=["a"] * (MAX_TEXTS + 1)),
    fields("31 10^5 texts", "too_many_texts", q=["abc"] * 100_000),
    fields("32 20,000 wrong items", "invalid_request", "too_many_texts", q=[5] * 20_000),
    fields("33 too many tokens in all", "text_too_long", q=MANY_WORDS),
    *(fields(f"34 q is {q!r}", "invalid_request", q=q) for q in (None, 5, True, {}, [["a"]], [None])),
    *(raw(f"35 the whole body is {body!r}", body, "malformed") for body in (b"[1]", b'"x"', b"null", b"3")),
    fields("36 unknown field", "ok", beamsize=3),
    raw("37 a field twice", b'{"q":"a","q":"b","source":"en","target":"de"}', "malformed"),
    *(fields(f"38 beam_size {n}", "invalid_option", beam_size=n) for n in (0, -1, 3, 9, 10**9)),
    *(fields(f"39 beam_size {n!r}", "invalid_option", beam_size=n) for n in ("2", 2.0, True, [], {})),
    field("40 beam_size of 5,000 digits", '"beam_size":' + "9" * 5000),
    *(
        field(f"41 length_penalty {n}", f'"length_penalty":{n}')
        for n in ("NaN", "Infinity", "-Infinity", "1e400", "1e308")
    ),
    fields("42 max_decoding_length", "invalid_option", max_decoding_length=10**6),
    *(
        raw(f"43 {n:,} deep", b'{"q":' + b"[" * n + b"]" * n + b"}", "malformed", "body_too_large")
        for n in (100, 2_000, 100_000, 500_000)
    ),
    *(
        fields("44 source " + language[:20], "unsupported_language", source=language)
        for language in ("zz", "../../etc/passwd", "e" * 10_000, "", "\0")
    ),
    fields("44 target", "ok", target="en"),  # of itself, unchanged
    fields("44 target of nothing", "unsupported_language", source="de", target="en"),
    *(text(f"45 {special}", f"{special} the cat {special}") for special in SPECIALS),
    text("46 repetition", "ha " * 100, *LONG_OK),
    text("46 dots", "." * 500),
    text("47 another language", "Wo ist hier bitte der Bahnhof?"),
    text("47 base64", "TG9yZW0gaXBzdW0gZG9sb3Igc2l0IGFtZXQ=" * 2, *LONG_OK),
    fields("format unknown", "invalid_request", format="markdown"),
    fields("html bomb", "ok", "text_too_long", q="<a '" * 400, format="html"),
    *(
        raw(f"timeout {sent!r}", VALID, "invalid_request", X_Request_Timeout_Ms=sent)
        for sent in ("0", "-5", "+5", "1e3", "1.5", "soon", "5 5", "0x10", "1" * 5000)
    ),
    raw("timeout of eleven days", VALID, "ok", X_Request_Timeout_Ms="999999999"),
    raw("56 a key that nobody asked for", VALID, "ok", Authorization="Bearer " + "x" * 5000),
    fields("56 a key in a field that nobody asked for", "ok", api_key="x" * 100_000),
    raw("57 request id", VALID, "ok", X_Request_ID='"; drop\\x1b'),
    raw("57 long request id", VALID, "ok", X_Request_ID="x" * 10_000),
    raw("58 traceparent", VALID, "ok", traceparent="ff-" + "0" * 32 + "-" + "0" * 16 + "-zz"),
    raw("52 64 KiB of headers", VALID, "headers_too_large", X_Large="x" * 65_000),
    Case("52 200 headers", VALID, ("headers_too_large",), JSON | {f"X-{n}": "1" for n in range(200)}),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_bad_input_has_a_defined_answer(client: httpx.Client, case: Case) -> None:
    request = client.build_request("POST", "/translate", content=case.body, headers=case.headers)
    started_s = time.monotonic()
    response = client.send(request)
    assert time.monotonic() - started_s < ANSWER_WITHIN_S
    assert response.status_code < 500
    assert response.headers["content-type"] == "application/json"
    assert response.headers["x-request-id"]
    body = response.json()
    if response.status_code == 200:
        assert "ok" in case.expect
        return
    assert set(body) == {"error", "code", "request_id"}
    assert body["code"] in case.expect
    assert response.status_code != 422
    assert len(response.content) <= MAX_ERROR_BYTES
    if case.body and len(case.body) < 1000 and b"passwd" in case.body:
        assert "passwd" not in response.text


@pytest.mark.parametrize("blank", ["", "   \t\n", "\u00a0\u3000", "\u200b\u200c\u200d\ufeff"])
def test_blank_text_comes_back_as_it_is(client: httpx.Client, blank: str) -> None:
    response = client.post("/translate", json={"q": [blank], "source": "en", "target": "de"})
    assert response.json() == {"translatedText": [blank]}


@pytest.mark.parametrize("size", [-1, 0, 1])
def test_the_body_limit_is_exact(client: httpx.Client, size: int) -> None:
    head, tail = b'{"q":"the cat","source":"en","target":"de","x":"', b'"}'
    body = head + b" " * (MAX_BODY_BYTES + size - len(head) - len(tail)) + tail
    expected = 413 if size > 0 else 200
    assert client.post("/translate", content=body, headers=JSON).status_code == expected
    chunked = (body[start : start + 65536] for start in range(0, len(body), 65536))
    response = client.post("/translate", content=chunked, headers=JSON)
    assert response.status_code == expected
    assert response.headers["content-type"] == "application/json"


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "BREW"])
def test_other_methods_are_405(client: httpx.Client, method: str) -> None:
    response = client.request(method, "/translate")
    assert (response.status_code, response.headers["allow"]) == (405, "POST")
    if method != "HEAD":
        assert response.json()["code"] == "method_not_allowed"


@pytest.mark.parametrize(
    "path", ["/nope", "/translate/", "/translate/../etc/passwd", "/%00", "/\u202e", "/v2/translate"]
)
def test_unknown_paths_are_404(client: httpx.Client, path: str) -> None:
    response = client.post(path, content=VALID, headers=JSON)
    assert (response.status_code, response.json()["code"]) == (404, "not_found")


def test_the_same_request_has_the_same_answer(client: httpx.Client) -> None:
    body = {
        "q": "every red flower loves the city.",
        "source": "en",
        "target": "de",
        "beam_size": 4,
        "scores": True,
    }
    answers = {client.post("/translate", json=body).text for _ in range(50)}
    assert len(answers) == 1


def test_memory_is_not_a_function_of_what_is_sent(client: httpx.Client, server: RunningServer) -> None:
    process = psutil.Process(server.process.pid)
    before = process.memory_info().rss
    for _ in range(3):
        assert client.post("/translate", content=b"x" * 30_000_000, headers=JSON).status_code == 413
    assert process.memory_info().rss - before < 20 << 20


def test_afterwards_the_server_is_well(client: httpx.Client, server: RunningServer) -> None:
    assert client.get("/livez").status_code == 200
    text = client.get("/metrics").text
    samples = [line for line in text.splitlines() if not line.startswith("#")]
    assert len(samples) < 500
    assert "dragoman_queue_sentences 0.0" in text
    assert 'code="5' not in "".join(line for line in samples if not line.endswith(" 0.0"))
    log = server.log.read_text(encoding="utf-8")
    assert "Traceback" not in log
    assert "the cat" not in log
    for line in log.splitlines():
        json.loads(line)
