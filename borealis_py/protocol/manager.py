"""The consistency manager: one replica of one node, as a pure state machine with one door.

Theory of operation. Two frontiers over buckets: F_s (state S, complete input) and F_l (state L, timeliness),
F_s <= F_l. While they are equal the replica is STABLE and runs complete buckets once. A bucket that must wait no longer
runs live: F_l moves ahead, output is TENTATIVE, state UP_FAILURE. When bucket F_s is complete and the grant is held it
is STABILIZATION: buckets from F_s run on S, inline or as jobs on Spark, until F_s reaches F_l. S never sees tentative
input, so failures may overlap at will. `states.TRANSITIONS` has every step; `handle` has the order of a turn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from borealis_py.protocol import delay
from borealis_py.protocol.checkpointing import Checkpointing
from borealis_py.protocol.control import ControlFold
from borealis_py.protocol.heartbeat import HeartbeatTimer
from borealis_py.protocol.history import History
from borealis_py.protocol.incarnation import Identity, Recovery, RowCounts, StartPoint
from borealis_py.protocol.input_state import InputState
from borealis_py.protocol.labels import Labels
from borealis_py.protocol.log_ends import LogEnds
from borealis_py.protocol.pace import Pace
from borealis_py.protocol.publishing import PublishContext, Publishing
from borealis_py.protocol.reconciliation import Reconciliation
from borealis_py.protocol.settings import Delays, Timing, grow_delta
from borealis_py.protocol.stagger import Stagger
from borealis_py.protocol.states import ReplicaState, check, derive
from borealis_py.protocol.turn import Append, Effect, EmitEvent, ExitReplica, ReadAgain, Turn
from sunion.bucket import Buckets
from sunion.errors import IllegalTransition
from sunion.input_buffers import Unpack
from sunion.model import Fragment, Input, Output, RowOps, StreamRecord, TentativeBucket
from sunion.output import SOutput
from sunion.union import SUnion


class Manager:
    """One replica of one node.

    Args:
        inputs: the node's, in the order of its SUnion. origin: first bucket of the app.
        delays: the node's own: D is their threshold less the slack (`node.dynamic_settings`).
        position: the node's place in its longest chain, counted from the sources from 1.
        unpack: for each input that is a stream, what decodes its rows.
        corrected: its rows go to a corrected stream; without, only dead letters are published.
        spark: redo jobs may run on Spark.

    Invariants:
        f_s <= f_l; f_s only grows within one incarnation; outputs of a stable bucket are said once (SOutput checks).
    """

    def __init__(
        self,
        identity: Identity,
        inputs: Sequence[Input],
        fragment: Fragment,
        ops: RowOps,
        buckets: Buckets,
        origin: int,
        start: StartPoint,
        timing: Timing,
        delays: Delays,
        position: int = 1,
        unpack: Mapping[int, Unpack] | None = None,
        corrected: bool = True,
        spark: bool = True,
    ) -> None:
        timing.validate()
        self.identity = identity
        self.timing = timing
        self.buckets = buckets
        self.intake = InputState(
            inputs, origin, buckets, ops, timing.ahead_max_us, start.bucket, start.marks, unpack or {}
        )
        own = start.bucket if start.own is None else start.own
        self.output = SOutput(
            identity.inc, own, ops, timing.unpublished_rows_max, corrected, timing.unpublished_bytes_max
        )
        self.control = ControlFold(identity.replica, identity.inc, identity.uid, timing.suspicion_beats)
        self.stagger = Stagger(timing)
        self.publishing = Publishing(identity.replica, timing, origin)
        self._pace = Pace(timing, buckets.width_us)
        self.reconciliation = Reconciliation(timing, self._pace, spark)
        self.checkpointing = Checkpointing(timing, start.bucket)
        self.counts = RowCounts()
        self.f_s = self.f_l = start.bucket
        self.state = ReplicaState.RECOVERING
        self._recovery = Recovery()
        self._heart = HeartbeatTimer(timing)
        self._fragment, self._ops, self._s, self._l = fragment, ops, start.state, start.state
        self._diverged = False
        self._labels = Labels(fragment.lookback_buckets, (name for i in inputs for name in i.sources))
        self._now = delay.ALWAYS
        self._ends = LogEnds()
        self._live_at: int | None = None  # when bucket F_l may run live, as of the end of the turn
        self._backfill = start if own < start.bucket else None
        self._effects: list[Effect] = []
        self._history = History()
        self._delta = grow_delta(timing, position)
        self._set_delays(delays)

    def _set_delays(self, delays: Delays) -> None:
        self._wait = max(self._delta, delays.threshold_us - self.timing.slack_us)
        self.delays = delays

    @property
    def union(self) -> SUnion:
        """The rows that are kept."""
        return self.intake.union

    @property
    def complete(self) -> int:
        """First bucket that is not complete."""
        return self.intake.union.complete

    # The door ---------------------------------------------------------------------------------------------------------

    def handle(self, turn: Turn) -> list[Effect]:
        """One turn (PROTOCOL 2): take in what happened, do what is due, return effects in order.

        Raises:
            IllegalTransition: time ran backwards, or a rule was broken. It carries the last turns (`history`).
            RetentionLost: a stream's replicas all have lost the bucket that is needed next, or a redo finds rows gone.
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
        gap = self._ends.turn(now, now - self._now > self.timing.gap_us)
        self._pace.turn(now - self._now, self._blocked)
        self._now = now
        self._effects = []
        late_before = self.intake.silences()
        self._read(turn)
        if self.control.superseded is not None:
            self._effects.append(ExitReplica(self.control.superseded))
            return self._effects
        self.intake.create(now)
        self._say_backfill()
        self._take_redo(turn)
        self._stabilize(gap)
        self._run_stable()
        self._run_live()
        self._recover()
        standing = self._standing(gap)
        self._effects += self.publishing.turn(turn, standing, self.output)
        self._effects += self.checkpointing.turn(now, self.f_s, self._s, self.union, self.output.ack_s)
        keep_from = self.reconciliation.keep_from(self.f_s, self.f_l)
        self.intake.tidy(self.f_s, self.f_l, keep_from, self.timing.buffer_rows_max)
        self._effects += [*self.intake.silence_notes(late_before), *self.intake.drift_notes(now, self._wait)]
        self._effects += self._heart.beat(
            now, self.state, self.output, self.stagger.asking, self.control.own_ask,
            self.publishing.frontier, self.checkpointing.checkpoint_bucket,
        )  # fmt: skip
        self._ask_ends(standing)
        return self._effects

    def _read(self, turn: Turn) -> None:
        if turn.acked is not None:
            self.output.acknowledged(turn.acked)
        if turn.checkpoint_bucket is not None:
            self.checkpointing.checkpoint_bucket = turn.checkpoint_bucket
        if turn.read_to is not None:
            self._ends.answered(turn.read_to)
        if turn.delays is not None:
            self._set_delays(turn.delays)
        for beat in turn.beats:
            self.control.read(beat)
        self.intake.read(turn, self.f_l, self.timing.buffer_rows_max)

    def _say_backfill(self) -> None:
        start, self._backfill = self._backfill, None
        if start is not None:
            for said in self.output.stable_run(self.output.stable, start.bucket, start.outputs):
                self._append(said)

    # Stabilization (R4) -----------------------------------------------------------------------------------------------

    def _take_redo(self, turn: Turn) -> None:
        for result in turn.redo:
            done = self.reconciliation.answered(self._now, result, self.f_s, self._effects)
            if done is not None:
                job, outcome = done
                self._s = outcome.state
                self._advance_stable(job.end, outcome.outputs)
        self.reconciliation.check_deadline(self._now, self._effects)

    def _stabilize(self, gap: bool) -> None:
        self._derive_grant(gap)
        if self.stagger.asking:
            self._adopt()
        if self.stagger.granted:
            self._redo()
        if self.f_s == self.f_l and self._diverged:
            self._diverged, self._l = False, self._s
            self._labels.corrected()
            self.checkpointing.soon()  # whoever waits for its turn may adopt it (B44)
            self._derive_grant(False)

    def _derive_grant(self, gap: bool) -> None:
        was = self.stagger.granted
        self.stagger.turn(self._now, self.f_s < self.f_l, self.complete > self.f_s, gap, self.control)
        if self.stagger.granted and not was:
            self.intake.forgive()
            self._append(self.output.undo())
            self.reconciliation.begin()
        if was and not self.stagger.granted:
            self.reconciliation.note_inline(self._now, self._effects)
            self.reconciliation.end()
            self._append(self.output.rec_done())
        self._set_state()

    def _adopt(self) -> None:
        """B44: a peer that has gone further has a checkpoint that saves the work. Bit-identical: needs no grant."""
        if self.reconciliation.job is not None or self._blocked:
            return
        if self.stagger.granted and self.reconciliation.inline(self.union, self.f_s, min(self.complete, self.f_l)):
            return  # done in less time
        low = self.f_s + self.timing.inline_buckets
        for bucket, peer in self.control.checkpoints(low, self.f_l):
            if self.reconciliation.may_adopt(self._now, peer, bucket):
                self.reconciliation.adopt(self._now, peer, self.f_s, bucket, self._s, self._effects)
                return

    def _redo(self) -> None:
        """Run complete buckets from F_s on S: a slice of them now, or all as a job (R4)."""
        target = min(self.complete, self.f_l)
        if self.reconciliation.job is not None or self.f_s >= target or self._blocked:
            return
        if self.reconciliation.inline(self.union, self.f_s, target):
            end, rows = self.intake.slice(self.f_s, target, self._pace, self._slice_most)
            self.reconciliation.ran_inline(self.f_s, end, rows, self._now)
            self._step_stable(end)
        else:
            self.reconciliation.note_inline(self._now, self._effects)
            to_live = target == self.f_l
            self.reconciliation.start(self._now, self.union, self.f_s, target, self._s, self._effects, to_live)

    # Running buckets --------------------------------------------------------------------------------------------------

    @property
    def _blocked(self) -> bool:
        """The own topic has not acknowledged what was said: go no further (B43)."""
        return self._room < 1

    @property
    def _room(self) -> int:
        """How many more buckets may be said before the own topic acknowledges some: each is a record, and so is
        each stretch of empty ones between them."""
        return (self.timing.outbox_max - self.output.waiting) // 2 + 1

    @property
    def _slice_most(self) -> int:
        return min(self.timing.slice_buckets, self._room)

    def _run_stable(self) -> None:
        """R2: complete buckets run once, on the state that both frontiers share."""
        if self.f_s != self.f_l or self.reconciliation.job is not None or self.complete <= self.f_s or self._blocked:
            return
        self._step_stable(self.intake.slice(self.f_s, self.complete, self._pace, self._slice_most)[0])
        self.intake.forgive()

    def _step_stable(self, end: int) -> None:
        first = self.f_s
        self._s, outputs = self._fragment.step(self._s, first, end, self.union.ordered(first, end))
        self._advance_stable(end, self.intake.with_rejects(first, end, outputs))

    def _advance_stable(self, end: int, outputs: Mapping[int, Output]) -> None:
        first, together = self.f_s, self.f_s == self.f_l
        run = self.output.stable_run
        waited = partial(self.intake.waited_us, now=self._now)
        for said in run(first, end, outputs, waited) if together else run(first, end, outputs):
            self._append(said)
        self.f_s = end
        if together:
            self.f_l, self._l = end, self._s
        self.counts.stable(outputs, self._ops)

    def _ready_at(self, bucket: int) -> int | None:
        """When `bucket` may run live; None: not while things are as they are."""
        created = self.intake.creation.at(bucket)
        if created is None or (self.f_s == self.f_l and self.complete > bucket):
            return None
        policy = self.delays.stabilization if self.stagger.granted else self.delays.failure
        end = created + self.buckets.width_us
        return delay.ready_at(end, self.intake.views(bucket), policy, self._wait, self._delta)

    def _run_live(self) -> None:
        """R3: buckets whose time has come run on L, TENTATIVE."""
        most = max(self.timing.live_buckets, self._pace.least_buckets)
        for n in range(most):  # few: they leave at the end of the turn
            self._live_at = at = self._ready_at(self.f_l)
            if at is None or at > self._now or self._blocked or self._unread(at) or self._read_again():
                return
            if not self._pace.takes(n, self.union.count_live(self.f_l), most):
                return
            self._step_live(self.f_l)
        self._live_at = self._ready_at(self.f_l)

    def _unread(self, at: int) -> bool:
        """What is missing, or a stable word for what is tentative, may lie unread in the log (B14); _ask_ends asks.

        Where there is nothing to wait for, that is so only after this replica was away, or held an input (R6).
        """
        return self._ends.unread(max(at, self.intake.held_until(self.f_l)))

    def _read_again(self) -> bool:
        """Tentative words of bucket F_l were dropped for want of memory: it runs when they are read again (R6)."""
        found = [ReadAgain(*where) for where in self.union.again(self.f_l)]
        self._effects += found
        if found:
            self._ends.away(self._now)
        return bool(found)

    def _step_live(self, bucket: int) -> None:
        first_one = not self._diverged
        if first_one:
            self._diverged, self._l = True, self._s
        share = self.intake.share(bucket)
        label = self._labels.ran(bucket, share)
        self._l, outputs = self._fragment.step(self._l, bucket, bucket + 1, self.intake.ordered_live(bucket))
        output = outputs.get(bucket, Output())
        said = TentativeBucket(
            self.identity.inc, bucket, output, label.missing_sources, share.missing,
            self.intake.waited_us(bucket, self._now), label.completeness, label.diverged_from,
        )  # fmt: skip
        self._append(self.output.tentative(said))
        self.f_l = bucket + 1
        self.intake.ran(bucket)
        self.counts.tentative(output, self._ops)
        self._set_state()
        if first_one:
            self._effects.append(EmitEvent("FIRST_TENTATIVE", f"bucket {bucket} ran {label}"))

    # The rest of a turn -----------------------------------------------------------------------------------------------

    def _set_state(self) -> None:
        after = derive(self._recovery.recovering, self.f_s < self.f_l, self.stagger.granted)
        check(self.state, after)
        if after is not self.state:
            self.state = after
            self._effects.append(EmitEvent(after.name, f"F_s {self.f_s}, F_l {self.f_l}"))

    def _recover(self) -> None:
        behind = self.f_s == self.f_l and self.complete > self.f_s
        busy = behind or bool(self.output.waiting) or self._ends.unread_since_start
        if self._recovery.done(self.control, self.f_l, busy):
            self._effects.append(EmitEvent("READY", f"caught up at bucket {self.f_s}"))
            self._set_state()

    def _standing(self, gap: bool) -> PublishContext:
        lowest_live = self.control.lowest_live if self.control.echoed else -1
        closed = max(self.f_s, self.complete)
        return PublishContext(self._now, self.f_s, lowest_live, gap, self._ends.read_to, closed)

    def _ask_ends(self, standing: PublishContext) -> None:
        """Ask for the ends of all feeds when something waits for just that (B14, R10, R11)."""
        at = self._live_at
        expiring = at is not None and at <= self._now and self._unread(at)
        starting = self._recovery.recovering and self._ends.unread_since_start
        if expiring or starting or self.publishing.wants_ends(standing):
            self._effects += self._ends.ask(self._now)

    def _append(self, said: tuple[int, StreamRecord]) -> None:
        self._effects.append(Append(*said))

    # What the driver asks ---------------------------------------------------------------------------------------------

    @property
    def throttled(self) -> frozenset[int]:
        """Inputs to read no further for now (R6)."""
        return self.intake.ahead(self.f_l, self.timing.buffer_rows_max)

    @property
    def waiting(self) -> frozenset[tuple[int, int]]:
        """(input, replica): cursors to read no further until other replicas have said what is before (A3, R6)."""
        return self.union.waiting

    def next_wakeup(self) -> int:
        """When the next turn is due if nothing happens before."""
        times = [self._heart.next_us]
        free = self.reconciliation.job is None and not self._blocked and not self.reconciliation.resting(self._now)
        if free and self.complete > self.f_s and (self.f_s == self.f_l or self.stagger.granted):
            return self._now
        live = self._live_at
        if live is not None and not self._blocked and (live > self._now or not self._unread(live)):
            times.append(max(live, self._now))
        others = (self.stagger.wakeup(), self.reconciliation.wakeup(), self.publishing.wakeup(self.f_s))
        # What was due has been done, or waits for an answer.
        return min([*times, *(at for at in others if at is not None and at > self._now)])
