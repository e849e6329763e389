"""What trims for a simulated replica: its thread, and the way of its acknowledgements to the log (R16).

All chance here is of its own, so that worlds live as they would without trimming, but for what is deleted.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from borealis_py.log.base import Feed, LogError, NewRecord
from borealis_py.node.trimmer import Trims
from borealis_py.protocol.trimming import Graph, NodeReads, Retain, Trimming
from borealis_py.simulation.clock import Scheduler
from borealis_py.simulation.cluster.roles import ReplicaProcess
from borealis_py.simulation.log.client import MemoryClient
from borealis_py.simulation.scenario import Scenario
from borealis_py.simulation.toy_query import QUERY

AGAIN_US = 300_000
"""How soon an acknowledgement is sent again that did not reach the log."""
SOON_US = (1_000, 50_000)
LATE_US = 3_000_000
"""A deletion may reach the log this late, whatever has become of the replica that has decided it."""


def trimming_of(scenario: Scenario) -> Trimming | None:
    """What the replicas of this world are told; None: nothing is trimmed."""
    retain = scenario.retain
    if retain is None:
        return None
    names = [plan.name for plan in scenario.nodes]
    nodes = {
        plan.name: NodeReads(
            plan.replicas,
            tuple(name for name in plan.inputs if name not in names),
            tuple(name for name in plan.inputs if name in names),
        )
        for plan in scenario.nodes
    }
    kept = dict.fromkeys([*scenario.source_names, *names], Retain(retain.lag_us))
    audits: dict[str, tuple[str, ...]] = {}
    if retain.audited:
        kept |= dict.fromkeys(scenario.source_names, Retain(0, audited=True))
        audits = dict.fromkeys(scenario.source_names, (QUERY,))
    return Trimming(Graph(nodes), kept, retain.every_us, audits=audits)


@dataclass
class Deleted:
    """What was trimmed in a world.

    Attributes:
        before: called before each deletion (feed, offset, node of the topic or None for a source); may raise.
        trims: called before that with the node and the index of the replica that deletes.
        upto: for each node, the highest bucket below which its topics were trimmed.
        records: how many were deleted, of replicas' topics and of sources.
    """

    before: Callable[[Feed, int, str | None], object] = lambda feed, offset, node: None
    trims: Callable[[str, int], object] = lambda node, index: None
    upto: dict[str, int] = field(default_factory=dict)
    records: dict[bool, int] = field(default_factory=lambda: {True: 0, False: 0})


class TrimmingHost:
    """One replica process's trimming. `start` once the process is made."""

    def __init__(self, scheduler: Scheduler, client: MemoryClient, trimming: Trimming, deleted: Deleted, seed: int):
        self._scheduler = scheduler
        self._client = client
        self._trimming = trimming
        self._deleted = deleted
        self._rng = random.Random(f"trimming {seed} {client.name}")
        self._queue: deque[NewRecord] = deque()
        self._process: ReplicaProcess | None = None

    # Acknowledgements -------------------------------------------------------------------------------------------------

    def append(self, record: NewRecord) -> None:
        """Send an acknowledgement; they arrive in order."""
        self._queue.append(record)
        if len(self._queue) == 1:
            self._scheduler.after(self._rng.randint(*SOON_US), self._land)

    def _land(self) -> None:
        alive = self._client.alive
        if not alive and self._rng.random() < 0.5:
            return
        topic = self._queue[0].feed.topic
        if self._client.sends(topic) and self._client.log.broker.exists(topic):
            self._client.log.broker.append(self._queue.popleft())
        elif not alive:
            return
        if self._queue:
            self._scheduler.after(AGAIN_US if alive else 1, self._land)

    # Deletions --------------------------------------------------------------------------------------------------------

    def start(self, process: ReplicaProcess) -> None:
        self._process = process
        self._again()

    def _again(self) -> None:
        every_us = self._trimming.every_us
        self._scheduler.after(self._rng.randint(every_us // 2, every_us * 3 // 2), self._round)

    def _round(self) -> None:
        process = self._process
        if process is None or not process.alive:
            return
        self._again()
        if process.ticker.paused:
            return
        try:
            trims = process.replica.decide_trims(self._client.lookup())
        except LogError:
            return
        late = self._rng.random() < 0.1
        self._scheduler.after(self._rng.randrange(LATE_US) if late else self._rng.randint(*SOON_US), self._do(trims))

    def _do(self, trims: Trims) -> Callable[[], None]:
        broker = self._client.log.broker
        meant = {feed: broker.existing(feed) for feed in trims.deletions}

        def delete() -> None:
            refused: dict[Feed, str] = {}
            if self._process is not None and trims.deletions:
                self._deleted.trims(self._process.node, self._process.index)
            for feed, at in trims.deletions.items():
                if broker.existing(feed) is not meant[feed] or not self._delete(feed, at, trims):
                    refused[feed] = "not now"  # no request is on its way for so long that a topic is made again
            if self._process is not None and self._process.alive:
                self._process.replica.trimmed(trims, refused)

        return delete

    def _delete(self, feed: Feed, offset: int, trims: Trims) -> bool:
        partition = self._client.log.broker.existing(feed)
        if partition is None or not self._client.sends(feed.topic) or offset > partition.stable_end:
            return False
        if offset <= partition.start:
            return True
        own = trims.found[0]
        node = None if feed not in own.feeds or self._process is None else self._process.node
        self._deleted.before(feed, offset, node)
        if node is not None and own.limit.below is not None:
            self._deleted.upto[node] = max(self._deleted.upto.get(node, 0), own.limit.below)
        self._deleted.records[node is not None] += offset - partition.start
        partition.delete_before(offset)
        return True
