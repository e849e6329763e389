"""Audits of a simulated world: `borealis audit --advance`, every now and then (R16.7).

Each replays from where the last one ended, keeps where it ends, and then says so to whoever trims sources. All chance
here is of its own, so that worlds live as they would without audits, but for what is deleted.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from borealis_py.app.audited import record_of
from borealis_py.log import topics
from borealis_py.log.base import Feed
from borealis_py.simulation.cluster.builder import Builder
from borealis_py.simulation.toy_query import QUERY
from reconcile.audit import Audited, AuditResult, AuditSpec, DeadLetterSpec, audit

EVERY_US = (1_000_000, 5_000_000)
LASTS_US = (50_000, 800_000)
"""From when it has read everything until it keeps where it ended; and from then until it has said so."""
DIES = 0.2
"""Probability that it ends after each of these steps, and what would follow is never done."""


@dataclass
class Auditor:
    """The audits of one life of an app of one node.

    Attributes:
        kept: where the last one ended; None: none has. reads: for each source, by name, what the next one reads
            therefore. said: the same as the log knows it; empty: it knows nothing.
        after: called with each result.
    """

    wiring: Builder
    kept: Audited | None = None
    said: Mapping[str, int] = field(default_factory=dict)
    after: Callable[[AuditResult], object] = lambda result: None
    _rng: random.Random = field(init=False)

    def __post_init__(self) -> None:
        wiring = self.wiring
        self._sayings: list[tuple[int, Mapping[str, int]]] = []
        self._rng = random.Random(f"audits {wiring.scenario.seed} {wiring.life}")
        self._client = wiring.log.client(f"{wiring.prefix}audit")
        self._work = wiring.work(QUERY, self._client)
        self._sources = [of.name for of in self._work.inputs]
        self._progress = Feed(topics.progress(wiring.app, QUERY))
        self._letters = Feed(topics.deadletter(wiring.app))

    @property
    def reads(self) -> Mapping[str, int]:
        return {} if self.kept is None else self._reads(self.kept)

    def _reads(self, audited: Audited) -> Mapping[str, int]:
        return {name: mark.offset for name, mark in zip(self._sources, audited.marks, strict=True)}

    def start(self) -> None:
        """Audit again and again from now on."""
        self.wiring.scheduler.after(self._rng.randint(*EVERY_US), self._again)

    def _again(self) -> None:
        if self.wiring.over:
            return
        self.start()
        result = self.once()
        if result is not None and result.reached is not None:
            self._then(self._keep, result.reached)

    def once(self) -> AuditResult | None:
        """Audit now. None: it cannot reach the log."""
        corrected = topics.corrected(self.wiring.app, QUERY)
        feeds = [*(feed for (feed,) in self._work.feeds), corrected, self._progress, self._letters]
        if not all(self._client.reaches(feed.topic) for feed in feeds):
            return None
        letters = DeadLetterSpec(self._letters, {QUERY: (self._progress,)}, dict.fromkeys(self._sources, (QUERY,)))
        spec = AuditSpec(
            self._work, corrected, self._progress, self.wiring.origin, False, letters, self.kept, True, 0.0
        )
        result = audit(spec)
        self.after(result)
        return result

    def _then(self, step: Callable[[Audited], None], reached: Audited) -> None:
        if self._rng.random() >= DIES:
            self.wiring.scheduler.after(self._rng.randint(*LASTS_US), lambda: step(reached))

    def _keep(self, reached: Audited) -> None:
        if self.kept is None or self.kept.bucket < reached.bucket:
            self.kept = reached
        self._then(self._say, reached)

    def _say(self, reached: Audited) -> None:
        wiring, acks = self.wiring, topics.acks(self.wiring.app)
        if wiring.over or not self._client.sends(acks):
            return
        wiring.log.broker.append(record_of(wiring.app, wiring.app_uid, QUERY, {QUERY: (self._sources, reached)}))
        self.said = self._reads(reached)
        self._sayings.append((wiring.scheduler.now_us, self.said))

    def said_by(self, at_us: int) -> Mapping[str, int]:
        """What the next audit reads, by what the log had been told at that time."""
        return next((said for at, said in reversed(self._sayings) if at <= at_us), {})
