"""`run_replica`: a replica from start to stop. It needs only a log, a checkpoint directory and a runner of redos, so it
runs alike in a process, as a Spark task, or in a test.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import replace
from itertools import count

import structlog

from borealis_py.log.base import Wake
from borealis_py.log.clock import Clock, SystemClock
from borealis_py.log.kernel import Kernel
from borealis_py.log.progress import ProgressLost
from borealis_py.node.checkpoints import CheckpointStore
from borealis_py.node.endings import SteppedBack
from borealis_py.node.peers import PeerRedo, Peers
from borealis_py.node.pulse import repeating
from borealis_py.node.recovery_setting import increments_of, paced, recovering_as_set
from borealis_py.node.replica import Replica
from borealis_py.node.reporter import StatusListener, ignore_status
from borealis_py.node.spec import ReplicaSpec
from borealis_py.node.standby import Standby, Standing
from borealis_py.node.starting import may_move
from borealis_py.node.trim_loop import trimming
from borealis_py.node.unpublished import NeverPublished
from borealis_py.protocol.states import ReplicaState
from reconcile.redo_client import RedoRouter, RedoRunner
from sunion.errors import RetentionLost

log = structlog.get_logger(__package__)

MakeRedos = Callable[[Kernel, Wake, RedoRunner], RedoRouter]


class LostWhileRunning(Exception):
    """The log no longer holds records that this incarnation had not read yet."""


def ends_for_good(lost: RetentionLost, state: ReplicaState, restart_helps: bool) -> bool:
    """Whether a replica that has lost records, in this state, would lose them again. `restart_helps`: not even where it
    was never READY, since its former incarnation runs, or it may name what it lacks (R18.8)."""
    never_ready = state is ReplicaState.RECOVERING
    return (never_ready and not restart_helps) or isinstance(lost, NeverPublished | ProgressLost)


class SetAside:
    """Keeps the garbage collector from what lives as long as the process: it would stop every loop for 40 ms, sometimes
    at a window's end. What an incarnation has left is collected first."""

    def __init__(self) -> None:
        self._left = False

    def __call__(self) -> None:
        if self._left:
            gc.unfreeze()  # not before: to look at what a Spark worker shares with its parent copies it
        self._left = False
        gc.collect()
        gc.freeze()

    def ended(self) -> None:
        """An incarnation has ended, and what it had may be garbage."""
        self._left = True


_set_aside = SetAside()


def run_replica(
    spec: ReplicaSpec,
    make_kernel: Callable[[], Kernel],
    make_redos: MakeRedos,
    stop: threading.Event,
    uid: str,
    clock: Clock | None = None,
    seen: StatusListener = ignore_status,
    moves: bool = False,
) -> None:
    """Run a replica until `stop` is set. Blocks.

    Where its node has standbys, it stands by, runs once it takes over, and stands by again if it steps back (R17.8). A
    running replica that has lost records it needs ends with `LostWhileRunning`: after a restart it may find a peer's
    checkpoint that covers them (B45), or name what it lacks (R18.8). RetentionLost at the start is final, as are
    NeverPublished and ProgressLost, and RetentionLost before the replica was READY, unless it may name what it lacks.

    Args:
        make_redos: given the kernel, a function to call when results come, and the runner that adopts a peer's
            checkpoint.
        uid: random, new for every call (B30).
        clock: None: the system's.
        seen: called with each status, in this thread; must not block.
        moves: its former incarnation runs elsewhere, and ends once this one has caught up with it.

    Raises:
        LostWhileRunning, RetentionLost: see above. Superseded, LogError: as `Replica.turn`.
    """
    with closing(make_kernel()) as kernel:
        for n in count():
            now = _as_set(spec)
            go_on = moves and n == 0 and may_move(now)
            incarnation = _Incarnation(now, clock or SystemClock(), stop, f"{uid}.{n}" if n else uid, seen, go_on)
            try:
                incarnation.live(kernel, make_redos)
            except SteppedBack as exc:
                log.info("begins anew", node=spec.node, replica=spec.replica, why=str(exc))
            else:
                return


def _as_set(spec: ReplicaSpec) -> ReplicaSpec:
    """The same with the way of recovery that is in force, and its timing. Raises LogError."""
    (found,) = recovering_as_set([spec], spec.log)
    return replace(found, timing=paced(spec.timing, found.recovery), place=spec.keeps_at)


class _Incarnation:
    """One life of a replica, which may begin as an idle standby. `moves`: it does not."""

    def __init__(
        self, spec: ReplicaSpec, clock: Clock, stop: threading.Event, uid: str, seen: StatusListener, moves: bool
    ) -> None:
        self._spec = spec
        self._clock = clock
        self._stop = stop
        self._uid = uid
        self._seen = seen
        self._moves = moves
        self._woken = threading.Event()

    def live(self, kernel: Kernel, make_redos: MakeRedos) -> None:
        """Live until it ends or `stop` is set. Raises what `run_replica` does, and SteppedBack."""
        with ExitStack() as opened:
            opened.callback(_set_aside.ended)
            stands = self._spec.recovery.idles and not self._moves
            standing = self._stand_by(opened) if stands else None
            if not self._stop.is_set():
                if standing is not None:
                    standing.begins(self._stop)
                self._run(kernel, make_redos, standing)

    def _stand_by(self, opened: ExitStack) -> Standing:
        """Stand by until it takes over. Its heartbeats go on until it is left, or `opened` is closed."""
        standing = Standing(self._spec, self._clock, self._uid, self._woken.set, self._seen)
        why = ""
        opened.callback(lambda: standing.close(why))
        _set_aside()
        try:
            while not (self._stop.is_set() or standing.standby.took_over):
                self._turn(standing.standby)
        except Exception as exc:
            why = str(exc)
            raise
        return standing

    def _turn(self, of: Replica | Standby) -> None:
        self._woken.clear()
        of.turn()
        self._woken.wait(max(0.0, (of.next_wakeup() - self._clock.now_us()) / 1e6))

    def _run(self, kernel: Kernel, make_redos: MakeRedos, standing: Standing | None) -> None:
        spec = self._spec
        with ExitStack() as opened:
            most = increments_of(spec.recovery)
            store = CheckpointStore(spec.checkpoints, spec.query_hash, kernel, increments=most, shared=self._moves)
            try:
                redos = make_redos(
                    kernel, self._woken.set, PeerRedo(Peers(spec, store, kernel), spec.log, self._woken.set)
                )
            except BaseException:
                store.close()  # later the replica closes it
                raise
            opened.callback(redos.close)
            replica = Replica(
                spec=spec,
                log_=spec.log,
                clock=self._clock,
                kernel=kernel,
                redos=redos,
                store=store,
                uid=self._uid,
                wake=self._woken.set,
                why_inline=redos.why_inline,
                seen=self._seen,
                stood_by=None if standing is None else standing.standby.stood_by(),
                open_appender=None if standing is None else standing.spare.take,
                moves=self._moves,
            )
            why = ""
            try:
                if standing is None:
                    _set_aside()
                else:
                    standing.leave()
                    gc.freeze()  # to collect takes 40 ms, and what it stood by with was set aside
                with ExitStack() as beside:  # not during `close`, which sends the last status
                    beside.enter_context(repeating(replica.pulse, spec.timing.heartbeat_us, "pulse"))
                    if spec.trimming is not None:
                        beside.enter_context(trimming(replica, spec.log, spec.trimming.every_us))
                    while not self._stop.is_set():
                        self._turn(replica)
            except RetentionLost as exc:
                why = str(exc)
                if ends_for_good(exc, replica.manager.state, self._moves or spec.gap):
                    raise
                raise LostWhileRunning(why) from exc
            except Exception as exc:
                why = str(exc)
                raise
            finally:
                replica.close(why)
