"""Planted in chains: reading several replicas, budgets, adoption (A3, R5, R13, B2, B10 to B15, B37, B44)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest import mock

from borealis_py.log.base import Lookup
from borealis_py.node.input_reader import InputReader
from borealis_py.node.peers import Peers
from borealis_py.protocol.delay import Creation, FeedState
from borealis_py.protocol.input_state import InputState
from borealis_py.protocol.labels import Share
from borealis_py.protocol.manager import Manager
from borealis_py.protocol.reconciliation import Reconciliation
from borealis_py.protocol.redo import RedoDone
from borealis_py.protocol.settings import DelayPolicy
from borealis_py.simulation.cluster.checkpoints import MemoryCheckpoints
from borealis_py.simulation.scenario import Scenario
from sunion.input_buffers import StreamBuffer
from sunion.model import StableBucket, TentativeBucket
from sunion.stream_fold import StreamFold
from tests.planted.bug import Bug, Script
from tests.planted.worlds import SOURCES, Worlds


def _delayed(scenario: Scenario) -> Scenario:
    """Every node holds each tentative bucket for as long as it may."""
    return replace(
        scenario, delays=replace(scenario.delays, failure=DelayPolicy.DELAY, stabilization=DelayPolicy.DELAY)
    )


def _pairs(scenario: Scenario) -> Scenario:
    """Two replicas of each node, and hardly any difference between what they read when."""
    return replace(scenario, nodes=tuple(replace(node, replicas=2) for node in scenario.nodes), lost=())


def _tentative_taken_for_stable() -> Any:
    before = StreamBuffer.feed

    def feed(self: StreamBuffer, records: Any, *rest: Any) -> Any:
        def believed(said: Any) -> Any:
            if isinstance(said, TentativeBucket):
                return StableBucket(said.inc, said.bucket, said.output, said.waited_us)
            return said

        return before(self, [(k, believed(said)) for k, said in records], *rest)

    return mock.patch.object(StreamBuffer, "feed", feed)


def _only_the_first_replica() -> Any:
    before = StreamFold.read

    def read(self: StreamFold, records: Any) -> Any:
        return before(self, [(k, said) for k, said in records if k == 0])

    return mock.patch.object(StreamFold, "read", read)


def _opened_at_the_end() -> Any:
    before = InputReader.open_inputs

    def open_inputs(self: InputReader, *args: Any) -> None:
        lookup = self._lookup
        self._lookup = mock.Mock(wraps=lookup)
        self._lookup.find = lambda feed, _: lookup.bounds(feed)[1]
        before(self, *args)
        self._lookup = lookup

    return mock.patch.object(InputReader, "open_inputs", open_inputs)


def _nobody_is_awaited() -> Any:
    return mock.patch.object(FeedState, "awaited", return_value=False)


def _awaited_for_ever() -> Any:
    return mock.patch.object(FeedState, "awaited", lambda self, bucket: self.said <= bucket)


def _held_forgotten() -> Any:
    return mock.patch.object(Creation, "waited", return_value=None)


def _the_same_budget_everywhere() -> Any:
    before = Manager._handle_delays

    def set_delays(self: Manager, delays: Any) -> None:
        before(self, delays)
        self._wait_us += 3 * self.timing.hop_us + self.timing.slack_us

    return mock.patch.object(Manager, "_handle_delays", set_delays)


def _the_first_node_waits_longest() -> Any:
    before = Manager._handle_delays

    def set_delays(self: Manager, delays: Any) -> None:
        before(self, delays)
        self._wait_us += 0 if self.union.streams else 400_000

    return mock.patch.object(Manager, "_handle_delays", set_delays)


def _one_late_input_makes_all_late() -> Any:
    before = InputState.on_live_run

    def on_live_run(self: InputState, bucket: int) -> None:
        before(self, bucket)
        if any(feed.late for feeds in self.feeds for feed in feeds):
            for feed in (feed for feeds in self.feeds for feed in feeds):
                feed.late = True

    return mock.patch.object(InputState, "on_live_run", on_live_run)


def _upstreams_lack_forgotten() -> Any:
    before: Callable[[InputState, int], Share] = InputState.share

    def share(self: InputState, bucket: int) -> Share:
        own, found = {source.name for source in self.union.sources.values()}, before(self, bucket)
        named = (tuple(name for name in names if name in own) for names in (found.missing, found.missing_sources))
        return Share(*named, found.completeness, found.diverged_from)

    return mock.patch.object(InputState, "share", share)


def _tentative_counts_as_whole() -> Any:
    def completeness(self: InputState, bucket: int) -> float:
        return 1.0

    return mock.patch.object(InputState, "completeness", completeness)


def _adopted_without_what_was_said() -> Any:
    def said(self: Peers, peer: int, lookup: Lookup, first: int, end: int) -> Any:
        return {}

    return mock.patch.object(Peers, "_said", said)


def _another_checkpoint_than_asked() -> Any:
    before = MemoryCheckpoints.of_peer

    def of_peer(self: MemoryCheckpoints, replica: int, bucket: int) -> Any:
        files = self._here._disks[replica].files
        return before(self, replica, min((file.bucket for file in files.values()), default=bucket))

    return mock.patch.object(MemoryCheckpoints, "of_peer", of_peer)


def _adopted_beyond_the_live_frontier() -> Any:
    def adopt(self: Manager) -> None:
        kept = [
            (p.beat.checkpoint_bucket, i) for i, p in self.control.peers.items() if p.beat.checkpoint_bucket > self.f_s
        ]
        for bucket, peer in sorted(kept, reverse=True):
            if peer != self.identity.replica and self.reconciliation.job is None:
                self._effects += self.reconciliation.adopt(self._now, peer, self.f_s, bucket, self._s)

    return mock.patch.object(Manager, "_run_adoption", adopt)


def _adopted_state_left_out() -> Any:
    before = Peers.adopt

    def adopt(self: Peers, job: Any, lookup: Lookup) -> Any:
        result = before(self, job, lookup)
        return replace(result, state=job.state) if isinstance(result, RedoDone) else result

    return mock.patch.object(Peers, "adopt", adopt)


def _zombies_heard() -> Any:
    kept = StreamFold._store

    def store(self: StreamFold, k: int, record: Any, said: Any) -> None:
        self._inc[k] = 0
        kept(self, k, record, said)

    return mock.patch.object(StreamFold, "_store", store)


def _nobody_adopts() -> Any:
    return mock.patch.object(Reconciliation, "may_adopt", return_value=False)


WRONG = ("stable", "exception", "hole", "convergence", "redo", "client", "frontiers", "corrected")
BUGS = (
    Bug(
        "A3 tentative input is not stable",
        "safety",
        _tentative_taken_for_stable,
        Worlds(SOURCES, WRONG, found=1, nodes=2),
    ),
    Bug(
        "R5 all replicas are read",
        "liveness",
        _only_the_first_replica,
        Worlds(("crash", "cut_all"), ("availability", "convergence", "held"), found=1, seeds=60, nodes=2),
    ),
    Bug(
        "B37 a stream is opened where its next bucket lies",
        "liveness",
        _opened_at_the_end,
        Worlds(("crash", "crash_node"), WRONG, found=1, seeds=40, nodes=2),
    ),
    Bug(
        "B15 who may still say it stably is awaited",
        "quality",
        _nobody_is_awaited,
        Worlds(("cut_input", "crash"), ("avoidable", "premature"), found=4, seeds=60, nodes=2, change=_pairs),
    ),
    Bug(
        "B15 who is late is not awaited",
        "quality",
        _awaited_for_ever,
        Worlds((*SOURCES, "crash"), (), nodes=2),
    ),
    Bug(
        "B12 what upstream has waited counts",
        "liveness",
        _held_forgotten,
        Worlds(SOURCES, ("availability", "held"), found=1, seeds=40, nodes=3, change=_delayed),
        scene="chain",
    ),
    Bug(
        "B11 budgets shrink along a chain",
        "liveness",
        _the_same_budget_everywhere,
        Worlds(SOURCES, ("availability",), found=32, seeds=40, nodes=3),
    ),
    Bug(
        "B11 who is nearer to the sources waits less",
        "liveness",
        _the_first_node_waits_longest,
        Worlds(SOURCES, ("content", "availability"), found=9, seeds=30, nodes=3),
    ),
    Bug(
        "B10 each input is late by itself",
        "liveness",
        _one_late_input_makes_all_late,
        Worlds(SOURCES, ("content", "premature"), found=1, seeds=30, nodes=3),
    ),
    Bug(
        "A3 a result says what its upstream lacked",
        "safety",
        _upstreams_lack_forgotten,
        Worlds(SOURCES, ("label",), found=1, seeds=30, nodes=2),
    ),
    Bug(
        "A3 completeness counts what upstream lacked",
        "safety",
        _tentative_counts_as_whole,
        Worlds(SOURCES, ("label",), found=1, seeds=30, nodes=2),
    ),
    Bug(
        "B2 what the peer said goes into the own topic",
        "safety",
        _adopted_without_what_was_said,
        Worlds(SOURCES, ("stable", "corrected"), found=3, seeds=60),
    ),
    Bug(
        "B44 the checkpoint is that of the bucket asked for",
        "safety",
        _another_checkpoint_than_asked,
        Worlds(SOURCES, WRONG, found=3, seeds=60),
    ),
    Bug(
        "B44 no further than the live frontier",
        "safety",
        _adopted_beyond_the_live_frontier,
        Worlds(SOURCES, (*WRONG, "job"), found=121, seeds=130),
    ),
    Bug(
        "B44 the peer's state is taken",
        "safety",
        _adopted_state_left_out,
        Worlds(SOURCES, WRONG, found=3, seeds=60),
    ),
    Bug(
        "A3 what a zombie calls tentative does not count",
        "quality",
        _zombies_heard,
        script=Script(
            "tests/protocol/test_reader.py::test_tentative_records_of_a_zombie_are_ignored_whatever_its_successor_wrote[stable]"
        ),
    ),
    Bug(
        "R14 who waits for the grant takes over a peer's checkpoint",
        "quality",
        _nobody_adopts,
        scene="adoption",
    ),
)
