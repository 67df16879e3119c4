"""What a measurement was made on: processor, memory, versions, and how busy the machine was before."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import re
import subprocess
from pathlib import Path
from typing import Any

import psutil

_LIBRARIES = ("onnxruntime", "ctranslate2", "transformers", "torch", "numpy", "fastapi", "uvicorn")
_INSTRUCTION_SETS = ("avx2", "avx512f", "avx512_vnni", "avx_vnni", "amx_int8")


def describe() -> dict[str, Any]:
    """Describe this machine and the installed libraries, as JSON."""
    info = Path("/proc/cpuinfo")
    text = info.read_text(encoding="utf-8") if info.exists() else ""
    flags = re.search(r"flags\s*:\s*(.+)", text)
    known = set(flags[1].split()) if flags else set()
    versions = {}
    for name in _LIBRARIES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "processor": processor(),
        "cores": os.cpu_count(),
        "instruction_sets": [name for name in _INSTRUCTION_SETS if name in known],
        "memory_gib": round(psutil.virtual_memory().total / 2**30),
        "python": platform.python_version(),
        "versions": versions,
        "commit": _commit(),
        "load_before": round(os.getloadavg()[0], 2),
    }


def processor() -> str:
    """Name the processor, as well as the system knows it."""
    info = Path("/proc/cpuinfo")
    named = re.search(r"model name\s*:\s*(.+)", info.read_text(encoding="utf-8")) if info.exists() else None
    return named[1].strip() if named else platform.processor() or "unknown"


def peak_memory(process_id: int) -> int:
    """Read the most resident memory that a process has had so far, in bytes; 0 if it has ended.

    Not ``ru_maxrss``: of a new process Linux gives that of its parent, if it is more.
    """
    try:
        status = Path(f"/proc/{process_id}/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return 0
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    return int(found[1]) * 1024 if found else 0


def _commit() -> str:
    try:
        run = subprocess.run(
            ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return run.stdout.strip()
