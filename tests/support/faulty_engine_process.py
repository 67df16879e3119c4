"""Engine processes with a fault, which `FAULT='KIND FILE VALUE'` names; `faulty_server` starts it."""

import os
from pathlib import Path

from server.engine.worker import fork_host
from tests.support.faulty_server import Fault


def main() -> None:
    """Install the fault and do as the real one."""
    kind, file, value = os.environ["FAULT"].split()
    Fault(kind, Path(file), int(value)).install()
    fork_host.main()
