"""What the pages of a standalone master say is free."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from borealis_py.runtime.spark.cluster import free_slots
from tests.support.nowhere import PORT


def worker(host: str, free: int, memory_mb: int, state: str = "ALIVE") -> dict[str, Any]:
    """As in Spark's JsonProtocol."""
    return {
        "id": f"worker-{host}",
        "host": host,
        "cores": 4,
        "coresfree": free,
        "memoryfree": memory_mb,
        "state": state,
    }


WORKERS = [worker("a", 2, 1024), worker("b", 3, 500), worker("c", 4, 4096, "DEAD")]
PAGE = {"url": "spark://m:7077", "workers": WORKERS, "aliveworkers": 2, "status": "ALIVE"}


@contextmanager
def master(body: bytes) -> Iterator[int]:
    """A server that answers so for /json/; its port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/json/" else 404)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def free(page: object, executor_mb: int = 512, hosts: tuple[str, ...] = ()) -> int | None:
    with master(page if isinstance(page, bytes) else json.dumps(page).encode()) as port:
        return free_slots("spark://127.0.0.1:7077", port, executor_mb, hosts)


def test_cores_count_where_an_executor_has_room_or_would_make_it() -> None:
    assert free(PAGE) == 2
    assert free(PAGE, 400) == 5
    assert free(PAGE, 512, ("b",)) == 5
    assert free(PAGE, 9999) == 0
    assert free({**PAGE, "workers": []}) == 0


@pytest.mark.parametrize(
    "page", [{**PAGE, "status": "STANDBY"}, {}, [], 3, {"status": "ALIVE"}, {**PAGE, "workers": [{}]}, b"<html>", b""]
)
def test_what_is_no_page_of_a_master_at_work_tells_nothing(page: object) -> None:
    assert free(page) is None


def test_nobody_there_tells_nothing() -> None:
    assert free_slots("spark://127.0.0.1:7077", PORT, 512, ()) is None
    assert free_slots("yarn", PORT, 512, ()) is None


def test_of_several_masters_the_one_at_work_is_asked() -> None:
    with master(json.dumps(PAGE).encode()) as port:
        assert free_slots("spark://127.0.0.2:1,127.0.0.1:2", port, 512, ()) == 2
