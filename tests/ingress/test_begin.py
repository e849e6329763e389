"""A session that cannot begin leaves no client open, since its process begins it again each second."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from borealis_py.ingress.decoder import TopicDecoder
from borealis_py.ingress.formats.json_objects import JsonFormat
from borealis_py.ingress.session import IngressSession
from borealis_py.log.base import LogError, Reader, TopicSpec, Wake
from borealis_py.log.foreign import ForeignLog, TopicWatch
from borealis_py.log.ingress_status import IngressRole, IngressStatus
from borealis_py.runtime.ingress.member import RESTART_US, TopicMember
from borealis_py.runtime.ingress.reporting import ReportedSession
from tests.ingress.worlds import TOPIC, TopicWorld, W
from tests.support.instant_log import InstantBroker, InstantLog
from tests.support.refusing_log import RefusingLog, open_after_refusals

BAD = "cannot open a reader: ssl.ca.location failed"


class Misconfigured:
    """A foreign cluster whose properties are refused once they are used."""

    def __init__(self, cluster: InstantLog) -> None:
        self.healed = False
        self._cluster = cluster

    def topic_watch(self, topic: str, wake: Wake) -> TopicWatch:
        return self._cluster.topic_watch(topic, wake)

    def reader(self, wake: Wake) -> Reader:
        if not self.healed:
            raise LogError(BAD)
        return self._cluster.reader(wake)


class Process:
    """An ingress process of one topic, whose clock a test sets."""

    def __init__(self, world: TopicWorld, log: InstantLog, cluster: ForeignLog) -> None:
        self.told: list[IngressStatus] = []
        self._world, self._log, self._cluster = world, log, cluster
        self._now_us = world.now
        self._member = TopicMember("orders", 0, TOPIC, None, self._begin, lambda: "u", self.told.append)

    def begin(self) -> IngressSession:
        spec = self._world.plan.spec
        decoder = TopicDecoder(JsonFormat(self._world.plan.columns), spec.stime, spec.stime_unit, 1_000)
        return IngressSession(self._log, self._cluster, self._world.plan, decoder, "u", 0, lambda: None)

    def _begin(self, uid: str) -> ReportedSession:
        return ReportedSession(self.begin(), "orders", self._world.plan.spec, W)

    def turns(self) -> Iterator[IngressStatus]:
        """What is told of each turn; the next is when another session may begin."""
        while True:
            self._member.turn(self._now_us)
            self._now_us += RESTART_US
            yield self.told[-1]

    def close(self) -> None:
        self._member.close(self._now_us)


@pytest.fixture
def world() -> TopicWorld:
    return TopicWorld()


@pytest.fixture
def log(world: TopicWorld) -> InstantLog:
    return InstantLog(InstantBroker(world.memory))


def test_where_the_settings_cannot_be_read_no_client_is_left_however_often_it_begins(
    world: TopicWorld, log: InstantLog
) -> None:
    world.admin.delete(["shop.settings"])
    process = Process(world, log, log)
    turns = process.turns()
    for _ in range(3):
        told = next(turns)
        assert (told.role, "shop.settings" in told.detail, log.unclosed) == (IngressRole.STARTING, True, 0)
    world.admin.create([TopicSpec("shop.settings")])
    next(turns)
    assert (next(turns).role, log.unclosed) == (IngressRole.STANDBY, 5)
    process.close()
    assert log.unclosed == 0


def test_where_the_cluster_is_misconfigured_no_client_is_left_however_often_it_begins(
    world: TopicWorld, log: InstantLog
) -> None:
    cluster = Misconfigured(log)
    process = Process(world, log, cluster)
    turns = process.turns()
    for _ in range(3):
        told = next(turns)
        assert (told.role, told.detail, log.unclosed) == (IngressRole.STARTING, BAD, 0)
    cluster.healed = True
    next(turns)
    assert (next(turns).role, log.unclosed) == (IngressRole.STANDBY, 5)
    process.close()
    assert log.unclosed == 0


def test_whatever_call_is_refused_no_client_is_left(world: TopicWorld) -> None:
    log = RefusingLog(InstantBroker(world.memory))
    left = open_after_refusals(log, Process(world, log, log).begin)
    assert len(left) > 9
    assert not any(left)
