"""Makes Prometheus series whose names begin with `dragoman_`."""

from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


class Series:
    """Registers series in one registry; arguments are the library's."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Keep the registry."""
        self.counter = partial(Counter, namespace="dragoman", registry=registry)
        self.gauge = partial(Gauge, namespace="dragoman", registry=registry)
        self.histogram = partial(Histogram, namespace="dragoman", registry=registry)
