"""One replica of one node: the loop around the consistency manager.

`turn` takes what has arrived, passes it through the manager's one door and carries out the effects in order; it never
waits. The host waits: between turns it sleeps until `next_wakeup` or until `wake` is called. The simulator runs this
very class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial

import structlog

from borealis_py.log.base import (
    Appender,
    AtWork,
    Committed,
    Feed,
    Fenced,
    Log,
    Lookup,
    Mend,
    NewRecord,
    TookOver,
    Transactor,
    TransactorEvent,
    Unknown,
    Wake,
)
from borealis_py.log.clock import Clock
from borealis_py.log.codec import StreamCodec
from borealis_py.log.corrected import Progress, transaction
from borealis_py.log.description import Life
from borealis_py.log.kernel import Kernel, codecs_of
from borealis_py.log.record_size import RecordTooLarge
from borealis_py.log.stream import unpacker
from borealis_py.node.acknowledging import Acknowledging
from borealis_py.node.checkpoints import CheckpointStore
from borealis_py.node.dynamic_settings import DisagreementTelling, DynamicSettings
from borealis_py.node.endings import NumberShared, SteppedBack, Superseded, give_way
from borealis_py.node.input_reader import InputReader
from borealis_py.node.output_writer import OutputWriter
from borealis_py.node.pulse import Pulse
from borealis_py.node.recovery_setting import obey
from borealis_py.node.reporter import Reporter, StatusListener, ignore_status
from borealis_py.node.resuming import Resuming
from borealis_py.node.spec import ReplicaSpec
from borealis_py.node.standby import StoodBy
from borealis_py.node.starting import Starting, new_identity, rebuild_buckets, role_of
from borealis_py.node.trimmer import Trimmer, Trims
from borealis_py.node.unpublished import Unpublished
from borealis_py.protocol.incarnation import Identity
from borealis_py.protocol.manager import Manager
from borealis_py.protocol.settings import ManagerConfig
from borealis_py.protocol.states import ReplicaState
from borealis_py.protocol.turn import (
    AbandonWriter,
    Append,
    AskEnds,
    CancelRedo,
    Effect,
    EmitEvent,
    ExitReplica,
    FenceWriter,
    Publish,
    ReadAgain,
    SaveCheckpoint,
    SendHeartbeat,
    StartRedo,
    StepBack,
    TellDisagreement,
    Turn,
    WriterBusy,
    WriterCommitted,
    WriterEvent,
    WriterLost,
    WriterReady,
)
from reconcile.redo_client import RedoRouter
from sunion.bucket import Buckets
from sunion.errors import RetentionLost
from sunion.units import Bucket, MonotonicUs

log = structlog.get_logger(__package__)


class Replica:
    """A started replica. Not thread-safe: one thread calls `turn`.

    Args:
        redos: runs redo jobs; closed by the caller.
        store: its checkpoints; closed by the replica, also if the start fails.
        uid: a random id of this incarnation.
        wake: called, in any thread, when a turn is due.
        why_inline: returns why redos do not run on Spark now; empty: they do.
        seen: called with each status, in the thread of `turn`.
        stood_by: what it was before it took over (R17.10); None: it has just started.
        moves: its former incarnation runs elsewhere: catch up with it, and then go on in its place (R17.16).
        open_appender: gives what it appends with; None: `log_` opens it.

    Raises:
        RetentionLost: the log does not hold what the checkpoint, or a peer's, needs.
        OtherLife, OtherVersion: the app's description is not the one of `spec`.
        SettingsError: the timing breaks R13.3, or a threshold is too small.
        LogError, OSError: the log, or the checkpoints, cannot be read.
    """

    spec: ReplicaSpec
    """Which replica this is, and all that was decided for it before its start; it never changes."""
    buckets: Buckets
    """How time is cut into buckets; the same for all replicas of the app."""
    settings: DynamicSettings
    """What users change while the app runs, as of the last turn."""
    manager: Manager
    """The consistency manager: it decides, and `_carry_out` does what it returns."""

    _clock: Clock
    """Gives the time of each turn."""
    _kernel: Kernel
    """The node's query, compiled."""
    _redos: RedoRouter
    """Runs redo jobs; its owner closes it."""
    _store: CheckpointStore
    """The checkpoints of this replica. It closes with the replica."""
    _lookup: Lookup
    """Reads single records and the ends of logs, in the thread of `turn`."""
    _input_reader: InputReader
    """Reads inputs, control log, settings and progress; nothing else reads them after the start."""
    _streams: Mapping[int, StreamCodec]
    """The codec of each input that is a stream, by its index."""
    _appender: Appender
    """Writes all records outside transactions, in order for each feed."""
    _output_writer: OutputWriter
    """Writes to the own topic, and knows what the log has acknowledged."""
    _pulse: Pulse
    """Sends heartbeats; another thread has it repeat the last one during long turns."""
    _telling: DisagreementTelling
    """Reports disagreements to the settings log (R15.2)."""
    _transactor: Transactor
    """Writes the corrected stream by transactions (R10), in a thread of its own."""
    _unpublished: Unpublished
    """Reads rows to be published that memory no longer holds, in the writer's thread; `check` raises its errors in the
    turn."""
    _resuming: Resuming
    """Where the corrected stream goes on, found in the writer's thread; the error that it found there ends the turn."""
    _writing_to: Bucket
    """The end of the transaction at work. One runs at a time, so the next writer event is about this end."""
    _life: Life
    """The app's life in which it started. Records of other lives are ignored and counted."""
    _reporter: Reporter
    """Writes statuses and events."""
    _trimmer: Trimmer | None
    """Decides what may be deleted (R16), in a thread of its own; None: this replica trims nothing."""
    _acknowledging: Acknowledging | None
    """Acknowledges inputs to those who trim them (R16.2); None exactly if `_trimmer` is."""
    _first_word: NewRecord | None
    """The acknowledgement of the start, until it is written; None: it is, or there is none."""
    _deferred: DeferredWake
    """Wakes the loop; while the replica is at ease, only when the next turn is due anyway."""
    _unreachable: frozenset[int]
    """Input indices of the sources that a drill cuts off in this turn."""
    _opened: ExitStack
    """All that `close` closes, in the reverse order of opening."""

    def __init__(
        self,
        *,
        spec: ReplicaSpec,
        log_: Log,
        clock: Clock,
        kernel: Kernel,
        redos: RedoRouter,
        store: CheckpointStore,
        uid: str,
        wake: Wake,
        why_inline: Callable[[], str] = lambda: "",
        seen: StatusListener = ignore_status,
        stood_by: StoodBy | None = None,
        open_appender: Callable[[Wake], Appender] | None = None,
        moves: bool = False,
    ) -> None:
        self.spec = spec
        self.buckets = Buckets(spec.bucket_us)
        self._clock = clock
        self._kernel = kernel
        self._redos = redos
        self._store = store
        self._unpublished = Unpublished(spec, log_, kernel)
        self._writing_to = Bucket(spec.origin)
        self._resuming = Resuming(spec, spec.origin)
        with ExitStack() as opened:  # a start that fails must leave nothing open, since it is repeated
            opened.callback(store.close)
            self._lookup = log_.lookup()
            opened.callback(self._lookup.close)
            self._deferred = DeferredWake(wake)
            self._appender = (open_appender or log_.appender)(self._deferred)
            opened.callback(self._appender.close)
            self._pulse = Pulse(self._appender, spec.timing, spec.control_feed, spec.node)
            self._telling = DisagreementTelling(spec, self._appender)
            self._transactor = log_.transactor(
                spec.transactional_id,
                spec.progress_feed,
                self._deferred,
                self._resuming,
                self._mend,
                self._resuming.unended,
            )
            opened.callback(self._transactor.close)
            self._life = Life(spec.app_uid)
            kept = {} if spec.trimming is None else spec.trimming.retain
            self.settings = DynamicSettings(
                self._life, spec.node, spec.replica, spec.serves, spec.delays, spec.timing, kept
            )
            codecs, self._streams = codecs_of(kernel, spec.inputs)
            self._input_reader = InputReader(spec, log_, self._lookup, codecs, self._streams, self.settings, wake)
            opened.callback(self._input_reader.close)
            self._output_writer = OutputWriter(spec, self._appender, kernel, self.buckets)
            self._reporter = Reporter(spec, self._appender, clock, self.settings, why_inline, seen)
            self._trimmer = None if spec.trimming is None else Trimmer(spec, spec.trimming, clock)
            self._acknowledging = None
            self._first_word = None
            self.manager = self._begin(uid, stood_by, moves)
            self._opened = opened.pop_all()
        self._unreachable = frozenset()
        self._resuming.turned(self.manager.f_s, self._input_reader)

    def _identify(self, uid: str, stood_by: StoodBy | None) -> Identity:
        """Take the highest incarnation + 1 (R11.1), or go on as the standby that it was."""
        if stood_by is not None:
            self._input_reader.follow_control(stood_by.control_at)
            return stood_by.identity
        return new_identity(self.spec, self._input_reader, self._appender, uid)

    def _begin(self, uid: str, stood_by: StoodBy | None, moves: bool) -> Manager:
        spec = self.spec
        self._input_reader.read_settings()
        identity = self._identify(uid, stood_by)
        starting = Starting(spec, self._store, self._kernel, self._lookup, self._input_reader.check_inputs)
        start = starting.point()
        self._reporter.checkpoint_bucket = starting.own_bucket or 0
        self._input_reader.open_progress()
        self._input_reader.open_inputs(start.marks, start.bucket, self.buckets)
        of = {"node": spec.node, "replica": spec.replica, "inc": identity.inc}
        log.info("replica starts", **of, bucket=start.bucket, bucket_us=self.buckets.width_us)
        config = ManagerConfig(
            inputs=spec.inputs,
            fragment=self._kernel,
            ops=self._kernel,
            buckets=self.buckets,
            origin=Bucket(spec.origin),
            timing=spec.timing,
            position=spec.position,
            unpack={i: unpacker(codec) for i, codec in self._streams.items()},
            corrected=spec.corrected,
            rebuild_buckets=rebuild_buckets(spec, self._kernel),
            spark=self._redos.on_spark,
        )
        if spec.trimming is not None:
            before = None if stood_by is None else stood_by.acknowledging
            self._acknowledging = before or Acknowledging(spec, identity, spec.trimming.every_us)
            self._first_word = self._acknowledging.first(self._clock.now_us(), self._lookup, start)
        role, control = role_of(spec, stood_by, moves), None if stood_by is None else stood_by.control
        return Manager(config, identity=identity, start=start, delays=self.settings.delays, role=role, control=control)

    # The loop's body --------------------------------------------------------------------------------------------------

    def turn(self) -> None:
        """One turn.

        Raises:
            Superseded: a newer incarnation has this index. NumberShared: another has this one's number.
            SteppedBack: another replica runs.
            RetentionLost: the log no longer holds what is needed.
            OtherLife, OtherVersion: the app was reset, or another version writes it.
            LogError: the log refused a record of the own stream, or cannot be read. A new start may help.
            RecordTooLarge: likewise, for its size; of the corrected stream, too. A new start helps once.
        """
        try:
            self._turn()
        except (RetentionLost, NumberShared, SteppedBack) as ended:
            give_way(self.manager.control, self._input_reader.recent_beats(), ended)
            raise

    def _turn(self) -> None:
        if self._resuming.ended is not None:
            raise self._resuming.ended
        if self._trimmer is not None and self._trimmer.number_shared is not None:
            raise NumberShared(self._trimmer.number_shared)
        self._unpublished.check()
        wall = self._clock.wall_us()
        self._unreachable = self._input_reader.unreachable(wall)
        self._hold()
        self._deferred.begin_turn()
        arrived = self._input_reader.poll()
        obey(self.spec, self.settings.recovery)  # whatever has arrived: its start may have read it
        now = self._clock.now_us()
        self._pulse.turn(now)
        turn = Turn(
            now=now,
            beats=arrived.beats,
            inputs=arrived.inputs,
            streams=arrived.streams,
            delays=self.settings.delays if arrived.settings else None,
            read_to=self._input_reader.read_to(now),
            acked=self._output_writer.acked(),
            redo=self._redos.poll_results(),
            progress=arrived.progress,
            writer=[self._writer_event(e) for e in self._transactor.events()],
            checkpoint_bucket=self._store.written_bucket,
            disagreements=self.settings.take_disagreements(),
        )
        effects = self.manager.handle(turn)
        if self.manager.state is not ReplicaState.RECOVERING:
            self._input_reader.check_skipped(self.manager.f_s, self.buckets)
        self._resuming.turned(max(self.manager.f_s, self.manager.complete), self._input_reader)
        self._telling.turn(self.manager.publishing.disagreement.found, self.settings.take_differing(), now)
        for effect in effects:
            self._carry_out(effect, turn.now)
        self._checkpoint_written()
        self._acknowledge(turn.now)
        at_ease = self.manager.at_ease
        self._input_reader.hush(at_ease, self.manager.intake.lowest_sources if at_ease else frozenset())
        self._deferred.end_turn(at_ease)
        self._reporter.periodic(turn.now, self.manager.status, self._unreachable)

    def pulse(self) -> int:
        """Send heartbeats during long turns. Call it from another thread than that of `turn`. Returns when to call it
        again, microseconds from now."""
        return self._pulse.repeat(self._clock.now_us())

    def decide_trims(self, lookup: Lookup) -> Trims:
        """What may be deleted now (R16). Blocks: called in a thread of its own, with a lookup of that thread.

        Raises:
            LogError: the log cannot be read; then nothing may be deleted.
        """
        if self._trimmer is None or self._acknowledging is None:
            return Trims()
        sent = self._acknowledging.sent()
        return self._trimmer.decide(lookup, Bucket(self.manager.f_s), sent, self.settings.retain)

    @property
    def trims_anything(self) -> bool:
        """Whether anything of what it trims is not to be kept whole. May be read in another thread."""
        return self._trimmer is not None and self._trimmer.trims_anything(self.settings.retain)

    def trimmed(self, trims: Trims, refused: Mapping[Feed, str]) -> None:
        """Report what was decided, and of which feeds the log has refused to delete anything, and why."""
        reporter = self._reporter
        reporter.trims = trims.statuses(refused, reporter.trims, self._clock.wall_us())

    def _hold(self) -> None:
        self._input_reader.hold(self._unreachable | self.manager.throttled, self.manager.union.waiting)

    def next_wakeup(self) -> int:
        """Monotonic microseconds at which the next turn is due unless `wake` is called before."""
        times = [self.manager.next_wakeup(), self._reporter.due]
        wall = self._clock.wall_us()
        heals = self._input_reader.heals_at(wall)
        if heals is not None:
            times.append(self._clock.now_us() + heals - wall)
        look = self._input_reader.looks_again_us
        if look is not None:
            times.append(self._clock.now_us() + look)
        return min(times)

    def _carry_out(self, effect: Effect, now: MonotonicUs) -> None:
        match effect:
            case Append(token, record):
                self._output_writer.append(token, record)
            case SendHeartbeat(heartbeat):
                self._pulse.send(heartbeat, now)
            case TellDisagreement(disagreement):
                self._telling.tell(disagreement, now)
            case AskEnds():
                self._hold()  # as this turn leaves it: the ends of all inputs that are read from now on are asked for
                self._input_reader.ask_ends(now)
            case ReadAgain(index, replica, offset):
                self._input_reader.read_again(index, replica, offset)
            case StartRedo(job, place):
                self._redos.submit_job(job, place)
            case CancelRedo(job_id):
                self._redos.cancel_job(job_id)
            case FenceWriter(attempt):
                self._transactor.take_over(attempt)
            case Publish():
                self._transactor.commit(effect.attempt, partial(self._transaction, effect))
            case AbandonWriter():
                self._transactor.drop()
            case SaveCheckpoint():
                self._store.save(effect)
            case EmitEvent():
                self._reporter.note(effect, self.manager.status(), self._unreachable)
            case ExitReplica(reason, again):
                raise NumberShared(reason) if again else Superseded(reason)
            case StepBack(reason):
                raise SteppedBack(reason)

    def _transaction(self, publish: Publish) -> Iterator[NewRecord]:
        """The records of one transaction. Runs in the writer's thread."""
        spec = self.spec
        outputs, end, lost = publish.outputs, int(publish.end), False
        if outputs is None:
            outputs, end, lost = self._unpublished.portion(publish.first, publish.end)
        self._writing_to = Bucket(end)  # one transaction runs at a time, so the next event is about this end
        progress, lost_from = self._progress(end), publish.first if lost else None
        return transaction(
            spec.app, spec.node, outputs, progress, self.buckets, self._kernel, spec.corrected, lost_from
        )

    def _progress(self, bucket: int) -> Progress:
        me = self.manager.identity
        return Progress(self.spec.app_uid, bucket, me.replica, me.inc)

    def _mend(self, lookup: Lookup, raw: Lookup) -> Mend | None:
        """`log.base.Mending`. Runs in the writer's thread, after it has fenced."""
        return self._resuming.mend(lookup, raw, self.manager.publishing.progress, self._progress)

    def _writer_event(self, event: TransactorEvent) -> WriterEvent:
        if isinstance(event, TookOver):
            return WriterReady(event.attempt, None if event.progress is None else Bucket(event.progress))
        if isinstance(event, Committed):
            return WriterCommitted(event.attempt, self._writing_to)
        if isinstance(event, AtWork):
            return WriterBusy(event.attempt)
        if isinstance(event, Unknown) and event.too_large:
            raise RecordTooLarge(event.reason)
        return WriterLost(event.attempt, isinstance(event, Fenced) or self._resuming.doubts)

    def _acknowledge(self, now: MonotonicUs) -> None:
        if self._acknowledging is None or not self.manager.control.echoed:
            return  # of two of one number the one that owns it would never be heard, if the other spoke first (B30)
        read = self.manager.publishing.read
        record = self._first_word or self._acknowledging.due(now, self._store.kept, read)
        self._first_word = None
        if record is not None:
            self._appender.append(record)

    def _checkpoint_written(self) -> None:
        bucket = self._store.written_bucket
        if bucket is not None and bucket != self._reporter.checkpoint_bucket:
            self._reporter.checkpoint_bucket = bucket
            self._reporter.checkpoint_wall_us = self._clock.wall_us()

    def close(self, why: str = "") -> None:
        """Report that this replica ends (`why`: the error that ended it, or empty) and close all clients."""
        self._reporter.note(EmitEvent("STOPPED", why), self.manager.status(), self._unreachable)
        self._appender.flush(1.0)
        self._opened.close()


class DeferredWake:
    """A wake that may wait for the next turn while the replica is at ease: acknowledgements and commits then need none
    of their own. Called, in any thread, when something arrived; `wake` makes a turn due at once."""

    def __init__(self, wake: Wake) -> None:
        self._wake = wake
        self._at_ease = False
        self._arrived = False

    def __call__(self) -> None:
        self._arrived = True  # before the look at `_at_ease`: else `end_turn`, between the two, would miss it
        if not self._at_ease:
            self._wake()

    def begin_turn(self) -> None:
        """A turn begins, which takes all that has arrived."""
        self._arrived = False

    def end_turn(self, at_ease: bool) -> None:
        """A turn is over. `at_ease`: what arrives from now on may wait for the next one."""
        self._at_ease = at_ease
        if not at_ease and self._arrived:
            self._wake()
