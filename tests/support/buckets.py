"""A server that speaks enough S3 to say that a bucket is not there, or that says nothing at all."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KEY, SECRET = "somebody", "hush"
_NO_BUCKET = b"""<?xml version="1.0" encoding="UTF-8"?>
<Error><Code>NoSuchBucket</Code><Message>The specified bucket does not exist</Message></Error>"""


@contextmanager
def no_such_bucket(answers: bool = True) -> Iterator[str]:
    """The URI of a place in a bucket that is not there. `answers`: False: it never says so."""
    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            if not answers:
                over.wait(60)
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
    host = f"127.0.0.1%3A{server.server_port}"
    try:
        yield f"s3://{KEY}:{SECRET}@nowhere/x?endpoint_override={host}&scheme=http&region=us-east-1"
    finally:
        over.set()
        server.shutdown()
        server.server_close()
        thread.join(5)
