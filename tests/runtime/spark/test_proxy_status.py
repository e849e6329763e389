"""What a driver says for replicas that do not run: their last status, with the reason, on the log and on its pages."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from borealis_py.log.base import Feed
from borealis_py.log.messages import Status, decode
from borealis_py.node.reporter import StatusSnapshot
from borealis_py.runtime.spark.proxy_status import ProxyStatus
from tests.reconcile.rpc_log import RpcLog
from tests.support.statuses import snapshot

FEED = Feed("app.status")


def specs(log: RpcLog) -> list[Any]:
    return [
        SimpleNamespace(node=query, replica=0, name=f"{query}.r0", log=log, status_feed=FEED)
        for query in ("p", "q", "r")
    ]


def test_a_replica_is_said_to_have_stopped_with_what_it_said_last() -> None:
    log, seen = RpcLog(FEED), list[StatusSnapshot]()
    notices = ProxyStatus(specs(log), seen.append)
    for query in ("p", "q"):
        notices.see(snapshot(node=query, f_s=7))
    assert [g.status.node for g in seen] == ["p", "q"]
    notices.stopped(["q.r0", "r.r0"], "no slot")
    (told,) = [decode(value, Status) for value in log.values(FEED)]
    assert (told.node, told.replica, told.event, told.detail) == ("q", 0, "STOPPED", "no slot")
    assert (told.f_s, told.publishing) == (7, False)
    assert told.at_wall_us > seen[1].status.at_wall_us
    assert seen[2:] == [StatusSnapshot(told, seen[1].delays, seen[1].failed_until)]


def test_of_none_nothing_is_said() -> None:
    log = RpcLog(FEED)
    ProxyStatus(specs(log)).stopped(["p.r0"], "no slot")
    notices = ProxyStatus(specs(log))
    notices.see(snapshot(node="p"))
    notices.stopped([], "no slot for redos")
    assert log.values(FEED) == []
