"""The pages of a driver whose replica is a Spark task; a second driver in its place; Ctrl-C at a terminal."""

from __future__ import annotations

import json
import os
import signal
import socket
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.harness.waiting import until
from tests.runtime.spark.driven import END_S, READY_S, Driven, all_gone, driven, union_app
from tests.support.without_b import send

pytestmark = [pytest.mark.spark, pytest.mark.broker]
NONSENSE = [
    b"nonsense\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    b"GET /healthz HTTP/9.9\r\n\r\n",
    b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n",
    b"POST /readyz HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\nabc",
    b"GET /metrics?name[]=x HTTP/1.1\r\n\r\n",
    b"BREW /api/v1/status HTTP/1.1\r\n\r\n",
    b"GET /../../etc/passwd HTTP/1.1\r\n\r\n",
]


def get(url: str) -> tuple[int, str, HTTPResponse]:
    where = urlsplit(url)
    connection = HTTPConnection(str(where.hostname), where.port, timeout=20)
    try:
        connection.request("GET", where.path)
        response = connection.getresponse()
        return response.status, response.read().decode(), response
    finally:
        connection.close()


def raw(url: str, sent: bytes) -> bytes:
    """What comes back for these bytes and an end."""
    where = urlsplit(url)
    with socket.create_connection((str(where.hostname), where.port or 0), 20) as client:
        client.sendall(sent)
        client.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: client.recv(65_536), b""))


def test_a_driver_answers_for_its_tasks_and_ends_on_ctrl_c(bootstrap: str, tmp_path: Path) -> None:
    with driven(bootstrap, union_app("task-pages"), tmp_path) as app:
        driver = app.drive(0, http="127.0.0.1:0")
        app.ready(0)
        url = app.last(0).http
        with app.publisher("a") as a, app.publisher("b") as b:
            send((a, b), 0, 100)
            app.published(100)
            until(lambda: '"stable_rows":100' in get(f"{url}/api/v1/status")[1], "the pages know of 100 rows")
            the_pages_agree_with_the_status_topic(app, url)
            for sent in NONSENSE:
                answer = raw(url, sent)
                assert b" 4" in answer.split(b"\r\n")[0] or answer.startswith(b"this request makes no sense"), answer
                assert b"Traceback" not in answer
            assert get(f"{url}/healthz")[:2] == get(f"{url}/readyz")[:2] == (200, "ok\n")

            a_second_driver_is_refused(app)
            send((a, b), 100, 200)
            a.close(end=True)
            b.close(end=True)
        app.published(200)
        assert sorted(app.values()) == list(range(200))

        left = app.children(0)
        driver.may_end = True
        os.killpg(driver.popen.pid, signal.SIGINT)  # as a terminal does: the JVM and the workers hear it, too
        assert driver.popen.wait(END_S) == 0, driver.said
        assert all_gone(left) == []
        assert app.events(0)[-1] == "STOPPED"
        assert list(app.incarnations(0)) == [1]
        with pytest.raises(ConnectionRefusedError):
            get(f"{url}/healthz")
        assert "Traceback" not in driver.said


def the_pages_agree_with_the_status_topic(app: Driven, url: str) -> None:
    code, text, response = get(f"{url}/api/v1/status")
    assert (code, response.headers["Content-Type"]) == (200, "application/json")
    (found,) = json.loads(text)["replicas"]
    told = next(s for s in reversed(app.statuses()) if s.stable_rows == 100)
    names = ("node", "replica", "inc", "uid", "pid", "state", "stable_rows", "http")
    assert {name: found[name] for name in names} == {name: getattr(told, name) for name in names}
    assert (found["pid"], found["running"], found["ready"]) == (app.drivers[0].popen.pid, True, True)
    code, text, response = get(f"{url}/metrics")
    assert (code, response.headers["Content-Type"].startswith("text/plain; version=")) == (200, True)
    assert 'borealis_replica_stable_rows_total{app="task-pages",node="all",replica="0"} 100.0' in text
    assert 'borealis_replica_events_total{app="task-pages",event="READY",node="all",replica="0"} 1.0' in text


def a_second_driver_is_refused(app: Driven) -> None:
    """Of the same index of an app of the same name: it says so and changes nothing."""
    first = app.drivers[0]
    second = app.drive(0)
    assert second.popen.wait(READY_S) == 1
    assert "replica 0 of query all is already running" in second.said
    app.drivers[0] = first
