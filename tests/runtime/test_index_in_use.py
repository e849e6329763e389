"""Whether a replica index runs elsewhere is asked of all nodes at once: partitions are many, a start is to be quick."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from borealis_py.log.base import Feed, Record
from borealis_py.log.messages import beat_key, encode
from borealis_py.runtime.process import index_in_use
from borealis_py.runtime.process.index_in_use import WATCH_S, IndexTaken, ensure_free
from tests.support.heartbeats import heartbeat

NOW_S = 1_000_000.0
NODES = 8
DEAD = "d8c7b6a5"


class Control:
    """A control log with a heartbeat of replica 0 in each partition. `more`: when and where there is another;
    `behind_s`: the clock of the machine that writes them is behind."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        more: tuple[float, int] | None = None,
        uid: str = "uid",
        behind_s: float = 0.0,
    ) -> None:
        self.waited_s = 0.0
        self._more, self._uid, self._at_ms = more, uid, int((NOW_S - behind_s) * 1000)
        monkeypatch.setattr(index_in_use, "time", self)

    def time(self) -> float:
        return NOW_S + self.waited_s

    def monotonic(self) -> float:
        return self.waited_s

    def sleep(self, seconds: float) -> None:
        self.waited_s += seconds

    def lookup(self) -> Control:
        return self

    def close(self) -> None:
        pass

    def bounds(self, feed: Feed) -> tuple[int, int]:
        later = self._more is not None and self._more[1] == feed.partition and self.waited_s >= self._more[0]
        return 0, 2 if later else 1

    def read(self, feed: Feed, first: int, end: int) -> list[Record]:
        value = encode(heartbeat(0, 7, uid=self._uid))
        key = beat_key(f"n.{feed.partition}", 0)
        garbage = Record(feed, end - 1, self._at_ms, key, b"[" * 100_000)  # says nothing, and stops nobody
        return [*(Record(feed, at, self._at_ms, key, value) for at in range(first, end)), garbage]


def specs() -> list[Any]:
    return [
        SimpleNamespace(node=f"n.{i}", replica=0, corrected=False, control_feed=Feed("app.control", i))
        for i in range(NODES)
    ]


def test_many_nodes_are_watched_as_long_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    control = Control(monkeypatch)
    ensure_free(control, specs())  # type: ignore[arg-type]
    assert WATCH_S <= control.waited_s < 2 * WATCH_S


@pytest.mark.parametrize("behind_s", [0.0, 3_600.0, -3_600.0])
def test_one_that_goes_on_is_named_whatever_its_clock_says(monkeypatch: pytest.MonkeyPatch, behind_s: float) -> None:
    control = Control(monkeypatch, (0.5 * WATCH_S, 5), behind_s=behind_s)
    with pytest.raises(IndexTaken, match=r"replica 0 of node n.5 is already running \(incarnation 7, uid\)"):
        ensure_free(control, specs())  # type: ignore[arg-type]


def test_the_last_words_of_the_one_that_died_do_not_hold_up_its_successor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does one that the log took only after its death."""
    control = Control(monkeypatch, (WATCH_S / 2, 3), uid=f"{DEAD}-4f00aa")
    ensure_free(control, specs(), dead=DEAD)  # type: ignore[arg-type]
    assert control.waited_s < WATCH_S / 2


@pytest.mark.parametrize("uid", ["uid", f"{DEAD}4-4f00aa", "0a1b2c3d-4f00aa"])
def test_a_third_one_still_holds_it_up(monkeypatch: pytest.MonkeyPatch, uid: str) -> None:
    control = Control(monkeypatch, (WATCH_S / 2, 3), uid=uid)
    with pytest.raises(IndexTaken, match=uid):
        ensure_free(control, specs(), dead=DEAD)  # type: ignore[arg-type]
