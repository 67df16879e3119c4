"""Spans of a real server process, received as a collector does: OTLP over HTTP, protobuf."""

import http.server
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from tests.support.listening import listening
from tests.support.server_process import free_port, serving, wait_for

BODY = {"q": ["the cat sees a bird.", "the old lamp."], "source": "en", "target": "de"}
TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
STAGES = ["parse", "tokenize", "queue", "encode", "decode", "detokenize"]


class Collector(http.server.ThreadingHTTPServer):
    """Keeps the spans that it is sent, and what sent them."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Receiver)
        self.spans: list[Span] = []
        self.services: set[str] = set()
        self.paths: set[str] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def of_trace(self, trace: str) -> list[Span]:
        return [span for span in self.spans if span.trace_id.hex() == trace]


class Receiver(http.server.BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        request = ExportTraceServiceRequest.FromString(body)
        self.server.paths.add(self.path)
        for resource in request.resource_spans:
            attributes = {pair.key: pair.value.string_value for pair in resource.resource.attributes}
            self.server.services.add(attributes["service.name"])
            for scope in resource.scope_spans:
                self.server.spans += scope.spans
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_arguments: Any) -> None:
        pass


def log_lines(log: Path) -> list[dict[str, Any]]:
    lines = map(json.loads, log.read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line.get("route") == "/translate"]


def test_a_request_is_a_span_with_its_stages_inside(tiny_bundle: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with listening(Collector()) as collector:
        with (
            serving(tiny_bundle, log, otel_endpoint=collector.url) as server,
            httpx.Client(base_url=server.url, timeout=20) as client,
        ):
            sent = {"traceparent": f"00-{TRACE}-{PARENT}-01", "X-Request-ID": "mine"}
            answer = client.post("/translate", json=BODY, headers=sent)
            assert answer.status_code == 200
            unsampled = {"traceparent": f"00-{'a' * 32}-{PARENT}-00"}
            assert client.post("/translate", json=BODY, headers=unsampled).status_code == 200
            late = {"traceparent": f"00-{'b' * 32}-{PARENT}-01", "X-Request-Timeout-Ms": "1"}
            many = BODY | {"q": [f"the cat sees {n} birds." for n in range(60)], "min_decoding_length": 120}
            assert client.post("/translate", json=many, headers=late).status_code == 504
            assert client.post("/translate", json=BODY).status_code == 200
            assert client.get("/livez", headers=sent).status_code == 200
        # The end sends what is left.
        assert collector.paths == {"/v1/traces"}
        assert collector.services == {"dragoman"}
        root, *stages = sorted(collector.of_trace(TRACE), key=lambda span: span.name != "POST /translate")
        assert root.parent_span_id.hex() == PARENT
        assert root.kind == Span.SPAN_KIND_SERVER
        attributes = {pair.key: pair.value for pair in root.attributes}
        assert attributes["dragoman.request_id"].string_value == "mine"
        assert attributes["http.response.status_code"].int_value == 200
        assert attributes["dragoman.sentences"].int_value == 2
        assert "cat" not in str(root)
        ordered = sorted(stages, key=lambda span: (span.start_time_unix_nano, STAGES.index(span.name)))
        assert [span.name for span in ordered] == STAGES
        timing = dict(part.split(";dur=") for part in answer.headers["server-timing"].split(", "))
        for span in ordered:
            assert span.parent_span_id == root.span_id
            assert root.start_time_unix_nano <= span.start_time_unix_nano <= span.end_time_unix_nano
            assert span.end_time_unix_nano <= root.end_time_unix_nano
            took_ms = (span.end_time_unix_nano - span.start_time_unix_nano) / 1e6
            assert took_ms <= float(timing[span.name]) + 0.02
        assert abs(time.time() - root.end_time_unix_nano / 1e9) < 60
        assert collector.of_trace("a" * 32) == []
        (failed,) = (span for span in collector.of_trace("b" * 32) if span.name == "POST /translate")
        assert failed.status.code == Status.STATUS_CODE_ERROR
        assert len(collector.spans) >= 7 + 1 + 7
        line = log_lines(log)[0]
        assert line["request_id"] == "mine"
        assert line["traceparent"] == f"00-{TRACE}-{root.span_id.hex()}-01"
        own = log_lines(log)[3]["traceparent"].split("-")
        assert len(collector.of_trace(own[1])) == 7
        assert {span.name for span in collector.spans} == {"POST /translate", *STAGES}


def test_without_a_collector_nothing_waits(tiny_bundle: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with serving(tiny_bundle, log, otel_endpoint=f"http://127.0.0.1:{free_port()}") as server:
        with httpx.Client(base_url=server.url) as client:
            for _ in range(50):
                assert client.post("/translate", json=BODY, timeout=5).status_code == 200
        started_s = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - started_s < 8
    for line in log.read_text(encoding="utf-8").splitlines():
        json.loads(line)


def test_the_log_names_the_trace_without_tracing(tiny_bundle: Path, tmp_path: Path) -> None:
    good, log = f"00-{TRACE}-{PARENT}-01", tmp_path / "log"
    with serving(tiny_bundle, log) as server:
        for traceparent in (good, good.upper(), "x"):
            headers = {"traceparent": traceparent}
            assert (
                httpx.post(f"{server.url}/translate", json=BODY, headers=headers, timeout=20).status_code
                == 200
            )
    wait_for(lambda: len(log_lines(log)) == 3)
    assert [line.get("traceparent") for line in log_lines(log)] == [good, None, None]
    assert all(len(line["request_id"]) == 16 for line in log_lines(log))


def test_where_it_is_not_wanted_it_is_not_loaded(repository: Path) -> None:
    """FastAPI brings OpenTelemetry's interface along, which does nothing by itself."""
    code = (
        "import server.cli.serve, sys; "
        "print('opentelemetry.sdk' in sys.modules, 'google.protobuf' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=repository, capture_output=True, text=True, check=True
    )
    assert done.stdout == "False False\n"


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("DRAGOMAN_OTEL_ENDPOINT", "localhost:4318", "setting otel_endpoint: "),
        ("DRAGOMAN_OTEL_SAMPLE_RATIO", "1.5", "setting otel_sample_ratio: "),
    ],
)
def test_a_bad_setting_is_named(tiny_bundle: Path, variable: str, value: str, said: str) -> None:
    command = [sys.executable, "-m", "dragoman", "serve", str(tiny_bundle)]
    done = subprocess.run(
        command, env={variable: value}, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith(f"dragoman serve: {said}")


def test_without_the_library_that_is_said_in_one_line(tiny_bundle: Path) -> None:
    absent = "opentelemetry.exporter.otlp.proto.http.trace_exporter"
    code = f"import sys; sys.modules[{absent!r}] = None; from dragoman import app; app()"
    command = [sys.executable, "-c", code, "serve", str(tiny_bundle), "--port", str(free_port())]
    variables = {"DRAGOMAN_OTEL_ENDPOINT": "http://127.0.0.1:9"}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "pip install 'dragoman[otel]'" in done.stderr
