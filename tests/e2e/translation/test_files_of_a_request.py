"""How much code a short request executes: the files of server/, counted in every process of a real server."""

import mmap
import time
from pathlib import Path

import httpx
import pytest

from tests.support.server_process import serving

MOST_FILES = {"engine": 18, "api": 4, "http": 5, "service": 27, "others": 4}
"""By room, of a short greedy request: from the socket to the first run of a graph and back. `engine` has the
runtime's, `others` are files of further rooms and of none."""

WATCHED_S = 0.3
TIMERS = {"http/event_loop_lag.py", "http/server.py"}
"""Run by a clock, whether or not there are requests."""

# Python runs a module of this name at the start of every process. The shared byte says which request is
# watched, 0 for none; each process notes the files and the dataclasses that it meets.
TRACER = """
import mmap, os, sys, threading
shared = mmap.mmap(os.open({control!r}, os.O_RDWR), 1)
seen = set()

def note(frame, event, argument):
    request = shared[0]
    if not request or event != "call":
        return
    file = frame.f_code.co_filename
    if file == "<string>" and frame.f_code.co_name == "__init__" and "self" in frame.f_locals:
        kind = type(frame.f_locals["self"])
        file = kind.__module__ + "." + kind.__qualname__
        if not file.startswith("server."):
            return
    elif not file.startswith({root!r}):
        return
    if (os.getpid(), request, file) not in seen:
        seen.add((os.getpid(), request, file))
        with open({log!r}, "a") as log:
            log.write(f"{{request}} {{file}}\\n")

threading.setprofile(note)
sys.setprofile(note)
"""


@pytest.mark.slow
def test_a_short_request_executes_few_files(
    tiny_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = str(Path(__file__).parents[3] / "server") + "/"
    control, log = tmp_path / "control", tmp_path / "seen"
    control.write_bytes(b"\0")
    log.touch()
    traced = tmp_path / "traced"
    traced.mkdir()
    (traced / "sitecustomize.py").write_text(
        TRACER.format(control=str(control), log=str(log), root=root), encoding="utf-8"
    )
    monkeypatch.setenv("PYTHONPATH", str(traced))
    with (
        serving(tiny_bundle, tmp_path / "log", workers=2, engine_processes=True) as server,
        control.open("r+b") as file,
        mmap.mmap(file.fileno(), 1) as shared,
        httpx.Client(base_url=server.url, timeout=60) as client,
    ):
        for number in range(8):
            shared[0] = max(0, number - 3)  # the first ones warm up
            body = {"q": f"the cat sees {number} birds.", "source": "en", "target": "de"}
            assert client.post("/translate", json=body).status_code == 200
            time.sleep(WATCHED_S)
            shared[0] = 0
    met: dict[str, set[str]] = {}
    for line in log.read_text(encoding="utf-8").splitlines():
        request, name = line.split(" ", 1)
        met.setdefault(request, set()).add(name.removeprefix(root))
    assert len(met) == 4
    # What only some requests meet is not theirs: other work of the server went on beside them.
    common = set.intersection(*met.values())
    files = sorted(name for name in common if name.endswith(".py") and name not in TIMERS)
    kinds = sorted(name for name in common if not name.endswith(".py"))
    by_room: dict[str, list[str]] = {room: [] for room in MOST_FILES}
    for name in files:
        room = name.split("/")[0].replace("runtime", "engine")
        by_room[room if room in MOST_FILES else "others"].append(name)
    for room, names in by_room.items():
        print(f"\n{len(names)} files of {room}:", *names, sep="\n  ")
    print(f"{len(kinds)} dataclasses:", *kinds, sep="\n  ")
    assert {room: len(names) for room, names in by_room.items() if len(names) > MOST_FILES[room]} == {}
