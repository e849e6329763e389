"""Settings as a replica reads them: a bad one is named and changes nothing."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from borealis_py.log.base import Feed, Record
from borealis_py.log.messages import Incarnation, Policy, SourceFailure, Threshold, encode
from borealis_py.node.knobs import Knobs
from borealis_py.protocol.settings import DelayPolicy, Delays, Timing


def knobs() -> Knobs:
    return Knobs("q", 1, Delays(3_000_000), Timing())


def record(key: str, value: bytes | None) -> Record:
    return Record(Feed("app.settings"), 0, 0, key.encode(), value)


def test_a_threshold_of_this_query_is_in_force_at_once() -> None:
    it = knobs()
    it.read(record("threshold/q", encode(Threshold(500_000))))
    it.read(record("threshold/other", encode(Threshold(900_000))))
    assert it.delays.threshold_us == 500_000


def test_policies_and_failures_and_incarnations() -> None:
    it = knobs()
    it.read(record("policy/q", encode(Policy("delay", "suspend"))))
    it.read(record("fail/lga", encode(SourceFailure(77))))
    it.read(record("incarnation/q/1", encode(Incarnation(4, "u"))))
    it.read(record("incarnation/q/0", encode(Incarnation(9, "u"))))
    assert (it.delays.failure, it.delays.stabilization) == (DelayPolicy.DELAY, DelayPolicy.SUSPEND)
    assert it.failed_until == {"lga": 77}
    assert it.inc == 4


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("threshold/q", encode(Threshold(0))),
        ("threshold/q", encode(Threshold(-5))),
        ("threshold/q", encode(Threshold(100_000))),
        ("threshold/q", b"{"),
        ("threshold/q", None),
        ("policy/q", encode(Policy("never", "process"))),
        ("fail/lga", b'{"until_wall_us": "soon"}'),
    ],
)
def test_a_bad_setting_is_named_and_changes_nothing(key: str, value: bytes | None) -> None:
    it = knobs()
    with capture_logs() as lines:
        it.read(record(key, value))
    assert it.delays == Delays(3_000_000)
    assert it.failed_until == {}
    assert [line["key"] for line in lines] == [key]
