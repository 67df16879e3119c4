"""What the server and its engine processes take, in one series each."""

import subprocess
import sys
from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry

from server.metrics.process import ProcessTreeCollector

BUSY = """
import sys, time
kept = bytearray(b"x") * 64_000_000
while time.process_time() < 0.5:
    pass
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def busy() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", BUSY], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as it:
        assert it.stdout is not None
        assert it.stdout.readline() == b"ready\n"
        yield it


def test_engine_processes_count_and_stay_counted(busy: subprocess.Popen[bytes]) -> None:
    registry = CollectorRegistry()
    collector = ProcessTreeCollector(registry)

    def value(name: str) -> float:
        found = registry.get_sample_value(f"process_{name}")
        assert found is not None
        return found

    cpu_s, memory, files = value("cpu_seconds_total"), value("resident_memory_bytes"), value("open_fds")
    collector.engine_pids = (busy.pid, 2**22 + 1)  # there is no process of the second number
    assert value("cpu_seconds_total") >= cpu_s + 0.45
    assert 60e6 < value("resident_memory_bytes") - memory < 120e6
    assert value("open_fds") == files
    with_child_s = value("cpu_seconds_total")
    busy.communicate()
    assert value("cpu_seconds_total") >= with_child_s - 0.02  # the clock has ticks of 10 ms
    collector.engine_pids = ()
    assert value("cpu_seconds_total") >= with_child_s - 0.02
    assert abs(value("resident_memory_bytes") - memory) < 30e6
