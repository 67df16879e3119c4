"""A hub on loopback that speaks to the `huggingface_hub` library as the public one does.

The wire format: https://huggingface.co/docs/hub/api, and the headers that the library's downloads read.
"""

import hashlib
import json
import socket
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub(ThreadingHTTPServer):
    """Has one repository.

    Attributes:
        url: where it listens.
        sent: names of the files whose content was sent.
        cuts: how often a connection is still to be cut in the middle of a file.
        large: files that are said to be large ones, with the SHA-256 that is said of them.
        gated: whether terms are to be accepted first.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, name: str, directory: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.name, self.directory = name, directory
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.sent: list[str] = []
        self.cuts = 0
        self.large: dict[str, str] = {}
        self.gated = False


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Hub

    def do_HEAD(self) -> None:
        self._file(with_content=False)

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        files = sorted(file for file in self.server.directory.iterdir() if file.is_file())
        api = f"/api/models/{self.server.name}"
        if path == "/api/models":
            told = {"id": self.server.name, "downloads": 1234, "tags": ["license:apache-2.0", "pytorch"]}
            self._json([told, {"id": f"{self.server.name}-ROMANCE", "tags": []}])
        elif path in (f"{api}/revision/main", f"{api}/revision/{COMMIT}", api):
            siblings = [self._sibling(file) for file in files]
            about = {"id": self.server.name, "sha": COMMIT, "siblings": siblings}
            self._json(about | {"cardData": {"license": "apache-2.0"}})
        elif path.startswith(f"{api}/tree/"):
            self._json([_entry(file) for file in files])
        else:
            self._file(with_content=True)

    def _file(self, *, with_content: bool) -> None:
        path = unquote(urlsplit(self.path).path)
        prefix = f"/{self.server.name}/resolve/"
        revision, _, name = path.removeprefix(prefix).partition("/")
        file = self.server.directory / name
        if not path.startswith(prefix) or revision not in ("main", COMMIT) or not file.is_file():
            missing = "EntryNotFound" if path.startswith(prefix) else "RepoNotFound"
            self._answer(404, b"", {"X-Error-Code": missing, "X-Repo-Commit": COMMIT})
            return
        if self.server.gated and name != "README.md":
            self._answer(403, b"", {"X-Error-Code": "GatedRepo", "X-Repo-Commit": COMMIT})
            return
        content = file.read_bytes()
        if with_content:
            self.server.sent.append(name)
        headers = {"X-Repo-Commit": COMMIT, "ETag": f'"{hashlib.sha256(content).hexdigest()}"'}
        begin = 0
        if (asked := self.headers.get("Range", "")).startswith("bytes="):
            begin = int(asked.removeprefix("bytes=").partition("-")[0])
            headers["Content-Range"] = f"bytes {begin}-{len(content) - 1}/{len(content)}"
        if with_content and self.server.cuts and len(content) > 10_000:
            self.server.cuts -= 1
            headers["Content-Length"] = str(len(content) - begin)
            self._answer(206 if begin else 200, content[begin:][: (len(content) - begin) // 2], headers)
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        self._answer(206 if begin else 200, content[begin:], headers, with_content=with_content)

    def _sibling(self, file: Path) -> dict[str, Any]:
        """Describe a file as the hub does when it is asked for ``blobs``."""
        content = file.read_bytes()
        git = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
        told: dict[str, Any] = {"rfilename": file.name, "size": len(content), "blobId": git}
        if (sha256 := self.server.large.get(file.name)) is not None:
            told["lfs"] = {"sha256": sha256, "size": len(content), "pointerSize": 130}
        return told

    def _json(self, value: Any) -> None:
        self._answer(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _answer(
        self, status: int, content: bytes, headers: dict[str, str], *, with_content: bool = True
    ) -> None:
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(content))} | headers).items():
            self.send_header(name, value)
        self.end_headers()
        if with_content:
            self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


def _entry(file: Path) -> dict[str, Any]:
    content = file.read_bytes()
    return {"type": "file", "path": file.name, "size": len(content), "oid": hashlib.sha1(content).hexdigest()}
