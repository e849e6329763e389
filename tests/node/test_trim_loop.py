"""The thread that deletes: what it does with what the replica decides, and that nothing that fails ends it (R16)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from borealis_py.log.base import Feed, LogError, NewRecord
from borealis_py.log.description import APP_KEY
from borealis_py.log.messages import Description, encode
from borealis_py.node.replica import Replica
from borealis_py.node.trim_loop import TrimLoop, trimming
from borealis_py.node.trimmer import Trim, Trims
from borealis_py.protocol.trimming import TrimLimit
from tests.harness.waiting import until
from tests.support.instant_log import InstantLog

OWN, OTHER = Feed("app.q.r0"), Feed("nowhere")
SETTINGS = Feed("app.settings")


class Deciding:
    """A replica that decides on these deletions, or raises."""

    def __init__(self, deletions: Mapping[Feed, int], *errors: Exception) -> None:
        self.deletions, self.errors = deletions, list(errors)
        self.told: list[Mapping[Feed, str]] = []
        self.threads: set[str] = set()
        self.trims_anything = True
        self.spec = SimpleNamespace(app="app", app_uid="a1")
        self.found: tuple[Trim, ...] = ()

    def decide_trims(self, lookup: Any) -> Trims:
        self.threads.add(threading.current_thread().name)
        if self.errors:
            raise self.errors.pop(0)
        return Trims(cast(Any, self.deletions), self.found)

    def trimmed(self, trims: Trims, refused: Mapping[Feed, str]) -> None:
        self.told.append(refused)


def a_log() -> InstantLog:
    log = InstantLog()
    log.create([OWN.topic, SETTINGS.topic])
    log.put(*(NewRecord(OWN, b"x") for _ in range(10)))
    describe(log, "a1")
    return log


def describe(log: InstantLog, app_uid: str) -> None:
    description = Description("{}", "h", 0, "f", app_uid)
    log.put(NewRecord(SETTINGS, encode(description), APP_KEY.encode()))


def loop(replica: Deciding, log: InstantLog) -> TrimLoop:
    return TrimLoop(cast(Replica, replica), log)


def test_it_deletes_and_reports() -> None:
    log, replica = a_log(), Deciding({OWN: 4})
    it = loop(replica, log)
    it.once()
    assert log.lookup().bounds(OWN) == (4, 10)
    assert replica.told == [{}]
    it.close()


def test_where_everything_is_to_be_kept_it_opens_nothing() -> None:
    log, replica = a_log(), Deciding({OWN: 4})
    replica.trims_anything = False
    loop(replica, log).once()
    assert log.unclosed == 0
    assert log.lookup().bounds(OWN) == (0, 10)


def test_what_is_refused_is_reported_each_time_and_logged_once() -> None:
    log, replica = a_log(), Deciding({OTHER: 4, OWN: 3})
    it = loop(replica, log)
    with capture_logs() as lines:
        it.once()
        it.once()
    assert [set(told) for told in replica.told] == [{OTHER}, {OTHER}]
    assert [(line["log_level"], line["topic"]) for line in lines] == [("warning", OTHER.topic)]
    assert log.lookup().bounds(OWN) == (3, 10)
    it.close()


def test_a_log_that_cannot_be_read_deletes_nothing_and_is_tried_again_with_other_clients() -> None:
    log, replica = a_log(), Deciding({OWN: 4}, LogError("no broker"), LogError("no broker"))
    it = loop(replica, log)
    with capture_logs() as lines:
        it.once()
        it.once()
    assert [line["why"] for line in lines] == ["no broker"]
    assert log.unclosed == 0
    assert log.lookup().bounds(OWN) == (0, 10)
    it.once()
    assert log.lookup().bounds(OWN) == (4, 10)
    it.close()


class Answering:
    """A deleter that answers like this, call by call: what it refused, or an error."""

    def __init__(self, *answers: Mapping[Feed, str] | Exception) -> None:
        self._answers = list(answers)

    def delete_before(self, offsets: Mapping[Feed, int], check: Callable[[], None]) -> Mapping[Feed, str]:
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        """Nothing is open."""


def test_where_nothing_can_be_deleted_the_status_says_why_of_all_that_was_to_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As with properties of librdkafka that kafka-python has not."""
    log, replica = a_log(), Deciding({OWN: 4})
    replica.found = (Trim("q", (OWN, OTHER), TrimLimit(7, ("q.r1",))),)
    deleter = Answering(LogError("no such client"), {})
    monkeypatch.setattr(log, "deleter", lambda: deleter)
    it = loop(replica, log)
    it.once()
    it.once()
    assert replica.told == [dict.fromkeys((OWN, OTHER), "no such client"), {}]
    it.close()


def test_after_an_error_that_nobody_expects_the_status_says_so_and_other_clients_are_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As with a Kafka client whose thread has crashed: it answers every later call with an error."""
    log, replica = a_log(), Deciding({OWN: 4})
    replica.found = (Trim("q", (OWN,), TrimLimit(7, ("q.r1",))),)
    deleters = [Answering(RuntimeError("closed!")), Answering({})]
    monkeypatch.setattr(log, "deleter", lambda: deleters.pop(0))
    it = loop(replica, log)
    with pytest.raises(RuntimeError, match="closed!"):
        it.once()
    it.once()
    assert replica.told == [{OWN: "RuntimeError: closed!"}, {}]
    assert not deleters
    it.close()


class Suspended:
    """A deleter whose process is suspended after the first feed, while `meanwhile` happens."""

    def __init__(self, meanwhile: Callable[[], None]) -> None:
        self._meanwhile = meanwhile
        self.deleted: list[Feed] = []

    def delete_before(self, offsets: Mapping[Feed, int], check: Callable[[], None]) -> Mapping[Feed, str]:
        for feed in offsets:
            check()
            self.deleted.append(feed)
            self._meanwhile()
        return {}

    def close(self) -> None:
        """Nothing is open."""


def test_what_was_decided_before_the_app_was_made_anew_is_not_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    log, replica = a_log(), Deciding({OWN: 4, OTHER: 4})
    replica.found = (Trim("q", (OWN, OTHER), TrimLimit(7, ("q.r1",))),)
    deleter = Suspended(lambda: describe(log, "a2"))
    monkeypatch.setattr(log, "deleter", lambda: deleter)
    with capture_logs() as lines:
        loop(replica, log).once()
    assert deleter.deleted == [OWN]
    assert [line["log_level"] for line in lines] == ["warning"]
    assert set(replica.told[0]) == {OWN, OTHER}


def test_a_refusal_that_was_over_is_logged_again(monkeypatch: pytest.MonkeyPatch) -> None:
    log, replica, refused = a_log(), Deciding({OWN: 4}), {OWN: "not allowed"}
    deleter = Answering(refused, refused, {}, refused)
    monkeypatch.setattr(log, "deleter", lambda: deleter)
    it = loop(replica, log)
    with capture_logs() as lines:
        for _ in range(4):
            it.once()
    assert [line["why"] for line in lines] == ["not allowed"] * 2
    it.close()


def test_it_runs_in_a_thread_of_its_own_whatever_fails_and_leaves_nothing_open() -> None:
    log, replica = a_log(), Deciding({OWN: 4}, RuntimeError("never thought of"))
    before = log.unclosed
    with capture_logs() as lines, trimming(cast(Replica, replica), log, 1_000):
        until(lambda: replica.told, "a round")
    until(lambda: log.unclosed == before, "its clients are closed")
    assert replica.threads == {"trimming"}
    assert [line["log_level"] for line in lines] == ["error"]
