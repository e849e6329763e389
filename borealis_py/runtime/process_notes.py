"""Notes that a process leaves next to its log for its supervisor: since when it is ready, how it ended."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from borealis_py.app.supervisor import run_notes
from borealis_py.log.ingress_status import IngressStatus
from borealis_py.node.reporter import StatusListener, StatusSnapshot
from borealis_py.observe.ingress_registry import IngressRegistry
from borealis_py.observe.status_registry import StatusRegistry


class ProcessNotes:
    """Args:
    path: common prefix of its files.
    run: of this process; empty: it has no supervisor, and writes nothing.
    """

    def __init__(self, path: Path, run: str) -> None:
        self._path = path
        self._run = run
        self._ready = False
        self._lock = threading.Lock()

    def seen(self, board: StatusRegistry, on_ready: Callable[[], None] = lambda: None) -> StatusListener:
        """A listener that updates the registry and notes when all its replicas have become READY, or no longer are.

        Args:
            on_ready: called when all are, from any of their threads.
        """

        def tell(snapshot: StatusSnapshot) -> None:
            board.tell(snapshot)
            self._look(board, on_ready)

        return tell

    def seen_ingress(self, board: IngressRegistry) -> Callable[[IngressStatus], None]:
        """The same for the statuses of an ingress process."""

        def tell(status: IngressStatus) -> None:
            board.tell(status)
            self._look(board, lambda: None)

        return tell

    def _look(self, board: StatusRegistry | IngressRegistry, on_ready: Callable[[], None]) -> None:
        """Called once a second by each loop, from its own thread."""
        with self._lock, suppress(OSError):
            ready = not board.unready()
            if ready == self._ready:
                return
            self._ready = ready
            if ready:
                on_ready()
            if not self._run:
                return
            if ready:
                run_notes.write(f"{self._path}.ready", {"run": self._run, "since_s": time.monotonic()})
            else:
                run_notes.remove(f"{self._path}.ready")

    def ended(self, code: int) -> None:
        """Note the exit code, which the system reports only to the parent."""
        if self._run:
            with suppress(OSError):
                run_notes.write(f"{self._path}.end", {"run": self._run, "code": code})
