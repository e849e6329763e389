"""The consistency manager: one replica of one node, as a pure state machine with one door.

Theory of operation. Two frontiers run over the buckets: F_s (state S, complete input) and F_l (state L, timeliness),
F_s <= F_l. While they are equal, the replica is STABLE and runs complete buckets once. A bucket that may wait no longer
runs live: F_l moves ahead, output is TENTATIVE, the state UPSTREAM_FAILURE. When bucket F_s is complete and the grant
is held, the state is STABILIZATION: buckets from F_s run on S, inline or as jobs on Spark, until F_s reaches F_l. S
never sees tentative input, so failures may overlap. `states.TRANSITIONS` lists every step; `handle` has a turn's order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from borealis_py.protocol import delay
from borealis_py.protocol.checkpointing import Checkpointing, rebuilding
from borealis_py.protocol.control import ControlFold, Recovery
from borealis_py.protocol.gaps import Losing
from borealis_py.protocol.heartbeat import HeartbeatTimer
from borealis_py.protocol.history import History
from borealis_py.protocol.incarnation import Identity, ReplicaStatus, StartPoint
from borealis_py.protocol.input_state import InputState, LogEnds
from borealis_py.protocol.labels import Label, Labels
from borealis_py.protocol.output_gate import Speaking
from borealis_py.protocol.pace import Pace
from borealis_py.protocol.publishing import PublishContext, Publishing
from borealis_py.protocol.reconciliation import Reconciliation
from borealis_py.protocol.roles import Role
from borealis_py.protocol.settings import ManagerConfig, NodeDelays, Timing, grow_delta
from borealis_py.protocol.stagger import Stagger
from borealis_py.protocol.states import ReplicaState, check, derive
from borealis_py.protocol.turn import Effect, EmitEvent, ExitReplica, ReadAgain, StepBack, Turn
from sunion.bucket import Buckets
from sunion.errors import IllegalTransition
from sunion.model import Fragment, Ordered, Output, State
from sunion.output import SOutput, in_time
from sunion.union import SUnion
from sunion.units import Bucket, MonotonicUs, Offset

_Passed = tuple[Label, tuple[str, ...], int]
"""Of a bucket that runs live: its label, which of the node's inputs are missing, and microseconds that it waited."""


class Manager:
    """One replica of one node.

    Args:
        config: of the node. identity: of this incarnation. start: where it begins.
        delays: in force until a turn brings others.
        role: how it begins (R17). control: what it has read of the control log as a standby; None: nothing yet.

    Invariants:
        f_s <= f_l; f_s only grows within one incarnation; a stable bucket is emitted once (SOutput checks it).

    Raises:
        SettingsError: the timing breaks R13.
    """

    timing: Timing
    """The node's durations and limits, valid by R13.3; they never change."""
    identity: Identity
    """Which replica and which incarnation this is; it never changes."""
    buckets: Buckets
    """How time is cut into buckets; the same for all replicas of the app."""
    delays: NodeDelays
    """Threshold and policies in force; a turn may bring others."""

    state: ReplicaState
    """The state (A11). Only `_update_state` writes it, by a step that `states.TRANSITIONS` lists."""
    f_s: Bucket
    """The stable frontier F_s: the next bucket to run on complete input. At most `f_l`; it only grows."""
    f_l: Bucket
    """The live frontier F_l: the next bucket to run when its time has come. At least `f_s`, and equal to it while no
    output is tentative."""

    intake: InputState
    """What has been read: rows by bucket, the state of each feed, when buckets were created."""
    union: SUnion
    """The SUnion of `intake`, which owns it."""
    output: SOutput
    """What has been emitted and waits for its acknowledgement, and stable rows that are not published yet."""
    control: ControlFold
    """The fold of the control log: peers, the queue for grants, roles."""
    losing: Losing
    """Which buckets a start without state has lost (R18.3)."""
    speaking: Speaking
    """Which of the emitted records this incarnation may write (R17.1). It shares `output` and `losing`."""
    stagger: Stagger
    """Whether this replica asks for a grant and holds one (R4.2)."""
    publishing: Publishing
    """The writer of the corrected stream (R10)."""
    reconciliation: Reconciliation
    """The job of the present redo, if one runs. It begins with a grant and ends with it."""
    checkpointing: Checkpointing
    """When checkpoints are taken, and which one is durable (R12)."""

    _fragment: Fragment
    """Runs buckets: a pure function of state and rows."""
    _s: State
    """The state S before bucket F_s. It never sees tentative input."""
    _l: State
    """The state L before bucket F_l. It is S itself while `_diverged` is false."""
    _diverged: bool
    """Whether buckets have run live since F_s last reached F_l: at the end of a turn, whether F_s < F_l."""
    _labels: Labels
    """What the results on L lack, by bucket."""

    _now: MonotonicUs
    """The time of the last turn; it never decreases."""
    _ends: LogEnds
    """Up to which time everything in the logs has been read (B14)."""
    _pace: Pace
    """How many rows one turn runs, from what rows have cost. `reconciliation` uses it, too."""
    _heart: HeartbeatTimer
    """When the next heartbeat is due (R7.1)."""
    _recovery: Recovery
    """Whether the start is still catching up (R11.3). Once done, it stays done."""
    _delta_us: int
    """How long a bucket waits past its end for an input that is late already, in microseconds (R3.3). It grows with the
    node's position in its chain."""
    _wait_us: int
    """How long a bucket may wait for missing input (D), in microseconds; at least `_delta_us`."""
    _live_at: MonotonicUs | None
    """When bucket F_l may run live, as of the end of the last turn; None: not in the present state."""
    _effects: list[Effect]
    """The effects of the present turn, in order; each turn begins with a new list."""
    _history: History
    """The last turns, for the error that a broken rule raises."""

    def __init__(
        self,
        config: ManagerConfig,
        *,
        identity: Identity,
        start: StartPoint,
        delays: NodeDelays,
        role: Role = Role.ALWAYS_RUNS,
        control: ControlFold | None = None,
    ) -> None:
        timing = config.timing
        timing.validate()
        own = start.bucket if start.own is None else start.own
        self.timing = timing
        self.identity = identity
        self.buckets = config.buckets
        self._fragment = config.fragment
        self.intake = InputState(config, start.bucket, start.marks)
        self.union = self.intake.union
        self.output = SOutput(
            identity.inc,
            own,
            config.ops,
            unpublished_rows_max=timing.unpublished_rows_max,
            keep_rows=config.corrected,
            unpublished_bytes_max=timing.unpublished_bytes_max,
        )
        self.control = control or ControlFold(identity.replica, identity.inc, identity.uid, timing.suspicion_beats)
        self.losing = Losing(start, config.sources, config.fragment.lookback_buckets, config.origin)
        self.speaking = Speaking(identity, self.output, start, role, timing, self.losing, config.ops)
        self.stagger = Stagger(timing)
        self.publishing = Publishing(identity.replica, timing, config.origin)
        self.publishing.at_once = role is Role.TOOK_OVER
        self._pace = Pace(timing, config.buckets.width_us)
        self.reconciliation = Reconciliation(timing, self._pace, config.spark)
        how = rebuilding(start, self.union, config.rebuild_buckets, config.fragment)
        self.checkpointing = Checkpointing(timing, max(start.bucket, own), how)
        self.f_s = start.bucket
        self.f_l = start.bucket
        self.state = ReplicaState.RECOVERING
        self._recovery = Recovery()
        self._heart = HeartbeatTimer(identity, timing)
        self._s = start.state
        self._l = start.state
        self._diverged = False
        self._labels = Labels(config.fragment.lookback_buckets, config.sources)
        self._now = delay.ALWAYS
        self._ends = LogEnds()
        self._history = History()
        self._live_at = None
        self._effects = []
        self._delta_us = grow_delta(timing, config.position)
        self._handle_delays(delays)

    def _handle_delays(self, delays: NodeDelays) -> None:
        self._wait_us = max(self._delta_us, delays.wait_us)
        self.delays = delays

    @property
    def complete(self) -> Bucket:
        """The first bucket that is not complete."""
        return Bucket(self.union.complete)

    # The door ---------------------------------------------------------------------------------------------------------

    def handle(self, turn: Turn) -> list[Effect]:
        """One turn (`docs/protocol/driving.md`): take in what happened, do what is due, return the effects in order.

        Raises:
            IllegalTransition: time ran backwards, or a rule was broken. It carries the last turns (`history`).
            RetentionLost: no replica of a stream has the bucket that is needed next, or a redo found rows deleted.
        """
        try:
            effects = self._turn(turn)
        except IllegalTransition as exc:
            raise exc.after(self._history.lines(turn)) from None
        self._history.add(turn, self.f_s, self.f_l, self.state.value, effects)
        return effects

    def _turn(self, turn: Turn) -> list[Effect]:
        now = turn.now
        if now < self._now:
            raise IllegalTransition(f"turn at {now} us after one at {self._now} us")
        elapsed_us = now - self._now
        gap = self._ends.turn(now, elapsed_us, self.timing.gap_us, self._pace.worked(elapsed_us))
        self._pace.turn(elapsed_us, self.speaking.blocked)
        self._now = now
        self._effects = []
        self._handle_arrivals(turn)
        if (why := self.control.superseded or self.control.number_shared) is not None:
            return [*self._effects, ExitReplica(why, again=self.control.superseded is None)]
        self.intake.create(now)
        if self._run_role_change():
            return self._effects
        self._run_arrival()
        self._handle_redo_results(turn)
        self._run_stabilization(gap)
        self._run_stable()
        self._run_live()
        self._run_recovery()
        context = self._publish_context(gap)
        self._effects += self.publishing.turn(turn, context, self.output)
        self._run_checkpointing()
        self._run_memory_release()
        self._effects += [*self.intake.silence_notes(), *self.intake.drift_notes(now, self._wait_us)]
        self._run_heartbeat()
        self._ask_ends(context)
        return self._effects

    def _handle_arrivals(self, turn: Turn) -> None:
        if turn.acked is not None:
            self.output.acknowledged(turn.acked)
        if turn.checkpoint_bucket is not None:
            self.checkpointing.written(turn.checkpoint_bucket)
        if turn.read_to is not None:
            self._ends.answered(turn.read_to)
        if turn.delays is not None:
            self._handle_delays(turn.delays)
        for offset, beat in turn.beats:
            self.control.read(offset, beat)
        self.intake.read(turn, self.f_l, self.timing.buffer_rows_max)

    def _run_role_change(self) -> bool:
        """Take over, or step back (R17). Returns whether this incarnation ends."""
        stood_by, said = not self.speaking.runs, self.speaking.turn(self._now, self.control, self.f_s)
        ends = any(isinstance(effect, StepBack) for effect in said)
        self._effects += [*self._heart.again(self.control.own_beat), *said] if ends else said
        if stood_by and self.speaking.runs:
            self.publishing.at_once = True
            self._update_state()
        return ends

    def _run_arrival(self) -> None:
        """Leave out what came while nobody ran, and begin where the inputs stand (R18.9); no sooner than its bucket has
        been opened: until then a peer may say what lies before."""
        if self.losing.arriving:
            self.f_s = self.f_l = self.losing.place(self.f_s, self.complete, not self._ends.unread_since_start)
            if self.losing.placed and self.f_s <= max(self.complete, self.union.top):
                self._effects += self.speaking.arrived(self.f_s)

    # Stabilization (R4) -----------------------------------------------------------------------------------------------

    def _handle_redo_results(self, turn: Turn) -> None:
        for result in turn.redo:
            done, effects = self.reconciliation.answered(self._now, result, self.f_s)
            self._effects += effects
            if done is not None:
                job, outcome = done
                self._s = outcome.state
                self._advance_stable(job.end, outcome.outputs, computed=job.peer is None)
        self._effects += self.reconciliation.check_deadline(self._now)

    def _run_stabilization(self, gap: bool) -> None:
        self._update_grant(gap)
        if self.stagger.asking:
            self._run_adoption()
        if self.stagger.granted:
            self._run_redo()
        if self.f_s == self.f_l and self._diverged:
            self._diverged = False
            self._l = self._s
            self._labels.corrected()
            self.intake.forgive()
            self.checkpointing.soon()  # a peer that waits for its grant may adopt it (B44)
            self._update_grant(False)

    def _update_grant(self, gap: bool) -> None:
        was = self.stagger.granted
        self.stagger.turn(self._now, self.f_s < self.f_l, self.complete > self.f_s, gap, self.control)
        if self.stagger.granted and not was:
            self.intake.forgive()
            self._effects += self.speaking.say(self.output.undo())
            self.reconciliation.begin()
        if was and not self.stagger.granted:
            self._effects += self.reconciliation.note_inline(self._now)
            self.reconciliation.end()
            self._effects += self.speaking.say(self.output.rec_done())
        self._update_state()

    def _run_adoption(self) -> None:
        """Adopt the checkpoint of a peer that is further, to save the work. Bit-identical: needs no grant (R14.1)."""
        if self._busy or self.publishing.disagreement.found is not None:
            return  # after a disagreement, the peer's state may be the wrong one (R15)
        if self.stagger.granted and self.reconciliation.inline(self.union, self.f_s, min(self.complete, self.f_l)):
            return  # running inline takes less time
        low = Bucket(self.f_s + self.timing.inline_buckets)
        for bucket, peer in self.control.checkpoints(low, self.f_l):
            if self.reconciliation.may_adopt(self._now, peer, bucket):
                self._effects += self.reconciliation.adopt(self._now, peer, self.f_s, bucket, self._s)
                return

    def _run_redo(self) -> None:
        """Run complete buckets from F_s on S: a slice of them now, or the next ones as a job (R4.3)."""
        target = min(self.complete, self.f_l)
        if self._busy or self.f_s >= target:
            return
        if self.reconciliation.inline(self.union, self.f_s, target):
            end, rows = self.intake.slice(self.f_s, target, self._pace, self.speaking.slice_most)
            self.reconciliation.ran_inline(self.f_s, end, rows, self._now)
            self._step_stable(end)
        else:
            self._effects += self.reconciliation.note_inline(self._now)
            to_live = target == self.f_l
            self._effects += self.reconciliation.start_job(self._now, self.union, self.f_s, target, self._s, to_live)

    # Running buckets --------------------------------------------------------------------------------------------------

    @property
    def _busy(self) -> bool:
        return self.reconciliation.job is not None or self.speaking.blocked

    def _run_stable(self) -> None:
        """Run complete buckets once, on the state that both frontiers share (R2)."""
        if self._busy or not self.f_s == self.f_l < self.complete:
            return
        to = self.speaking.run_to(self.f_s, self.complete)
        self._step_stable(self.intake.slice(self.f_s, to, self._pace, self.speaking.slice_most)[0])
        self.intake.forgive()

    def _step_stable(self, end: Bucket) -> None:
        first = self.f_s
        self._s, outputs = self._fragment.step(self._s, first, end, self.union.ordered(first, end))
        self._advance_stable(end, self.union.with_rejects(first, end, outputs))

    def _advance_stable(self, end: Bucket, outputs: Mapping[int, Output], computed: bool = True) -> None:
        first, together = self.f_s, self.f_s == self.f_l
        waited_us = partial(self.intake.waited_us, now=self._now) if together else in_time
        self._effects += self.speaking.last_words(first, end if together else first, outputs, waited_us)
        outputs = self.speaking.new(outputs)
        self._effects += self.speaking.stable(first, end, outputs, waited_us, computed)
        self.f_s = end
        if together:
            self.f_l = end
            self._l = self._s

    def _ready_at(self, bucket: Bucket) -> MonotonicUs | None:
        """When `bucket` may run live; None: not in the present state."""
        created = self.intake.creation.at(bucket)
        whole = self.f_s == self.f_l and self.complete > bucket
        if created is None or whole or not self.speaking.may_run_live:
            return None
        policy = self.delays.stabilization if self.stagger.granted else self.delays.failure
        end = MonotonicUs(created + self.buckets.width_us)
        return delay.ready_at(end, self.intake.views(bucket), policy, wait_us=self._wait_us, delta_us=self._delta_us)

    def _run_live(self) -> None:
        """Run buckets whose time has come on L; their output is TENTATIVE (R3)."""
        # few: their output leaves at the end of the turn
        most = min(max(self.timing.live_buckets, self._pace.least_buckets), self.speaking.room)
        first, due, rows = self.f_l, list[_Passed](), dict[int, Ordered]()
        for n in range(most):
            self._live_at = at = self._ready_at(self.f_l)
            if at is None or at > self._now or self._unread(at) or self._read_again():
                break
            if not self._pace.takes(n, self.union.count_live(self.f_l), most, n):
                break
            rows.update(self.intake.ordered_live(self.f_l))
            due.append(self._pass_live())
        else:
            self._live_at = self._ready_at(self.f_l)
        if due:
            self._step_live(first, due, rows)

    def _unread(self, at: MonotonicUs) -> bool:
        """Whether missing input, or a stable record for a tentative one, may lie unread in the log (B14).

        If the bucket has nothing to wait for, this holds only after the replica was away or held an input (R6.4).
        """
        return self._ends.unread(max(at, self.intake.held_until(self.f_l)))

    def _read_again(self) -> bool:
        """Have tentative records of bucket F_l that were dropped to save memory read again before it runs (R6.3)."""
        found = [ReadAgain(index, replica, Offset(at)) for index, replica, at in self.union.again(self.f_l)]
        self._effects += found
        if found:
            self._ends.away(self._now)
        return bool(found)

    def _pass_live(self) -> _Passed:
        """Move F_l past a bucket: whether the next one is due depends on what this one lacked."""
        bucket, share = self.f_l, self.intake.share(self.f_l)
        passed = self._labels.on_live_run(bucket, share), share.missing, self.intake.waited_us(bucket, self._now)
        self.f_l = Bucket(bucket + 1)
        self.intake.on_live_run(bucket)
        return passed

    def _step_live(self, first: Bucket, due: Sequence[_Passed], rows: Mapping[int, Ordered]) -> None:
        """Run what is due from `first` on, in one step of the fragment: a step costs much the same for more buckets."""
        if first_one := not self._diverged:
            self._diverged = True
            self._l = self._s
        self._l, outputs = self._fragment.step(self._l, first, first + len(due), rows)
        for bucket, (label, missing, waited_us) in enumerate(due, first):
            output = outputs.get(bucket, Output())
            self._effects += self.speaking.tentative(Bucket(bucket), output, label, missing, waited_us)
        self._update_state()
        if first_one:
            self._effects.append(EmitEvent("FIRST_TENTATIVE", f"bucket {first} ran {due[0][0]}"))

    # The rest of a turn -----------------------------------------------------------------------------------------------

    def _update_state(self) -> None:
        after = derive(self._recovery.recovering, self.f_s < self.f_l, self.stagger.granted, self.speaking.runs)
        check(self.state, after)
        if after is not self.state:
            self.state = after
            self._effects.append(EmitEvent(after.name, f"F_s {self.f_s}, F_l {self.f_l}"))

    def _run_recovery(self) -> None:
        if not self._recovery.recovering:
            return
        busy = self.f_s == self.f_l < self.complete or self._ends.unread_since_start or self.losing.arriving
        ack_l, runs = Bucket(self.output.ack_l), self.speaking.runs
        if self._recovery.done(self.control, f_l=self.f_l, ack_l=ack_l, busy=busy, live=runs):
            self._effects.append(EmitEvent("READY", f"caught up at bucket {self.f_s}"))
            self._update_state()

    def _publish_context(self, gap: bool) -> PublishContext:
        return PublishContext(
            now=self._now,
            stable=Bucket(min(self.f_s, self.output.stable)),
            gap=gap,
            read_to=self._ends.read_to,
            lowest_live=self.control.lowest_live if self.control.echoed else -1,
            runs=self.speaking.runs,
            closed=max(self.f_s, self.complete),
        )

    def _run_checkpointing(self) -> None:
        if self.losing.whole <= self.f_s:
            held_below = self.speaking.held_below
            self._effects += self.checkpointing.turn(self._now, self.f_s, self._s, self.union, held_below)

    def _run_memory_release(self) -> None:
        keep_from = self.reconciliation.keep_from(self.f_s, self.f_l)
        self.intake.release_memory(self.f_s, self.f_l, keep_from, self.timing.buffer_rows_max)

    def _run_heartbeat(self) -> None:
        if self.speaking.unheard:
            self._heart.withhold(self._now)
            return
        self._effects += self._heart.beat(
            now=self._now,
            state=self.state,
            ack_s=Bucket(self.output.ack_s),
            ack_l=Bucket(self.output.ack_l),
            digests=self.output.digests.tell,
            asking=self.stagger.asking,
            ask=self.control.own_ask,
            progress=self.publishing.frontier,
            checkpoint_bucket=self.checkpointing.checkpoint_bucket,
            runs=self.speaking.runs,
        )

    def _ask_ends(self, context: PublishContext) -> None:
        """Ask for the ends of all feeds if a decision waits only for them (B14, R10.1, R11.3)."""
        at = self._live_at
        expiring = at is not None and at <= self._now and self._unread(at)
        starting = self._recovery.recovering and self._ends.unread_since_start
        if expiring or starting or self.publishing.wants_ends(context):
            self._effects += self._ends.ask(self._now)

    # What the driver asks ---------------------------------------------------------------------------------------------

    def status(self) -> ReplicaStatus:
        """The replica's state after its last turn."""
        return ReplicaStatus(
            identity=self.identity,
            state=self.state.value,
            f_s=self.f_s,
            f_l=self.f_l,
            asking=self.stagger.asking,
            granted=self.stagger.granted,
            head=self.control.head,
            writer=self.publishing.phase.value,
            progress=self.publishing.frontier,
            counts=replace(self.speaking.counts),
            inputs=self.intake.statuses(),
            disagreement=self.publishing.disagreement.found,
            lost=self.losing.lost,
        )

    @property
    def throttled(self) -> frozenset[int]:
        """Inputs not to read further for now (R6.2)."""
        return self.intake.ahead(self.f_l, self.timing.buffer_rows_max)

    @property
    def at_ease(self) -> bool:
        """Whether heartbeats, progress, acknowledgements and commits may wait for the turn that the next heartbeat
        brings: nothing that is due depends on them."""
        waits = self._ends.asked or self._busy or self.checkpointing.pending
        calm = self.state in (ReplicaState.STABLE, ReplicaState.STANDBY)
        return calm and not waits and self.publishing.at_ease(self.f_s)

    def next_wakeup(self) -> MonotonicUs:
        """When the next turn is due if nothing arrives before: what was due has been done, or waits for an answer."""
        times = [self._heart.next_us]
        free = not self._busy and not self.reconciliation.resting(self._now)
        if free and self.complete > self.f_s and (self.f_s == self.f_l or self.stagger.granted):
            return self._now
        live = self._live_at
        if live is not None and not self.speaking.blocked and (live > self._now or not self._unread(live)):
            times.append(max(live, self._now))
        others = (self.stagger.wakeup(), self.reconciliation.wakeup(), self.publishing.wakeup(self.f_s))
        return min([*times, *(at for at in others if at is not None and at > self._now)])
