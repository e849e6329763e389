"""The soak's judge: what grows, what shrinks and what was not measured is noticed."""

from __future__ import annotations

import subprocess
import sys

import psutil
import pytest

from tests.harness.processes import ROOT
from tests.harness.waiting import until
from tests.soak.figures import KINDS, Figures, Sample, drifts, take

RUN_S = 120.0
STEADY = Figures(100_000, 40, 200, 12)


def samples(group: str, **second: int) -> list[Sample]:
    """One a second; from the middle on with other figures."""
    later = Figures(**{kind: second.get(kind, getattr(STEADY, kind)) for kind in KINDS})
    return [Sample(float(s), {group: STEADY if s < RUN_S / 2 else later}) for s in range(int(RUN_S))]


def test_what_stays_within_the_bound_is_good() -> None:
    found = drifts(samples("replicas", memory_kb=104_900, files=191), RUN_S)
    assert [(d.kind, d.good) for d in found] == [(kind, True) for kind in KINDS]


@pytest.mark.parametrize(
    ("kind", "value"), [("memory_kb", 105_100), ("threads", 43), ("files", 211), ("clients", 13), ("clients", 11)]
)
def test_what_does_not_is_named(kind: str, value: int) -> None:
    bad = [d for d in drifts(samples("replicas", **{kind: value}), RUN_S) if not d.good]
    assert [(d.group, d.kind) for d in bad] == [("replicas", kind)]
    assert f"{value}" in str(bad[0])


def test_the_broker_is_shown_and_not_judged() -> None:
    assert all(d.good for d in drifts(samples("broker", memory_kb=300_000), RUN_S))


def test_the_beginning_does_not_count() -> None:
    warm = [Sample(s / 10, {"replicas": Figures(1, 1, 1, 1)}) for s in range(int(RUN_S / 12 * 10))]
    assert all(d.good for d in drifts(warm + samples("replicas")[10:], RUN_S))


def test_a_group_that_was_there_in_one_half_only_is_a_drift() -> None:
    half = [s for s in samples("supervisor") if s.at_s < RUN_S / 2]
    gone = [Sample(s.at_s, {}) for s in samples("supervisor") if s.at_s >= RUN_S / 2]
    assert all(not d.good for d in drifts(half + gone, RUN_S))


@pytest.mark.parametrize("keep", [lambda s: s.at_s < RUN_S / 2, lambda s: s.at_s >= RUN_S / 2])
def test_a_half_that_was_not_measured_is_no_success(keep) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match="nothing to compare"):
        drifts([s for s in samples("replicas") if keep(s)], RUN_S)


CLIENTS = """
import sys
from confluent_kafka import Producer
kept = [Producer({"bootstrap.servers": "localhost:1", "log_level": 0}) for _ in range(3)]
print("made", flush=True)
sys.stdin.read()
"""


def test_clients_are_counted_by_what_librdkafka_runs() -> None:
    command = [sys.executable, "-c", CLIENTS]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "made\n"
        child = psutil.Process(process.pid)
        looks: list[Figures] = []

        def settled() -> bool:
            looks.append(take([child]))
            return [figures.clients for figures in looks[-3:]] == [3, 3, 3]

        # librdkafka begins threads when it likes, and one that has just begun carries the name of who began it.
        until(settled, "three looks in a row count three clients")
        found = looks[-1]
        process.stdin.close()
    assert found.threads > 3
    assert found.memory_kb > 1000
    assert found.files >= 3
