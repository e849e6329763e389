"""The oracles are worth something: each of these broken rules is caught by the script and oracle named beside it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from borealis_py.protocol import manager as manager_module
from borealis_py.protocol.checkpointing import Checkpointing
from borealis_py.protocol.control import ControlFold, Recovery
from borealis_py.protocol.delay import FeedState
from borealis_py.protocol.heartbeat import HeartbeatTimer
from borealis_py.protocol.manager import Manager
from borealis_py.protocol.publishing import Publishing
from borealis_py.protocol.reconciliation import Reconciliation
from borealis_py.protocol.settings import DelayPolicy
from borealis_py.protocol.turn import Effect, SaveCheckpoint, SendHeartbeat, WriterReady
from sunion import output as output_module
from sunion.bucket import Buckets
from sunion.errors import IllegalTransition, RetentionLost
from sunion.model import Kind
from sunion.source import SourceFold
from sunion.stream_fold import FeedProgress, StreamFold
from sunion.union import Mark, SUnion
from sunion.view import View
from tests.protocol import test_control, test_reader, test_scenarios, test_starting
from tests.protocol.toy import MS, make_world
from tests.sunion import lists, test_stream, test_union
from tests.transcripts.acting import transcript

Patch = pytest.MonkeyPatch
CAUGHT = (AssertionError, IllegalTransition, RetentionLost)


def boundary_off_by_one(patch: Patch) -> None:
    """The boundary that lies in a bucket closes it."""
    patch.setattr(Buckets, "closed_by", lambda self, boundary: boundary // self.width_us + 1)


def tie_order(patch: Patch) -> None:
    """Rows are ordered by input before stime."""
    kept = lists.ListOps.order
    patch.setattr(lists.ListOps, "order", lambda self, parts: tuple(sorted(kept(self, parts), key=lambda r: r[1])))


def duplicates_taken(patch: Patch) -> None:
    """seq does not decide."""
    kept = SUnion.feed

    def feed(self: SUnion, index: int, record: Any) -> Any:
        source = self.inputs[index]
        source.fold = replace(source.fold, last_seq=-1)
        return kept(self, index, record)

    patch.setattr(SUnion, "feed", feed)


def undo_missing(patch: Patch) -> None:
    """The view does not announce corrections."""
    kept = View.stable_run
    patch.setattr(View, "stable_run", lambda *a: [c for c in kept(*a) if c.kind is not Kind.UNDO])


def stable_state_runs_tentative_input(patch: Patch) -> None:
    """S is touched by a live run."""
    kept = Manager._step_live

    def step(self: Manager, bucket: int) -> None:
        kept(self, bucket)
        self._s = self._l

    patch.setattr(Manager, "_step_live", step)


def checkpoint_before_ack(patch: Patch) -> None:
    """A checkpoint is durable as soon as it is taken."""

    def turn(self: Checkpointing, now: int, f_s: int, state: Any, union: SUnion, ack_s: int) -> list[SaveCheckpoint]:
        if f_s <= self.newest + 5:
            return []
        self.newest = f_s
        return [SaveCheckpoint(f_s, state, union.marks(f_s))]

    patch.setattr(Checkpointing, "turn", turn)


def late_result_applied(patch: Patch) -> None:
    """Any answer counts, whichever job is current and wherever F_s is."""
    jobs, start = {}, Reconciliation.start_job

    def started(self: Reconciliation, *args: Any) -> list[Effect]:
        effects = start(self, *args)
        if self.job is not None:
            jobs[self.job.id] = self.job
        return effects

    patch.setattr(Reconciliation, "start_job", started)
    patch.setattr(Reconciliation, "answered", lambda self, now, result, stable: ((jobs[result.id], result), []))


def ranges_without_fold(patch: Patch) -> None:
    """A position in a source is an offset and nothing more."""
    kept = SUnion.marks
    patch.setattr(SUnion, "marks", lambda *a: tuple(Mark(m.offset, SourceFold(0)) for m in kept(*a)))


def newer_incarnation_keeps_ask(patch: Patch) -> None:
    """The ask of a dead incarnation stays in the queue."""
    kept = ControlFold.read

    def read(self: ControlFold, offset: int, beat: Any) -> None:
        before = self.peers.get(beat.replica)
        ask = before.ask if before is not None else None
        kept(self, offset, beat)
        peer = self.peers[beat.replica]
        if peer is not before and peer.ask is None:
            peer.ask = ask

    patch.setattr(ControlFold, "read", read)


def progress_not_read_after_fencing(patch: Patch) -> None:
    """A take-over goes on from the progress known before."""
    kept = Publishing._answered

    def answered(self: Publishing, event: Any, now: int) -> Any:
        return kept(self, replace(event, progress=None) if isinstance(event, WriterReady) else event, now)

    patch.setattr(Publishing, "_answered", answered)


def expiry_before_reading(patch: Patch) -> None:
    """A bucket expires though its input may lie unread in the log."""
    kept = Manager._run_live

    def run(self: Manager) -> None:
        self._ends.read_to = self._now
        kept(self)

    patch.setattr(Manager, "_run_live", run)


def waiting_from_creation(patch: Patch) -> None:
    """The wait counts from a bucket's creation, not from its end."""
    kept = manager_module.delay.ready_at
    width = lists.W
    patch.setattr(manager_module.delay, "ready_at", lambda end, *rest, **waits: kept(end - 2 * width, *rest, **waits))


def never_forgiven(patch: Patch) -> None:
    """A feed that was late once is never waited for again."""
    patch.setattr(FeedState, "forgive", lambda self: None)


def heard_is_forgotten(patch: Patch) -> None:
    """Every run without a late feed forgets that it was heard."""
    kept = FeedState.on_live_run

    def on_live_run(self: FeedState, bucket: int) -> None:
        kept(self, bucket)
        self.heard = self.heard and not self.late

    patch.setattr(FeedState, "on_live_run", on_live_run)


def unacknowledged_rows_read_back(patch: Patch) -> None:
    """Rows are read from the own topic before it holds them."""
    kept = Publishing._maybe_publish

    def publish(self: Publishing, standing: Any, output: Any) -> Any:
        acked, output.ack_s = output.ack_s, output.stable
        effects = kept(self, standing, output)
        output.ack_s = acked
        return effects

    patch.setattr(Publishing, "_maybe_publish", publish)


def one_transaction_for_all(patch: Patch) -> None:
    """A backlog in memory is published at once."""
    patch.setattr(output_module, "end_of", lambda outputs, end, most, ops: end)


def zombies_heard(patch: Patch) -> None:
    """Tentative records of any incarnation count."""
    kept = StreamFold._store

    def store(self: StreamFold, k: int, record: Any, said: Any) -> None:
        self._inc[k] = 0
        kept(self, k, record, said)

    patch.setattr(StreamFold, "_store", store)


def evicted_rows_kept(patch: Patch) -> None:
    """Rows that come for an evicted bucket are kept, and forgotten by their whole count."""
    kept = SUnion.feed

    def feed(self: SUnion, index: int, record: Any) -> Any:
        evicted, self.evicted = self.evicted, self.low
        accepted = kept(self, index, record)
        self.evicted = evicted
        return accepted

    patch.setattr(SUnion, "feed", feed)


def waiting_is_a_reason_to_turn(patch: Patch) -> None:
    """What waits for an answer asks for a turn at once."""
    kept = Manager.next_wakeup
    patch.setattr(
        Manager,
        "next_wakeup",
        lambda self: min(kept(self), max(self._now, self.publishing.wakeup(self.f_s) or 2**62)),
    )


def policy_of_failure_only(patch: Patch) -> None:
    """The stabilization policy is ignored."""
    kept = Manager._ready_at

    def ready_at(self: Manager, bucket: int) -> int | None:
        given, self.delays = self.delays, replace(self.delays, stabilization=self.delays.failure)
        at = kept(self, bucket)
        self.delays = given
        return at

    patch.setattr(Manager, "_ready_at", ready_at)


def suspend_processes(patch: Patch) -> None:
    """suspend is treated as process."""
    kept = manager_module.delay.ready_at

    def ready_at(end: Any, inputs: Any, policy: DelayPolicy, **waits: int) -> int | None:
        return kept(end, inputs, DelayPolicy.PROCESS if policy is DelayPolicy.SUSPEND else policy, **waits)

    patch.setattr(manager_module.delay, "ready_at", ready_at)


def repeats_have_waited(patch: Patch) -> None:
    """`waited_us` of a stable bucket that is known already counts."""
    kept = StreamFold._stable

    def stable(
        self: StreamFold, replica: int, first: int, end: int, output: Any, waited_us: int, said: list[Any]
    ) -> bool:
        taken = kept(self, replica, first, end, output, waited_us, said)
        said[:] = [
            replace(w, waited_us=waited_us) if isinstance(w, FeedProgress) and w.bucket == end - 1 else w for w in said
        ]
        return taken

    patch.setattr(StreamFold, "_stable", stable)


def goal_moves(patch: Patch) -> None:
    """The goal of a start is what the peers have reached now."""
    kept = Recovery.done

    def done(self: Recovery, control: Any, **more: Any) -> bool:
        self._goal = None
        return kept(self, control, **more)

    patch.setattr(Recovery, "done", done)


def starting_peers_set_goals(patch: Patch) -> None:
    """Peers that are RECOVERING themselves count in the goal."""
    kept = ControlFold.live_peers
    patch.setattr(
        ControlFold,
        "live_peers",
        lambda self: [replace(p, beat=replace(p.beat, state="STABLE")) for p in kept(self)],
    )


def ready_before_acks(patch: Patch) -> None:
    """READY does not wait for the acknowledgement of what was said."""
    kept = Recovery.done

    def done(self: Recovery, control: Any, *, f_l: int, busy: bool, **_: Any) -> bool:
        return kept(self, control, f_l=f_l, ack_l=f_l, busy=busy)

    patch.setattr(Recovery, "done", done)


def no_checkpoint_when_stable(patch: Patch) -> None:
    """A replica that is STABLE again waits for its interval."""
    patch.setattr(Checkpointing, "soon", lambda self: None)


def old_ask_for_a_new_run(patch: Patch) -> None:
    """The offset of an earlier run of asking is said for the present one."""
    kept = HeartbeatTimer.beat

    def beat(self: HeartbeatTimer, *, ask: Any, **more: Any) -> Any:
        return [SendHeartbeat(replace(b.heartbeat, ask_offset=ask)) for b in kept(self, ask=ask, **more)]

    patch.setattr(HeartbeatTimer, "beat", beat)


# Scripts --------------------------------------------------------------------------------------------------------------


def crash_with_records_in_flight() -> None:
    """A crash while appends are not acknowledged; the next incarnation starts from the last checkpoint."""
    world = make_world()
    world.run(2_000 * MS)
    world.replicas[0].acks = False
    world.run(3_500 * MS)
    world.start(0)
    world.run(5_000 * MS)


def take_over_by_one_who_did_not_read() -> None:
    """The publisher dies; the other has not read the progress for a while."""
    world = make_world(replicas=2)
    world.run(1_000 * MS)
    world.replicas[1].deaf = True
    world.run(3_000 * MS)
    world.replicas.pop(0)
    world.run(6_000 * MS)
    world.replicas[1].deaf = False
    world.run(7_000 * MS)


def zombie_in_a_topic() -> None:
    for newer in ("stable", "tentative"):
        record = getattr(test_reader, newer)(0, inc=2)
        test_reader.test_tentative_records_of_a_zombie_are_ignored_whatever_its_successor_wrote(record)


def hung_redo() -> None:
    test_scenarios.test_a_redo_that_fails_or_hangs_runs_inline("hold")


def lag_without_luck() -> None:
    """Boundaries of the lagging input and live runs fall so that the input is never heard in between."""
    feed = FeedState(said=5)
    feed.on_live_run(5)
    feed.on_report(5, tentative=False, live=9)
    feed.on_live_run(8)
    feed.forgive()
    assert not feed.late


MUTANTS: list[tuple[Callable[[Patch], None], Callable[[], None]]] = [
    (boundary_off_by_one, test_scenarios.test_one_failure),
    (tie_order, test_scenarios.test_one_failure),
    (duplicates_taken, test_scenarios.test_one_failure),
    (undo_missing, test_scenarios.test_one_failure),
    (stable_state_runs_tentative_input, test_scenarios.test_one_failure),
    (checkpoint_before_ack, crash_with_records_in_flight),
    (late_result_applied, hung_redo),
    (ranges_without_fold, test_scenarios.test_one_failure),
    (newer_incarnation_keeps_ask, test_control.test_a_newer_incarnation_clears_the_older_ones_ask),
    (progress_not_read_after_fencing, take_over_by_one_who_did_not_read),
    (expiry_before_reading, test_scenarios.test_a_bucket_does_not_expire_while_its_input_lies_unread_in_the_log),
    (waiting_from_creation, partial(transcript, "lost_input")),
    (never_forgiven, test_scenarios.test_an_input_that_heals_with_a_lag_between_delta_and_d_is_waited_for_again),
    (heard_is_forgotten, lag_without_luck),
    (unacknowledged_rows_read_back, test_scenarios.test_rows_beyond_memory_are_published_from_the_own_topic),
    (one_transaction_for_all, test_scenarios.test_a_backlog_leaves_in_transactions_that_are_small_enough),
    (zombies_heard, zombie_in_a_topic),
    (evicted_rows_kept, test_union.test_rows_that_come_for_an_evicted_bucket_are_counted_and_not_kept),
    (waiting_is_a_reason_to_turn, test_scenarios.test_who_waits_for_the_ends_to_take_over_does_not_spin),
    (policy_of_failure_only, partial(transcript, "suspend")),
    (suspend_processes, partial(transcript, "suspend")),
    (repeats_have_waited, test_stream.test_what_a_repeat_was_held_does_not_count),
    (goal_moves, test_starting.test_the_goal_of_a_start_is_what_the_peers_had_reached_at_the_first_echo),
    (starting_peers_set_goals, test_starting.test_a_peer_that_is_starting_itself_sets_no_goal),
    (ready_before_acks, test_starting.test_who_was_not_acknowledged_is_not_ready),
    (no_checkpoint_when_stable, test_starting.test_a_checkpoint_is_taken_as_soon_as_the_replica_is_stable_again),
    (old_ask_for_a_new_run, test_starting.test_a_new_run_of_asking_does_not_carry_the_offset_of_the_one_before),
]


@pytest.mark.parametrize(("mutant", "script"), MUTANTS, ids=[m.__name__ for m, _ in MUTANTS])
def test_a_broken_rule_is_caught(mutant: Callable[[Patch], None], script: Callable[[], None]) -> None:
    script()
    with pytest.MonkeyPatch.context() as patch:
        mutant(patch)
        with pytest.raises(CAUGHT):
            script()
