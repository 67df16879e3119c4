"""Prometheus series of the sentence cache. docs/metrics.md explains them."""

from collections.abc import Iterable

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from server.service.translation.sentence_cache import CacheStats, SentenceCache


class CacheCollector(Collector):
    """The series, read from the cache when they are scraped: a look-up adds nothing. Thread-safe."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register without a cache."""
        self._cache: SentenceCache | None = None
        self._capacity_bytes = 0
        registry.register(self)

    def watch(self, cache: SentenceCache | None, capacity_bytes: int) -> None:
        """Say whose series these are, and what it may take; all are 0 if there is no cache."""
        self._cache, self._capacity_bytes = cache, capacity_bytes

    def collect(self) -> Iterable[Metric]:
        """Give the series."""
        stats = CacheStats() if self._cache is None else self._cache.stats()
        looked_up = CounterMetricFamily(
            "dragoman_cache_sentences", "Sentences looked up in the sentence cache.", labels=("result",)
        )
        looked_up.add_metric(("hit",), stats.hits)
        looked_up.add_metric(("miss",), stats.misses)
        yield looked_up
        yield CounterMetricFamily(
            "dragoman_cache_evictions", "Sentences that made room for others.", stats.evictions
        )
        for name, text, value in (
            ("entries", "Sentences in the cache.", stats.entries),
            ("bytes", "Memory of the sentence cache.", stats.entry_bytes),
            ("capacity_bytes", "What the sentence cache may take.", self._capacity_bytes),
        ):
            yield GaugeMetricFamily(f"dragoman_cache_{name}", text, value)
