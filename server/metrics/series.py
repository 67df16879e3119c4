"""Makes Prometheus series whose names begin with `dragoman_`."""

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


class Series:
    """Registers series in one registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Keep the registry.

        Args:
            registry: where the series are registered.
        """
        self._registry = registry

    def counter(self, name: str, text: str, labels: Iterable[str] = ()) -> Counter:
        """Register a counter."""
        return Counter(f"dragoman_{name}", text, tuple(labels), registry=self._registry)

    def gauge(self, name: str, text: str, labels: Iterable[str] = ()) -> Gauge:
        """Register a gauge."""
        return Gauge(f"dragoman_{name}", text, tuple(labels), registry=self._registry)

    def histogram(
        self, name: str, text: str, bounds: Iterable[float], labels: Iterable[str] = ()
    ) -> Histogram:
        """Register a histogram; ``bounds`` of its buckets ascend."""
        return Histogram(
            f"dragoman_{name}", text, tuple(labels), buckets=tuple(bounds), registry=self._registry
        )
