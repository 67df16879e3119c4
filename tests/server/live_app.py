"""An application on a real socket, in a thread of the test's process: for engines that a test controls."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
from fastapi import FastAPI

from server.http.server import listen, make_server
from server.settings import Settings


@contextmanager
def serving(app: FastAPI, settings: Settings) -> Iterator[httpx.Client]:
    """Serve an application, from when it has started until the block ends.

    Args:
        app: what `create_app` made.
        settings: the same that it was made of.

    Yields:
        A client whose base URL is the server.
    """
    refused: list[int] = []
    with listen("127.0.0.1", 0) as listener:
        server = make_server(app, settings, app.state.lifecycle, refused.append)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        while thread.is_alive() and not server.started:
            time.sleep(0.01)
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{listener.getsockname()[1]}", timeout=20) as client:
                yield client
        finally:
            server.should_exit = True
            thread.join()
