"""Every Prometheus series of the server, in one class. docs/metrics.md explains them.

Labels are closed sets and created at the start, so that a rate sees the first event as a step from 0.
"""

import itertools
import platform
from collections.abc import Mapping
from importlib import metadata
from types import MappingProxyType

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.gc_collector import GCCollector

from server.engine.limits import EngineStats
from server.engine.observer import EndReason, EngineObserver
from server.metrics.cache import CacheCollector
from server.metrics.model import ModelMetrics, ModelObserver
from server.metrics.process import ProcessTreeCollector
from server.metrics.series import Series

# From 1 ms, because short sentences take a few; with the service levels (0.1, 0.25, 0.5, 1 s) as exact
# bounds.
REQUEST_BUCKETS = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.5, 0.75,
    1.0, 1.5, 2.5, 5.0, 10.0, 30.0,
)  # fmt: skip
STAGE_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
STEP_BUCKETS = (0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256)
LAG_BUCKETS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
TOKEN_BUCKETS = (4, 8, 16, 32, 64, 128, 256, 512)
BATCH_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128)
SIZE_BUCKETS = (256, 1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20)

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
OTHER_METHOD = "_OTHER"
UNMATCHED_ROUTE = "<unmatched>"
PREFLIGHT_ROUTE = "<preflight>"
# Routes whose latency is observed; each costs 22 series a method.
TIMED_ROUTES = ("/translate", "/generate", "/detect", "/livez", "/readyz", "/metrics")
TRANSLATE_CODES = ("200", "400", "401", "403", "413", "415", "429", "499", "500", "503", "504")
STAGES = ("parse", "tokenize", "encode", "decode", "detokenize")
FINISH_REASONS = ("eos", "length", "cancelled", "deadline", "error")
ENGINE_ERRORS = ("run_failed", "terminated", "poison", "out_of_memory", "worker_lost")
GUARD_REASONS = (
    "loop", "truncated", "overlong", "copied", "invalid", "detached", "numbers", "names", "marks", "language",
    "glossary", "other",
)  # fmt: skip
GUARD_OUTCOMES = ("mended", "kept")
PHASES = ("receiving", "queued", "running")
RELOAD_OUTCOMES = ("success", "refused", "failed")
KEY_RESULTS = ("admitted", "rate_limited", "over_quota")
REJECTED = {
    "invalid_request": "invalid",
    "malformed": "invalid",
    "invalid_option": "invalid",
    "too_many_texts": "invalid",
    "unsupported_language": "invalid",
    "unsupported_media_type": "invalid",
    "text_too_long": "too_many_tokens",
    "body_too_large": "too_large",
    "missing_key": "unauthorized",
    "bad_key": "unauthorized",
    "rate_limited": "rate_limited",
    "quota_exceeded": "quota_exceeded",
    "queue_full": "queue_full",
    "deadline_exceeded": "deadline",
    "draining": "draining",
    "not_ready": "not_ready",
    "engine_dead": "not_ready",
}


class Metrics:
    """All series, over one registry. Implements `EngineObserver`. Thread-safe."""

    def __init__(self, registry: CollectorRegistry, commit: str = "unknown") -> None:
        """Register every series and pre-create every known label.

        Args:
            registry: where they are registered; each instance needs its own.
            commit: source revision for `dragoman_build_info`.
        """
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = registry
        self._processes = ProcessTreeCollector(registry)
        GCCollector(registry=registry)
        series = Series(registry)
        self._register_requests(series)
        self._register_engine(series)
        self._guards = series.counter(
            "guard_total", "Checks that found a translation suspicious.", ("reason", "outcome")
        )
        self._reloads = series.counter("reloads_total", "Attempts to serve another model.", ("outcome",))
        self.ready = series.gauge("ready", "1 when requests are accepted.")
        self.draining = series.gauge("draining", "1 when shutting down.")
        self.event_loop_lag = series.histogram(
            "event_loop_lag_seconds", "Delay of a 100 ms timer.", buckets=LAG_BUCKETS
        )
        build = series.gauge("build_info", "Build.", ("version", "commit", "python", "onnxruntime"))
        build.labels(
            _version("dragoman"),
            commit,
            platform.python_version(),
            _version("onnxruntime", "onnxruntime-gpu"),
        ).set(1)
        self.models = ModelMetrics(registry)
        self.cache = CacheCollector(registry)
        self._create_labels()

    def _register_requests(self, series: Series) -> None:
        counter, histogram = series.counter, series.histogram
        self._requests = counter(
            "http_requests_total", "HTTP requests answered.", ("route", "method", "code")
        )
        self._request_duration = histogram(
            "http_request_duration_seconds", "Time from headers parsed to last byte sent.",
            ("route", "method"), buckets=REQUEST_BUCKETS,
        )  # fmt: skip
        self.requests_in_flight = series.gauge("http_requests_in_flight", "HTTP requests being handled.")
        self._request_size = histogram("http_request_size_bytes", "Request body size.", buckets=SIZE_BUCKETS)
        self._rejected = counter(
            "requests_rejected_total", "Requests refused before inference.", ("route", "reason")
        )
        self._disconnects = counter(
            "client_disconnects_total", "Requests abandoned by the client.", ("phase",)
        )
        self._key_requests = counter(
            "key_requests_total", "Requests by the name of their API key.", ("key", "result")
        )
        self._key_characters = counter(
            "key_characters_total", "Characters taken on, by the name of their API key.", ("key",)
        )
        self._keys: frozenset[str] = frozenset()
        self._stage_duration = histogram(
            "stage_duration_seconds", "Time per stage and request.", ("stage",), buckets=STAGE_BUCKETS
        )

    def _register_engine(self, series: Series) -> None:
        counter, gauge, histogram = series.counter, series.gauge, series.histogram
        self._queue_sentences = gauge("queue_sentences", "Sentences waiting.")
        self._queue_tokens = gauge("queue_tokens", "Source tokens waiting.")
        self.queue_capacity_tokens = gauge(
            "queue_capacity_tokens", "Admission limit of source tokens waiting for a model."
        )
        self._queue_oldest = gauge("queue_oldest_age_seconds", "Age of the oldest waiting sentence.")
        self._queue_wait = histogram(
            "queue_wait_seconds", "Enqueue to first compute, per sentence.", buckets=STAGE_BUCKETS
        )
        self._batch_sentences = histogram(
            "batch_sentences",
            "Sentences per encoder run, rows per decoder step.",
            ("stage",),
            buckets=BATCH_BUCKETS,
        )
        self._batch_max_sentences = gauge("batch_max_sentences", "Decoder rows of one worker.")
        self._batch_tokens = counter(
            "batch_tokens_total", "Positions of encoder runs, padding included.", ("kind",)
        )
        self._slots = gauge("decode_slots", "Decoder rows now.", ("state",))
        self._slot_steps = counter("decode_slot_steps_total", "Decoder rows times steps.", ("state",))
        self._step_duration = histogram(
            "decode_step_duration_seconds", "One decoder step.", buckets=STEP_BUCKETS
        )
        self._source_tokens_total = counter("source_tokens_total", "Source tokens read, without padding.")
        self._target_tokens_total = counter("target_tokens_total", "Target tokens produced, without padding.")
        self._source_tokens = histogram(
            "sentence_source_tokens", "Source tokens per sentence.", buckets=TOKEN_BUCKETS
        )
        self._target_tokens = histogram(
            "sentence_target_tokens", "Target tokens per sentence.", buckets=TOKEN_BUCKETS
        )
        self._finished = counter("sentences_finished_total", "Sentences that left the engine.", ("reason",))
        self._engine_errors = counter("engine_errors_total", "Engine faults.", ("kind",))
        self._kv_cache = gauge("kv_cache_bytes", "Key and value caches allocated, and columns of shortlists.")
        self.kv_cache_capacity = gauge("kv_cache_capacity_bytes", "What keys and values of a model may take.")
        self._engine_alive = gauge("engine_alive", "1 until lost workers cannot be replaced.")

    def _create_labels(self) -> None:
        """Create every known label, and keep the children that events are counted on: `labels` is slow."""
        self._answers: dict[tuple[str, str, int], Counter] = {}
        self._durations: dict[tuple[str, str], Histogram] = {}
        for code in TRANSLATE_CODES:
            self._answers["/translate", "POST", int(code)] = self._requests.labels("/translate", "POST", code)
        self._durations["/translate", "POST"] = self._request_duration.labels("/translate", "POST")
        for reason in sorted(set(REJECTED.values())):
            self._rejected.labels("/translate", reason)
        for phase in PHASES:
            self._disconnects.labels(phase)
        for kind in ENGINE_ERRORS:
            self._engine_errors.labels(kind)
        for outcome in RELOAD_OUTCOMES:
            self._reloads.labels(outcome)
        for alarm, outcome in itertools.product(GUARD_REASONS, GUARD_OUTCOMES):
            self._guards.labels(alarm, outcome)
        self._stages = {stage: self._stage_duration.labels(stage) for stage in STAGES}
        self._ends = {reason: self._finished.labels(reason) for reason in FINISH_REASONS}
        self._encode_sentences = self._batch_sentences.labels("encode")
        self._decode_rows = self._batch_sentences.labels("decode")
        self._real_tokens, self._padding_tokens = map(self._batch_tokens.labels, ("real", "padding"))
        self._busy_slots, self._free_slots = map(self._slots.labels, ("busy", "free"))
        self._busy_steps, self._idle_steps = map(self._slot_steps.labels, ("busy", "idle"))

    # HTTP

    def answered(self, route: str | None, method: str, code: int, duration_s: float, body_bytes: int) -> None:
        """Count a request that has ended.

        Args:
            route: template of the matched route; None if none matched.
            method: of the request, any string.
            code: status answered, 499 if the client went away.
            duration_s: seconds since its headers were parsed.
            body_bytes: size of the body that was read.
        """
        method, route = method if method in METHODS else OTHER_METHOD, route or UNMATCHED_ROUTE
        answers = self._answers.get((route, method, code))
        if answers is None:
            answers = self._answers[route, method, code] = self._requests.labels(route, method, str(code))
        answers.inc()
        if route in TIMED_ROUTES and code != 405:
            duration = self._durations.get((route, method))
            if duration is None:
                duration = self._durations[route, method] = self._request_duration.labels(route, method)
            duration.observe(duration_s)
        if body_bytes:
            self._request_size.observe(body_bytes)

    def rejected(self, route: str | None, reason: str) -> None:
        """Count a refusal by route and the error's reason; reasons of failures are looked over."""
        if reason in REJECTED:
            self._rejected.labels(route or UNMATCHED_ROUTE, REJECTED[reason]).inc()

    def disconnected(self, phase: str) -> None:
        """Count a client that went away: `receiving`, `queued` or `running`."""
        self._disconnects.labels(phase).inc()

    def set_keys(self, names: frozenset[str]) -> None:
        """Say whose API keys there are from now on: a closed set, which the operator's file decides."""
        for name in self._keys - names:
            self._key_characters.remove(name)
            for result in KEY_RESULTS:
                self._key_requests.remove(name, result)
        for name in sorted(names):
            self._key_characters.labels(name)
            for result in KEY_RESULTS:
                self._key_requests.labels(name, result)
        self._keys = names

    def key_used(self, name: str, result: str, characters: int) -> None:
        """Count a request with an API key and the characters that it pays for; one of `KEY_RESULTS`.

        A key that has left the file since the request came is looked over.
        """
        if name in self._keys:
            self._key_requests.labels(name, result).inc()
            self._key_characters.labels(name).inc(characters)

    def guarded(self, reason: str, outcome: str, times: int) -> None:
        """Count translations that a check found suspicious, by its reason and one of `GUARD_OUTCOMES`."""
        self._guards.labels(reason if reason in GUARD_REASONS else "other", outcome).inc(times)

    def stage(self, stage: str, duration_s: float) -> None:
        """Observe how long one of `STAGES` took for a request."""
        self._stages[stage].observe(duration_s)

    # The engine's observer

    def encode(self, sentences: int, real_tokens: int, padding_tokens: int, duration_s: float) -> None:
        """Observe an encoder run."""
        self._encode_sentences.observe(sentences)
        self._real_tokens.inc(real_tokens)
        self._padding_tokens.inc(padding_tokens)

    def step(self, busy_rows: int, idle_rows: int, duration_s: float) -> None:
        """Observe a decoder step."""
        self._decode_rows.observe(busy_rows)
        self._busy_steps.inc(busy_rows)
        self._idle_steps.inc(idle_rows)
        self._step_duration.observe(duration_s)

    def finished(self, reason: EndReason, source_tokens: int, target_tokens: int, queue_s: float) -> None:
        """Observe a sentence that left the engine, however it ended."""
        self._ends[reason].inc()
        if reason in ("eos", "length"):
            self._queue_wait.observe(queue_s)
            self._source_tokens.observe(source_tokens)
            self._target_tokens.observe(target_tokens)
            self._source_tokens_total.inc(source_tokens)
        self._target_tokens_total.inc(target_tokens)

    def error(self, kind: str) -> None:
        """Count an engine fault."""
        self._engine_errors.labels(kind).inc()

    def of_model(self, name: str) -> EngineObserver:
        """Give the observer of one model's engine, which counts for the model, too."""
        return ModelObserver(name, self, self.models)

    # State, set when it is scraped or when it changes

    def refresh(self, stats: EngineStats, by_model: Mapping[str, EngineStats] = MappingProxyType({})) -> None:
        """Set the gauges that mirror the engines: all together, and each by its model's name."""
        self.models.refresh(by_model)
        self._processes.engine_pids = stats.engine_pids
        self._queue_sentences.set(stats.queue_sentences)
        self._queue_tokens.set(stats.queue_tokens)
        self._queue_oldest.set(stats.queue_oldest_age_s)
        self._busy_slots.set(stats.rows_busy)
        self._free_slots.set(stats.rows_total - stats.rows_busy)
        self._batch_max_sentences.set(stats.max_rows)
        self._kv_cache.set(stats.kv_cache_bytes)
        self._engine_alive.set(stats.alive)

    def reloaded(self, outcome: str) -> None:
        """Count a reload that ended in one of `RELOAD_OUTCOMES`."""
        self._reloads.labels(outcome).inc()

    def render(self) -> bytes:
        """Write all series in Prometheus' text format."""
        return prometheus_client.generate_latest(self.registry)


def _version(*distributions: str) -> str:
    for name in distributions:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return "unknown"
