"""Prometheus series of the sentence cache. docs/metrics.md explains them."""

from prometheus_client import CollectorRegistry, Counter, Gauge

from server.service.translation.sentence_cache import SentenceCache


class CacheMetrics:
    """The series, brought up to date when they are scraped: a look-up adds nothing. For the event loop."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register every series.

        Args:
            registry: where they are registered.
        """
        sentences = Counter(
            "dragoman_cache_sentences_total",
            "Sentences looked up in the sentence cache.",
            ("result",),
            registry=registry,
        )
        self._hits, self._misses = map(sentences.labels, ("hit", "miss"))
        self._evictions = Counter(
            "dragoman_cache_evictions_total", "Sentences that made room for others.", registry=registry
        )
        self._entries = Gauge("dragoman_cache_entries", "Sentences in the cache.", registry=registry)
        self._bytes = Gauge("dragoman_cache_bytes", "Memory of the sentence cache.", registry=registry)
        self._capacity = Gauge(
            "dragoman_cache_capacity_bytes", "What the sentence cache may take.", registry=registry
        )
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
