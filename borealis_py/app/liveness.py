"""Who is alive of an app, on any machine: heartbeats that keep coming tell, whatever version or life they are of."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass

import msgspec

from borealis_py.app.errors import LaunchError
from borealis_py.app.state import StatusReader
from borealis_py.log import topics
from borealis_py.log.base import Feed, Log, LogError, LogUnreachable, Lookup, Record
from borealis_py.log.messages import Status

WATCH_S = 1.5
"""A replica says something every 0.1 s."""
LOOK_S = 0.05


class _Beat(msgspec.Struct, frozen=True):
    """What heartbeats of all versions have in common."""

    replica: int
    inc: int
    uid: str


@dataclass(frozen=True, slots=True)
class Alive:
    """One incarnation of a replica that speaks. `pid` and `host` as its status has them; 0 and "": it has said none."""

    node: str
    replica: int
    uid: str
    pid: int = 0
    host: str = ""

    def __str__(self) -> str:
        where = f", pid {self.pid} on {self.host or 'an unknown machine'}" if self.pid else ""
        return f"replica {self.replica} of {self.node or 'a node'} (uid {self.uid}{where})"


def alive(log: Log, app: str, partitions: int, sleep: Callable[[float], None] = time.sleep) -> list[Alive]:
    """Everybody whose heartbeats come now. Takes `WATCH_S`, unless nobody has ever said anything.

    Args:
        partitions: of the control topic, as far as they are there. sleep: waits so many seconds.

    Raises:
        LogError: the log could not be read.
    """
    feeds = [Feed(topics.control(app), i) for i in range(partitions)]
    with closing(log.lookup()) as lookup:
        ends: dict[Feed, int] = {}
        for feed in feeds:
            try:
                ends[feed] = lookup.bounds(feed)[1]
            except LogUnreachable:
                raise
            except LogError:
                continue  # the app has other nodes now than when the topic was made
        if not any(ends.values()):
            return []
        sleep(WATCH_S)
        beats = [one for feed in ends for one in _beats(lookup, feed, ends[feed])]
    return _known(beats, _statuses(log, app) if beats else {})


def ensure_nobody(found: Iterable[Alive], own_pids: Iterable[int]) -> None:
    """Raises LaunchError when somebody is alive who is none of these processes of this machine."""
    here, pids = platform.node(), set(own_pids)
    others = sorted(str(one) for one in found if not (one.pid in pids and one.host == here))
    if others:
        raise LaunchError(
            f"nothing was deleted: of this app there {'is' if len(others) == 1 else 'are'} still alive, elsewhere: "
            f"{'; '.join(others)}. Stop them there with `borealis down`; `--reset --take-over` begins anew without "
            "them where nobody can: what they say counts nowhere then"
        )


def _beats(lookup: Lookup, feed: Feed, first: int) -> list[Alive]:
    return [one for record in lookup.read(feed, first, lookup.bounds(feed)[1]) if (one := _beat(record)) is not None]


def _beat(record: Record) -> Alive | None:
    try:
        beat = msgspec.json.decode(record.value or b"", type=_Beat)
    except (msgspec.MsgspecError, RecursionError):
        return None
    node, _, _ = (record.key or b"").decode(errors="replace").rpartition("/")
    return Alive(node, beat.replica, beat.uid)


def _statuses(log: Log, app: str) -> dict[str, Status]:
    """The newest of each incarnation, of the hour that is kept: clocks of machines differ."""
    with closing(StatusReader(log, app)) as reader:
        return {status.uid: status for status in reader.poll()}


def _known(beats: Iterable[Alive], by_uid: Mapping[str, Status]) -> list[Alive]:
    found = {}
    for one in beats:
        status = by_uid.get(one.uid)
        if status is not None:
            one = Alive(status.node, one.replica, one.uid, status.pid, status.host)
        found[one.uid] = one
    return list(found.values())
