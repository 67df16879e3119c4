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
        """Start without engine processes."""
        self.engine_pids: Sequence[int] = ()
        super().__init__(registry=registry)

    def collect(self) -> Iterable[Metric]:
        """Give the library's families, two of them with what the engine processes have added."""
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)  # what they took stays counted
        cpu_s, memory_bytes = ended.ru_utime + ended.ru_stime, 0.0
        for pid in set(self.engine_pids):  # models share some
            try:
                taken_s, own_bytes = _cpu_s(pid, self._ticks), anonymous_bytes(pid)
            except OSError:
                continue  # it has just ended
            cpu_s, memory_bytes = cpu_s + taken_s, memory_bytes + own_bytes
        more = {"process_cpu_seconds": cpu_s, "process_resident_memory_bytes": memory_bytes}
        for family in super().collect():
            added = more.get(family.name, 0.0)
            family.samples = [sample._replace(value=sample.value + added) for sample in family.samples]
            yield family


def anonymous_bytes(pid: int) -> int:
    """Read a process' resident memory that is no file's; what processes share is divided among them.

    Raises:
        OSError: there is no such process.
    """
    directory = Path("/proc", str(pid))
    try:
        lines = (directory / "smaps_rollup").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss_Anon:"))
    except (PermissionError, FileNotFoundError, StopIteration):  # a sandbox's or an old kernel's
        resident, shared = (directory / "statm").read_bytes().split()[1:3]
        return (int(resident) - int(shared)) * _PAGE_BYTES


def _cpu_s(pid: int, ticks_per_s: float) -> float:
    """Read the processor seconds of a process and of those of its children that have ended."""
    fields = Path("/proc", str(pid), "stat").read_bytes().rpartition(b")")[2].split()
    return sum(map(int, fields[11:15])) / ticks_per_s
