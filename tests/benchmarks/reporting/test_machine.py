"""What a machine is asked for a measurement."""

import os
import subprocess
import sys

from benchmarks.reporting.machine import peak_memory


def test_peak_memory_is_a_process_s_own() -> None:
    held = bytearray(os.urandom(1 << 20) * 300)
    script = "print('here', flush=True); input()"
    child = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stdout.readline() == "here\n"
        assert peak_memory(os.getpid()) > len(held)
        assert 1 << 20 < peak_memory(child.pid) < len(held) // 2
    finally:
        child.kill()
        child.communicate()
    assert peak_memory(child.pid) == 0
