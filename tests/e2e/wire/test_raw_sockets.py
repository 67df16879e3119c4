"""What no HTTP client library would send: broken framing, floods, and clients that stop in the middle."""

import contextlib
import json
import socket
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from tests.support.server_process import RunningServer, serving

HEADER_TIMEOUT_S = 1.0
BODY_TIMEOUT_S = 2.0
SLACK_S = 4.0  # for a busy machine
BODY = b'{"q":"the cat sees a bird.","source":"en","target":"de"}'
HEAD = b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"


@pytest.fixture(scope="module")
def server(tiny_bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    log = tmp_path_factory.mktemp("server") / "log"
    timeouts = {"header_timeout_s": HEADER_TIMEOUT_S, "body_timeout_s": BODY_TIMEOUT_S}
    with serving(tiny_bundle, log, **timeouts) as server:
        yield server


def exchange(server: RunningServer, *parts: bytes) -> bytes:
    """Send bytes and read until the server closes or has nothing more to say."""
    with server.connect(5.0) as connection:
        with contextlib.suppress(ConnectionError):  # the server may have closed before all was sent
            for part in parts:
                connection.sendall(part)
        return read_all(connection)


def read_all(connection: socket.socket) -> bytes:
    received = b""
    with contextlib.suppress(TimeoutError, ConnectionError):
        while block := connection.recv(65536):
            received += block
            if received.endswith(b"}"):
                connection.settimeout(0.5)  # perhaps another answer follows
    return received


def read_answer(connection: socket.socket) -> bytes:
    """Read one short answer from a connection that stays open."""
    received = b""
    while not received.endswith(b"}"):
        block = connection.recv(65536)
        assert block
        received += block
    return received


def seconds_until_closed(connection: socket.socket, trickle: bytes = b"") -> float:
    started_s = time.monotonic()
    connection.settimeout(0.2)
    while time.monotonic() - started_s < 60:
        try:
            if trickle:
                connection.sendall(trickle)
            if connection.recv(65536) == b"":
                break
        except TimeoutError:
            continue
        except ConnectionError:
            break
    return time.monotonic() - started_s


def post(body: bytes = BODY, *headers: bytes) -> bytes:
    lines = headers or (b"Content-Length: %d" % len(body),)
    return HEAD + b"".join(line + b"\r\n" for line in lines) + b"\r\n" + body


@pytest.mark.parametrize(
    ("request_bytes", "statuses"),
    [
        (post(BODY, b"Content-Length: 5", b"Content-Length: 6"), (400,)),
        (post(BODY, b"Content-Length: 5", b"Transfer-Encoding: chunked"), (400,)),
        (post(BODY, b"Transfer-Encoding: chunked, chunked"), (400, 501)),
        (post(BODY, b"Transfer-Encoding: gzip"), (400, 501)),
        (post(BODY, b"Content-Length: -5"), (400,)),
        (post(BODY, b"Content-Length: " + b"9" * 30), (400, 413)),
        (post(b"", b"Content-Length: 10000000000"), (413,)),
        (post(b"zz\r\nxx", b"Transfer-Encoding: chunked"), (400,)),
        (post(b"fffffffffffffffffffff\r\n", b"Transfer-Encoding: chunked"), (400, 413)),
        (b"GET /livez HTTP/1.1\r\n\r\n", (400,)),  # no Host
        (b"GET livez HTTP/1.1\r\nHost: x\r\n\r\n", (400, 404)),
        (b"GET /livez HTTP/1.1\r\nHost: a b\\c\r\n\r\n", (200, 400)),
        (b"GET /livez HTTP/1.1\r\nHost: x\r\n bad: folded\r\nX\r\n\r\n", (400,)),
        (b"GET /livez HTTP/9.9\r\nHost: x\r\n\r\n", (200, 400, 505)),
        (b"GET /" + b"x" * 1_000_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", (400, 414, 431)),
        (b"GET /livez HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 1_000_000 + b"\r\n\r\n", (400, 431)),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", (400,)),  # TLS
        (b"\x00" * 100 + b"\r\n\r\n", (400,)),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", (400, 404, 505)),
    ],
    ids=lambda value: repr(value[-40:]) if isinstance(value, bytes) else "",
)  # fmt: skip
def test_broken_requests_are_refused(
    server: RunningServer, request_bytes: bytes, statuses: tuple[int, ...]
) -> None:
    answer = exchange(server, request_bytes)
    if answer == b"" and len(request_bytes) > 100_000:
        return  # closed while we were still sending, which loses the answer on the way
    head, _, rest = answer.partition(b"\r\n\r\n")
    body = rest[: int(head.lower().partition(b"content-length: ")[2].split()[0])]
    assert int(head.split()[1]) in statuses
    if not head.startswith(b"HTTP/1.1 200"):
        assert set(json.loads(body)) == {"error", "code", "request_id"}
        assert b"x-request-id" in head.lower()


def test_headers_in_small_parts_have_a_limit_too(server: RunningServer) -> None:
    parts = [b"GET /livez HTTP/1.1\r\nHost: x\r\n", *(b"X-%d: %s\r\n" % (n, b"y" * 500) for n in range(200))]
    answer = exchange(server, *parts)
    assert answer == b"" or b" 431 " in answer.split(b"\r\n")[0]


def test_pipelined_requests_are_answered_in_order(server: RunningServer) -> None:
    words = (b"cat", b"bird", b"lamp", b"city") * 25
    requests = b"".join(post(b'{"q":"%s","source":"en","target":"de"}' % word) for word in words)
    with server.connect() as connection:
        connection.sendall(requests)
        received = b""
        while received.count(b"translatedText") < len(words):
            block = connection.recv(65536)
            assert block
            received += block
    translations = [part.split(b'"')[2] for part in received.split(b"translatedText")[1:]]
    assert len(set(translations)) == 4
    assert translations == translations[:4] * 25


def test_a_body_of_one_byte_chunks_is_read(server: RunningServer) -> None:
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in BODY) + b"0\r\n\r\n"
    assert b" 200 " in exchange(server, post(chunks, b"Transfer-Encoding: chunked")).split(b"\r\n")[0]


def test_a_flood_of_chunks_costs_little(server: RunningServer) -> None:
    """A mebibyte in chunks of one byte, again and again, is refused for that."""
    size = (1 << 20) - 200
    body = BODY[:-1] + b',"x":"' + b" " * (size - len(BODY) - 7) + b'"}'
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"
    flood = post(chunks, b"Transfer-Encoding: chunked")
    process = psutil.Process(server.process.pid)

    def cpu_s() -> float:
        times = process.cpu_times()
        return times.user + times.system

    sizes, spent_s = [], []
    for _ in range(4):
        before_s = cpu_s()
        answer = exchange(server, flood)
        spent_s.append(cpu_s() - before_s)
        sizes.append(process.memory_info().rss)
        assert answer[9:12] == b"413"
        with server.connect() as other:
            other.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b"alive" in read_answer(other)
    assert sizes[-1] - sizes[1] < 4 << 20
    assert min(spent_s) < 0.5  # 2 s if all were read


@pytest.mark.parametrize("pause_s", [0.0, 0.1])
@pytest.mark.parametrize(
    ("head", "code"),
    [
        (HEAD, 400),
        (b"GET /livez HTTP/1.1\r\nHost: x\r\n", 200),  # is answered without its body
        (b"GET /nowhere HTTP/1.1\r\nHost: x\r\n", 404),
    ],
)
def test_a_body_that_goes_wrong_ends_its_request_once(
    server: RunningServer, head: bytes, code: int, pause_s: float
) -> None:
    def counts() -> Counter[str]:
        found: Counter[str] = Counter()
        for series, value in server.metrics().items():
            if series.startswith("dragoman_http_requests_total") and "/metrics" not in series:
                found[series.partition('code="')[2][:3]] += int(value)
        return found

    before, start = counts(), head + b"Transfer-Encoding: chunked\r\n\r\n"
    with server.connect(5.0) as connection:
        for part in [start + b"zz\r\n" * 1000] if not pause_s else [start, b"zz\r\n" * 1000]:
            with contextlib.suppress(ConnectionError):  # answered before the body came, it has been closed
                connection.sendall(part)
                time.sleep(pause_s)
        answer = read_all(connection)
    assert answer.startswith(b"HTTP/1.1 %d " % code)
    assert answer.count(b"HTTP/1.1") == 1
    assert counts() - before == {str(code): 1}
    assert '"error"' not in server.log.read_text(encoding="utf-8")


def test_a_client_reads_its_refusal_only_when_all_is_sent(server: RunningServer) -> None:
    """As most do; a reset would throw the answer away before that."""
    for kind in (b"Content-Length: 30000000", b"Transfer-Encoding: chunked"):
        body = b" " * 30_000_000
        chunked = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
        with server.connect() as connection:
            connection.sendall(post(body if b"Length" in kind else chunked, kind))
            head, _, _ = read_all(connection).lower().partition(b"\r\n\r\n")
        assert head.startswith(b"http/1.1 413")
        assert b"connection: close" in head


def test_who_goes_on_sending_after_a_refusal_is_closed(server: RunningServer) -> None:
    started_s = time.monotonic()
    with server.connect() as connection, pytest.raises(ConnectionError):
        connection.sendall(post(b"", b"Content-Length: 10000000000"))
        while time.monotonic() < started_s + 30:
            connection.sendall(b" " * 1000)
            time.sleep(0.1)
    assert time.monotonic() - started_s > 3  # a slow client has had time to read why


@pytest.mark.parametrize("sent", [b"", b"GET /li", b"GET /livez HTTP/1.1\r\nHost: x\r\n"])
def test_a_client_that_stops_before_the_headers_end_is_closed(server: RunningServer, sent: bytes) -> None:
    with server.connect() as connection:
        connection.sendall(sent)
        assert seconds_until_closed(connection) < HEADER_TIMEOUT_S + SLACK_S


def test_headers_byte_by_byte_do_not_hold_a_connection(server: RunningServer) -> None:
    with server.connect() as connection:
        connection.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\nX: ")
        assert seconds_until_closed(connection, trickle=b"y") < HEADER_TIMEOUT_S + SLACK_S


def test_slow_headers_of_a_second_request_do_not_either(server: RunningServer) -> None:
    with server.connect() as connection:
        connection.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"alive" in read_answer(connection)
        connection.sendall(b"GET /livez HTTP/1.1\r\nX: ")
        assert seconds_until_closed(connection, trickle=b"y") < HEADER_TIMEOUT_S + SLACK_S


@pytest.mark.parametrize("trickle", [b"", b" "])
def test_a_body_that_does_not_come_is_not_waited_for(server: RunningServer, trickle: bytes) -> None:
    with server.connect() as connection:
        connection.sendall(post(b"{", b"Content-Length: 500000"))
        assert seconds_until_closed(connection, trickle) < BODY_TIMEOUT_S + SLACK_S


def test_a_client_that_does_not_read_is_closed(server: RunningServer) -> None:
    requests = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 1000
    with server.connect(0.2) as connection:
        started_s = time.monotonic()
        with pytest.raises(ConnectionError):
            while time.monotonic() - started_s < 60:
                with contextlib.suppress(
                    TimeoutError
                ):  # the server reads no more: its answers are in the way
                    connection.send(requests)


def test_an_idle_connection_is_kept(server: RunningServer) -> None:
    with server.connect() as connection:
        for _ in range(2):
            connection.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b"alive" in read_answer(connection)
            time.sleep(HEADER_TIMEOUT_S + 1)
        connection.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"alive" in read_answer(connection)


def test_afterwards_the_server_is_well(server: RunningServer) -> None:
    text = httpx.get(f"{server.url}/metrics", timeout=20).text
    assert "dragoman_http_requests_in_flight 1.0" in text  # this one
    assert 'route="<unmatched>"} ' in text
    assert "Traceback" not in server.log.read_text(encoding="utf-8")
