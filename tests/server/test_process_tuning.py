"""In a process of its own: the setting is for good."""

import platform
import subprocess
import sys
from pathlib import Path

import pytest

from server import process_tuning
from server.runtime.onnx.session_options import session_options

PROGRAM = """
import numpy, psutil, server.process_tuning
took = server.process_tuning.return_large_blocks()
def resident(): return psutil.Process().memory_info().rss
# Large blocks that are freed while small ones above them stay: by default the heap keeps the holes.
def churn():
    pairs = [(numpy.ones(3 << 17), numpy.ones(1 << 13)) for _ in range(20)]
    return [small for _, small in pairs]
churn()
before = resident()
kept = churn()
print(took, (resident() - before) >> 20)
"""


def said_by(program: str, repository: Path) -> list[str]:
    """Run a program in a process of its own; the words that it prints."""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.split()


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="a setting of glibc")
def test_freed_blocks_go_back_to_the_system(repository: Path) -> None:
    took, grown_mib = said_by(PROGRAM, repository)
    assert took == "True"
    assert int(grown_mib) <= 10  # without the setting 61


FREE = """
import psutil, server.process_tuning
def resident(): return psutil.Process().memory_info().rss
# Small blocks, of which a few that stay keep the heap from shrinking by itself.
blocks = [bytearray(600) for _ in range(100_000)]
kept = blocks[::1000]
before = resident()
del blocks
left = before - resident()
print(server.process_tuning.return_free_memory(), left >> 20, (before - resident()) >> 20)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="a function of glibc")
def test_what_lies_free_between_small_blocks_is_given_back(repository: Path) -> None:
    took, by_itself_mib, freed_mib = said_by(FREE, repository)
    assert took == "True"
    assert int(freed_mib) > int(by_itself_mib) + 30


KEEP = """
import resource, numpy, server.process_tuning
from server.runtime.onnx.session_options import session_options
def faults(): return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
def churn(numbers):
    numpy.ones(numbers)
    before = faults()
    for _ in range(20): numpy.ones(numbers)
    return faults() - before
print(session_options(1).enable_cpu_mem_arena)
server.process_tuning.return_large_blocks()
print(churn(1 << 20))
print(churn(1 << 16), session_options(1).enable_cpu_mem_arena)
print(session_options(2, spin=True).enable_cpu_mem_arena)
print(session_options(1, ["CUDAExecutionProvider", "CPUExecutionProvider"]).enable_cpu_mem_arena)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="a setting of glibc")
def test_who_keeps_blocks_gets_them_again_and_needs_no_arena(repository: Path) -> None:
    arena_before, given_back, kept, arena, alone, on_device = said_by(KEEP, repository)
    assert (arena_before, arena) == ("True", "False")
    assert alone == on_device == "True"
    assert int(given_back) >= 20 * 4  # pages of 2 MiB at the largest
    assert int(kept) < 128  # the pages of a single block


WORKER = """
import resource, threading, numpy, server.process_tuning
def faults(): return resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
server.process_tuning.return_large_blocks()
def work():
    # As a run does: some blocks at a time, one of which stays in front of the end of the thread's heap.
    before = [numpy.ones(3 << 16) for _ in range(3)]
    kept = numpy.ones(1 << 10)
    del before
    before = faults()
    for _ in range(20): [numpy.ones(3 << 16) for _ in range(3)]
    print(faults() - before)
thread = threading.Thread(target=work)
thread.start()
thread.join()
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="a setting of glibc")
def test_a_server_keeps_the_blocks_that_a_run_needs(repository: Path) -> None:
    (faults,) = said_by(WORKER, repository)
    assert int(faults) < 20 * 3 * 100  # of 384 pages a block


def test_without_the_setting_sessions_have_an_arena(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_tuning.ctypes, "CDLL", lambda _: object())
    assert not process_tuning.return_large_blocks()
    assert not process_tuning.keeps_blocks()
    assert session_options(1).enable_cpu_mem_arena
