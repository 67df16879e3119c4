"""A server of files on loopback that resumes, cuts, redirects and lies as it is told."""

import hashlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Mirror(ThreadingHTTPServer):
    """Has files in memory.

    Attributes:
        url: where it listens.
        files: path to content.
        redirects: path to the address that it leads to.
        asked: path and range of bytes of every request, the range empty for a whole file.
        cuts: how often a connection is still to be cut in the middle.
        resumes: whether ranges are honored.
        states_length: whether sizes are said.
        has_tags: whether files have ETags, hashes of their content.
        tags_parts: whether parts have them, too.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, files: dict[str, bytes]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.files = files
        self.redirects: dict[str, str] = {}
        self.asked: list[tuple[str, str]] = []
        self.cuts = 0
        self.resumes = self.states_length = self.has_tags = self.tags_parts = True


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Mirror

    def do_GET(self) -> None:
        mirror, asked = self.server, self.headers.get("Range", "")
        mirror.asked.append((self.path, asked))
        if (elsewhere := mirror.redirects.get(self.path)) is not None:
            self._start(302, {"Location": elsewhere, "Content-Length": "0"})
            return
        content = mirror.files.get(self.path)
        if content is None:
            self._start(404, {"Content-Length": "0"})
            return
        tag, begin = f'"{hashlib.sha256(content).hexdigest()}"', 0
        headers = {"ETag": tag} if mirror.has_tags and (mirror.tags_parts or not asked) else {}
        if asked and mirror.resumes and self.headers.get("If-Range") == tag:
            begin = int(asked.removeprefix("bytes=").rstrip("-"))
            headers["Content-Range"] = f"bytes {begin}-{len(content) - 1}/{len(content)}"
        if mirror.states_length:
            headers["Content-Length"] = str(len(content) - begin)
        else:
            headers["Connection"] = "close"
        self._start(206 if begin else 200, headers)
        rest = content[begin:]
        if mirror.cuts and len(rest) > 1000:
            mirror.cuts -= 1
            self.wfile.write(rest[: len(rest) // 2])
            self.wfile.flush()
            self.close_connection = True
            return
        self.wfile.write(rest)
        self.close_connection = not mirror.states_length

    def _start(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""
