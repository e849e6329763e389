"""An app beside, of few processes: begun anew while its first life cannot be reached; and given what nobody can use."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.chaos.arena import ELSEWHERE, START_S, Arena
from tests.chaos.elsewhere import Life, reset_elsewhere
from tests.chaos.faults import Fault
from tests.chaos.impaired import Impaired
from tests.harness.broker import LinkedBroker
from tests.harness.links import Links
from tests.harness.network import SOURCES
from tests.harness.poison import KERNEL, WHATS
from tests.harness.waiting import until, wall_us
from tests.support.right import exactly

pytestmark = pytest.mark.e2e
WHILE_S = 300.0


@pytest.fixture
def beside(tmp_path: Path) -> Iterator[Arena]:
    """A broker with a link, and no app yet."""
    broker = LinkedBroker(tmp_path / "broker", [ELSEWHERE])
    links = Links(broker.ports, tmp_path / "links.log")
    try:
        broker.up(START_S)
        cluster: Any = SimpleNamespace(directory=tmp_path / "chaos", bootstrap=broker.bootstrap)
        yield Arena(cluster, broker, links, {}, Impaired())
    finally:
        links.close()
        broker.down(timeout_s=0.0)


@pytest.mark.parametrize("how", ["paused", "cut off"])
def test_an_old_life_that_wakes_up_beside_the_new_one_ends_by_name(beside: Arena, how: str) -> None:
    steps = reset_elsewhere(beside, Fault("reset elsewhere", 0.0, frozenset(), s=1.0, more=how))
    for wait in steps:
        until(wait, "the next step", WHILE_S)
    (verdict,) = beside.verdicts
    with exactly():
        assert (verdict.anomalies, verdict.undecided) == ([], [])
    assert verdict.looked_at["corrected rows"] > 20


def test_what_nobody_can_use_is_a_dead_letter_once_and_changes_nothing_else(beside: Arena, tmp_path: Path) -> None:
    life = Life.begin(beside.cluster.bootstrap, "poison", tmp_path / "poison")
    cluster = life.cluster
    try:
        cluster.watch()
        life.works()
        first = (wall_us() - cluster.start_us) // cluster.plan.period_us + 40
        for source in SOURCES:
            cluster.poison.add(source, first, [*WHATS, *WHATS])
        last = first + 2 * len(WHATS)
        cluster.until(lambda: min(cluster.acknowledged().values()) > last, "all poison is in the log", WHILE_S)
        cluster.until_well()
        cluster.finish()
        verdict = cluster.judge()
    finally:
        cluster.close()
    with exactly():
        assert (verdict.anomalies, verdict.undecided) == ([], [])
    assert verdict.looked_at["dead letters"] == 2 * len(SOURCES) * (len(WHATS) - len(KERNEL))
    assert verdict.looked_at["refused by kernels"] == 2 * len(SOURCES) * len(KERNEL)
