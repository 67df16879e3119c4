"""The Prometheus client library's `process_*` series, with what the engine processes take."""

import resource
from collections.abc import Iterable, Sequence
from pathlib import Path

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric
from prometheus_client.process_collector import ProcessCollector

_PAGE_BYTES = resource.getpagesize()


class ProcessTreeCollector(ProcessCollector):
    """Processor time and memory of this process and its engine processes; files and start are its own.

    Attributes:
        engine_pids: engine processes that there are now.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        """Start without engine processes.

        Args:
            registry: where the series are registered.
        """
        self.engine_pids: Sequence[int] = ()
        super().__init__(registry=registry)

    def collect(self) -> Iterable[Metric]:
        """Give the library's families, two of them with what the engine processes have added."""
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)  # what they took stays counted
        cpu_s, memory_bytes = ended.ru_utime + ended.ru_stime, 0.0
        for pid in self.engine_pids:
            try:
                taken_s, own_bytes = _usage(pid, self._ticks)
            except OSError:
                continue  # it has just ended
            cpu_s, memory_bytes = cpu_s + taken_s, memory_bytes + own_bytes
        more = {"process_cpu_seconds": cpu_s, "process_resident_memory_bytes": memory_bytes}
        for family in super().collect():
            added = more.get(family.name, 0.0)
            family.samples = [sample._replace(value=sample.value + added) for sample in family.samples]
            yield family


def _usage(pid: int, ticks_per_s: float) -> tuple[float, float]:
    """Read the processor seconds of a process and the resident bytes that it shares with none."""
    directory = Path("/proc", str(pid))
    fields = (directory / "stat").read_bytes().rpartition(b")")[2].split()
    resident, shared = (directory / "statm").read_bytes().split()[1:3]
    return (int(fields[11]) + int(fields[12])) / ticks_per_s, (int(resident) - int(shared)) * _PAGE_BYTES
