"""What of its output a replica says: nothing while it stands by, nothing that was said before its start (R17.1),
nothing as stable that stands on lost buckets (R18.4).

STANDS BY --takes over: says what the one that ran has not said--> RUNS --another one runs--> ends (StepBack)
MOVES --has caught up with its former incarnation: the same--> RUNS; MOVES --that one does not run--> ends (StepBack)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from borealis_py.protocol.control import ControlFold
from borealis_py.protocol.gaps import Losing
from borealis_py.protocol.incarnation import Identity, RowCounts, StartPoint
from borealis_py.protocol.labels import Label
from borealis_py.protocol.roles import Role, RoleFold
from borealis_py.protocol.settings import Timing
from borealis_py.protocol.turn import Append, Effect, EmitEvent, StepBack
from sunion.model import Output, RowOps, StableBucket, StableRange, StreamRecord, TentativeBucket
from sunion.output import SOutput, in_time
from sunion.units import NOWHERE, Bucket, MonotonicUs


class Speaking:
    """The mouth of one incarnation.

    Args:
        output: what it emits. start: where it begins. role: how (R17). losing: what it has lost (R18).

    Attributes:
        runs: it says what it emits. counts: what it has emitted.
    """

    def __init__(
        self,
        identity: Identity,
        output: SOutput,
        start: StartPoint,
        role: Role,
        timing: Timing,
        losing: Losing,
        ops: RowOps,
    ) -> None:
        self.runs = role not in (Role.STANDS_BY, Role.MOVES)
        self.losing = losing
        self.counts = RowCounts()
        self._identity = identity
        self._output = output
        """What has been emitted; the manager's."""
        self._timing = timing
        self._ops = ops
        self._said_before = output.stable
        """Buckets below this one were written before the start (R12.1, R17.15)."""
        self._moves = role is Role.MOVES
        """Whether its former incarnation runs elsewhere until this one has caught up."""
        self._one_runs = role is not Role.ALWAYS_RUNS
        """Whether one replica of the node writes for all."""
        self._now = MonotonicUs(0)
        """The time of the present turn."""
        self._owns_number = False
        """Whether one of its own heartbeats has been read back: of two incarnations with one number, this is true of
        one only (B30)."""
        self._unheard: deque[tuple[int, MonotonicUs]] = deque()
        """Token and time of each record emitted while standing by, in the order of tokens. Empty while it runs."""
        behind = start.own is not None and start.own < start.bucket and not start.present
        self._backfill = start if behind else None
        """The start whose outputs are still to be written (R14.4); None: there are none, or no longer."""

    def turn(self, now: MonotonicUs, control: ControlFold, f_s: Bucket) -> list[Effect]:
        """Take over, or step back, by what the control log says; say what a start has to say first. `f_s`: it has run
        all below."""
        self._now = now
        self._owns_number = control.echoed
        effects = self._say_backfill()
        if not self._one_runs:
            return effects
        roles = control.roles
        if self.runs:
            return effects + self._step_back(control)
        if roles.runner is not None:
            self._output.said_elsewhere(roles.runner.ack_s, roles.runner.ack_l)
            self._forget()
        if self._moves:
            return effects + self._go_on(roles, f_s)
        return effects + (self._run("no heartbeat of a replica that runs") if roles.due else [])

    @property
    def unheard(self) -> bool:
        """Whether it sends no heartbeats and keeps no checkpoints: its former incarnation still does."""
        return self._moves and not self.runs

    @property
    def held_below(self) -> Bucket:
        """Below which bucket the topic holds all, so that a checkpoint may be kept there (B1); NOWHERE: keep none."""
        return Bucket(self._output.ack_s) if self._owns_number and not self.unheard else NOWHERE

    def _run(self, why: str) -> list[Effect]:
        self.runs = True
        return [EmitEvent("RUNS", f"took over from {self._output.ack_s} on: {why}"), *self._say_late()]

    def _go_on(self, roles: RoleFold, f_s: Bucket) -> list[Effect]:
        """Run in the place of the own former incarnation, once what that one has said is not ahead of what this one has
        run, be it unheard. A heartbeat of this one ends it, and leaves the node its runner."""
        if roles.runner is None or roles.yields:
            return [StepBack("its former incarnation does not run: begins as a standby")]
        if not roles.runs:
            return []  # its former incarnation may only be late
        caught_up = f_s >= max(roles.runner.ack_s, self.losing.whole)  # that one lacks nothing, perhaps
        return self._run("goes on elsewhere") if caught_up else []

    def _forget(self) -> None:
        while self._unheard and self._unheard[0][0] < self._output.first_waiting:
            self._unheard.popleft()

    def _say_late(self) -> Iterator[Append]:
        """Say what nobody has heard; it has waited since it was emitted (B12)."""
        emitted = dict(self._unheard)
        self._unheard.clear()
        for token, record in self._output.unsaid():
            if isinstance(record, StableBucket | StableRange):
                record = replace(record, waited_us=record.waited_us + self._now - emitted[token])
            yield Append(token, record)

    def _step_back(self, control: ControlFold) -> list[Effect]:
        own, runner = control.own_beat, control.roles.runner
        if own is None or not own.runs or runner is None or not control.roles.yields:
            return []
        return [StepBack(f"replica {runner.replica} runs")]

    def _say_backfill(self) -> list[Effect]:
        """What a peer said below its checkpoint, so that the own topic has no hole there (R14.4)."""
        start, self._backfill = self._backfill, None
        if start is None:
            return []
        return self.stable(self._output.stable, start.bucket, start.outputs, computed=False)

    def stable(
        self,
        first: int,
        end: int,
        outputs: Mapping[int, Output],
        waited_us: Callable[[int], int] = in_time,
        computed: bool = True,
    ) -> list[Effect]:
        """Emit stable buckets [first, end), as `SOutput.stable_run`, but none that were said before the start, and
        those that stand on lost ones as a gap, once all of these have run.

        Args:
            outputs: as `new` leaves them.
        """
        said, whole = [], self.losing.whole
        if self._output.stable < whole <= end:
            said.append(self._output.lost(whole))
        first = max(first, self._output.stable, whole)
        if first < end:
            said += self._output.stable_run(first, end, outputs, waited_us, computed)
            self.counts.stable(outputs, self._ops)
        return [effect for record in said for effect in self.say(record)]

    def arrived(self, at: Bucket) -> list[Effect]:
        """It runs from bucket `at` on: say what is lost before (R18.3)."""
        self.losing.arrived(at)
        first, whole = self._output.stable, self.losing.whole
        if whole <= first:
            return []
        effects = self.say(self._output.lost(at)) if first < at else []
        what = "nobody ran, and these or what they stand on is not read again"
        return [*effects, EmitEvent("GAP", f"buckets {first} to {whole - 1} are lost: {what}")]

    def last_words(
        self, first: int, end: int, outputs: Mapping[int, Output], waited_us: Callable[[int], int]
    ) -> list[Effect]:
        """Emit as tentative what has just run on complete input, and on a state that lacks lost buckets (R18.4). Empty
        buckets too: a view would wait for them."""
        effects: list[Effect] = []
        for bucket in map(Bucket, range(max(first, self._output.stable), min(end, self.losing.whole))):
            label = self.losing.label(bucket)
            effects += self.tentative(bucket, outputs.get(bucket, Output()), label, (), waited_us(bucket))
        return effects

    def new(self, outputs: Mapping[int, Output]) -> Mapping[int, Output]:
        """Those of buckets that may be said as stable: not said before the start, from a state that is whole."""
        stable = max(self._output.stable, self.losing.whole)
        return {bucket: output for bucket, output in outputs.items() if bucket >= stable}

    def say(self, said: tuple[int, StreamRecord]) -> list[Effect]:
        """The effects of a record that was emitted."""
        if self.runs:
            return [Append(*said)]
        self._unheard.append((said[0], self._now))
        return []

    def tentative(
        self, bucket: Bucket, output: Output, label: Label, missing: tuple[str, ...], waited_us: int
    ) -> list[Effect]:
        """Emit a bucket that ran live, `missing` of the node's inputs; nothing of one that was said before the start.

        Raises:
            IllegalTransition: it was said stable.
        """
        if not self.heard(bucket):
            return []
        label = self.losing.label(bucket, label)
        said = TentativeBucket(
            inc=self._identity.inc,
            bucket=bucket,
            output=output,
            missing_sources=label.missing_sources,
            missing=missing,
            waited_us=waited_us,
            completeness=label.completeness,
            diverged_from=label.diverged_from,
        )
        self.counts.tentative(output, self._ops)
        return self.say(self._output.tentative(said))

    @property
    def blocked(self) -> bool:
        """Whether to run nothing until the own topic, or that of the replica that runs, acknowledges records (B43)."""
        return self.room < 1

    @property
    def room(self) -> int:
        """How many more buckets may be emitted before: each is a record, and so is each range of empty stable ones
        between them."""
        return (self._timing.outbox_max - self._output.waiting) // 2 + 1

    @property
    def slice_most(self) -> int:
        """How many buckets to run at once at most."""
        return min(self._timing.slice_buckets, self.room)

    def run_to(self, first: Bucket, end: Bucket) -> Bucket:
        """Up to where of [first, end) to run complete buckets at once at most: of those that stand on lost ones each is
        a record, empty or not (R18.4)."""
        return end if first >= self.losing.whole else Bucket(min(end, first + self.slice_most))

    @property
    def may_run_live(self) -> bool:
        """Whether buckets may run that wait no longer: of those that were said before the start nobody hears, but what
        follows stands on them."""
        return self.runs and not self.losing.arriving

    def heard(self, bucket: Bucket) -> bool:
        """Whether a tentative result of `bucket` is emitted."""
        return bucket >= self._said_before
