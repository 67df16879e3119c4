"""Servers of the standard library, in a thread of the test."""

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

Server = TypeVar("Server", bound=socketserver.BaseServer)


@contextmanager
def listening(server: Server) -> Iterator[Server]:
    """Serve as long as the block lasts, and close the socket behind it."""
    with server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
