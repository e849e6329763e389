"""The HTTP server of a process of an app: the standard library's, in its own threads, with limits.

No client affects a loop: pages are made from what the loops have left. There is no authentication: listen
only where everyone may see the pages.
"""

from __future__ import annotations

import socket
import threading
import time
from contextlib import ExitStack, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any

import structlog

from borealis_py.config.address import Address, HttpUnavailable
from borealis_py.observe.http_routes import Response, Routes, say

log = structlog.get_logger(__package__)

AT_ONCE = 8
"""Maximum number of concurrent connections; more are refused, so that threads cannot take the loops' time."""
CONNECTION_S = 10.0
"""Maximum duration of a connection, whatever is sent."""
BODY_BYTES = 65_536
"""How much of a request's body is read, so that a client that sent one receives the response."""
WILDCARDS = ("0.0.0.0", "::")
_BUSY = b"HTTP/1.0 503 Service Unavailable\r\nContent-Type: text/plain\r\n\r\ntoo many connections at once\n"


class HttpServer:
    """Listens from its construction until `close`.

    Raises:
        HttpUnavailable: the address is in use, not this machine's, or not allowed.
    """

    def __init__(self, address: Address, pages: Routes) -> None:
        self._server = _listen(address, pages)
        host, port = self._server.server_address[:2]
        shown = socket.gethostname() if host in WILDCARDS else str(host)
        self.url = f"http://{Address(shown, int(port))}"
        self._thread = threading.Thread(target=self._server.serve_forever, name="http", daemon=True)
        self._thread.start()
        log.info("HTTP server listens", at=self.url)

    def close(self) -> None:
        """Stop listening, and end open connections. May be called again."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def open_http(where: str | None, pages: Routes, closing: ExitStack) -> str:
    """Listen at HOST:PORT until `closing` ends; None: do not listen. Returns the URL, "" for none.

    Raises:
        AddressError: not an address. HttpUnavailable: see `HttpServer`.
    """
    if where is None:
        return ""
    server = HttpServer(Address.parse(where), pages)
    closing.callback(server.close)
    return server.url


def _listen(address: Address, pages: Routes) -> _Server:
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, where = found[0]
        return _Server(family, where, pages)
    except OSError as exc:
        why = exc.strerror or str(exc)
        raise HttpUnavailable(
            f"cannot listen for HTTP at {address}: {why}. --http HOST:PORT chooses another address; port 0 is any free "
            "one"
        ) from exc


class _Server(ThreadingHTTPServer):
    def __init__(self, family: int, where: Any, pages: Routes) -> None:
        self.address_family = family
        self.pages = pages
        self._open: dict[socket.socket, float] = {}
        self._change = threading.Condition()
        super().__init__(where, _Handler)

    def server_bind(self) -> None:
        TCPServer.server_bind(self)  # the base class resolves this machine's name, which may take seconds

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._change:
            full = len(self._open) >= AT_ONCE
            if not full:
                self._open[request] = time.monotonic()
        if full:
            with suppress(OSError):
                request.sendall(_BUSY)
            self.shutdown_request(request)
        else:
            super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._change:
            self._open.pop(request, None)
            self._change.notify_all()
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Called twice a second: end connections that have lasted too long."""
        self._cut(time.monotonic() - CONNECTION_S)

    def server_close(self) -> None:
        self._cut(float("inf"))
        super().server_close()
        with self._change:
            self._change.wait_for(lambda: not self._open, CONNECTION_S)

    def _cut(self, before: float) -> None:
        with self._change:
            for request in [r for r, since in self._open.items() if since < before]:
                with suppress(OSError):
                    request.shutdown(socket.SHUT_RDWR)  # wakes up and ends whoever reads or writes it

    def handle_error(self, request: Any, client_address: Any) -> None:
        log.debug("HTTP client disconnected", client=str(client_address), exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = CONNECTION_S

    def version_string(self) -> str:
        return "borealis"

    def do_GET(self) -> None:
        self._send(self._answered())

    do_HEAD = do_GET

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Handles what the base class refuses: not HTTP, too long, an unknown method. These are client errors: 4xx."""
        if code == HTTPStatus.NOT_IMPLEMENTED:
            self._send(self._answered())
        else:
            shown = message or HTTPStatus(code).phrase
            self._send(say(400 if code >= 500 else code, f"this request makes no sense: {shown}"))

    def _answered(self) -> Response:
        return self.server.pages.answer(self.command, self.path, self.headers.get("Accept", ""))

    def _send(self, answer: Response) -> None:
        self._drain()
        self.send_response(answer.code)
        headers = {"Content-Type": answer.kind, "Content-Length": str(len(answer.body)), **dict(answer.headers)}
        headers |= {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Connection": "close"}
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    def _drain(self) -> None:
        length = getattr(self, "headers", {}).get("Content-Length", "")
        if length.isdecimal() and int(length) > 0:
            self.rfile.read(min(int(length), BODY_BYTES))

    def log_message(self, format: str, *args: Any) -> None:
        log.debug("http", said=format % args)
