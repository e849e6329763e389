"""Which replicas of an app are alive, on any machine: those whose heartbeats keep arriving, of any version and life."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Container, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass

import msgspec
import psutil
import structlog

from borealis_py.app.errors import LaunchError
from borealis_py.app.process_spec import ProcessSpec
from borealis_py.app.replicas import spec_of
from borealis_py.app.state import StatusReader
from borealis_py.log import topics
from borealis_py.log.base import Feed, Log, LogError, LogUnreachable, Lookup, Record
from borealis_py.log.messages import Status, decode
from borealis_py.log.numbers import Number
from borealis_py.log.unreadable import ignored

_log = structlog.get_logger(__package__)

WATCH_S = 1.5
"""How long to watch; a replica sends a heartbeat every 0.2 s."""
LOOK_S = 0.05


class _Beat(msgspec.Struct, frozen=True):
    """The fields that heartbeats of all versions share."""

    replica: Number
    inc: Number
    uid: str


@dataclass(frozen=True, slots=True)
class Alive:
    """A live incarnation, `uid`, of `replica` of `node`. `node`, `pid` and `host` come from its status; "", 0 and "" if
    it has none."""

    node: str
    replica: int
    uid: str
    pid: int = 0
    host: str = ""

    def __str__(self) -> str:
        where = f", pid {self.pid} on {self.host or 'an unknown machine'}" if self.pid else ""
        return f"replica {self.replica} of {self.node or 'a node'} (uid {self.uid}{where})"


def alive(log: Log, app: str, partitions: int, sleep: Callable[[float], None] = time.sleep) -> list[Alive]:
    """Every replica whose heartbeats are arriving. Takes `WATCH_S`, unless there has never been a heartbeat.

    Args:
        partitions: of the control topic, as far as they exist. sleep: waits the given seconds.

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
                continue  # the app has more nodes now than when the topic was created
        if not any(ends.values()):
            return []
        sleep(WATCH_S)
        beats = [one for feed in ends for one in _beats(lookup, feed, ends[feed])]
    return _known(beats, _statuses(log, app) if beats else {})


def ensure_nobody(found: Iterable[Alive], own_pids: Iterable[int]) -> None:
    """Raises LaunchError if any of these is alive and is not one of this machine's own processes."""
    here, pids = platform.node(), set(own_pids)
    others = sorted(str(one) for one in found if not (one.pid in pids and one.host == here))
    if others:
        raise LaunchError(
            f"nothing was deleted: still alive elsewhere {'is' if len(others) == 1 else 'are'} "
            f"{'; '.join(others)}. Stop them there with `borealis down`; `--reset --take-over` starts anew without "
            "them if nobody can: what they write then no longer counts"
        )


def explain_taken(found: Iterable[Alive], app: str, indices: Container[int], own_pids: Container[int]) -> str | None:
    """Who runs these replica indices elsewhere, and where to stop it; None: nobody does.

    Args:
        indices: of the processes that were to start. own_pids: of this directory's processes.
    """
    here, by = platform.node(), dict[tuple[int, str, int], set[str]]()
    for one in found:
        if one.replica in indices and not (one.pid in own_pids and one.host == here):
            by.setdefault((one.replica, one.host, one.pid), set()).add(one.node)
    if not by:
        return None
    said = []
    for (replica, host, pid), nodes in sorted(by.items()):
        where = f"pid {pid} on {host or 'an unknown machine'}" if pid else "a process that has not reported its pid"
        spec = _spec_of(pid) if pid and host == here else None
        stop = (
            f"`borealis down --app {app} --data-dir {spec.data_dir}` stops it"
            if spec is not None
            else "stop it there (`borealis down`)"
        )
        said.append(f"replica {replica} runs elsewhere: {where} ({', '.join(sorted(nodes))}); {stop}")
    return f"app {app!r}: {'. '.join(said)}. `borealis up --take-over` takes its place"


def _spec_of(pid: int) -> ProcessSpec | None:
    try:
        return spec_of(psutil.Process(pid))
    except psutil.NoSuchProcess:
        return None


def _beats(lookup: Lookup, feed: Feed, first: int) -> list[Alive]:
    return [one for record in lookup.read(feed, first, lookup.bounds(feed)[1]) if (one := _beat(record)) is not None]


def _beat(record: Record) -> Alive | None:
    try:
        beat = decode(record.value or b"", _Beat)
    except msgspec.MsgspecError as exc:
        ignored(_log, "heartbeat ignored", record, exc)
        return None
    node, _, _ = (record.key or b"").decode(errors="replace").rpartition("/")
    return Alive(node, beat.replica, beat.uid)


def _statuses(log: Log, app: str) -> dict[str, Status]:
    """The newest status of each incarnation, from the retained hour: machines' clocks differ."""
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
