"""`run_replica`: a replica from start to stop. It needs only a log, a checkpoint directory and a runner of redos, so it
runs alike in a process, as a Spark task, or in a test.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from contextlib import ExitStack

from borealis_py.log.base import Wake
from borealis_py.log.clock import Clock, SystemClock
from borealis_py.log.kernel import Kernel
from borealis_py.node.checkpoints import CheckpointStore
from borealis_py.node.peers import NeverPublished, PeerRedo, Peers
from borealis_py.node.pulse import repeating
from borealis_py.node.replica import Replica
from borealis_py.node.reporter import StatusListener, ignore_status
from borealis_py.node.spec import ReplicaSpec
from borealis_py.node.trim_loop import trimming
from borealis_py.protocol.states import ReplicaState
from reconcile.redo_client import RedoRouter, RedoRunner
from sunion.errors import RetentionLost


class LostWhileRunning(Exception):
    """The log no longer holds records that this incarnation had not read yet."""


def _set_aside() -> None:
    """Keep the garbage collector from what lives as long as the process: it would stop every loop for 40 ms, sometimes
    at a window's end. What an incarnation before has left is collected first."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def run_replica(
    spec: ReplicaSpec,
    make_kernel: Callable[[], Kernel],
    make_redos: Callable[[Kernel, Wake, RedoRunner], RedoRouter],
    stop: threading.Event,
    uid: str,
    clock: Clock | None = None,
    seen: StatusListener = ignore_status,
) -> None:
    """Run one incarnation until `stop` is set. Blocks.

    A running replica that has lost records it needs ends with `LostWhileRunning`: after a restart it may find a peer's
    checkpoint that covers them (B45). RetentionLost at the start, or before the replica was READY, is final, as is
    NeverPublished.

    Args:
        make_redos: given the kernel, a function to call when results come, and the runner that adopts a peer's
            checkpoint.
        uid: random, new for every call (B30).
        clock: None: the system's.
        seen: called with each status, in this thread; must not block.

    Raises:
        LostWhileRunning, RetentionLost: see above. Superseded, LogError: as `Replica.turn`.
    """
    clock = clock or SystemClock()
    woken = threading.Event()
    with ExitStack() as opened:
        kernel = make_kernel()
        opened.callback(kernel.close)
        store = CheckpointStore(spec.checkpoints, spec.query_hash, kernel)
        try:
            redos = make_redos(kernel, woken.set, PeerRedo(Peers(spec, store, kernel), spec.log, woken.set))
        except BaseException:
            store.close()  # later the replica closes it
            raise
        opened.callback(redos.close)
        replica = Replica(
            spec=spec,
            log_=spec.log,
            clock=clock,
            kernel=kernel,
            redos=redos,
            store=store,
            uid=uid,
            wake=woken.set,
            why_inline=redos.why_inline,
            seen=seen,
        )
        _set_aside()
        why = ""
        try:
            with ExitStack() as beside:  # not during `close`, which sends the last status
                beside.enter_context(repeating(replica.pulse, spec.timing.heartbeat_us, "pulse"))
                if spec.trimming is not None:
                    beside.enter_context(trimming(replica, spec.log, spec.trimming.every_us))
                while not stop.is_set():
                    woken.clear()
                    replica.turn()
                    woken.wait(max(0.0, (replica.next_wakeup() - clock.now_us()) / 1e6))
        except RetentionLost as exc:
            why = str(exc)
            if replica.manager.state is ReplicaState.RECOVERING or isinstance(exc, NeverPublished):
                raise  # a restart would fail in the same way
            raise LostWhileRunning(why) from exc
        except Exception as exc:
            why = str(exc)
            raise
        finally:
            replica.close(why)
