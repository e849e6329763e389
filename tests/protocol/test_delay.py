"""When a bucket comes into being, which feeds are waited for, and from when a bucket may run live."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from borealis_py.protocol.delay import ALWAYS, Creation, FeedState, InputView, Presence, ready_at, view
from borealis_py.protocol.settings import DelayPolicy

PROCESS, DELAY, SUSPEND = DelayPolicy.PROCESS, DelayPolicy.DELAY, DelayPolicy.SUSPEND
END, WAIT, DELTA = 1_000, 700, 100


# Creation -------------------------------------------------------------------------------------------------------------


def test_a_bucket_is_created_when_it_first_shows_and_only_once() -> None:
    creation = Creation(5)
    assert (creation.top, creation.at(5)) == (4, None)
    creation.extend(7, now=100)
    creation.extend(6, now=150)
    creation.extend(8, now=200)
    for now in range(300, 400):
        creation.extend(8, now)
    assert [creation.at(b) for b in range(4, 10)] == [None, 100, 100, 100, 200, None]
    assert creation.top == 8
    assert len(creation._times) == 2, "a turn that creates none takes no memory"


def test_what_upstream_waited_is_taken_off_this_bucket_the_next_and_all_before() -> None:
    creation = Creation(0)
    creation.extend(3, now=1_000)
    creation.waited(1, now=1_000, waited_us=300, width_us=100)
    assert [creation.at(b) for b in range(4)] == [600, 600, 700, 1_000]
    creation.waited(1, now=1_000, waited_us=10, width_us=100)
    assert creation.at(1) == 600
    creation.waited(9, now=1_000, waited_us=300, width_us=100)
    assert creation.at(9) is None


def test_forgotten_buckets_are_gone_and_the_rest_stay() -> None:
    creation = Creation(0)
    creation.extend(36_000, now=1)
    creation.extend(36_001, now=2)
    creation.waited(4, now=9, waited_us=9, width_us=0)
    creation.forget(10)
    assert (creation.at(9), creation.at(10), creation.at(36_001), creation.top) == (None, 1, 2, 36_001)
    assert not creation._moved
    creation.forget(36_002)
    assert creation.top == 36_001
    creation.extend(36_002, now=3)
    assert creation.at(36_002) == 3


@given(st.lists(st.tuples(st.sampled_from(["extend", "forget", "waited"]), st.integers(0, 30)), max_size=30))
def test_creation_agrees_with_a_plain_table(steps: list[tuple[str, int]]) -> None:
    creation, table, low = Creation(0), {}, 0
    for now, (what, b) in enumerate(steps):
        if what == "extend":
            creation.extend(b, now)
            for bucket in range(max(low, max(table, default=low - 1) + 1), b + 1):
                table.setdefault(bucket, now)
        elif what == "waited":
            creation.waited(b, now=now, waited_us=5, width_us=2)
            for bucket, at in ((b, now - 7), (b + 1, now - 5)):
                if bucket in table:
                    table |= {k: min(v, at) for k, v in table.items() if k <= bucket}
        else:
            b = min(b, max(table, default=low - 1) + 1)
            creation.forget(b)
            low = max(low, b)
            table = {k: v for k, v in table.items() if k >= low}
        assert {k: creation.at(k) for k in range(-1, 33) if creation.at(k) is not None} == table


# Feeds ----------------------------------------------------------------------------------------------------------------


def test_a_feed_is_awaited_until_it_speaks_of_the_bucket() -> None:
    feed = FeedState(said=5)
    assert feed.awaited(5)
    feed.on_report(5, tentative=False, live=5)
    assert not feed.awaited(5)
    assert feed.awaited(6)


def test_a_feed_whose_last_word_is_tentative_is_not_awaited() -> None:
    feed = FeedState(said=5)
    feed.on_report(5, tentative=True, live=5)
    assert not feed.awaited(6)
    feed.on_report(3, tentative=False, live=5)  # an older bucket is not its last word
    assert not feed.awaited(6)
    feed.on_report(6, tentative=False, live=5)
    assert feed.awaited(7)


def test_a_feed_is_late_when_a_bucket_runs_without_its_word() -> None:
    feed = FeedState(said=5)
    feed.on_live_run(4)
    assert not feed.late
    feed.on_live_run(5)
    assert feed.late
    feed.on_report(5, tentative=False, live=6)  # still behind the live frontier
    assert feed.late
    feed.on_report(6, tentative=False, live=6)
    assert not feed.late


def test_only_a_feed_that_was_heard_since_it_became_late_is_forgiven() -> None:
    feed = FeedState(said=5)
    feed.on_report(4, tentative=False, live=5)  # heard, but before it became late
    feed.on_live_run(5)
    feed.forgive()
    assert feed.late
    feed.on_report(5, tentative=False, live=9)
    feed.on_live_run(8)  # late again, and still: what was heard stays heard
    feed.forgive()
    assert not feed.late


def test_an_inputs_feeds_are_summed_up() -> None:
    behind, late = FeedState(said=5), FeedState(said=5, late=True)
    assert view(Presence.MISSING, [behind, late], 5) == InputView(Presence.MISSING, awaited=True, all_late=False)
    assert view(Presence.MISSING, [late, late], 5) == InputView(Presence.MISSING, awaited=False, all_late=True)


# From when a bucket may run -------------------------------------------------------------------------------------------

TENTATIVE = InputView(Presence.TENTATIVE, False, False)
TENTATIVE_AWAITED = InputView(Presence.TENTATIVE, True, False)
TENTATIVE_LACKS = InputView(Presence.TENTATIVE, False, False, lacks=True)
MISSING = InputView(Presence.MISSING, True, False)
MISSING_LATE = InputView(Presence.MISSING, False, True)


@pytest.mark.parametrize(
    ("inputs", "process"),
    [
        ([], ALWAYS),
        ([TENTATIVE], ALWAYS),
        ([TENTATIVE_AWAITED], END + WAIT),
        ([MISSING], END + WAIT),
        ([MISSING_LATE], END + DELTA),
        ([MISSING, MISSING_LATE], END + WAIT),
        ([TENTATIVE_LACKS, MISSING_LATE], ALWAYS),
        ([TENTATIVE, MISSING_LATE], END + DELTA),
        ([TENTATIVE_LACKS, TENTATIVE, MISSING_LATE], ALWAYS),
        ([TENTATIVE_LACKS, MISSING_LATE, MISSING], END + WAIT),
        ([TENTATIVE_AWAITED, MISSING_LATE], END + WAIT),
        ([TENTATIVE, MISSING], END + WAIT),
        ([TENTATIVE, MISSING, MISSING_LATE], END + WAIT),
        ([MISSING_LATE, MISSING_LATE], END + DELTA),
    ],
)
def test_a_bucket_may_run_from(inputs: list[InputView], process: int) -> None:
    assert ready_at(END, inputs, PROCESS, wait_us=WAIT, delta_us=DELTA) == process
    assert ready_at(END, inputs, DELAY, wait_us=WAIT, delta_us=DELTA) == END + WAIT
    assert ready_at(END, inputs, SUSPEND, wait_us=WAIT, delta_us=DELTA) is None
