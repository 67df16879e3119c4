"""Prometheus series of each model and each language pair. docs/metrics.md explains them.

Their labels are names of bundles and languages, which the operator chooses and a reload may change: the
series of a name or pair that is not served any more end.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge

from server.engine.limits import EngineStats
from server.engine.observer import EndReason, EngineObserver
from server.metrics.series import Series
from server.service.translation.model_slot import ModelSlot

Pair = tuple[str, str, str]
"""Source, target, and the language between them, empty for a model of its own."""


class ModelMetrics:
    """The series with a label `model`, and those of language pairs. Thread-safe."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register every series; labels come with `set_models`."""
        series = Series(registry)

        def gauge(name: str, text: str, labels: Iterable[str] = ("model",)) -> Gauge:
            return series.gauge(f"model_{name}", text, labels)

        counter = series.counter
        self._info = gauge(
            "info", "Models being served.", ("name", "version", "sha256", "precision", "opset")
        )
        self._load = gauge("load_duration_seconds", "Last load including warm-up.")
        self._loaded = gauge("loaded_timestamp_seconds", "Unix time of the last successful load.")
        self._alive = gauge("engine_alive", "1 until lost workers of this model cannot be replaced.")
        self._queue_sentences = gauge("queue_sentences", "Sentences waiting for this model.")
        self._queue_tokens = gauge("queue_tokens", "Source tokens waiting for this model.")
        self._rows_busy = gauge("rows_busy", "Decoder rows of this model in use.")
        self._kv_cache = gauge("kv_cache_bytes", "Key and value caches of this model.")
        self._sentences = counter(
            "model_sentences_total", "Sentences that this model translated.", ("model",)
        )
        self._tokens = counter(
            "model_target_tokens_total", "Target tokens that this model produced.", ("model",)
        )
        self._pairs = counter(
            "translations_total", "Requests translated, by language pair.", ("source", "target", "pivot")
        )
        self._of_engine = (
            self._alive, self._queue_sentences, self._queue_tokens, self._rows_busy, self._kv_cache,
        )  # fmt: skip
        self._of_model = (self._load, self._loaded, *self._of_engine, self._sentences, self._tokens)
        self._names: frozenset[str] = frozenset()
        self._counters: dict[str, tuple[Counter, Counter]] = {}
        self._translated: dict[Pair, Counter] = {}

    def set_models(self, slots: Sequence[ModelSlot], pairs: Collection[Pair]) -> None:
        """Say which models, and which language pairs of all of them together, are served from now on."""
        names = frozenset(slot.model.manifest.name for slot in slots)
        for name in self._names - names:
            del self._counters[name]
            for series in self._of_model:
                series.remove(name)
        self._names = names
        self._info.clear()
        for slot in slots:
            model, name, manifest = slot.model, slot.model.manifest.name, slot.model.manifest
            opset = str(manifest.graphs.opset)
            self._info.labels(name, manifest.version, model.sha256[:12], manifest.precision, opset).set(1)
            self._load.labels(name).set(model.load_duration_s)
            self._loaded.labels(name).set(slot.since_s)
            for series in self._of_engine:
                series.labels(name)
            self._counters[name] = self._sentences.labels(name), self._tokens.labels(name)
        for pair in set(self._translated) - set(pairs):
            self._pairs.remove(*pair)
            del self._translated[pair]
        for pair in pairs:
            self._translated.setdefault(pair, self._pairs.labels(*pair))

    def refresh(self, stats: Mapping[str, EngineStats]) -> None:
        """Set the gauges that mirror the engines, whose stats come by the model's name."""
        for name in self._names & stats.keys():
            now = stats[name]
            self._alive.labels(name).set(now.alive)
            self._queue_sentences.labels(name).set(now.queue_sentences)
            self._queue_tokens.labels(name).set(now.queue_tokens)
            self._rows_busy.labels(name).set(now.rows_busy)
            self._kv_cache.labels(name).set(now.kv_cache_bytes)

    def translated(self, pair: Pair) -> None:
        """Count a request that was translated; a pair that is served no more is looked over."""
        counter = self._translated.get(pair)
        if counter is not None:
            counter.inc()

    def finished(self, name: str, sentences: int, target_tokens: int) -> None:
        """Count what a model's engine has written; a model that is not served is looked over."""
        counters = self._counters.get(name)
        if counters is not None:
            counters[0].inc(sentences)
            counters[1].inc(target_tokens)


class ModelObserver:
    """The observer of one model's engine: counts for it beside what is counted for all. Thread-safe."""

    def __init__(self, name: str, shared: EngineObserver, models: ModelMetrics) -> None:
        """Tell `shared` everything that this one is told, and `models` what the model of this name does."""
        self.encode = shared.encode
        self.step = shared.step
        self.error = shared.error
        self.of_model = shared.of_model
        self._name = name
        self._shared = shared
        self._models = models

    def finished(self, reason: EndReason, source_tokens: int, target_tokens: int, queue_s: float) -> None:
        """Observe a sentence that left the engine, however it ended."""
        self._shared.finished(reason, source_tokens, target_tokens, queue_s)
        self._models.finished(self._name, int(reason in ("eos", "length")), target_tokens)
