"""Processes that end while others are ended leave neither errors nor zombies."""

import subprocess
import sys

ROUNDS, CHILDREN = 40, 60

SCRIPT = f"""
import os, random, signal, time
from server.engine.worker import fork_host

random.seed(1)
signal.signal(signal.SIGCHLD, fork_host._reap)
for _ in range({ROUNDS}):
    for _ in range({CHILDREN}):
        if not fork_host._fork("test"):
            time.sleep(random.random() * 0.02)
            os._exit(0)
    time.sleep(random.random() * 0.02)
    fork_host._end_children()
    fork_host._children.clear()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {{signal.SIGCHLD}})
try:
    os.waitpid(-1, os.WNOHANG)
except ChildProcessError:
    print("none is left")
"""


def test_children_that_end_while_others_are_ended() -> None:
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=120, check=False
    )
    assert (run.stdout, run.stderr, run.returncode) == ("none is left\n", "", 0)
