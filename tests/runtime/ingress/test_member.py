"""An ingress process keeps each topic going by itself: it begins again, reports, and ends by name. No log, no clock."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

import pytest
import structlog

from borealis_py.app.supervisor import exit_codes
from borealis_py.app.supervisor.exit_codes import described
from borealis_py.client.target import BegunAnew, PublishFailed, StreamEnded, StreamForgotten
from borealis_py.ingress.source_settings import SourceSettings
from borealis_py.log.base import LogUnreachable
from borealis_py.log.ingress_status import AbsentField, IngressRole, IngressStatus
from borealis_py.runtime.ingress.after_end import REMARK
from borealis_py.runtime.ingress.host import IngressHost
from borealis_py.runtime.ingress.member import REPORT_US, RESTART_US, Roused, SessionReport, TopicMember
from tests.harness.waiting import PATIENCE_S, until
from tests.support.ingress_statuses import ingress_input

S = 1_000_000


ASKED = exit_codes.STOPPED.means


class Session:
    """Does in its turns what it was given: raise, or report."""

    def __init__(self, steps: Iterable[Exception | SessionReport]) -> None:
        self.steps = iter(steps)
        self.now = SessionReport(IngressRole.STANDBY)
        self.closed = 0

    def turn(self, now_us: int, log_us: int | None) -> None:
        step = next(self.steps, self.now)
        if isinstance(step, Exception):
            raise step
        self.now = step

    def next_wakeup(self) -> int:
        return 2**62

    def report(self) -> SessionReport:
        return self.now

    def close(self) -> None:
        self.closed += 1


class Begun:
    """Begins these sessions one after the other, and keeps what is told."""

    def __init__(self, *sessions: Session | Exception) -> None:
        self.sessions = list(sessions)
        self.uids: list[str] = []
        self.told: list[IngressStatus] = []

    def __call__(self, uid: str) -> Session:
        self.uids.append(uid)
        found = self.sessions[min(len(self.uids), len(self.sessions)) - 1]
        if isinstance(found, Exception):
            raise found
        return found

    def member(self) -> TopicMember:
        uid: Callable[[], str] = lambda: f"u{len(self.uids)}"  # noqa: E731
        return TopicMember("orders", 1, "prod.orders", "eu", self, uid, self.told.append, "http://here:1")

    @property
    def said(self) -> list[tuple[str, str]]:
        return [(status.role.value, status.detail) for status in self.told]


def test_it_reports_each_second_and_at_once_when_its_role_changes() -> None:
    owner = SessionReport(IngressRole.OWNER, (ingress_input(),))
    begun = Begun(Session([SessionReport(IngressRole.STANDBY), SessionReport(IngressRole.STANDBY), owner]))
    member = begun.member()
    for now_us in (5 * S, 5 * S + 1, 5 * S + 2, 5 * S + 3):
        member.turn(now_us)
    assert begun.said == [("standby", ""), ("owner", "")]
    assert member.next_wakeup() == 5 * S + 2 + REPORT_US
    member.turn(5 * S + 2 + REPORT_US)
    assert begun.said[2:] == [("owner", "")]
    last = begun.told[-1]
    assert (last.source, last.ingress, last.topic, last.cluster) == ("orders", 1, "prod.orders", "eu")
    assert (last.uid, last.inputs, last.http) == ("u0", (ingress_input(),), "http://here:1")


def test_it_logs_once_which_columns_no_record_has_had() -> None:
    absent = (AbsentField("userId", 9, "user_id"),)
    more = (AbsentField("note", 100), AbsentField("userId", 100, "user_id"))
    begun = Begun(Session([SessionReport(IngressRole.OWNER, absent=one) for one in (absent, absent, more)]))
    member = begun.member()
    with structlog.testing.capture_logs() as logged:
        for n in range(3):
            member.turn(5 * S + n * REPORT_US)
    assert [status.absent for status in begun.told] == [absent, absent, more]
    said = [(one["column"], one["records"], one["near"]) for one in logged if "column" in one]
    assert said == [("userId", 9, "user_id"), ("note", 100, "")]


def test_it_reports_at_once_that_an_input_is_missing_and_that_it_is_back() -> None:
    whole = SessionReport(IngressRole.OWNER, (ingress_input(),))
    lost = SessionReport(IngressRole.OWNER, (ingress_input(missing="partition 0 cannot be read"),))
    begun = Begun(Session([whole, lost, lost, whole]))
    member = begun.member()
    for n in range(4):
        member.turn(5 * S + n)
    assert [status.inputs[0].missing for status in begun.told] == ["", "partition 0 cannot be read", ""]


@pytest.mark.parametrize("error", [PublishFailed("no"), LogUnreachable("no"), RuntimeError("no")])
def test_one_that_fails_begins_again_after_a_pause_under_another_uid(error: Exception) -> None:
    failing, healthy = Session([error]), Session([])
    begun = Begun(failing, healthy)
    member = begun.member()
    member.turn(0)
    assert (failing.closed, begun.said) == (1, [("starting", "no")])
    member.turn(RESTART_US - 1)
    assert begun.uids == ["u0"]
    member.turn(RESTART_US)
    assert (begun.uids, begun.said[-1]) == (["u0", "u1"], ("standby", ""))
    assert member.code is None


def test_one_that_cannot_begin_goes_on_trying() -> None:
    begun = Begun(LogUnreachable("no broker"))
    member = begun.member()
    for n in range(3):
        member.turn(n * RESTART_US)
    assert len(begun.uids) == 3
    assert begun.said[0] == ("starting", "no broker")
    assert member.code is None


@pytest.mark.parametrize(
    ("error", "code", "role"),
    [
        (BegunAnew("anew"), exit_codes.OTHER_LIFE, "stopped"),
        (StreamForgotten("anew"), exit_codes.LOST, "stopped"),
        (StreamEnded("anew", 3), exit_codes.ENDED, "ended"),
    ],
)
def test_one_that_ends_by_name_does_not_begin_again(error: Exception, code: exit_codes.ExitCode, role: str) -> None:
    begun = Begun(Session([error]))
    member = begun.member()
    member.turn(0)
    member.turn(9 * S)
    assert (member.code, begun.uids, begun.said) == (code, ["u0"], [(role, "anew")])
    assert member.next_wakeup() is None
    member.close(10 * S)
    assert begun.said == [(role, "anew")]


def test_it_reports_what_it_has_read_of_its_sources_settings_at_once_and_to_the_end() -> None:
    before, after = SessionReport(IngressRole.STANDBY), SourceSettings(2 * S, frozenset({3, 1}), True)
    begun = Begun(Session([before, SessionReport(IngressRole.STANDBY, settings=after), StreamEnded("over", 3)]))
    member = begun.member()
    for at in range(3):
        member.turn(at)
    assert [(s.role, s.expect_us, s.skipped, s.ending) for s in begun.told] == [
        (IngressRole.STANDBY, None, (), False),
        (IngressRole.STANDBY, 2 * S, (1, 3), True),
        (IngressRole.ENDED, 2 * S, (1, 3), True),
    ]


def test_one_that_is_closed_says_so() -> None:
    session = Session([])
    begun = Begun(session)
    member = begun.member()
    member.turn(0)
    member.close(1)
    assert (session.closed, begun.said) == (1, [("standby", ""), ("stopped", "")])


def test_the_end_of_one_topic_leaves_the_others_running_and_is_the_exit_code() -> None:
    ending, lasting = Begun(Session([StreamForgotten("gone")])), Begun(Session([]))
    closed: list[bool] = []
    host = IngressHost(lambda wake: [ending.member(), lasting.member()], lambda: closed.append(True))
    codes: list[int] = []
    thread = threading.Thread(target=lambda: codes.append(host.run()))
    thread.start()
    until(lambda: len(lasting.told) >= 1 and ending.said == [("stopped", "gone")], "both have reported")
    assert thread.is_alive()
    host.stop.set()
    thread.join(PATIENCE_S)
    assert (codes, closed, lasting.said[-1]) == ([exit_codes.LOST.code], [True], ("stopped", ASKED))


def test_one_whose_sources_have_all_ended_was_not_asked_to_stop() -> None:
    """`up` and `status` said so of one that a supervisor had started: its exit code was that of a stop."""
    begun, members = ended(StreamEnded("over", 4))
    assert IngressHost(members, lambda: None).run() == exit_codes.ENDED.code
    assert [one.said for one in begun] == [[("ended", "over")]] * 2
    assert described(exit_codes.ENDED.code) == (
        "exit code 11, ended: all its sources have ended, and nothing can follow END"
    )
    _, members = ended(BegunAnew("anew"))
    assert IngressHost(members, lambda: None).run() == exit_codes.OTHER_LIFE.code


def test_one_whose_process_fails_says_that() -> None:
    class Broken(Session):
        def next_wakeup(self) -> int:
            raise RuntimeError("a bug")

    begun = Begun(Broken([]))
    host = IngressHost(lambda wake: [begun.member()], lambda: None)
    with pytest.raises(RuntimeError):
        host.run()
    assert begun.said[-1] == ("stopped", "its process failed: RuntimeError: a bug")


def test_a_process_whose_topics_have_all_ended_ends() -> None:
    host = IngressHost(lambda wake: [Begun(Session([BegunAnew("x")])).member()], lambda: None)
    assert host.run() == exit_codes.OTHER_LIFE.code


def never(stop: threading.Event) -> exit_codes.ExitCode:
    raise AssertionError("it stays")


def ended(*others: Exception) -> tuple[list[Begun], Callable[..., list[TopicMember]]]:
    begun = [Begun(Session([error])) for error in (StreamEnded("over", 3), *others)]
    return begun, lambda wake: [one.member() for one in begun]


@pytest.mark.parametrize("code", [exit_codes.STOPPED, exit_codes.OTHER_LIFE])
def test_one_that_is_to_stay_after_the_last_end_says_so_and_ends_when_that_does(code: exit_codes.ExitCode) -> None:
    closed: list[bool] = []
    begun, members = ended(StreamEnded("over", 4))

    def stay(stop: threading.Event) -> exit_codes.ExitCode:
        assert not closed
        assert [one.said for one in begun] == [[("ended", "over"), ("ended", f"over; {REMARK}")]] * 2
        return code

    assert IngressHost(members, lambda: closed.append(True), stay).run() == code.code
    assert closed == [True]
    assert [one.said[-1] for one in begun] == [("ended", f"over; {REMARK}")] * 2


@pytest.mark.parametrize("error", [BegunAnew("anew"), StreamForgotten("gone")])
def test_it_does_not_stay_where_starting_again_would_heal_or_people_must_look(error: Exception) -> None:
    _, members = ended(error)
    assert IngressHost(members, lambda: None, never).run() in (exit_codes.OTHER_LIFE.code, exit_codes.LOST.code)


def test_one_that_is_stopped_before_the_last_end_does_not_stay() -> None:
    _, members = ended()
    host = IngressHost(lambda wake: [*members(wake), Begun(Session([])).member()], lambda: None, never)
    host.stop.set()
    assert host.run() == exit_codes.STOPPED.code


def test_a_member_has_no_turn_for_what_arrived_for_others_and_one_when_it_is_due() -> None:
    woken: list[int] = []
    roused = Roused(lambda: woken.append(1))
    member = TopicMember("s", 0, "t", None, lambda _: Session([]), lambda: "u", lambda _: None, roused=roused)
    assert member.due(1_000)
    member.turn(1_000)
    assert not member.due(1_001)
    roused()
    assert woken
    assert member.due(1_001)
    member.turn(1_001)
    due_us = member.next_wakeup()
    assert due_us is not None
    assert [member.due(at) for at in (due_us - 1, due_us)] == [False, True]
    assert member.due(500), "the clock was set back"
