"""A schema registry of a test's own, over HTTP."""

from __future__ import annotations

import json
import threading
from abc import abstractmethod
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

NO_SCHEMA = 404, {"error_code": 40403, "message": "Schema not found"}
"""What a registry says of what it does not have."""


class RegistryServer(ThreadingHTTPServer):
    """Serves what `answer` says, until `end`. `port`: 0: a free one."""

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.thread = threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    @abstractmethod
    def answer(self, path: str) -> tuple[int, Any]:
        """(status, body) for a path without its query; a body that is not bytes is told as JSON."""

    def end(self) -> None:
        self.shutdown()
        self.thread.join()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: RegistryServer

    def do_GET(self) -> None:
        status, body = self.server.answer(self.path.partition("?")[0])
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, format: str, *args: Any) -> None:
        pass
