"""A redo by RPC gives the bits of a direct run, or a reason by the deadline, whatever happens to its messages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import msgspec
import pytest

from borealis_py.log.base import NewRecord, Wake
from borealis_py.log.topics import ENVELOPE_BYTES_MAX, redo_feeds
from borealis_py.protocol.redo import MEASURED, RedoDone, RedoFailed, RedoJob
from reconcile import redo_client, rpc
from reconcile.redo_client import MEASURE_MOST_US, MEASURE_US, TAKE_MOST_US, TAKE_US, RemoteRedo, TaskAddress
from reconcile.redo_job import PackedJob, run_packed
from reconcile.redo_server import HELD_US, WAIT_US, RedoServer, TaskChannel
from reconcile.rpc import JobAccepted, JobResult, Reassembler, Shutdown, SubmitJob, decode, encode
from tests.harness.waiting import until
from tests.reconcile.list_world import ListKernel, batch, claim, list_work
from tests.reconcile.replica import Replica
from tests.reconcile.rpc_log import HandClock, RpcLog

LOGS = {"s": [claim(1, "a"), *(batch(1, "a", i, [(10_000 + 1000 * i, i)], 11_000 + 1000 * i) for i in range(20))]}
REQUESTS, RESPONSES = redo_feeds("app", "q", 0)
WORK = list_work(LOGS).pack()


@dataclass
class HandSlots:
    """Slots that run a job when the test says so."""

    running: dict[int, bytes] = field(default_factory=dict)
    cancelled: list[int] = field(default_factory=list)
    _ended: list[tuple[int, bytes | str]] = field(default_factory=list)

    def execute(self, handle: int, node: str, packed: bytes) -> None:
        assert node == "q"
        self.running[handle] = packed

    def cancel(self, handle: int) -> None:
        self.cancelled.append(handle)

    def take_finished(self) -> list[tuple[int, bytes | str]]:
        out, self._ended = self._ended, []
        return out

    def run(self) -> None:
        """Run all there is."""
        for handle, packed in self.running.items():
            self._ended.append((handle, run_packed(WORK, packed)))
        self.running.clear()

    def end(self, result: bytes | str) -> None:
        """All there is ends with this: a packed result, or the reason why there is none."""
        self._ended += [(handle, result) for handle in self.running]
        self.running.clear()


class Driver:
    """A driver and tasks, one after the other in this thread."""

    def __init__(self, count: int = 1) -> None:
        self.log, self.clock, self.slots, self.count = RpcLog(REQUESTS), HandClock(), HandSlots(), count
        self.stops: list[str] = []
        self.server = self.serve("s1")

    def serve(self, session: str) -> RedoServer:
        self.slots = HandSlots()
        channels = [TaskChannel("q", REQUESTS, RESPONSES)]
        return RedoServer(self.log, channels, session, self.slots, self.count, lambda: None, self.clock)

    def task(
        self, uid: str = "u1", session: str = "s1", wake: Wake = lambda: None, measure: RedoJob | None = None
    ) -> RemoteRedo:
        address = TaskAddress(session, uid, REQUESTS, RESPONSES)
        stop = lambda: self.stops.append(uid)  # noqa: E731
        return RemoteRedo(self.log, address, ListKernel(), wake, self.clock, 2.5, stop, measure=measure)

    def later(self, us: int) -> None:
        self.clock.us += us


@pytest.fixture(scope="module")
def replica() -> Replica:
    return Replica(ListKernel(), LOGS)


@pytest.fixture
def office() -> Iterator[Driver]:
    office = Driver()
    yield office
    assert office.log.untaken() == []


def said(office: Driver) -> list[type]:
    return [type(decode(v)) for v in office.log.values(RESPONSES)]


def test_a_job_by_message_gives_the_bits_of_the_direct_run(office, replica):
    task = office.task()
    office.later(5_000_000)
    for job in replica.jobs([15, 22]):
        task.submit_job(job)
        office.server.turn()
        assert task.poll_results() == []
        office.later(250_000)
        office.slots.run()
        office.server.turn()
        (done,) = task.poll_results()
        assert isinstance(done, RedoDone)
        assert (done.id, done.engine, done.seconds) == (job.id, "spark", 0.25)
        assert done.outputs == replica.expected(job.first, job.end)
        assert repr(done.state) == repr(replica.states[job.end])
        assert task.poll_results() == []
    assert task.why_inline == ""


def test_a_task_measures_once_what_a_job_takes(office, replica):
    """A failed measurement is made again, is no reason to run inline, and does not stand in the way of a job."""
    task = office.task(measure=replica.job(10, 10, id=MEASURED))
    assert task.poll_results() == []
    office.server.turn()
    assert office.slots.running == {}, "the worker may not be warm yet"
    office.later(MEASURE_US)
    assert task.poll_results() == []
    office.server.turn()
    office.slots.end("Spark job failed: no worker")
    office.server.turn()
    assert (task.poll_results(), task.why_inline) == ([], "")
    office.later(MEASURE_US)
    assert task.poll_results() == []
    office.server.turn()
    office.later(700_000)
    office.slots.run()
    office.server.turn()
    (done,) = task.poll_results()
    assert (done.id, done.seconds, done.outputs) == (MEASURED, 0.7, {})
    office.later(10 * MEASURE_US)
    assert task.poll_results() == []
    office.server.turn()
    assert office.slots.running == {}


def test_a_measurement_that_hangs_gives_its_slot_back(office, replica):
    task = office.task(measure=replica.job(10, 10, id=MEASURED))
    office.later(MEASURE_US)
    task.poll_results()
    office.server.turn()
    assert task.poll_results() == []
    office.later(MEASURE_MOST_US)
    assert task.poll_results() == []
    office.server.turn()
    assert len(office.slots.cancelled) == 1


def test_a_driver_that_was_slow_to_accept_is_waited_for_longer(office, replica):
    task, job = office.task(), lambda id_: replace(replica.job(10, 15, id=id_), deadline_us=6_000_000)
    task.submit_job(job(1))
    office.later(TAKE_US)
    (failed,) = task.poll_results()
    assert isinstance(failed, RedoFailed)
    task.submit_job(job(2))
    office.later(2 * TAKE_US - 1)
    assert task.poll_results() == []
    office.server.turn()
    assert task.poll_results() == [], "it is accepted"
    task.cancel_job(2)
    task.submit_job(job(3))
    office.later(TAKE_MOST_US - 1)
    assert task.poll_results() == [], "many times as long as the last one waited, within bounds"
    office.later(1)
    (failed,) = task.poll_results()
    assert (failed.id, failed.reason) == (3, "the driver did not accept the redo within 4 s")


def test_a_driver_is_not_waited_for_beyond_the_time_that_a_job_has(office, replica):
    """The replica would give the job up itself, and nobody would know why Spark runs none."""
    task = office.task()
    for job_id, take_us in ((1, TAKE_US), (2, 1_800_000)):
        task.submit_job(replace(replica.job(10, 15, id=job_id), deadline_us=2_000_000))
        office.later(take_us - 1)
        assert task.poll_results() == []
        office.later(1)
        why = f"the driver did not accept the redo within {take_us / 1e6:.3g} s"
        assert task.poll_results() == [RedoFailed(job_id, why)]
        assert task.why_inline == why


def test_a_job_is_sent_with_the_time_that_it_has(office, replica):
    task = office.task()
    for job, budget_s in (
        (replica.job(10, 15, id=1), 2.25),
        (replace(replica.job(10, 15, id=2), deadline_us=6_000_000), 5.4),
    ):
        task.submit_job(job)
        office.server.turn()
        (packed,) = office.slots.running.values()
        assert msgspec.msgpack.decode(packed, type=PackedJob).budget_s == pytest.approx(budget_s)
        office.slots.run()
        office.server.turn()


def test_both_ends_read_seldom(office):
    office.task()
    assert office.log.seldom == [True, True]


def test_a_driver_has_turns_without_news_only_while_jobs_wait(office, replica):
    one, two = office.task("u1"), office.task("u2")
    assert not office.server.waits
    one.submit_job(replica.job(10, 15, id=1))
    office.server.turn()
    assert not office.server.waits, "it runs, and its end is news"
    two.submit_job(replica.job(15, 20, id=1))
    office.server.turn()
    assert office.server.waits, "for the only slot"
    two.cancel_job(1)
    office.server.turn()
    assert not office.server.waits


def test_jobs_of_two_replicas_run_side_by_side_and_each_gets_its_own_answer(replica):
    office = Driver(2)
    one, two = office.task("u1"), office.task("u2")
    one.submit_job(replica.job(10, 15, id=1))
    two.submit_job(replica.job(15, 20, id=1))
    office.server.turn()
    assert len(office.slots.running) == 2
    office.slots.run()
    office.server.turn()
    (first,), (second,) = one.poll_results(), two.poll_results()
    assert (first.outputs, second.outputs) == (replica.expected(10, 15), replica.expected(15, 20))


def test_large_jobs_and_answers_travel_in_parts(office, replica, monkeypatch):
    monkeypatch.setattr(rpc, "ENVELOPE_BYTES_MAX", 7)
    task = office.task()
    task.submit_job(replica.job(10, 20, id=1))
    office.server.turn()
    office.slots.run()
    office.server.turn()
    (done,) = task.poll_results()
    assert isinstance(done, RedoDone)
    assert done.outputs == replica.expected(10, 20)
    assert said(office).count(JobResult) > 3
    assert ENVELOPE_BYTES_MAX == 900_000


def test_a_state_too_large_to_travel_is_a_sentence(office, replica, monkeypatch):
    assert rpc.STATE_BYTES_MAX < rpc.JOB_BYTES_MAX, "an answer has its rows, too"
    monkeypatch.setattr(rpc, "STATE_BYTES_MAX", 3 << 20)
    monkeypatch.setattr(redo_client, "pack_job", lambda *_: bytes(rpc.STATE_BYTES_MAX + 1))
    task = office.task()
    assert task.why_inline == "", "nothing has failed yet"
    task.submit_job(replica.job(10, 20, id=1))
    assert task.poll_results() == [RedoFailed(1, "a state of 3 MB is too large to be sent to the driver")]
    assert office.log.values(REQUESTS) == []


def test_an_answer_too_large_to_travel_is_a_sentence(office, replica, monkeypatch):
    task = office.task()
    task.submit_job(replica.job(10, 20, id=3))
    office.server.turn()
    monkeypatch.setattr(rpc, "JOB_BYTES_MAX", 3 << 20)
    office.slots.end(bytes(rpc.JOB_BYTES_MAX + 1))
    office.server.turn()
    assert task.poll_results() == [RedoFailed(3, "an answer of 3 MB is too large to be sent")]


def test_what_the_driver_says_wakes_the_task(office, replica):
    rung: list[str] = []
    task = office.task(wake=lambda: rung.append("rung"))
    task.submit_job(replica.job(10, 15, id=1))
    assert rung == []
    office.server.turn()
    assert rung == ["rung"], "it is taken"


def test_a_failed_job_is_answered_with_its_reason(office, replica):
    task = office.task()
    task.submit_job(replica.job(10, 15, id=4))
    office.server.turn()
    office.slots.end("Spark's JVM does not answer")
    office.server.turn()
    assert task.poll_results() == [RedoFailed(4, "Spark's JVM does not answer")]


def test_without_a_driver_a_job_fails_at_the_deadline_and_a_late_answer_does_nothing(office, replica):
    task = office.task()
    office.log.hold(REQUESTS)
    task.submit_job(replica.job(10, 15, id=1))
    office.later(TAKE_US - 1)
    assert task.poll_results() == []
    office.later(1)
    why = "the driver did not accept the redo within 1.3 s"
    assert task.poll_results() == [RedoFailed(1, why)]
    assert task.why_inline == why
    office.log.release(REQUESTS)
    office.server.turn()
    assert office.slots.running == {}  # its cancellation came with it
    task.submit_job(replica.job(10, 15, id=2))
    office.server.turn()
    office.slots.run()
    office.server.turn()
    (done,) = task.poll_results()
    assert (done.id, task.why_inline) == (2, "")


def test_an_answer_after_the_replica_gave_up_does_nothing(office, replica):
    task = office.task()
    task.submit_job(replica.job(10, 15, id=1))
    office.server.turn()
    office.log.hold(RESPONSES)
    office.slots.run()
    office.server.turn()
    task.cancel_job(1)
    office.log.release(RESPONSES)
    assert task.poll_results() == []


def test_a_cancelled_job_is_cancelled_at_spark_and_its_slot_counts_as_taken_for_a_while(office, replica):
    task = office.task()
    task.submit_job(replica.job(10, 15, id=1))
    office.server.turn()
    task.cancel_job(1)
    office.server.turn()
    (handle,) = office.slots.cancelled
    office.slots.end("cancelled")
    task.submit_job(replica.job(10, 15, id=2))
    office.server.turn()
    assert handle not in office.slots.running
    assert said(office) == [JobAccepted]
    office.later(WAIT_US)
    office.server.turn()
    assert task.poll_results() == [RedoFailed(2, "no free slot within 1 s: the application has 1 slot for redos")]
    office.later(HELD_US)
    task.submit_job(replica.job(10, 15, id=3))
    office.server.turn()
    office.slots.run()
    office.server.turn()
    assert [r.id for r in task.poll_results() if isinstance(r, RedoDone)] == [3]


def test_a_job_that_was_accepted_has_the_time_it_needs(office, replica):
    task = office.task()
    task.submit_job(replica.job(10, 15, id=1))
    office.server.turn()
    assert task.poll_results() == []
    office.later(10 * TAKE_US)
    assert task.poll_results() == []
    office.slots.run()
    office.server.turn()
    assert [r.id for r in task.poll_results() if isinstance(r, RedoDone)] == [1]


def test_only_the_job_that_is_cancelled_is(replica):
    office = Driver(3)
    one, two = office.task("u1"), office.task("u2")
    for task, job_id in ((one, 1), (one, 2), (two, 1)):
        task.submit_job(replica.job(10, 15, id=job_id))
    office.server.turn()
    running = list(office.slots.running)
    one.cancel_job(2)
    office.server.turn()
    assert office.slots.cancelled == [running[1]]


def test_a_result_that_is_not_wanted_any_more_takes_no_other_with_it(replica):
    office = Driver(0)
    task = office.task()
    for job_id in (1, 2):
        task.submit_job(replica.job(10, 15, id=job_id))
    office.server.turn()
    task._read()
    task.cancel_job(1)
    assert [r.id for r in task.poll_results()] == [2]


def test_with_all_slots_taken_a_job_waits_and_then_is_refused_by_name(office, replica):
    first, second, third = (office.task(uid) for uid in ("u1", "u2", "u3"))
    first.submit_job(replica.job(10, 15, id=1))
    office.server.turn()
    second.submit_job(replica.job(10, 20, id=1))
    office.server.turn()
    assert len(office.slots.running) == 1
    office.slots.run()
    office.server.turn()
    assert [r.id for r in first.poll_results()] == [1]
    assert len(office.slots.running) == 1  # the second one's turn
    third.submit_job(replica.job(10, 15, id=1))
    office.server.turn()
    office.later(WAIT_US)
    office.server.turn()
    (refused,) = third.poll_results()
    assert refused == RedoFailed(1, "no free slot within 1 s: the application has 1 slot for redos")
    assert third.why_inline == refused.reason
    office.slots.run()
    office.server.turn()
    (done,) = second.poll_results()
    assert done.outputs == replica.expected(10, 20)


def test_an_application_without_slots_for_redos_says_so_at_once(replica):
    office = Driver(count=0)
    task = office.task()
    task.submit_job(replica.job(10, 15, id=1))
    office.server.turn()
    assert task.poll_results() == [RedoFailed(1, "the application has no slot for redos")]


def test_messages_of_other_incarnations_and_sessions_are_nobodys(office, replica):
    zombie, task, other = office.task("old"), office.task("new"), office.task("new", "s0")
    zombie.submit_job(replica.job(10, 15, id=1))
    other.submit_job(replica.job(10, 15, id=1))
    office.server.turn()
    assert len(office.slots.running) == 1
    office.slots.run()
    office.server.turn()
    assert task.poll_results() == []
    assert other.poll_results() == []
    assert len(zombie.poll_results()) == 1


def test_a_new_driver_leaves_what_its_predecessor_was_asked(office, replica):
    task = office.task()
    task.submit_job(replica.job(10, 15, id=1))
    old, old_slots = office.server, office.slots
    office.server = office.serve("s2")
    office.server.turn()
    assert office.slots.running == {}
    old.turn()  # the old one was only paused: a zombie answers its own tasks and no others
    old_slots.run()
    old.turn()
    new = office.task("u2", "s2")
    assert new.poll_results() == []
    assert len(task.poll_results()) == 1


def test_what_a_task_tells_reaches_its_driver_and_no_other(office):
    heard: list[bytes] = []
    channels = [TaskChannel("q", REQUESTS, RESPONSES)]
    server = RedoServer(office.log, channels, "s1", HandSlots(), 1, lambda: None, office.clock, heard.append)
    office.task("u", "s0").tell(b"not ours")
    office.task().tell(b"well")
    server.turn()
    assert heard == [b"well"]


def test_stop_reaches_the_tasks_of_the_session(office):
    mine, other = office.task("mine"), office.task("other", "s0")
    office.server.stop_tasks()
    mine.poll_results()
    other.poll_results()
    assert office.stops == ["mine"]


def test_close_cancels(office, replica):
    task = office.task()
    task.submit_job(replica.job(10, 15, id=1))
    office.server.turn()
    task.close()
    office.server.turn()
    assert office.slots.cancelled == [1]


def test_one_job_twice_is_a_mistake(office, replica):
    task = office.task()
    task.submit_job(replica.job(10, 15, id=1))
    with pytest.raises(ValueError, match="1 is running already"):
        task.submit_job(replica.job(10, 15, id=1))


def test_a_task_that_lost_messages_says_so_and_hears_its_driver_again_without_waiting_for_that(office, replica):
    rung: list[str] = []
    task = office.task(wake=lambda: rung.append("rung"))
    task.submit_job(replica.job(10, 15, id=1))
    office.server.turn()
    office.slots.run()
    office.server.turn()
    office.log.lose(RESPONSES)
    office.log.answers.clear()  # nobody tells the end of a log
    (failed,) = task.poll_results()
    assert "replies cannot be read" in failed.reason
    task.submit_job(replica.job(10, 15, id=2))
    assert [r.id for r in task.poll_results()] == [2]
    rung.clear()
    office.log.answers.set()
    until(lambda: rung, "the end of the replies is found")
    assert task.poll_results() == [], "the driver is heard again"
    task.submit_job(replica.job(10, 15, id=3))
    office.server.turn()
    office.slots.run()
    office.server.stop_tasks()
    office.server.turn()
    assert [(r.id, type(r)) for r in task.poll_results()] == [(3, RedoDone)]
    assert office.stops == ["u1"]


def test_a_driver_that_lost_messages_reads_on(office, replica):
    task = office.task()
    task.submit_job(replica.job(10, 15, id=1))
    office.log.lose(REQUESTS)
    office.server.turn()
    assert office.slots.running == {}
    task.submit_job(replica.job(10, 15, id=2))
    office.server.turn()
    assert len(office.slots.running) == 1


def test_a_repeated_message_says_nothing(office, replica):
    task = office.task()
    task.submit_job(replica.job(10, 15, id=1))
    office.log.repeat(REQUESTS)
    office.server.turn()
    assert len(office.slots.running) == 1
    office.slots.run()
    office.server.turn()
    office.log.repeat(RESPONSES)
    assert [r.id for r in task.poll_results()] == [1]
    assert office.slots.running == {}


def test_foreign_records_say_nothing(office, replica):
    task = office.task()
    for feed in (REQUESTS, RESPONSES):
        for value in (b"", b"nonsense", encode(Shutdown("s1"))[:-1], b"\x91\xa4STOP"):
            office.log.put(NewRecord(feed, value))
    office.log.put(NewRecord(RESPONSES, encode(JobResult("s1", "u1", 1, 0, 1, b"no answer"))))
    task.submit_job(replica.job(10, 15, id=1))
    (failed,) = task.poll_results()
    assert "the driver's answer cannot be read" in failed.reason
    office.server.turn()
    assert office.stops == []


@pytest.mark.parametrize(
    ("arriving", "whole"),
    [
        ("u10/2 u11/2", b"01"),
        ("u10/1", b"0"),
        ("u10/3 u12/3", None),
        ("u11/2", None),
        ("u10/2 u10/2 u11/2", None),
        ("u10/2 u20/2 u21/2", b"01"),
        ("u10/2 u21/2", None),
        ("u10/2 v10/2 v11/2", b"01"),
        ("u10/2 v10/2 u11/2", b"01"),  # a zombie and its successor
        ("u10/2 v10/2 w10/2 u11/2", None),
        ("u10/3 v10/2 u11/3 w10/2 u12/3", b"012"),
    ],
)
def test_parts_make_a_whole_only_in_order_and_of_one_job(arriving, whole):
    assembly = Reassembler()
    found = [
        assembly.add(SubmitJob("s", x[0], int(x[1]), int(x[2]), int(x[4]), x[2].encode())) for x in arriving.split()
    ]
    assert found[-1] == whole
    assert all(f is None for f in found[:-1])
