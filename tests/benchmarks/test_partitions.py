"""`make bench NAME=partitions`: what is told of two partitions beside two unrelated apps."""

from __future__ import annotations

from benchmarks.experiments import partitions
from benchmarks.measure.scaling_figures import APPS, OF_UNRELATED, UNRELATED, KeyedRun, keyed_figures


def found(two_s: float, apps_s: float) -> partitions.Measured:
    """One partition takes 10 s, with either work."""
    seconds = {("process", 1): 10.0, ("process", 2): two_s, ("spark", 1): 12.0, ("spark", 2): 12.0}
    runs = {key: [KeyedRun(s, 1.0, 1.0)] for key, s in {**seconds, (UNRELATED, APPS): apps_s}.items()}
    return {length: keyed_figures(1_000, 2, runs) for length in partitions.WORK_US}


def test_the_faster_host_is_judged_by_the_goal() -> None:
    told = partitions.outcome(found(8.0, 6.0))
    assert told.worse == (
        "With 20 us a row two partitions (threads of one process) reach 0.75 of what two unrelated apps do (goal "
        "0.85), 1.25 times one partition; with 3 us a row two partitions (threads of one process) reach 0.75 of what "
        "two unrelated apps do, 1.25 times one partition"
    )
    assert told.ratios["20 us a row, threads of one process: 2 partitions to unrelated apps"] == 0.75
    assert told.ratios["3 us a row, Spark tasks: 2 to one partition"] == 1.0
    assert all(len(row) == len(told.columns) for row in told.rows)
    assert told.rows[1][:7] == ["20", "threads of one process", "2", "125", "1.25", "0.75", "0.85"]
    assert told.rows[4][5:7] == ["", ""], "apps are no goal of their own"
    assert told.panels[0].bound == 1_000 / 6.0


def test_every_size_measures_both_kinds_of_work_and_whole_windows() -> None:
    for size in partitions.SIZES.values():
        assert size.events.keys() == partitions.WORK_US.keys() == OF_UNRELATED.keys()
        assert partitions.PER_BUCKET % APPS == 0
        assert all(events % (10 * partitions.PER_BUCKET) == 0 for events in size.events.values())
