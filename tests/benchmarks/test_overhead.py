"""`make bench NAME=overhead`: what a row waits for, what a checkpoint holds up, what is refused, a small run."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from benchmarks.experiments import overhead
from benchmarks.experiments.overhead import Came, Passed, Setting
from benchmarks.load import evenly
from benchmarks.load.evenly import EVERY_US, Sending
from benchmarks.measure.loop import closing, stalls
from benchmarks.measure.loop.closing import Closed
from benchmarks.measure.loop.stalls import Durable, Held, Turned, Watched
from borealis_py.bench.console import bars_on
from borealis_py.bench.events import START_US
from borealis_py.bench.figures import BenchError
from borealis_py.bench.stage import Stage
from borealis_py.client.subscriber import LiveChange, Row
from borealis_py.kafka.broker import LocalBroker

T0 = 1_800_000_000_000_000
MS = 1_000
SETTING = Setting(width_ms=10, said_ms=100, seconds=1, startup_s=0.5)
SENDING = Sending(from_us=T0, until_us=T0 + 1_500 * MS)


@dataclass
class FakePublisher:
    """Notes what it is told."""

    clock: list[int]
    told: list[tuple[str, int]] = field(default_factory=list)

    def hold(self, stime: int) -> None:
        self.told.append(("hold", stime))

    def send(self, row: Mapping[str, object], stime: int | None) -> None:
        assert stime in (None, row["at"])
        self.told.append(("row", int(str(row["at"]))))

    def close(self, end: bool) -> None:
        self.told.append(("end", self.clock[0]))


def fed(said_us: int) -> tuple[list[FakePublisher], int]:
    clock = [T0 - 500]
    to = [FakePublisher(clock) for _ in range(3)]

    def sleep(seconds: float) -> None:
        clock[0] += round(seconds * 1e6)

    sending = Sending(from_us=T0, until_us=T0 + 100 * MS)
    return to, evenly.feed(to, sending, said_us, lambda: clock[0], sleep)  # type: ignore[arg-type]


def test_rows_are_sent_evenly_and_no_two_at_the_same_time() -> None:
    to, sent = fed(0)
    times = sorted(at for each in to for what, at in each.told if what == "row")
    assert sent == len(times) == len(set(times)) == 3 * 11
    assert (times[0], times[3]) == (T0, T0 + EVERY_US)
    assert all(what != "hold" for each in to for what, _ in each.told)
    assert [each.told[-1][0] for each in to] == ["end"] * 3


def test_boundaries_are_let_go_at_their_times_and_at_no_other() -> None:
    to, _ = fed(20 * MS)
    for each in to:
        assert [at - T0 for what, at in each.told if what == "hold"] == [n * 20 * MS for n in range(5)]
        promised = 0
        for what, at in each.told:
            assert what != "row" or at >= promised
            promised = at if what == "hold" else promised


def test_a_row_waits_for_the_boundary_after_its_buckets_end() -> None:
    bucket = T0 // (10 * MS)
    assert SETTING.said_at(bucket) == SETTING.said_at(bucket + 9) == T0 + 100 * MS
    assert SETTING.said_at(bucket + 10) == T0 + 200 * MS
    assert replace(SETTING, said_ms=10).said_at(bucket + 3) == T0 + 40 * MS


@dataclass
class Hearing:
    """What was heard."""

    heard: list[tuple[int, LiveChange]] = field(default_factory=list)
    got: list[tuple[int, Row]] = field(default_factory=list)


def came(*ats: int, kind: str = "STABLE") -> Came:
    """Rows that came 7 ms after their boundaries, and corrected ones 9 ms."""
    found = Hearing()
    for at in ats:
        bucket = at // (10 * MS)
        end = SETTING.said_at(bucket)
        found.heard.append((end + 7 * MS, LiveChange(kind, bucket, bucket + 1, [{"at": at}])))
        found.got.append((end + 9 * MS, Row("1:1", 0, {"at": at})))
    return overhead.arrived(found, SETTING)  # type: ignore[arg-type]


ATS = (T0 + 3 * MS, T0 + 611 * MS, T0 + 705 * MS)


def test_delays_are_those_of_rows_after_the_start() -> None:
    plain = [(T0, 1), (T0 + 600 * MS, 2 * MS)]
    found = overhead.judge(SETTING, SENDING, came(*ATS), plain, 3, 12.0)
    assert found.live_us == [96 * MS, 102 * MS]
    assert found.after_us == [7 * MS] * 2
    assert found.corrected_us == [98 * MS, 104 * MS]
    assert (found.plain_us, found.tentative, found.cpu_percent) == ([2 * MS], 0, 12.0)
    assert overhead.judge(SETTING, SENDING, came(*ATS, kind="TENTATIVE"), plain, 3, 12.0).tentative == 2


def test_rows_that_are_missing_or_repeated_are_no_figures() -> None:
    with pytest.raises(BenchError, match="of 4 rows 3 are in the corrected stream, 0 of them more than once, and 3 in"):
        overhead.judge(SETTING, SENDING, came(*ATS), [], 4, 1.0)
    twice = came(*ATS)
    twice.times[ATS[0]] += 1
    with pytest.raises(BenchError, match="1 of them more than once"):
        overhead.judge(SETTING, SENDING, twice, [], 3, 1.0)
    unheard = came(*ATS)
    del unheard.live[ATS[1]]
    with pytest.raises(BenchError, match="and 2 in the live one"):
        overhead.judge(SETTING, SENDING, unheard, [], 3, 1.0)
    with pytest.raises(BenchError, match="nothing to compare with"):
        overhead.judge(SETTING, SENDING, came(*ATS), [(T0, 1)], 3, 1.0)


WATCHED = Watched(
    turns=[Turned(0.0, 0.002), Turned(1.0, 1.004), Turned(1.01, 1.03), Turned(2.0, 2.006), Turned(3.0, 3.002)],
    saved=[Durable(1.003, 1.005, 1.02, 10), Durable(2.005, 2.006, 2.009, 30)],
)


def test_turns_beside_a_checkpoint_are_told_from_others() -> None:
    found = stalls.judge(5, WATCHED)
    assert (found.count, found.bytes) == (2, 20)
    assert found.durable_ms == pytest.approx(10.5)
    assert found.written_ms == pytest.approx(9)
    assert (found.beside_ms, found.worst_ms) == (pytest.approx(13), pytest.approx(20))
    assert (found.turn_ms, found.turn_p99_ms) == (pytest.approx(2), pytest.approx(2))


@pytest.mark.parametrize("watched", [Watched(WATCHED.turns, []), Watched(WATCHED.turns[1:2], WATCHED.saved[:1])])
def test_no_checkpoint_or_nothing_else_is_no_figure(watched: Watched) -> None:
    with pytest.raises(BenchError, match="too few to judge"):
        stalls.judge(5, watched)


def passed(width_ms: int, said_ms: int, after_ms: int, tentative: int = 0) -> Passed:
    return Passed(
        setting=Setting(width_ms=width_ms, said_ms=said_ms, seconds=4),
        live_us=[(said_ms // 2 + after_ms) * MS] * 5,
        after_us=[after_ms * MS] * 5,
        corrected_us=[3 * after_ms * MS] * 5,
        plain_us=[2 * MS] * 5,
        tentative=tentative,
        cpu_percent=4.0,
    )


HELD = Held(
    keys=1_000,
    count=4,
    bytes=2e6,
    durable_ms=9.0,
    written_ms=5.0,
    beside_ms=50.0,
    worst_ms=60.0,
    turn_ms=1.0,
    turn_p99_ms=2.0,
)
CLOSED = Closed(keys=1_000, turn_ms=600.0, silent_ms=400.0, beat_ms=410.0, handed_ms=900.0, corrected_ms=4_000.0)


def test_what_is_told() -> None:
    runs = [passed(10, 10, 8), passed(10, 100, 8), passed(100, 100, 10)]
    found = overhead.outcome(runs, [HELD], [CLOSED], "process")
    assert found.rows[1] == ["10", "100", "5", "58.0", "58.0", "58.0", "58.0", "8.0", "8.0", "2.0", "2.0", "4"]
    assert all(len(row) == len(found.columns) for row in found.rows)
    assert "(p50, by bucket): 6.0 ms at 10 ms, 8.0 ms at 100 ms" in found.worse
    assert "did not keep up" not in found.worse
    assert "1,000 keys: 4 of 2.0 MB, durable in 9 ms" in found.setup
    past = [value for name, value in found.ratios.items() if "past the boundary" in name]
    assert past == [0.25, 0.25, 0.2]
    assert found.ratios["1,000 keys: 50 ms / that and the longest turn beside a checkpoint"] == 0.5
    assert msgspec.json.decode(msgspec.json.encode(found.data))["runs"][0]["live"]["mean_ms"] == 13.0
    assert [len(panel.curves) for panel in found.panels] == [4, 4, 3, 1, 5]
    late = overhead.outcome([passed(10, 10, 8, tentative=3)], [HELD], [CLOSED], "process")
    assert "3 rows came tentative first" in late.worse


def test_the_end_of_a_window_is_told_and_judged() -> None:
    found = overhead.outcome([passed(10, 10, 8)], [HELD], [CLOSED], "process")
    assert (
        "1,000 keys: longest turn 600 ms, longest time without the end of a turn or a heartbeat 400 ms" in found.setup
    )
    assert found.ratios["1,000 keys: 400 ms / that and the longest silence of a window's end"] == 0.5
    assert "At a window's end: a window of 1,000 keys is committed after" in found.worse
    assert "goal" not in found.worse
    missed = replace(CLOSED, silent_ms=401.0, handed_ms=3_001.0)
    worse = overhead.outcome([passed(10, 10, 8)], [HELD], [missed], "process").worse
    assert "with 1,000 keys live results were handed over later than X" in worse
    assert "with 1,000 keys a replica was silent for 401 ms (goal: 400)" in worse


def test_a_silence_lasts_from_any_sign_of_life_to_the_next() -> None:
    turns = [
        Turned(0, 0.1, 0.05, 1_000_000, 7, 7),
        Turned(0.2, 0.8, 0.2, 1_700_000, 9, 7),
        Turned(0.2, 0.9, 0.8, 1_900_000, 9, 9),  # due while the turn before was going on
    ]
    found = closing.judge(5, 8, 900.0, Watched(turns, []), [1_300, 1_950, 700])
    assert found == Closed(
        keys=5, turn_ms=pytest.approx(600), silent_ms=400, beat_ms=650, handed_ms=800, corrected_ms=1_000
    )


@pytest.mark.parametrize("keys", [0, 1, 1_000, 1_000_000])
def test_a_window_that_ends_is_filled_with_each_key_once(keys: int) -> None:
    shares = closing.filled(keys)
    assert [key for share in shares for key in share] == list(range(keys))
    assert len(shares) == closing.AHEAD < closing.WINDOW


def test_the_end_of_a_window_on_a_real_broker(broker: LocalBroker, tmp_path: Path) -> None:
    stage = Stage(tmp_path, broker)
    with stage.endings, bars_on(Console(file=io.StringIO())) as bars:
        found = closing.measure(stage, 20_000, bars)
    assert found.keys == 20_000
    assert 0 < found.silent_ms < closing.SECONDS * 1_000
    assert 0 < found.handed_ms <= found.corrected_ms
    assert 0 < found.beat_ms < closing.SECONDS * 1_000


def test_every_size_measures_what_is_compared_and_the_usual_one_takes_eight_minutes() -> None:
    sizes = ("short", "usual", "full")
    short, usual, full = ({(s.width_ms, s.said_ms) for s in overhead.settings(size)} for size in sizes)
    assert short <= usual <= full
    assert set(overhead.KEYS["short"]) <= set(overhead.KEYS["usual"])
    assert set(overhead.CLOSING["short"]) <= set(overhead.CLOSING["usual"])
    around_s = 8  # starting a replica and publishers, END, stopping
    delays_s = sum(setting.length_s + around_s for setting in (overhead.WARM, *overhead.settings("usual")))
    held_s = len(overhead.KEYS["usual"]) * (overhead.SECONDS["usual"] + around_s)
    closing_s = len(overhead.CLOSING["usual"]) * (closing.SECONDS + around_s)
    assert delays_s + held_s + closing_s <= 480
    apps = [setting.app for setting in (overhead.WARM, *overhead.settings("full"))]
    assert len(set(apps)) == len(apps)


def test_a_second_on_a_real_broker(broker: LocalBroker, tmp_path: Path) -> None:
    stage = Stage(tmp_path, broker)
    setting = Setting(width_ms=20, said_ms=40, seconds=1, startup_s=4.0)
    with stage.endings, bars_on(Console(file=io.StringIO())) as bars:
        found = overhead.measure(stage, setting, "process", bars)
    assert len(found.live_us) > 200
    assert min(found.after_us) > 0
    assert len(found.plain_us) > 200


def test_checkpoints_on_a_real_broker(broker: LocalBroker, tmp_path: Path) -> None:
    stage = Stage(tmp_path, broker)
    with stage.endings, bars_on(Console(file=io.StringIO())) as bars:
        small, large = (stalls.measure(stage, keys, 1.5, bars) for keys in (0, 20_000))
    assert small.count >= 1
    assert large.bytes > small.bytes + 20_000 * 4
    assert large.durable_ms > 0


def test_a_state_has_each_key_once() -> None:
    with_keys = stalls.app(3).describe()
    source = stalls.Written("app", "uid")
    records = [*source.all(3), source.next([0])]
    assert (with_keys.name, len(records)) == ("overhead-keys-3", 3)
    assert b'[{"key":0,"amount":0.25},{"key":1,"amount":1.25},{"key":2,"amount":2.25}]' in (records[1].value or b"")
    assert source.bucket == START_US // 100_000 + 2
