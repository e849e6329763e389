"""Any interleaving, batching and delay of the inputs: the same stable rows, without holes, alike at all replicas."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from borealis_py.protocol.settings import Timing
from sunion.model import FOREVER, Input, Output, SourceRecord, StableBucket, StableRange, StreamRecord
from sunion.union import SUnion
from tests.examples import examples
from tests.protocol.toy import MS, SourceLog, ToyWorld
from tests.sunion.lists import AHEAD_US, BUCKETS, FRAGMENT, OPS, batch, truth
from tests.sunion.unions import logs

QUIET = settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def scheduled(draw: st.DrawFn) -> list[SourceLog]:
    """Random logs, each record readable at a time of its own, END last."""
    made = []
    for records in draw(logs()):
        ended = [*records, batch(len(records), 10**6, boundary=FOREVER)]
        waits = draw(st.lists(st.sampled_from([0, 10, 90, 300, 1_500]), min_size=len(ended), max_size=len(ended)))
        at, times = 0, []
        for wait in waits:
            at += wait * MS
            times.append(at)
        made.append(SourceLog(ended, times))
    return made


def stable(topic: list[StreamRecord]) -> dict[int, Output]:
    """The stable rows a topic tells, and that no bucket is told twice by one incarnation."""
    said: dict[int, Output] = {}
    at = 0
    for record in topic:
        if isinstance(record, StableBucket):
            assert record.bucket == at
            said[at] = record.output
            at += 1
        elif isinstance(record, StableRange):
            assert record.first == at
            at = record.end
    return said


@QUIET
@given(scheduled(), st.sampled_from([20, 70, 130]), st.lists(st.sampled_from([0, 1, 3]), min_size=2, max_size=2))
def test_two_replicas_that_read_differently_say_what_a_failure_free_run_says(
    sources: list[SourceLog], step: int, pace: list[int]
) -> None:
    world = ToyWorld(sources)
    for index in (0, 1):
        replica = world.start(index)
        replica.slow = {index: pace[index]} if pace[index] else {}
    last = max(s.at[-1] for s in sources)
    while world.now < last + 8_000 * MS:
        world.run(world.now + step * MS, step * MS)
        for replica in world.replicas.values():
            assert replica.manager.f_s <= replica.manager.f_l
    _, expected = truth([s.records for s in sources])
    assert stable(world.topics[0]) == stable(world.topics[1]) == expected
    assert all(r.manager.f_s == BUCKETS.last for r in world.replicas.values())
    assert dict(world.corrected.rows) == expected
    assert world.client.stable == BUCKETS.last


@QUIET
@given(scheduled(), st.data())
def test_a_redo_gives_what_the_replica_would_have_given(sources: list[SourceLog], data: st.DataObject) -> None:
    """Whichever way the same buckets run: at once, inline after a failure, or as jobs on ranges of the log."""
    said = []
    for inline_us in (0, 10**6):
        timing = Timing(inline_us=inline_us, inline_buckets=0, redo_rows=3)
        world = ToyWorld([SourceLog(list(s.records), list(s.at)) for s in sources], timing)
        replica = world.start(0)
        replica.cut = {1}
        world.run(2_000 * MS)
        replica.cut = set()
        world.run(max(s.at[-1] for s in sources) + 8_000 * MS, 70 * MS)
        said.append(stable(world.topics[0]))
    assert said[0] == said[1] == truth([s.records for s in sources])[1]


@given(logs(), st.integers(0, 10), st.integers(0, 10))
def test_many_buckets_in_one_step_equal_as_many_single_steps(
    log: list[list[SourceRecord]], first: int, more: int
) -> None:
    """What the toy fragment must keep for the other tests to mean anything; a kernel has the same to keep."""
    union = SUnion([Input.source("s0"), Input.source("s1")], 0, BUCKETS, OPS, ahead_max_us=AHEAD_US)
    for index, records in enumerate(log):
        for record in records:
            union.feed(index, record)
    cuts = sorted({0, first, first + more, union.top + 5})
    state, outputs = FRAGMENT.initial(), {}
    for a, b in pairwise(cuts):
        state, some = FRAGMENT.step(state, a, b, union.ordered(a, b))
        outputs |= some
    assert (state, outputs) == FRAGMENT.step(FRAGMENT.initial(), 0, cuts[-1], union.ordered(0, cuts[-1]))
