"""The publisher's thread, and inputs through it. Real time; every wait is for a condition."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from borealis_py.client.ingest import BadLine
from borealis_py.client.publisher import Publisher, wall_us
from borealis_py.client.pump import PumpProgress, ReplayPace, publish_rows
from borealis_py.client.stimes import Boundaries
from borealis_py.client.target import PublisherError, PublishFailed, StreamEnded, StreamFenced, StreamTaken
from borealis_py.log.base import LogUnreachable
from tests.client.folded import AHEAD_MAX_US, SCHEMA, PublishedSource, W, inputs, row
from tests.harness.waiting import PATIENCE_S
from tests.support.instant_log import InstantBroker, InstantLog


def until(condition: Callable[[], object]) -> None:
    """Wait for something that another thread does."""
    pause, waited = threading.Event(), 0.0
    while not condition():
        assert waited < PATIENCE_S, "the condition did not come to hold"
        pause.wait(0.005)
        waited += 0.005


class ThreadedWorld(PublishedSource):
    """A world whose publishers run in threads."""

    def __init__(self, **target: Any) -> None:
        super().__init__(**target)
        self._broker = InstantBroker(self.memory)

    def log(self, client: str) -> InstantLog:
        return self._broker.log(client)


@pytest.fixture
def world() -> ThreadedWorld:
    return ThreadedWorld(origin=wall_us() // W)


def publisher(world: ThreadedWorld, name: str = "p", **options: Any) -> Publisher:
    target = world.target
    return Publisher(
        world.log(name),
        target.app,
        target.app_uid,
        target.source,
        SCHEMA,
        W,
        target.origin,
        ahead_max_us=AHEAD_MAX_US,
        **options,
    )


def test_rows_sent_from_several_threads_are_all_there_after_close(world: ThreadedWorld) -> None:
    live = publisher(world).start()

    def send(part: int) -> None:
        for n in range(part, 300, 3):
            live.send(row(n))

    threads = [threading.Thread(target=send, args=(part,)) for part in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    live.close(end=True)
    folded = world.folded()
    assert sorted(r["n"] for _, _, _, r in folded.rows) == list(range(300))
    assert folded.state.ended
    assert live.counts.sent == 300


def test_boundaries_go_on_by_themselves_while_nobody_sends(world: ThreadedWorld) -> None:
    with publisher(world) as live:
        live.send(row(0))
        until(lambda: len(world.folded().boundaries) >= 4)
    assert len(world.folded().rows) == 1
    assert not world.folded().state.ended


def test_flush_returns_when_the_rows_lie_in_the_log(world: ThreadedWorld) -> None:
    with publisher(world, boundaries=Boundaries.DATA) as history:
        history.send(row(0), wall_us())
        assert world.folded().rows == []
        history.flush()
        assert len(world.folded().rows) == 1


class Lagging:
    """An appender that tells of a delivery only when three more records are on their way: acks slower than buckets."""

    def __init__(self, inner: Any) -> None:
        self._inner, self.lags = inner, True
        self._told: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def deliveries(self) -> list[Any]:
        self._told += self._inner.deliveries()
        count = max(0, len(self._told) - 3) if self.lags else len(self._told)
        out, self._told = self._told[:count], self._told[count:]
        return out


def test_flush_does_not_wait_for_the_boundaries_that_follow(
    world: ThreadedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = world.log("p")
    lagging: list[Lagging] = []
    plain = log.appender
    monkeypatch.setattr(log, "appender", lambda wake: lagging.append(Lagging(plain(wake))) or lagging[-1])
    target = world.target
    live = Publisher(
        log, target.app, target.app_uid, target.source, SCHEMA, W, target.origin, ahead_max_us=AHEAD_MAX_US
    ).start()
    live.send(row(0))
    live.flush(PATIENCE_S)
    assert len(world.folded().rows) == 1
    lagging[0].lags = False
    live.close()


def test_a_publisher_that_was_replaced_raises_at_the_next_send_and_at_close(world: ThreadedWorld) -> None:
    first = publisher(world).start()
    with publisher(world, "q", take_over=True):

        def refused() -> bool:
            try:
                first.send(row(0))
            except StreamFenced:
                return True
            return False

        until(refused)
        with pytest.raises(StreamFenced, match="'ewr'"):
            first.close(end=True)
    assert not world.folded().state.ended


def test_a_second_publisher_is_refused_at_start_and_leaves_no_thread(world: ThreadedWorld) -> None:
    with publisher(world) as first:
        second = publisher(world, "q")
        with pytest.raises(StreamTaken, match="--take-over"):
            second.start()
        first.send(row(0))
        assert not [t for t in threading.enumerate() if t.name.startswith("publisher-")][1:]


def test_an_ended_source_is_refused_at_start(world: ThreadedWorld) -> None:
    publisher(world).start().close(end=True)
    with pytest.raises(StreamEnded, match="--reset"):
        publisher(world, "q").start()


def test_a_publisher_that_is_closed_or_was_never_started_says_so(world: ThreadedWorld) -> None:
    live = publisher(world)
    with pytest.raises(PublisherError, match="not started"):
        live.send(row(0))
    live.start()
    live.close()
    live.close()
    with pytest.raises(PublisherError, match="closed"):
        live.send(row(0))


def test_an_unreachable_log_is_told(world: ThreadedWorld) -> None:
    world.log("p").cut()
    with pytest.raises(LogUnreachable, match=world.target.feed.topic):
        publisher(world).start()


def test_close_tells_what_it_could_not_deliver(world: ThreadedWorld) -> None:
    live = publisher(world).start()
    world.log("p").cut()
    live.send(row(0))
    with pytest.raises(PublishFailed, match="deliver its last rows"):
        live.close(timeout_s=0.05)


def test_an_error_in_a_with_block_is_not_hidden_by_closing(world: ThreadedWorld) -> None:
    with pytest.raises(ZeroDivisionError), publisher(world) as live:
        live.send({"n": 1 // 0})
    assert not world.folded().state.ended


def test_an_input_is_published_to_its_end_with_a_report_of_progress(world: ThreadedWorld) -> None:
    items = [*inputs([None] * 20), BadLine(20, 21, "malformed: no JSON", b"}{")]
    reports: list[PumpProgress] = []
    with publisher(world) as live:
        done = publish_rows(live, items, on_progress=reports.append)
        assert done == reports[-1] == PumpProgress(21, 20, 1, 0, ("line 21: malformed: no JSON",))
        assert len(world.folded().rows) == 20
    assert world.dead_letters() == [("line 21: malformed: no JSON", b"}{")]
    with publisher(world, "q") as again:
        assert publish_rows(again, items) == PumpProgress(read=21, sent=0, rejected=0, skipped=21)
    assert len(world.dead_letters()) == 1


def test_a_paced_input_gets_its_exact_stimes_and_rows_without_a_time_do_not_hold_it_up(world: ThreadedWorld) -> None:
    start = wall_us() + 50_000
    at = [0, 40_000_000, None, 90_000_000, 400_000_000]
    pace = ReplayPace(base_us=0, start_us=start, speed=1000)
    with publisher(world, boundaries=Boundaries.PACED) as live:
        publish_rows(live, inputs(at), pace)
    stimes = [stime for _, _, stime, _ in world.folded().rows]
    assert stimes == [start, start + 40_000, start + 90_000, start + 400_000]
    assert wall_us() >= stimes[-1]
    assert [why for why, _ in world.dead_letters()] == ["line 3: stime missing"]


def test_history_runs_as_fast_as_possible(world: ThreadedWorld) -> None:
    at = [wall_us() - 1_000_000 + i * 10_000 for i in range(100)]
    world.target = type(world.target)("flights", "a1", "ewr", W, at[0] // W, ahead_max_us=AHEAD_MAX_US)
    with publisher(world, boundaries=Boundaries.DATA) as history:
        publish_rows(history, inputs(at))
    folded = world.folded()
    assert [stime for _, _, stime, _ in folded.rows] == at
    assert folded.boundaries == sorted({t // W * W for t in at} - {at[0] // W * W})


def test_publishing_stops_when_asked_to(world: ThreadedWorld) -> None:
    stop = threading.Event()
    far = ReplayPace(base_us=0, start_us=wall_us() + 3_000_000_000, speed=1)
    with publisher(world, boundaries=Boundaries.PACED) as live:
        thread = threading.Thread(target=publish_rows, args=(live, inputs([0]), far), kwargs={"stop": stop})
        thread.start()
        stop.set()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
    assert world.folded().rows == []


def test_a_pace_needs_a_publisher_whose_boundaries_wait_for_rows(world: ThreadedWorld) -> None:
    with publisher(world) as live, pytest.raises(ValueError, match="belong together"):
        publish_rows(live, inputs([0]), ReplayPace(0, 0, 1))


def test_the_speed_of_a_replay_is_a_positive_whole_number() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        ReplayPace(0, 0, 0)


def test_many_rows_in_one_go_come_as_they_would_one_by_one(world: ThreadedWorld) -> None:
    with publisher(world, lateness_us=60_000_000) as live:
        assert live.send_many(row(n) for n in range(2_500)) == 2_500
        assert live.send_many((row(n) for n in range(2_500)), first_seq=0) == 0, "all were published already"
        assert live.send_many([row(2_500), {"bad": 1}]) == 1
        now = wall_us()
        assert live.send_many([row(2_501), row(2_502)], [now, None]) == 2
        assert live.send_many([row(n) for n in range(2_503, 5_000)], [now + n for n in range(2_497)]) == 2_497
        with pytest.raises(ValueError, match="more stimes"):
            live.send_many([row(0)], [now, now])
        with pytest.raises(ValueError, match="fewer stimes"):
            live.send_many([row(0), row(0)], [now])
    folded = world.folded()
    assert [r["n"] for _, _, _, r in folded.rows if r["n"] < 2_501] == list(range(2_501))
    assert sorted(r["n"] for _, _, _, r in folded.rows)[2_500:] == list(range(2_500, 5_000))
    assert [stime for *_, stime, r in folded.rows if r["n"] >= 2_503] == [now + n for n in range(2_497)]
    assert [seq for seq, _, _ in folded.letters] == [2_501]


def test_a_row_by_the_data_leaves_by_itself_though_nothing_follows(world: ThreadedWorld) -> None:
    with publisher(world, boundaries=Boundaries.DATA) as live:
        live.send(row(0), wall_us())
        until(lambda: len(world.folded().rows) == 1)
