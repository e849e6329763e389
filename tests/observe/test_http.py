"""A replica process's HTTP: real sockets on a port of the system's choice, a board fed by hand."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.client import HTTPConnection, HTTPResponse

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from borealis_py.config.address import Address, AddressError, HttpUnavailable
from borealis_py.kafka.broker import free_port
from borealis_py.observe import http_server
from borealis_py.observe.http_routes import replica_routes
from borealis_py.observe.http_server import HttpServer
from borealis_py.observe.status_registry import HUNG_S, StatusRegistry
from tests.harness.waiting import PATIENCE_S, until
from tests.observe.states import CUT1, Q0, Now, app_state, both

HERE = Address("127.0.0.1", 0)


@pytest.fixture
def now() -> Now:
    return Now()


@pytest.fixture
def board(now: Now) -> StatusRegistry:
    return StatusRegistry(app_state(), [Q0, CUT1], clock=now)


@pytest.fixture
def server(board: StatusRegistry) -> Iterator[HttpServer]:
    server = HttpServer(HERE, replica_routes(board))
    yield server
    server.close()


def where(server: HttpServer) -> tuple[str, int]:
    address = Address.parse(server.url.removeprefix("http://"))
    return address.host, address.port


def ask(server: HttpServer, path: str, method: str = "GET", body: bytes | None = None) -> tuple[int, str, HTTPResponse]:
    connection = HTTPConnection(*where(server), timeout=PATIENCE_S)
    try:
        connection.request(method, path, body)
        response = connection.getresponse()
        return response.status, response.read().decode(), response
    finally:
        connection.close()


def raw(server: HttpServer, sent: bytes) -> bytes:
    """What comes back for these bytes and an end."""
    with socket.create_connection(where(server), 20) as client:
        client.sendall(sent)
        client.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: client.recv(65_536), b""))


def test_health_and_readiness(server: HttpServer, board: StatusRegistry, now: Now) -> None:
    assert ask(server, "/healthz")[:2] == (200, "ok\n")
    assert ask(server, "/readyz")[:2] == (503, "q.r0 is starting; cut.r1 is starting\n")
    both(board)
    assert ask(server, "/readyz")[:2] == (200, "ok\n")
    now.s += HUNG_S + 1
    for path in ("/healthz", "/readyz"):
        code, text, _ = ask(server, path)
        assert (code, text) == (503, "q.r0 has said nothing for 11 s; cut.r1 has said nothing for 11 s\n")


def test_the_status_is_the_one_of_the_command(server: HttpServer, board: StatusRegistry) -> None:
    both(board)
    code, text, response = ask(server, "/api/v1/status")
    found = json.loads(text)
    assert (code, response.headers["Content-Type"]) == (200, "application/json")
    now_us = found["at_wall_us"]
    assert found == json.loads(json.dumps(board.overview(now_us)))
    assert [(r["node"], r["replica"], r["state"]) for r in found["replicas"]] == [
        ("q", 0, "STABLE"),
        ("cut", 1, "STABLE"),
    ]


def test_metrics_come_as_prometheus_asks_for_them(server: HttpServer, board: StatusRegistry) -> None:
    both(board)
    code, text, response = ask(server, "/metrics")
    assert code == 200
    assert response.headers["Content-Type"].startswith("text/plain; version=")
    assert 'borealis_replica_tuples_total{app="a",node="q",replica="0"} 9.0' in text
    openmetrics = replica_routes(board).answer("GET", "/metrics", "application/openmetrics-text; version=1.0.0")
    assert openmetrics.kind.startswith("application/openmetrics-text")
    assert openmetrics.body.endswith(b"# EOF\n")


def test_a_head_has_no_body(server: HttpServer) -> None:
    code, text, response = ask(server, "/healthz", "HEAD")
    assert (code, text, response.headers["Content-Length"]) == (200, "", "3")


@pytest.mark.parametrize(
    ("method", "path", "code", "said"),
    [
        ("GET", "/", 404, "nothing at '/'; there is /healthz, /readyz, /metrics, /api/v1/status"),
        ("GET", "/healthz/", 404, "nothing at '/healthz/'"),
        ("GET", "/../../etc/passwd", 404, "nothing at"),
        ("GET", "/%00", 404, "nothing at '/%00'"),
        ("GET", "/metrics?name[]=x", 400, "/metrics takes no parameters, got 'name[]=x'"),
        ("POST", "/healthz", 405, "/healthz is read with GET or HEAD, not POST"),
        ("DELETE", "/api/v1/status", 405, "not DELETE"),
        ("BREW", "/metrics", 405, "not BREW"),
        ("POST", "/nothing", 404, "nothing at '/nothing'"),
    ],
)
def test_requests_that_make_no_sense(server: HttpServer, method: str, path: str, code: int, said: str) -> None:
    found, text, response = ask(server, path, method, b"x" * 1000 if method == "POST" else None)
    assert (found, text.startswith(said) or said in text) == (code, True)
    assert response.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert (response.headers["Allow"] == "GET, HEAD") == (code == 405)


@pytest.mark.parametrize(
    ("sent", "line"),
    [
        (b"nonsense\r\n\r\n", b" 400 "),
        (b"GET http://[ HTTP/1.1\r\n\r\n", b" 400 "),
        (b"GET /healthz HTTP/9.9\r\n\r\n", b" 400 "),
        (b"GET /healthz HTTP/x\r\n\r\n", b" 400 "),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", b" 400 "),
        (b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n", b" 414 "),
        (b"GET /healthz HTTP/1.1\r\n" + b"a: b\r\n" * 200 + b"\r\n", b" 431 "),
        (b"POST /healthz HTTP/1.1\r\nContent-Length: 10\r\n\r\nabc", b" 405 "),
        (b"GET /healthz HTTP/1.1\r\nContent-Length: many\r\n\r\n", b" 200 "),
        (b"GET /healthz HTTP/1.1\r\nAccept: \xff\x00;;;q=\r\n\r\n", b" 200 "),
    ],
)
def test_bytes_that_are_hardly_http(server: HttpServer, sent: bytes, line: bytes) -> None:
    answer = raw(server, sent)
    assert line in answer.split(b"\r\n")[0] or (line == b" 400 " and answer.startswith(b"this request makes no sense"))
    assert b"Traceback" not in answer
    assert ask(server, "/healthz")[0] == 200


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.binary(max_size=300), st.sampled_from([b"", b"GET ", b"GET /metrics HTTP/1.1\r\n", b"POST /readyz HTTP/1.1\r\n"])
)
def test_no_bytes_break_it(server: HttpServer, tail: bytes, head: bytes) -> None:
    answer = raw(server, head + tail + b"\r\n\r\n")
    assert not answer.split(b"\r\n")[0].startswith(b"HTTP/1.0 5") or answer.startswith(b"HTTP/1.0 503")
    assert ask(server, "/healthz")[:2] == (200, "ok\n")


@settings(deadline=None)
@given(st.text(max_size=40), st.text(max_size=40), st.text(max_size=60))
def test_every_request_has_an_answer(method: str, target: str, accept: str) -> None:
    pages = replica_routes(StatusRegistry(app_state(), [Q0]))
    for path in (target, f"/metrics{target}"):
        assert 400 <= pages.answer(method, path, accept).code < 500
    assert pages.answer("GET", "/metrics", accept).code == 200


def test_a_page_that_fails_says_so_and_no_more(board: StatusRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    pages = replica_routes(board)
    monkeypatch.setattr(board, "overview", lambda now_us: 1 / 0)
    answer = pages.answer("GET", "/api/v1/status")
    assert answer.code == 500
    assert b"ZeroDivisionError" in answer.body
    assert pages.answer("GET", "/healthz").code == 200


def test_a_client_that_never_comes_to_an_end_is_cut_off(server: HttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "CONNECTION_S", 0.2)
    with socket.create_connection(where(server), 20) as slow:
        slow.sendall(b"GET /healthz HTTP/1.1\r\nHost: ")

        def cut() -> bool:
            try:
                slow.sendall(b"x")
            except OSError:
                return True
            return False

        until(cut, "it is cut off while it sends a byte now and then")
    monkeypatch.setattr(http_server, "CONNECTION_S", 20.0)  # who comes to an end has the time for it
    assert ask(server, "/healthz")[0] == 200


def test_too_many_at_once_are_turned_away(server: HttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "AT_ONCE", 2)
    silent = [socket.create_connection(where(server), 20) for _ in range(2)]
    try:
        until(lambda: ask(server, "/healthz")[0] == 503, "the third is turned away")
        assert ask(server, "/healthz")[1] == "too many connections at once\n"
    finally:
        for one in silent:
            one.close()
    until(lambda: ask(server, "/healthz")[0] == 200, "there is room again")


def test_close_ends_what_is_open_and_may_be_repeated(board: StatusRegistry) -> None:
    server = HttpServer(Address("127.0.0.1", free_port()), replica_routes(board))  # nobody else's when it is closed
    host, port = where(server)
    with socket.create_connection((host, port), PATIENCE_S) as waiting:
        waiting.sendall(b"GET /healthz HTTP/1.1\r\n")
        server.close()
        server.close()
        with suppress(ConnectionResetError):
            while waiting.recv(100):
                pass
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, port), PATIENCE_S)
    assert "http" not in [thread.name for thread in threading.enumerate()]


def test_an_address_that_is_taken(server: HttpServer, board: StatusRegistry) -> None:
    taken = Address(*where(server))
    with pytest.raises(HttpUnavailable, match=f"cannot listen for HTTP at {taken}: Address already in use") as refused:
        HttpServer(taken, replica_routes(board))
    assert "port 0 is any free one" in str(refused.value)


def test_a_host_that_is_not_here(board: StatusRegistry) -> None:
    with pytest.raises(HttpUnavailable, match=r"cannot listen for HTTP at 192\.0\.2\.1:0"):
        HttpServer(Address("192.0.2.1", 0), replica_routes(board))


def test_everybody_is_shown_this_machines_name(board: StatusRegistry) -> None:
    server = HttpServer(Address("0.0.0.0", 0), replica_routes(board))
    server.close()
    assert server.url.startswith(f"http://{socket.gethostname()}:")


@pytest.mark.parametrize(
    ("text", "host", "port"), [("localhost:0", "localhost", 0), ("[::1]:65535", "::1", 65535), (" a.b:1 ", "a.b", 1)]
)
def test_addresses(text: str, host: str, port: int) -> None:
    assert Address.parse(text) == Address(host, port)
    assert str(Address.parse(text)) == text.strip()


@pytest.mark.parametrize("text", ["", "9400", ":9400", "a:", "a:b", "a:65536", "a:-1", "::1:9", "http://a:1", "a b:1"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(AddressError, match="is not HOST:PORT; write 127"):
        Address.parse(text)


def test_processes_of_one_machine_take_ports_in_a_row() -> None:
    assert Address("h", 9400).after(3) == Address("h", 9403)
    assert Address("h", 0).after(3) == Address("h", 0)
    with pytest.raises(AddressError, match="would end above 65535"):
        Address("h", 65534).after(2)


def test_replicas_that_differ_are_told_to_who_asks_for_health_and_no_restart_is_provoked(
    board: StatusRegistry, server: HttpServer
) -> None:
    both(board, diverged="they differ")
    code, body, _ = ask(server, "/healthz")
    assert (code, body.startswith("ok; DIVERGED: q.r0 publishes nothing: they differ")) == (200, True)
