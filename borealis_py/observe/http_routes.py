"""The responses to HTTP requests to a process of an app. Pure except for the wall clock: no sockets."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlsplit

import msgspec
import structlog
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from borealis_py.observe.metrics import ReplicaCollector, registry
from borealis_py.observe.status_registry import StatusRegistry

log = structlog.get_logger(__package__)

TEXT = "text/plain; charset=utf-8"
METHODS = ("GET", "HEAD")


@dataclass(frozen=True, slots=True)
class Response:
    """Status `code`, `body`, content type (`kind`), and further `headers`."""

    code: int
    body: bytes
    kind: str = TEXT
    headers: tuple[tuple[str, str], ...] = ()


def say(code: int, message: str, *headers: tuple[str, str]) -> Response:
    """A response of one line of text."""
    return Response(code, f"{message}\n".encode(errors="replace"), TEXT, headers)


class ProcessBoard(Protocol):
    """What a process knows of its loops."""

    def hung(self) -> list[str]:
        """The loops that hang, one sentence each."""

    def unready(self) -> list[str]:
        """Those that are not working, one sentence each."""

    def diverged(self) -> list[str]:
        """Those of which nothing is published, since replicas differ, one sentence each."""

    def overview(self, now_us: int) -> dict[str, Any]:
        """Their status, as JSON values. `now_us`: wall time."""


class Routes:
    """The pages of one process. `collector`: makes its metrics."""

    def __init__(self, board: ProcessBoard, collector: Collector) -> None:
        self._board = board
        self._registry = registry(collector)
        self._pages: dict[str, Callable[[str], Response]] = {
            "/healthz": self._health,
            "/readyz": self._ready,
            "/metrics": self._metrics,
            "/api/v1/status": self._status,
        }

    def answer(self, method: str, target: str, accept: str = "") -> Response:
        """The response to one request. Never raises.

        Args:
            target: of the request line. accept: the header of that name.
        """
        try:
            url = urlsplit(target)
        except ValueError as exc:
            return say(400, f"not an address: {exc}")
        page = self._pages.get(url.path)
        if page is None:
            return say(404, f"nothing at {url.path!r}; there is {', '.join(self._pages)}")
        if method not in METHODS:
            return say(
                405, f"{url.path} is read with {' or '.join(METHODS)}, not {method}", ("Allow", ", ".join(METHODS))
            )
        if url.query:
            return say(400, f"{url.path} takes no parameters, got {url.query!r}")
        try:
            return page(accept)
        except Exception as exc:
            log.warning("HTTP page failed", page=url.path, why=f"{type(exc).__name__}: {exc}", exc_info=True)
            return say(500, f"{url.path} could not be made: {type(exc).__name__}; the log of this process says why")

    def _health(self, accept: str) -> Response:
        hung = self._board.hung()
        if hung:
            return say(503, "; ".join(hung))
        return say(200, "; ".join(["ok", *self._board.diverged()]))  # no restart heals it, so this process is healthy

    def _ready(self, accept: str) -> Response:
        unready = self._board.unready()
        return say(503, "; ".join(unready)) if unready else say(200, "ok")

    def _metrics(self, accept: str) -> Response:
        encode, kind = choose_encoder(accept)
        return Response(200, encode(self._registry), kind)

    def _status(self, accept: str) -> Response:
        found = self._board.overview(time.time_ns() // 1000)
        return Response(200, msgspec.json.encode(found) + b"\n", "application/json")


def replica_routes(board: StatusRegistry) -> Routes:
    """The pages of a replica process."""
    return Routes(board, ReplicaCollector(board))
