"""What a replica process leaves beside its log for whoever keeps it running: since when it is READY, how it ended."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from borealis_py.app.supervisor import run_notes
from borealis_py.node.reporter import StatusListener, StatusSnapshot
from borealis_py.observe.status_registry import StatusRegistry


class ProcessNotes:
    """Args:
    path: what the names of its files begin with.
    run: of this process; empty: nobody keeps it, and nothing is left.
    """

    def __init__(self, path: Path, run: str) -> None:
        self._path, self._run = path, run
        self._ready = False
        self._lock = threading.Lock()

    def seen(self, board: StatusRegistry, on_ready: Callable[[], None] = lambda: None) -> StatusListener:
        """Tells the board, and notes when all replicas of it have become READY, or are no longer.

        Args:
            on_ready: called when all are, from any of their threads.
        """

        def tell(glance: StatusSnapshot) -> None:
            board.tell(glance)
            self._look(board, on_ready)

        return tell

    def _look(self, board: StatusRegistry, on_ready: Callable[[], None]) -> None:
        """Once a second for each loop; each comes from a thread of its own."""
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
        """Its exit code: who did not start it is not told that by the system."""
        if self._run:
            with suppress(OSError):
                run_notes.write(f"{self._path}.end", {"run": self._run, "code": code})
