"""`make bench NAME=lost-input`: who publishes what when, how it is judged, one small run."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from benchmarks.experiments import lost_input
from benchmarks.experiments.lost_input import Healing, LostCase, Partials, by_phase, healing, partials, unheard
from benchmarks.measure.windows import (
    Finals,
    corrected_delays,
    finals,
    live_delays,
    stable_rows,
    tentative_windows,
    totals,
    truth,
    windows,
)
from borealis_py.bench import events
from borealis_py.bench.console import bars_on
from borealis_py.bench.events import BUCKET_US, WINDOW_US, Totals
from borealis_py.bench.figures import Percentiles
from borealis_py.bench.stage import Stage
from borealis_py.client.stimes import PublishCounts
from borealis_py.client.subscriber import LiveChange, Row
from borealis_py.demo.watch import ObservedReconciliation, Story
from borealis_py.kafka.broker import LocalBroker
from sunion.model import FOREVER
from tests.harness.event_feeders import SOURCES, FeedPlan, feed
from tests.harness.readers import Heard

T0 = 1_800_000_000_000_000
SECOND = 1_000_000
MS = 1_000
PLAN = FeedPlan(rate=40, t0_us=T0, seconds=6, silent=2, silent_from_us=T0 + 2_900 * MS, silent_until_us=T0 + 4_900 * MS)


# What is published


def test_no_two_rows_have_one_time_and_each_source_goes_on_evenly() -> None:
    stimes = [PLAN.stime(source, n) for n in range(PLAN.count) for source in range(SOURCES)]
    assert stimes == sorted(set(stimes))
    assert (stimes[0], stimes[-1] < T0 + 6 * SECOND) == (T0, True)


class Taker:
    """A publisher that notes what it gets, and a clock that goes on while somebody sleeps."""

    def __init__(self, paced: bool = False) -> None:
        self.paced = paced
        self.counts = PublishCounts()
        self.calls: list[tuple[int, list[int]]] = []
        self.rows: list[dict[str, object]] = []
        self.holds: list[int] = []
        self.ended = False
        self.now_us = T0 - SECOND

    def send_many(self, rows: list[dict[str, object]], stimes: list[int]) -> None:
        self.calls.append((self.now_us, stimes))
        self.rows += rows
        self.counts.sent += len(rows)
        assert not self.paced or self.holds[-1] == stimes[0]

    def hold(self, stime: int) -> None:
        self.holds.append(stime)

    def flush(self) -> None:
        self.now_us += 7

    def close(self, end: bool) -> None:
        self.ended = end

    def sleep(self, seconds: float) -> None:
        self.now_us += max(1, round(min(seconds, 0.3) * 1e6))  # one may be woken before the time


def fed_by(plan: FeedPlan, source: int, paced: bool = False) -> tuple[Taker, int, int]:
    taker = Taker(paced)
    fed = feed(taker, plan, source, lambda: taker.now_us, taker.sleep)  # type: ignore[arg-type]
    assert (fed.sent, fed.rejected, taker.ended) == (plan.count, 0, True)
    assert [row["at"] for row in taker.rows] == [plan.stime(source, n) for n in range(plan.count)]
    return taker, fed.healed_us, fed.delivered_us


@pytest.mark.parametrize("paced", [False, True])
def test_a_source_that_is_not_silent_sends_each_row_when_it_is_due(paced: bool) -> None:
    taker, healed_us, _ = fed_by(PLAN, 1, paced)
    assert healed_us == 0
    assert all(0 <= now - stime <= 2 * MS for now, stimes in taker.calls for stime in stimes)


def test_rows_of_two_buckets_never_leave_together_and_the_boundary_is_held_for_the_next_row_before_a_nap() -> None:
    """Else a bucket's last rows would leave without its boundary, which would follow a nap later."""
    plan = FeedPlan(rate=3_000, t0_us=T0, seconds=1)
    taker, _, _ = fed_by(plan, 1, paced=True)
    assert all(len({stime // events.BUCKET_US for stime in stimes}) == 1 for _, stimes in taker.calls)
    assert max(len(stimes) for _, stimes in taker.calls) > 1
    sent = [stimes for _, stimes in taker.calls]
    assert {stimes[0] for stimes in sent} <= set(taker.holds)
    assert taker.holds == sorted(taker.holds)


def test_the_silent_source_sends_what_it_kept_back_at_once_and_nothing_of_it_before() -> None:
    taker, healed_us, delivered_us = fed_by(PLAN, 2)
    late = [(now, stimes) for now, stimes in taker.calls if now - stimes[0] > 2 * MS]
    assert [now for now, _ in late] == [healed_us] == [PLAN.silent_until_us]
    assert delivered_us == healed_us + 7
    kept = [PLAN.stime(2, n) for n in range(PLAN.count)]
    assert late[0][1] == [us for us in kept if PLAN.silent_from_us <= us < PLAN.silent_until_us]
    assert len(late[0][1]) == 80


def test_a_publisher_that_was_away_when_the_silence_began_keeps_its_rows_back_all_the_same() -> None:
    first = next(n for n in range(PLAN.count) if PLAN.stime(2, n) >= PLAN.silent_from_us)
    assert PLAN.due_before(2, 0, PLAN.silent_from_us + SECOND) == first
    assert PLAN.kept_back(2, first - 1) == first - 1
    assert PLAN.kept_back(2, first) == first + 80
    assert PLAN.due_before(1, 0, T0 + 9 * SECOND) == PLAN.count


def test_the_truth_is_what_the_rows_that_are_sent_add_up_to() -> None:
    expected: Totals = {}
    for source in range(SOURCES):
        for row in PLAN.rows(source, 0, PLAN.count)[0]:
            at, customer, amount = row["at"], row["customer"], row["amount"]
            assert isinstance(at, int)
            assert isinstance(amount, float)
            key = at - at % WINDOW_US, str(customer)
            expected[key] = expected.get(key, (0, 0.0))[0] + 1, expected.get(key, (0, 0.0))[1] + amount
    assert truth(PLAN) == expected
    assert sum(n for n, _ in truth(PLAN).values()) == SOURCES * 40 * 6


def test_windows_belong_to_the_phase_in_which_they_end() -> None:
    starts = {phase: [(s - T0) // SECOND for s in each] for phase, each in windows(PLAN, SECOND).items()}
    assert starts == {"before": [1], "during": [2, 3], "after": [4]}  # the first and the last are in none
    assert windows(FeedPlan(rate=3, t0_us=T0, seconds=4), 0)["after"] == [T0, T0 + SECOND, T0 + 2 * SECOND]


# What is heard

TRUE = truth(PLAN)


def rows_of(window: int, missing: int = -1) -> list[dict[str, object]]:
    """Results of the how many-th window, without what `missing` sent in it."""
    found: dict[str, tuple[int, float]] = {}
    for source in set(range(SOURCES)) - {missing}:
        for row in PLAN.rows(source, 40 * window, 40 * window + 40)[0]:
            n, total = found.get(str(row["customer"]), (0, 0.0))
            found[str(row["customer"])] = n + 1, total + float(str(row["amount"]))
    start = T0 + window * SECOND
    return [
        {"window_start": start, "window_end": start + SECOND, "customer": c, "n": n, "total": t}
        for c, (n, t) in sorted(found.items())
    ]


def last_bucket(window: int) -> int:
    return (T0 + (window + 1) * SECOND) // BUCKET_US - 1


def word(
    window: int, delay_ms: int, kind: str = "STABLE", missing: int = -1, missing_sources: tuple[str, ...] = ()
) -> tuple[int, LiveChange]:
    """A word about the how many-th window, so long after its end."""
    bucket = last_bucket(window)
    at_us = T0 + (window + 1) * SECOND + delay_ms * MS
    completeness = 1 - len(missing_sources) / SOURCES
    return at_us, LiveChange(kind, bucket, bucket + 1, rows_of(window, missing), completeness, missing_sources)


def tentative(window: int, delay_ms: int, *missing_sources: str) -> tuple[int, LiveChange]:
    return word(window, delay_ms, "TENTATIVE", 2, missing_sources)


SILENCE: Heard = [
    word(0, 10),
    word(1, 10),
    tentative(2, 400, "s2"),
    tentative(3, 150, "s2"),
    (PLAN.silent_until_us, LiveChange("UNDO", last_bucket(2), last_bucket(2) + 1, [])),
    word(2, 2_200),
    word(4, 30, "TENTATIVE", -1),
    word(3, 1_300),
    word(4, 350),
    (T0 + 7 * SECOND, LiveChange("BOUNDARY", last_bucket(4) + 1, FOREVER // BUCKET_US, rows_of(5))),
]
GOT = [
    (at_us + 20 * MS, Row("1:1", 0, row)) for at_us, change in SILENCE if change.kind == "STABLE" for row in change.rows
]


def test_the_first_word_about_a_window_is_what_a_reader_waits_for() -> None:
    found = live_delays(SILENCE)
    assert [found[T0 + w * SECOND] // MS for w in range(5)] == [10, 10, 400, 150, 30]
    assert found[T0 + 5 * SECOND] == SECOND  # a stretch without rows speaks for the windows in it
    assert tentative_windows(SILENCE) == {T0 + w * SECOND for w in (2, 3, 4)}


def test_delays_fall_to_phases_and_what_nobody_heard_of_is_counted() -> None:
    phases = windows(PLAN, 0)
    live, corrected = by_phase(live_delays(SILENCE), phases), by_phase(corrected_delays(GOT), phases)
    assert live["before"] == Percentiles(2, 10.0, 10.0, 10.0)
    assert live["during"] == Percentiles(2, 150.0, 400.0, 400.0)
    assert corrected["during"] == Percentiles(2, 1_320.0, 2_220.0, 2_220.0)
    assert unheard(live_delays(SILENCE), phases) == 0
    assert unheard(live_delays(SILENCE[:3]), phases) == 2
    assert by_phase({}, phases)["after"] is None


def test_a_row_of_a_window_that_comes_later_than_the_others_is_when_the_window_is_there() -> None:
    first, *others = GOT
    again = [*others, (first[0] + 5 * SECOND, first[1])]
    assert corrected_delays(again)[T0] == corrected_delays(GOT)[T0] + 5 * SECOND


def test_partial_results_are_known_by_what_is_in_them_and_not_by_their_label() -> None:
    assert partials(SILENCE, TRUE, PLAN) == Partials(
        windows=2, words=2, labelled=2, tentative=2, whole=1, records=8, finals=5
    )


@pytest.mark.parametrize(
    "unlabelled",
    [
        word(2, 400, "STABLE", 2),
        word(2, 400, "STABLE", 2, ("s2",)),
        tentative(2, 400),
        tentative(2, 400, "s1"),
        (T0, replace(tentative(2, 400, "s2")[1], completeness=1.0)),
    ],
    ids=["called stable", "called stable with a name", "names nobody", "names another", "called complete"],
)
def test_a_partial_result_without_its_label_is_found(unlabelled: tuple[int, LiveChange]) -> None:
    found = partials([*SILENCE[:2], unlabelled, *SILENCE[3:]], TRUE, PLAN)
    assert (found.words, found.labelled) == (2, 1)


def test_outside_the_silence_any_source_may_be_the_one_that_is_named() -> None:
    nobody = replace(word(1, 500, "TENTATIVE", 0)[1], completeness=0.5)
    found = partials([word(0, 500, "TENTATIVE", 0, ("s0",)), (T0, nobody)], TRUE, PLAN)
    assert (found.words, found.labelled) == (2, 1)


def test_a_tentative_record_that_is_said_again_counts_again() -> None:
    found = partials([*SILENCE, tentative(3, 200, "s2")], TRUE, PLAN)
    assert (found.windows, found.words, found.tentative, found.records, found.finals) == (2, 3, 3, 9, 5)


def test_final_results_are_right_wrong_missing_or_repeated() -> None:
    rows = [row for w in range(6) for row in rows_of(w)]
    assert totals(rows) == TRUE
    assert list(stable_rows(SILENCE))[: len(rows_of(0))] == rows_of(0)
    good = finals(rows, TRUE)
    assert good == Finals(right=len(TRUE), wrong=0, missing=0, repeated=0, counted=720)
    changed = [{**rows[0], "n": 77}, *rows[2:], rows[-1]]
    found = finals(changed, TRUE)
    assert (found.right, found.wrong, found.missing, found.repeated) == (len(TRUE) - 2, 1, 1, 1)
    assert found.bad == 3
    assert finals([{**rows[0], "customer": "nobody"}], TRUE).wrong == 1


@given(st.permutations(range(60)), st.integers(0, 60))
def test_finals_do_not_depend_on_the_order_in_which_rows_lie(order: list[int], kept: int) -> None:
    rows = rows_of(0)[:60]
    true = totals(rows)
    found = finals([rows[i] for i in order if i < kept and i < len(rows)], true)
    assert (found.right, found.missing) == (min(kept, len(rows)), len(rows) - min(kept, len(rows)))


# How long corrections take


def story(*states: tuple[int, str]) -> Story:
    told = Story(states={("totals", 0): list(states), ("totals", 1): [(T0, "STABLE"), *states]})
    told.reconciliations.append(ObservedReconciliation("totals", 0, T0))
    return told


def test_corrections_are_done_when_nothing_is_tentative_any_more() -> None:
    healed = PLAN.silent_until_us
    states = (T0 + 3 * SECOND, "UPSTREAM_FAILURE"), (healed + 90 * MS, "STABILIZATION"), (healed + 700 * MS, "STABLE")
    found = healing(SILENCE, GOT, story(*states), healed)
    # window 4 was tentative when windows 2 and 3 were corrected; it ends 100 ms past the silence
    assert found == Healing(live=0.45, corrected=0.47, replicas=0.7, uncorrected=0, engines={"inline": 1})


def test_what_goes_wrong_later_is_no_part_of_healing() -> None:
    later = (T0 + 20 * SECOND, replace(tentative(5, 0, "s0")[1], bucket=last_bucket(19), end=last_bucket(19) + 1))
    row = Row("1:1", 0, {"window_start": T0 + 19 * SECOND})
    found = healing([*SILENCE, later], [*GOT, (T0 + 25 * SECOND, row)], story(), PLAN.silent_until_us)
    assert (found.live, found.corrected, found.uncorrected) == (0.45, 0.47, 1)


def test_what_was_corrected_before_is_no_part_of_healing_either() -> None:
    found = healing([tentative(0, 5, "s0"), *SILENCE], GOT, story((T0, "STABLE")), PLAN.silent_until_us)
    assert (found.live, found.corrected) == (0.45, 0.47)
    assert found.replicas is None  # nobody said STABLE afterwards


def test_corrections_that_do_not_come_have_no_time() -> None:
    found = healing(SILENCE[:5], GOT[:2], Story(), PLAN.silent_until_us)
    assert (found.live, found.corrected, found.uncorrected) == (None, None, 2)


def test_five_seconds_of_silence_on_a_real_broker(broker: LocalBroker, tmp_path: Path) -> None:
    stage = Stage(tmp_path, broker)
    case = LostCase(threshold_s=1.0, silence_s=5, rate=300, before_s=2, after_s=3, startup_s=2)
    with stage.endings, bars_on(Console(file=io.StringIO())) as bars:
        found = lost_input.measure(stage, case, "process", bars)
    assert found.published == 12 * 300
    assert (found.dropped, found.refused, found.unheard) == (0, 0, 0)
    assert (found.live_finals.bad, found.corrected_finals.bad) == (0, 0)
    assert found.partials.windows >= 2  # the source is silent for five windows, D is 0.75 s
    assert found.partials.labelled == found.partials.words >= 2
    assert found.healing.uncorrected == 0
    assert found.healing.live is not None
    assert found.healing.corrected is not None
    assert found.corrected["during"] is not None
    assert found.corrected["during"].max_ms > 1_000  # it waits for what is kept back
    assert lost_input.outcome([found], "process").rows
