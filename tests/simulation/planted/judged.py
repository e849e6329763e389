"""Planted in what a replica decides by what it has read: policies, labels, waits, its place in the queue, budgets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest import mock

from borealis_py.node.input_reader import InputReader
from borealis_py.protocol import manager
from borealis_py.protocol.checkpointing import Checkpointing
from borealis_py.protocol.control import ControlFold, Recovery
from borealis_py.protocol.heartbeat import HeartbeatTimer
from borealis_py.protocol.labels import Labels
from borealis_py.protocol.manager import Manager
from borealis_py.protocol.reconciliation import Reconciliation
from borealis_py.protocol.roles.speaking import Speaking
from borealis_py.protocol.settings import DelayPolicy, Delays, Timing
from borealis_py.protocol.stagger import Stagger
from borealis_py.protocol.turn import SendHeartbeat
from borealis_py.simulation.cluster.toy_query import QUERY
from borealis_py.simulation.runner.scenario import SECOND, Fault, Scenario, SimulatedNode
from sunion.model import TentativeBucket
from sunion.output import SOutput
from sunion.stream_fold import FeedProgress, StreamFold
from tests.simulation.planted.bug import SOURCES, Bug


def _policies(failure: DelayPolicy, stabilization: DelayPolicy, redos: str = "slow") -> Any:
    """All redos are jobs that take long, so that there is a phase to obey the second policy in."""

    def change(scenario: Scenario) -> Scenario:
        jobs = [Fault("redos", k, 0, scenario.heal_us, redos) for k in range(scenario.replicas)]
        kept = [f for f in scenario.faults if f.kind not in ("policy", "redos")]
        return replace(
            scenario,
            delays=Delays(1_000_000, failure, stabilization),
            timing=replace(scenario.timing, inline_us=0, inline_buckets=1),
            faults=(*jobs, *kept),
        )

    return change


def _stabilization_policy_ignored() -> Any:
    before = Manager._ready_at

    def ready_at(self: Manager, bucket: int) -> int | None:
        given, self.delays = self.delays, replace(self.delays, stabilization=self.delays.failure)
        at = before(self, bucket)
        self.delays = given
        return at

    return mock.patch.object(Manager, "_ready_at", ready_at)


def _taken_for_process(policy: DelayPolicy) -> Any:
    before = manager.delay.ready_at

    def ready_at(end: Any, inputs: Any, given: DelayPolicy, **waits: int) -> int | None:
        return before(end, inputs, DelayPolicy.PROCESS if given is policy else given, **waits)

    return mock.patch.object(manager.delay, "ready_at", ready_at)


def _said(change: Any) -> Any:
    before = SOutput.tentative
    return mock.patch.object(SOutput, "tentative", lambda self, record: before(self, change(record)))


def _diverged_at_itself() -> Any:
    def itself(record: TentativeBucket) -> TentativeBucket:
        return replace(record, diverged_from=record.bucket)

    return _said(itself)


def _names_one_source_less() -> Any:
    def less(record: TentativeBucket) -> TentativeBucket:
        return (
            replace(record, missing_sources=record.missing_sources[1:]) if len(record.missing_sources) > 1 else record
        )

    return _said(less)


def _a_little_too_complete() -> Any:
    def more(record: TentativeBucket) -> TentativeBucket:
        return replace(record, completeness=min(1.0, record.completeness + 0.01))

    return _said(more)


def _labels_of_an_earlier_divergence() -> Any:
    return mock.patch.object(Labels, "corrected", return_value=None)


def _repeats_have_waited() -> Any:
    before = StreamFold._stable

    def stable(self: StreamFold, replica: int, first: int, end: int, output: Any, held: int, said: list[Any]) -> bool:
        taken = before(self, replica, first, end, output, held, said)
        said[:] = [
            replace(w, waited_us=held) if isinstance(w, FeedProgress) and w.bucket == end - 1 else w for w in said
        ]
        return taken

    return mock.patch.object(StreamFold, "_stable", stable)


def _goal_moves() -> Any:
    before = Recovery.done

    def done(self: Recovery, control: Any, **more: Any) -> bool:
        self._goal = None
        return before(self, control, **more)

    return mock.patch.object(Recovery, "done", done)


def _ready_before_acks() -> Any:
    before = Recovery.done

    def done(self: Recovery, control: Any, *, f_l: int, busy: bool, **_: Any) -> bool:
        return before(self, control, f_l=f_l, ack_l=f_l, busy=busy)

    return mock.patch.object(Recovery, "done", done)


def _ready_at_any_frontier() -> Any:
    before = Recovery.done

    def done(self: Recovery, control: Any, *, ack_l: int, **more: Any) -> bool:
        return before(self, control, ack_l=ack_l + 1_000, **more)

    return mock.patch.object(Recovery, "done", done)


def _no_checkpoint_when_stable() -> Any:
    return mock.patch.object(Checkpointing, "soon", return_value=None)


def _old_ask_for_a_new_run() -> Any:
    before = HeartbeatTimer.beat

    def beat(self: HeartbeatTimer, *, ask: Any, **more: Any) -> Any:
        return [SendHeartbeat(replace(b.heartbeat, ask_offset=ask)) for b in before(self, ask=ask, **more)]

    return mock.patch.object(HeartbeatTimer, "beat", beat)


def _withdrawn_asks_keep_their_place() -> Any:
    before = ControlFold.read

    def read(self: ControlFold, offset: int, beat: Any) -> None:
        known = self.peers.get(beat.replica)
        ask = None if known is None or known.inc != beat.inc else known.ask
        before(self, offset, beat)
        peer = self.peers[beat.replica]
        if ask is not None:
            peer.ask = ask

    return mock.patch.object(ControlFold, "read", read)


def _no_patience_behind_a_head() -> Any:
    before = Stagger.__init__

    def init(self: Stagger, timing: Timing) -> None:
        before(self, replace(timing, stagger_us=timing.stagger_us // 2))

    return mock.patch.object(Stagger, "__init__", init)


def _numbers_from_heartbeats_alone() -> Any:
    before = InputReader.read_control

    def read(self: InputReader) -> int:
        with mock.patch.object(self._settings, "inc", 0):
            return before(self)

    return mock.patch.multiple(InputReader, read_control=read, _spoken=lambda self: ())


def _jobs_without_bound() -> Any:
    return mock.patch.object(Reconciliation, "_rows_max", property(lambda self: 10**9))


def _deadline_twice_as_long() -> Any:
    before = Reconciliation.start_job

    def start(self: Reconciliation, now: int, *args: Any) -> Any:
        effects = before(self, now, *args)
        if self.deadline is not None:
            self.deadline += self._timing.redo_deadline_us
        return effects

    return mock.patch.object(Reconciliation, "start_job", start)


def _outbox_twice_as_long() -> Any:
    def room(self: Speaking) -> int:
        return (2 * self._timing.outbox_max - self._output.waiting) // 2 + 1

    return mock.patch.object(Speaking, "_room", property(room))


def _cut_from_its_own_topic(scenario: Scenario) -> Scenario:
    cut = Fault("cut_own", 0, 2 * SECOND, scenario.heal_us - SECOND)
    return replace(scenario, width_us=50_000, faults=(cut,))


def _small_jobs(scenario: Scenario) -> Scenario:
    timing = replace(scenario.timing, inline_us=0, inline_buckets=1, redo_rows=4 * scenario.rate)
    return replace(scenario, timing=timing)


def _pairs(scenario: Scenario) -> Scenario:
    nodes = tuple(replace(node, replicas=2) for node in scenario.nodes)
    return replace(_small_jobs(scenario), nodes=nodes, lost=())


def _ms(*times: int) -> tuple[int, ...]:
    return tuple(1_000 * t for t in times)


def _one_node(scenario: Scenario, sources: int, faults: tuple[Fault, ...], **timing: int) -> Scenario:
    names = tuple(f"s{i}" for i in range(sources))
    return replace(
        scenario,
        sources=sources,
        nodes=(SimulatedNode(QUERY, names, 1),),
        lost=(),
        delays=Delays(1_000_000),
        timing=replace(scenario.timing, **timing),
        faults=faults,
    )


def _again_within_a_window(scenario: Scenario) -> Scenario:
    """Two of three sources are lost, all come back, and one is lost again before the window ends."""
    first, again = _ms(3_000, 5_000), _ms(5_600, 8_000)
    faults = (Fault("source_failed", 0, *first), Fault("source_failed", 1, *first), Fault("source_failed", 0, *again))
    return replace(_one_node(scenario, 3, faults, inline_us=1_000_000), width_us=200_000, span=20)


def _asks_again_unheard(scenario: Scenario) -> Scenario:
    """It hears of its first ask, and neither of its end nor of the second one."""
    faults = (
        Fault("source_failed", 0, *_ms(3_000, 5_000)),
        Fault("cut_control", 0, *_ms(5_150, 9_000)),
        Fault("source_failed", 0, *_ms(5_400, 7_000)),
    )
    return _one_node(scenario, 2, faults, inline_us=0, inline_buckets=1)


def _behind_a_hang(scenario: Scenario) -> Scenario:
    """Two replicas ask, and the job of the one that is head hangs."""
    hang = Fault("redos", 0, 0, scenario.heal_us, "hang"), Fault("redos", 1, 0, scenario.heal_us, "hang")
    faults = (*hang, Fault("source_failed", 0, *_ms(3_000, 5_000)))
    world = _one_node(scenario, 2, faults, inline_us=0, inline_buckets=1)
    return replace(world, nodes=(replace(world.nodes[0], replicas=2),))


def _starts_behind(scenario: Scenario) -> Scenario:
    """It is heard only when it has lost an input, and holds every bucket back; its peer has all inputs."""
    faults = (
        Fault("crash", 1, *_ms(3_000, 3_500)),
        Fault("beats_lost", 1, 3_500_050, 5_000_000),
        Fault("cut_input", 1, *_ms(4_500, 10_000), "0"),
    )
    world = _one_node(scenario, 2, faults)
    delays = Delays(2_000_000, DelayPolicy.DELAY, DelayPolicy.DELAY)
    return replace(world, nodes=(replace(world.nodes[0], replicas=2),), delays=delays)


def _starts_unheard(scenario: Scenario) -> Scenario:
    """It starts, and none of its heartbeats has come when it starts again."""
    faults = (
        Fault("crash", 0, *_ms(3_000, 3_500)),
        Fault("beats_lost", 0, 3_500_050, 5_200_000),
        Fault("crash", 0, *_ms(5_000, 5_500)),
    )
    return _one_node(scenario, 1, faults)


P, D, S = DelayPolicy.PROCESS, DelayPolicy.DELAY, DelayPolicy.SUSPEND
BUGS = (
    Bug(
        "R3 the stabilization policy applies while granted",
        "safety",
        _stabilization_policy_ignored,
        SOURCES,
        ("policy",),
        30,
        change=_policies(P, S),
        found=1,
    ),
    Bug(
        "R3 suspend says nothing tentative",
        "safety",
        lambda: _taken_for_process(S),
        SOURCES,
        ("policy",),
        change=_policies(S, S),
        found=1,
    ),
    Bug(
        "R3 delay waits D",
        "quality",
        lambda: _taken_for_process(D),
        SOURCES,
        ("policy",),
        change=_policies(D, P),
        found=1,
    ),
    Bug("A3 diverged_from is where the state diverged", "safety", _diverged_at_itself, SOURCES, ("labels",), found=3),
    Bug(
        "A3 every source that is missing is named",
        "safety",
        _names_one_source_less,
        SOURCES,
        ("label", "labels"),
        60,
        None,
        found=9,
    ),
    Bug("A3 completeness is exact", "safety", _a_little_too_complete, SOURCES, ("labels",), found=3),
    Bug(
        "B17 a divergence that is over is forgotten",
        "safety",
        _labels_of_an_earlier_divergence,
        SOURCES,
        ("labels",),
        5,
        change=_again_within_a_window,
        found=1,
    ),
    Bug(
        "R1 what a repeat was held does not count",
        "quality",
        _repeats_have_waited,
        ("crash", "pause", "slow"),
        ("held", "premature", "avoidable"),
        60,
        2,
        change=_pairs,
        found=1,
    ),
    Bug("R11 READY waits for the acks", "safety", _ready_before_acks, ("crash", "slow"), ("ready",), 30, found=2),
    Bug(
        "R11 READY waits for its goal", "liveness", _ready_at_any_frontier, ("crash", *SOURCES), ("ready",), 60, found=3
    ),
    Bug(
        "B42 the goal of a start stays", "liveness", _goal_moves, ("crash",), ("ready",), change=_starts_behind, found=2
    ),
    Bug(
        "R14 a checkpoint as soon as STABLE", "liveness", _no_checkpoint_when_stable, SOURCES, ("checkpoint",), found=3
    ),
    Bug(
        "B26 an ask has the place of its own run",
        "liveness",
        _old_ask_for_a_new_run,
        SOURCES,
        ("ask",),
        10,
        change=_asks_again_unheard,
        found=1,
    ),
    Bug(
        "R9 a withdrawn ask loses its place",
        "liveness",
        _withdrawn_asks_keep_their_place,
        SOURCES,
        ("turn", "convergence"),
        60,
        change=_pairs,
        found=3,
    ),
    Bug(
        "B27 T is waited for",
        "quality",
        _no_patience_behind_a_head,
        SOURCES,
        ("turn",),
        change=_behind_a_hang,
        found=1,
    ),
    Bug(
        "B30 numbers are above those in the settings",
        "safety",
        _numbers_from_heartbeats_alone,
        ("crash",),
        ("incarnation",),
        change=_starts_unheard,
        found=1,
    ),
    Bug(
        "R4 jobs are short at first", "quality", _jobs_without_bound, SOURCES, ("job",), 30, change=_small_jobs, found=3
    ),
    Bug(
        "R4 a job is waited for up to its deadline",
        "quality",
        _deadline_twice_as_long,
        (*SOURCES, "redos"),
        ("job",),
        60,
        found=6,
    ),
    Bug(
        "B43 so many records and no more",
        "quality",
        _outbox_twice_as_long,
        ("cut_own",),
        ("outbox", "buffers"),
        change=_cut_from_its_own_topic,
        found=1,
    ),
)
