import pytest

from borealis_py.bench import figures
from borealis_py.bench.catchup import check, totals
from borealis_py.bench.events import Backlog
from borealis_py.bench.figures import BenchError, RunFigures
from borealis_py.demo.measure import Arrival
from borealis_py.log.base import Feed, Record

W = 100_000


def at(bucket: int, delay_us: int, kind: str = "STABLE") -> Arrival:
    return Arrival(bucket, (bucket + 1) * W + delay_us, kind)


def test_the_first_to_speak_for_a_bucket_counts() -> None:
    arrivals = [at(9, 1), at(10, 500), at(10, 90, "TENTATIVE"), at(12, 40), at(13, 7)]
    assert figures.first_delays(arrivals, 10, 13, W) == {10: (90, "TENTATIVE"), 12: (40, "STABLE")}


def test_a_window_ends_with_the_last_bucket_of_a_second() -> None:
    assert figures.window_ends(range(5, 31), W, 1_000_000) == [9, 19, 29]


def test_percentiles_are_in_milliseconds() -> None:
    found = figures.percentiles([us * 1000 for us in range(1, 201)])
    assert (found.count, found.p50_ms, found.p99_ms, found.max_ms) == (200, 100.0, 198.0, 200.0)
    with pytest.raises(BenchError, match="nothing arrived"):
        figures.percentiles([])


def test_a_replica_is_compared_with_the_best_raw_run_in_wall_and_in_processor_time() -> None:
    raw = [figures.run_figures("raw loop", 1000, 2.0, 1.0), figures.run_figures("raw loop", 1000, 1.0, 1.5)]
    assert figures.compared(raw, RunFigures("one replica", 4.0, 4.0, 250.0)) == (0.25, 0.25)
    with pytest.raises(BenchError, match="clocks"):
        figures.run_figures("raw loop", 1000, 0.0, 1.0)


def test_redo_ratios_come_from_medians() -> None:
    found = figures.redo_figures("some", 1000, 10, [1.0, 2.0, 9.0], [4.0], [8.0, 8.0, 1.0])
    assert (found.memory_per_s, found.thread_per_s, found.spark_per_s) == (500.0, 250.0, 125.0)
    assert (found.spark_to_memory, found.spark_to_thread) == (0.25, 0.5)
    assert figures.redo_figures("some", 1000, 10, [1.0], [4.0], []).spark_to_memory is None


def result(n: int, start: int = 0) -> Record:
    value = f'{{"window_start":{start},"window_end":1,"customer":"c","n":{n},"total":{n}.5}}'.encode()
    return Record(Feed("results"), 0, 0, None, value)


def test_results_of_both_programs_have_one_form() -> None:
    assert totals([result(3), result(4, 1_000_000)]) == {(0, "c"): (3, 3.5), (1_000_000, "c"): (4, 4.5)}
    with pytest.raises(BenchError, match="twice"):
        totals([result(3), result(3)])


def test_programs_that_disagree_are_no_figures() -> None:
    backlog = Backlog(200, 20)
    good = {(0, "c"): (200, 1.0)}
    check(backlog, good, dict(good), dict(good))
    with pytest.raises(BenchError, match=r"differ in 1 results, first \(0, 'c'\): \(200, 1.0\) and \(200, 2.0\)"):
        check(backlog, good, {(0, "c"): (200, 2.0)}, good)
    with pytest.raises(BenchError, match="differ in 1 results"):
        check(backlog, good, {}, good)
    with pytest.raises(BenchError, match="counted 199 of 200"):
        check(backlog, {(0, "c"): (199, 1.0)}, good, good)
