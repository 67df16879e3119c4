"""An engine process with a fault: what `tests.faulty_server` starts instead of the real one.

FAULT='KIND FILE VALUE' python -m tests.faulty_engine_process SOCKET NUMBER
"""

import os
from pathlib import Path

from server.engine.engine_process import main
from tests.faulty_server import Fault

if __name__ == "__main__":
    kind, file, value = os.environ["FAULT"].split()
    Fault(kind, Path(file), int(value)).install()
    main()
