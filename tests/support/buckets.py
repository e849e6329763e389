"""S3 servers: one with a bucket, one that reports that a bucket does not exist, one that never answers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.request import Request, urlopen

from moto.server import ThreadedMotoServer

from tests.harness.waiting import PATIENCE_S

KEY, SECRET = "somebody", "hush"
_NO_BUCKET = b"""<?xml version="1.0" encoding="UTF-8"?>
<Error><Code>NoSuchBucket</Code><Message>The specified bucket does not exist</Message></Error>"""


@contextmanager
def empty_bucket(name: str) -> Iterator[str]:
    """The URI of a location in the bucket."""
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    try:
        port = server.get_host_and_port()[1]
        urlopen(Request(f"http://127.0.0.1:{port}/{name}", method="PUT"), timeout=30).close()
        yield _uri(name, port)
    finally:
        server.stop()


@contextmanager
def no_such_bucket(answers: bool = True) -> Iterator[str]:
    """The URI of a location in a bucket that does not exist. `answers`: False: the server never says so."""
    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            if not answers:
                over.wait(PATIENCE_S)
            self.send_response(404)
            self.send_header("Content-Type", "application/xml")
            self.send_header("Content-Length", str(len(_NO_BUCKET)))
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(_NO_BUCKET)

        do_POST = do_PUT = answer

        def log_message(self, format: str, *arguments: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield _uri("nowhere", server.server_port)
    finally:
        over.set()
        server.shutdown()
        server.server_close()
        thread.join(PATIENCE_S)


def _uri(bucket: str, port: int) -> str:
    return f"s3://{KEY}:{SECRET}@{bucket}/x?endpoint_override=127.0.0.1%3A{port}&scheme=http&region=us-east-1"
