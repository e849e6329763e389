"""What a reader of a query has seen so far, from a thread of its own."""

from __future__ import annotations

import threading
from typing import Any

from borealis_py.api import ViewName, subscribe


class Results:
    """Follows a query until it is closed. `seen`: everything, in order; `Row`s, or `LiveChange`s of a live view."""

    def __init__(self, query: str, app: str, bootstrap: str, view: ViewName = "corrected") -> None:
        self.seen: list[Any] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, args=(query, view, app, bootstrap))
        self._thread.start()

    def _follow(self, query: str, view: ViewName, app: str, bootstrap: str) -> None:
        for change in subscribe(query, view, app=app, bootstrap=bootstrap, stop=self._stop):
            self.seen.append(change)

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
