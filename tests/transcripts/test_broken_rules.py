"""Transcripts are worth something: each of these broken rules changes what the scene named beside it prints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from borealis_py.protocol import delay
from borealis_py.protocol import manager as manager_module
from borealis_py.protocol.control import ControlFold
from borealis_py.protocol.delay import Creation
from borealis_py.protocol.manager import Manager
from borealis_py.protocol.publishing import Publishing
from borealis_py.protocol.reconciliation import Reconciliation
from borealis_py.protocol.settings import DelayPolicy
from borealis_py.protocol.stagger import Stagger
from borealis_py.simulation.checkers.violation import Violation
from borealis_py.simulation.cluster.checkpoints import MemoryCheckpoints
from borealis_py.simulation.cluster.toy_query import ToyKernel
from sunion.model import RecDone, Undo
from tests.protocol.toy import Broken, Corrected
from tests.transcripts.acting import TranscriptDiffers, transcript
from tests.transcripts.datadriven import transcripts

Patch = pytest.MonkeyPatch


def without(patch: Patch, kind: type) -> None:
    """Replicas do not say records of this kind."""
    kept = Manager.handle
    patch.setattr(Manager, "handle", lambda *a: [e for e in kept(*a) if not isinstance(getattr(e, "record", 0), kind)])


def undo_omitted(patch: Patch) -> None:
    """A replica does not say where its corrections start."""
    without(patch, Undo)


def rec_done_omitted(patch: Patch) -> None:
    """Nor where they end."""
    without(patch, RecDone)


def nothing_waits(patch: Patch) -> None:
    """A bucket runs live as soon as it has ended (R3)."""
    patch.setattr(manager_module.delay, "ready_at", lambda end, *rest, **waits: end)


def youngest_ask_first(patch: Patch) -> None:
    """The queue is a stack (R9)."""

    def head(self: ControlFold) -> int | None:
        asks = [(p.ask, i) for i, p in self.peers.items() if p.ask is not None and self.live(i)]
        return max(asks)[1] if asks else None

    patch.setattr(ControlFold, "head", property(head))


def all_correct_at_once(patch: Patch) -> None:
    """Whoever asks is granted (R4)."""
    kept = Stagger.turn

    def turn(self: Stagger, *args: Any) -> None:
        kept(self, *args)
        self.granted = self.asking

    patch.setattr(Stagger, "turn", turn)


def grant_kept(patch: Patch) -> None:
    """A replica that cannot correct any further goes on asking (B28)."""
    kept = Stagger._update_asking
    patch.setattr(Stagger, "_update_asking", lambda self, now, diverged, complete: kept(self, now, diverged, diverged))


def waits_add_up(patch: Patch) -> None:
    """What upstream has waited is waited again (B12)."""
    patch.setattr(Creation, "waited", lambda self, *args, **kwargs: None)


def nobody_adopts(patch: Patch) -> None:
    """A peer's checkpoint is of no use (R14)."""
    patch.setattr(Reconciliation, "may_adopt", lambda self, *args: False)


def no_patience(patch: Patch) -> None:
    """Every replica takes over at once (R10)."""
    patch.setattr(Publishing, "patience_us", property(lambda self: 0))


def delay_is_process(patch: Patch) -> None:
    """Policy `delay` waits no longer than `process` (R3 c)."""
    kept = delay.ready_at

    def ready_at(end: Any, inputs: Any, policy: DelayPolicy, **waits: int) -> int | None:
        return kept(end, inputs, DelayPolicy.PROCESS if policy is DelayPolicy.DELAY else policy, **waits)

    patch.setattr(manager_module.delay, "ready_at", ready_at)


def suspend_is_delay(patch: Patch) -> None:
    """Policy `suspend` waits for D only (R3 c)."""
    kept = delay.ready_at

    def ready_at(end: Any, inputs: Any, policy: DelayPolicy, **waits: int) -> int | None:
        return kept(end, inputs, DelayPolicy.DELAY if policy is DelayPolicy.SUSPEND else policy, **waits)

    patch.setattr(manager_module.delay, "ready_at", ready_at)


def checkpoint_not_read(patch: Patch) -> None:
    """A replica starts from the first bucket (R11)."""
    patch.setattr(MemoryCheckpoints, "newest", lambda self: None)


def exchange_turned_around(patch: Patch) -> None:
    """Each partition of a stream gets the rows of another one (PROTOCOL 4.6)."""
    kept = ToyKernel.divide
    patch.setattr(ToyKernel, "divide", lambda self, rows, by, count: kept(self, rows, by, count)[::-1])


def fenced_commits_count(patch: Patch) -> None:
    """The writer that took over is not the only one."""
    kept = Corrected.commit
    patch.setattr(Corrected, "commit", lambda self, owner, outputs, end: kept(self, self.owner, outputs, end))


NOTICED: list[tuple[Callable[[Patch], None], str]] = [
    (undo_omitted, "lost_input"),
    (rec_done_omitted, "lost_during_stabilization"),
    (nothing_waits, "lost_input"),
    (grant_kept, "lost_twice"),
    (all_correct_at_once, "chain"),
    (waits_add_up, "chain"),
    (youngest_ask_first, "adoption"),
    (nobody_adopts, "adoption"),
    (no_patience, "publisher_takeover"),
    (fenced_commits_count, "publisher_takeover"),
    (checkpoint_not_read, "crash_and_checkpoint"),
    (delay_is_process, "delay"),
    (suspend_is_delay, "suspend"),
    (exchange_turned_around, "partitions"),
]


@pytest.mark.parametrize(("broken", "name"), NOTICED, ids=[f"{broken.__name__}-{name}" for broken, name in NOTICED])
def test_a_broken_rule_shows(broken: Callable[[Patch], None], name: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        broken(patch)
        with pytest.raises((TranscriptDiffers, Broken, Violation)):
            transcript(name)


def test_every_transcript_notices_something() -> None:
    assert {name for _, name in NOTICED} == {path.stem for path in transcripts()}
