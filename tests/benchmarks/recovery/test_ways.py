"""The paper's protocols keep what they promise; without one of their rules they lose tuples, or their order changes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.recovery.formula import recovery_ms
from benchmarks.recovery.operators import Marks, PaperTuple, QueryNetwork
from benchmarks.recovery.published import ACTIVE, AMNESIA, PASSIVE, UPSTREAM
from benchmarks.recovery.runs import CaseFigures, PaperCase, measure
from benchmarks.recovery.setting import PaperReading, PaperSetting
from benchmarks.recovery.ways import ActiveStandby, PassiveStandby, UpstreamBackup
from benchmarks.recovery.world import NotRecovered, PaperWorld, Way

RUNS = 4
FILTER, AGGREGATE, UNION = QueryNetwork("filter", 1, 1), QueryNetwork(), QueryNetwork("union", 1, 1)
SAFE = (PASSIVE, ACTIVE, UPSTREAM)


def figures(
    way: str, network: QueryNetwork = AGGREGATE, by: type[Way] | None = None, precise: bool = False
) -> CaseFigures:
    """Of a few runs. `by`: a protocol with another rule."""
    return measure(PaperCase(way=way, network=network, precise=precise), PaperReading(), RUNS, by)


# What they promise ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("network", [FILTER, AGGREGATE, UNION, QueryNetwork(operators=3)])
@pytest.mark.parametrize("way", SAFE)
@pytest.mark.parametrize("precise", [False, True])
def test_nothing_is_lost_and_with_precise_recovery_nothing_comes_twice(
    way: str, network: QueryNetwork, precise: bool
) -> None:
    found = figures(way, network, precise=precise)
    assert found.lost == 0
    assert (found.again == 0) == precise


@given(
    way=st.sampled_from(SAFE),
    interval_us=st.integers(5_000, 200_000),
    delay_us=st.integers(0, 20_000),
    detect_us=st.integers(0, 300_000),
    window=st.integers(1, 12),
    advance=st.integers(1, 12),
)
@settings(max_examples=25, deadline=None)
def test_nothing_is_lost_whatever_the_parameters(
    way: str, interval_us: int, delay_us: int, detect_us: int, window: int, advance: int
) -> None:
    setting = PaperSetting(interval_us=interval_us, delay_us=delay_us, detect_us=detect_us)
    network = QueryNetwork(window=window * advance, advance=advance)
    found = measure(PaperCase(way=way, network=network, setting=setting), PaperReading(), 2)
    assert found.lost == 0
    assert found.state_ms >= 0


def test_amnesia_loses_what_came_until_it_began_and_delays_nothing() -> None:
    found = figures(AMNESIA, FILTER)
    assert (found.overhead_percent, found.recovery_ms) == (0, 0)
    assert 285 <= found.lost <= 300, "250 ms to detect, 40 to redirect, 5 under way"


@pytest.mark.parametrize("network", [FILTER, UNION])
@pytest.mark.parametrize("way", [PASSIVE, UPSTREAM, AMNESIA])
def test_where_no_output_waits_for_a_window_the_papers_formula_holds(way: str, network: QueryNetwork) -> None:
    case = PaperCase(way=way, network=network)
    assert recovery_ms(case) <= measure(case, PaperReading(overlaps=True)).state_ms <= recovery_ms(case) + 1.5


def test_active_standby_waits_only_for_who_has_what() -> None:
    assert figures(ACTIVE, precise=True).recovery_ms == 40
    assert figures(ACTIVE).recovery_ms < 1


def test_the_queues_upstream_are_as_long_as_the_way_needs() -> None:
    logs = {way: figures(way).log_most for way in (*SAFE, AMNESIA)}
    assert logs[AMNESIA] == 0
    assert logs[ACTIVE] < logs[PASSIVE] < logs[UPSTREAM] < 300


# Without a rule -------------------------------------------------------------------------------------------------------


class LevelZeroForOne(UpstreamBackup):
    """Acknowledges at level 1 what has only been received: the state that it contributed to cannot be rebuilt."""

    def oldest(self, out: PaperTuple) -> Marks:
        return out.high


class NeverTrims(UpstreamBackup):
    def interval(self, world: PaperWorld) -> None:
        pass


class NeverCheckpoints(PassiveStandby):
    def interval(self, world: PaperWorld) -> None:
        pass


class AcknowledgesBeforeItIsSafe(PassiveStandby):
    """Nu hears what N has received instead of what N' has stored."""

    def interval(self, world: PaperWorld) -> None:
        for stream, seq in enumerate(world.primary.received):
            world.tell(world.from_primary, world.setting.id_bytes, world.upstream.trim, stream, seq + 1)


class DropsWhatNobodyHas(ActiveStandby):
    """N' lets go what it has processed itself, whether or not N has sent the same."""

    def interval_of_secondary(self, world: PaperWorld) -> None:
        world.secondary.queue.trim(world.secondary.queue.end)


class KeepsAllOutput(ActiveStandby):
    def duplicate(self, out: PaperTuple) -> Marks:
        return tuple(-1 for _ in out.high)


class AsksNobody(PassiveStandby):
    """N' takes over with what it has, and Nu never hears of it."""

    def take_over(self, world: PaperWorld) -> None:
        world.speak()


class LogsNothing(UpstreamBackup):
    logs = False


def test_an_acknowledgement_of_the_wrong_level_loses_tuples() -> None:
    assert figures(UPSTREAM, by=LevelZeroForOne).lost > 0
    assert figures(UPSTREAM).lost == 0


def test_without_trimming_upstream_backup_replays_all_that_ever_came() -> None:
    usual, without = figures(UPSTREAM), figures(UPSTREAM, by=NeverTrims)
    assert without.log_most > 1.5 * usual.log_most
    assert without.replayed > 1.5 * usual.replayed
    assert without.recovery_ms > usual.recovery_ms + 10
    assert without.overhead_percent == 0


def test_without_checkpoints_passive_standby_is_slower_than_upstream_backup() -> None:
    passive, upstream, without = figures(PASSIVE), figures(UPSTREAM), figures(PASSIVE, by=NeverCheckpoints)
    assert passive.recovery_ms < upstream.recovery_ms < without.recovery_ms


def test_acknowledged_before_it_is_safe_is_lost() -> None:
    assert figures(PASSIVE, by=AcknowledgesBeforeItIsSafe).lost > 0


def test_outputs_that_a_standby_drops_too_early_are_lost() -> None:
    assert figures(ACTIVE, FILTER, DropsWhatNobodyHas).lost > 0


def test_without_high_watermarks_active_standby_sends_everything_again() -> None:
    usual, without = figures(ACTIVE, FILTER), figures(ACTIVE, FILTER, KeepsAllOutput)
    assert without.again > 3 * usual.again
    assert without.recovery_ms > 3 * usual.recovery_ms


def test_without_logs_upstream_there_is_a_gap() -> None:
    assert figures(UPSTREAM, FILTER, LogsNothing).lost > 250


def test_if_tuples_left_with_their_window_checkpoints_would_be_smaller() -> None:
    tumbling = PaperCase(way=PASSIVE, network=QueryNetwork(advance=100))
    late, at_once = (measure(tumbling, PaperReading(leaves_late=late), RUNS) for late in (True, False))
    assert at_once.overhead_percent < late.overhead_percent - 20


def test_a_standby_that_gets_nothing_is_told() -> None:
    with pytest.raises(NotRecovered, match="passive standby: not recovered"):
        figures(PASSIVE, by=AsksNobody)
