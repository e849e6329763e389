"""Planted in trimming: what may be deleted, and that it is (R16)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any
from unittest import mock

from borealis_py.log.stream_topics import StreamTopics
from borealis_py.node import acknowledging, trimmer
from borealis_py.node import replica as replica_module
from borealis_py.node.replica import Replica
from borealis_py.node.trimmer import Trimmer, Trims
from borealis_py.protocol.trimming import Graph, KeptCheckpoint, Needs, TrimLimit
from borealis_py.protocol.trimming import limit as limit_module
from borealis_py.simulation.scenario import SECOND, Retention, Scenario
from reconcile import audit
from reconcile.replay import Replay
from sunion.units import MonotonicUs, Offset
from tests.planted.bug import Bug
from tests.planted.patches import together
from tests.planted.roles import PASSIVE
from tests.planted.worlds import Worlds


def _newest_checkpoint() -> Any:
    kept = acknowledging.least

    def least(found: Iterable[KeptCheckpoint], *rest: Any) -> KeptCheckpoint:
        all_of_it = list(found)
        return kept(all_of_it, *rest) if len(all_of_it) < acknowledging.KEEP else all_of_it[-1]

    return mock.patch.object(acknowledging, "least", least)


def _a_bucket_too_high() -> Any:
    kept = limit_module._lowest

    def lowest(holds: Iterable[tuple[int, str]]) -> TrimLimit:
        limit = kept(holds)
        return limit if limit.below is None else replace(limit, below=limit.below + 1)

    return mock.patch.object(limit_module, "_lowest", lowest)


def _readers_of_a_source_hold_nothing() -> Any:
    kept = trimmer.source_limit

    def limit(
        graph: Graph, needs: Needs, source: str, resumable: Offset | None, keeps: Offset | None, audits: Iterable[str]
    ) -> TrimLimit:
        limit = kept(graph, needs, source, resumable, keeps, audits)
        return limit if limit.below is None or keeps is None else replace(limit, below=keeps)

    return mock.patch.object(trimmer, "source_limit", limit)


def _publishers_hold_nothing() -> Any:
    kept = trimmer.source_limit

    def limit(
        graph: Graph, needs: Needs, source: str, resumable: Offset | None, keeps: Offset | None, audits: Iterable[str]
    ) -> TrimLimit:
        return kept(graph, needs, source, None if resumable is None else keeps, keeps, audits)

    return mock.patch.object(trimmer, "source_limit", limit)


def _unpublished_goes() -> Any:
    kept = limit_module._lowest

    def lowest(holds: Iterable[tuple[int, str]]) -> TrimLimit:
        return kept([hold for hold in holds if not hold[1].startswith("progress")])

    return mock.patch.object(limit_module, "_lowest", lowest)


def _no_own_tail() -> Any:
    return mock.patch.object(trimmer, "OWN_TAIL", 0)


def _readers_hold_nothing() -> Any:
    return mock.patch.object(Graph, "readers_of_stream", return_value=[])


def _nothing_goes() -> Any:
    return mock.patch.object(Trimmer, "decide", return_value=Trims())


def _late_views_begin_anywhere() -> Any:
    return mock.patch.object(StreamTopics, "first_kept", lambda self, bucket: bucket)


def _whoever_shares_a_number_acknowledges() -> Any:
    kept = Replica._acknowledge

    def acknowledge(self: Replica, now: MonotonicUs) -> None:
        with mock.patch.object(self.manager.control, "echoed", True):
            kept(self, now)

    return together(
        mock.patch.object(Replica, "_acknowledge", acknowledge),
        mock.patch.object(Trimmer, "number_shared", None),  # else the other one starts again
    )


def _nobody_gives_way() -> Any:
    return mock.patch.object(replica_module, "give_way", return_value=None)


def _audits_hold_too_little() -> Any:
    kept = limit_module._audited
    return mock.patch.object(limit_module, "_audited", lambda *args: Offset(kept(*args) + 1))


def _more_counts_as_published_than_is() -> Any:
    kept = audit._reached
    return mock.patch.object(audit, "_reached", lambda *args: kept(*args) + 3)


def _audits_begin_behind_what_they_need() -> Any:
    return mock.patch.object(Replay, "marks", property(lambda self: self._union.marks(self.frontier + 1)))


def _trimmed(scenario: Scenario) -> Scenario:
    """Nothing is kept but what is needed, and replicas say often what that is."""
    return replace(scenario, retain=Retention(0, SECOND), timing=replace(scenario.timing, checkpoint_us=SECOND // 2))


def _trimmed_soon(scenario: Scenario) -> Scenario:
    """The same, so often that a source has little more than its last record."""
    often_us = SECOND // 20
    timing = replace(scenario.timing, checkpoint_us=often_us)
    return replace(scenario, retain=Retention(0, often_us), timing=timing)


def _passive(scenario: Scenario) -> Scenario:
    """The same where one replica runs, and its checkpoints are increments."""
    return _trimmed(replace(PASSIVE(scenario), heal_us=20 * SECOND))


def _audited(scenario: Scenario) -> Scenario:
    return replace(_trimmed(scenario), retain=Retention(0, SECOND, audited=True), heal_us=20 * SECOND)


def _late_view(scenario: Scenario) -> Scenario:
    return replace(_trimmed(scenario), latecomer=True, late_by=200, heal_us=20 * SECOND)


TRIMMING = ("trimming",)
AUDIT = ("audit",)
BUGS = (
    Bug(
        "R16 the oldest checkpoint that is kept counts",
        "safety",
        _newest_checkpoint,
        Worlds((), TRIMMING, found=1, change=_trimmed),
    ),
    Bug(
        "R16 the newest of the oldest base counts",
        "safety",
        _newest_checkpoint,
        Worlds((), TRIMMING, found=1, change=_passive),
    ),
    Bug(
        "R16 what is needed first stays",
        "safety",
        _a_bucket_too_high,
        Worlds((), TRIMMING, found=1, change=_trimmed),
    ),
    Bug(
        "R16 readers hold a source",
        "safety",
        _readers_of_a_source_hold_nothing,
        Worlds((), TRIMMING, found=1, change=_trimmed),
    ),
    Bug(
        "R16 a publisher finds where to resume: a source's last record stays",
        "safety",
        _publishers_hold_nothing,
        Worlds(("source_slow",), TRIMMING, found=1, change=_trimmed_soon),
    ),
    Bug(
        "R10 only what is published goes",
        "safety",
        _unpublished_goes,
        Worlds(("corrected_away",), TRIMMING, found=1, change=_trimmed),
    ),
    Bug(
        "R11 a start finds the end of its own stream",
        "safety",
        _no_own_tail,
        Worlds((), TRIMMING, found=1, change=_trimmed),
    ),
    Bug(
        "R16 readers hold a stream",
        "safety",
        _readers_hold_nothing,
        Worlds((), TRIMMING, found=4, seeds=30, nodes=2, change=_trimmed),
    ),
    Bug(
        "R16 logs are bounded",
        "liveness",
        _nothing_goes,
        Worlds((), ("bounded",), found=17, seeds=40, change=_trimmed),
    ),
    Bug(
        "R16 the owner of a number acknowledges, or the other one starts again",
        "liveness",
        _whoever_shares_a_number_acknowledges,
        Worlds(("twins",), ("bounded",), found=17, seeds=60, change=_trimmed),
    ),
    Bug(
        "R16 who has a successor has lost no records",
        "liveness",
        _nobody_gives_way,
        Worlds(("sleeper",), ("retention", "convergence"), found=1, change=_trimmed),
    ),
    Bug(
        "R16 what an audit reads first stays",
        "safety",
        _audits_hold_too_little,
        Worlds((), TRIMMING, found=1, change=_audited),
    ),
    Bug(
        "R16 audits verify what is published",
        "safety",
        _more_counts_as_published_than_is,
        Worlds((), AUDIT, found=1, change=_audited),
    ),
    Bug(
        "R16 an audit begins at all that it needs",
        "safety",
        _audits_begin_behind_what_they_need,
        Worlds((), AUDIT, found=1, change=_audited),
    ),
    Bug(
        "R16 a late view begins at what is kept",
        "liveness",
        _late_views_begin_anywhere,
        Worlds(("pause",), ("late view",), found=1, seeds=20, change=_late_view),
    ),
)
