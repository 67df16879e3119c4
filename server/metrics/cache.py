"""Prometheus series of the sentence cache. docs/metrics.md explains them."""

from prometheus_client import CollectorRegistry

from server.metrics.series import Series
from server.service.translation.sentence_cache import SentenceCache


class CacheMetrics:
    """The series, brought up to date when they are scraped: a look-up adds nothing. For the event loop."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register every series.

        Args:
            registry: where they are registered.
        """
        series = Series(registry)
        sentences = series.counter(
            "cache_sentences_total", "Sentences looked up in the sentence cache.", ("result",)
        )
        self._hits, self._misses = map(sentences.labels, ("hit", "miss"))
        self._evictions = series.counter("cache_evictions_total", "Sentences that made room for others.")
        self._entries = series.gauge("cache_entries", "Sentences in the cache.")
        self._bytes = series.gauge("cache_bytes", "Memory of the sentence cache.")
        self._capacity = series.gauge("cache_capacity_bytes", "What the sentence cache may take.")
        self._cache: SentenceCache | None = None
        self._seen = (0, 0, 0)

    def watch(self, cache: SentenceCache | None, capacity_bytes: int) -> None:
        """Say whose series these are.

        Args:
            cache: asked at every scrape; None if there is none.
            capacity_bytes: what it may take.
        """
        self._cache = cache
        self._capacity.set(capacity_bytes)

    def refresh(self) -> None:
        """Bring the series up to date."""
        if self._cache is None:
            return
        stats = self._cache.stats()
        now = (stats.hits, stats.misses, stats.evictions)
        counters = (self._hits, self._misses, self._evictions)
        for counter, value, before in zip(counters, now, self._seen, strict=True):
            counter.inc(value - before)
        self._seen = now
        self._entries.set(stats.entries)
        self._bytes.set(stats.entry_bytes)
