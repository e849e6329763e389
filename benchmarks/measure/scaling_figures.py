"""The results of `make bench NAME=scaling`, as values, and the arithmetic on them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.report.goals import goals
from borealis_py.bench.figures import BenchError

ALL_BUSY = 0.9
"""Fraction of the cores that counts as all of them: the broker needs some, too."""
ONE_BUSY = 0.85
UNRELATED, APPS = "unrelated", 2
"""In place of a host and a number of partitions: so many apps at once that know nothing of each other."""
OF_UNRELATED: dict[int, float] = {int(n): least for n, least in goals("partitions").items()}
"""The goal for as many partitions, by the length of the names whose distance is taken: 3 and 21 us a row."""


@dataclass(frozen=True, slots=True)
class KeyedRun:
    """One run over the backlog: `seconds` of wall time; processor time of the node's process, and of all processes of
    the partitioned query (driver and JVM, if any, with it)."""

    seconds: float
    node_cpu_s: float
    query_cpu_s: float


@dataclass(frozen=True, slots=True)
class KeyedFigures:
    """A query in `partitions` partitions; medians of `runs`. CPU seconds are per million events; `ratio`: events/s
    relative to one partition on the same host. `of_unrelated`: relative to as many unrelated apps, in plain processes,
    with as many rows in all; None: there were not as many. `limit`: the bottleneck.
    """

    host: str
    partitions: int
    events: int
    runs: int
    events_per_s: float
    node_cpu_s: float
    query_cpu_s: float
    node_cores: float
    query_cores: float
    ratio: float
    of_unrelated: float | None
    limit: str

    @property
    def judged(self) -> float | None:
        """`of_unrelated` of partitions; None: there were not as many apps, or these are the apps themselves."""
        return None if self.host == UNRELATED else self.of_unrelated


@dataclass(frozen=True, slots=True)
class SlotFigures:
    """`jobs` redo jobs at once, one for each partition, `rows` rows in all, on as many Spark slots; medians of `runs`.
    `ratio`: of the time, one slot's to this."""

    slots: int
    jobs: int
    rows: int
    runs: int
    seconds: float
    tuples_per_s: float
    ratio: float


@dataclass(frozen=True, slots=True)
class VolumeFigures:
    """Growth of Kafka's log (one copy of each topic, as the broker stores it) while tuples came in, with `replicas` of
    each node; medians of `runs` stretches. `input_per_s`: bytes a second of JSON that was published. `share`: class of
    topics -> bytes a byte of input; `per_s`: likewise, bytes a second. `tentative`: buckets that were; 0 is normal."""

    replicas: int
    runs: int
    tuples_per_s: int
    input_per_s: float
    share: Mapping[str, float]
    per_s: Mapping[str, float]
    tentative: int

    @property
    def total(self) -> float:
        """Bytes in the log a byte of input."""
        return sum(self.share.values())


def keyed_figures(events: int, cpus: int, runs: Mapping[tuple[str, int], Sequence[KeyedRun]]) -> list[KeyedFigures]:
    """From (host, partitions) -> its runs. Run i of each was made right before or after run i of the others, so ratios
    are of those pairs.

    Raises:
        BenchError: the clocks are wrong.
    """
    found = []
    for (host, partitions), mine in runs.items():
        if any(run.seconds <= 0 for run in mine):
            raise BenchError(f"{partitions} partitions took {min(run.seconds for run in mine)} s; the clocks are wrong")
        one = runs.get(("process" if host == UNRELATED else host, 1), mine)
        unrelated = runs.get((UNRELATED, partitions))
        node_cores = median(run.node_cpu_s / run.seconds for run in mine)
        query_cores = median(run.query_cpu_s / run.seconds for run in mine)
        found.append(
            KeyedFigures(
                host=host,
                partitions=partitions,
                events=events,
                runs=len(mine),
                events_per_s=median(events / run.seconds for run in mine),
                node_cpu_s=median(run.node_cpu_s for run in mine) * 1e6 / events,
                query_cpu_s=median(run.query_cpu_s for run in mine) * 1e6 / events,
                node_cores=node_cores,
                query_cores=query_cores,
                ratio=median(first.seconds / run.seconds for first, run in zip(one, mine, strict=True)),
                of_unrelated=None
                if unrelated is None
                else median(apps.seconds / run.seconds for apps, run in zip(unrelated, mine, strict=True)),
                limit=limit_of(host, partitions, cpus, node_cores, query_cores, APPS if host == UNRELATED else 1),
            )
        )
    return found


def limit_of(host: str, partitions: int, cpus: int, node_cores: float, query_cores: float, nodes: int = 1) -> str:
    """What was busy all the time, in a few words.

    Args:
        host: on "process" partitions are threads of one process.
        node_cores, query_cores: how many cores each kept busy; a node is one thread, a partition likewise.
        nodes: how many nodes there are before the partitions.
    """
    if node_cores + query_cores >= ALL_BUSY * cpus:
        return "all cores"
    if node_cores >= ONE_BUSY * nodes:
        return "the node before it"
    if query_cores >= ONE_BUSY * partitions:
        return "one core a partition"
    if host == "process" and partitions > 1 and query_cores >= ONE_BUSY:
        return "Python's lock"
    return "waiting for each other"


def slot_figures(rows: int, jobs: int, seconds: Mapping[int, Sequence[float]]) -> list[SlotFigures]:
    """From slots -> the seconds of each run."""
    one = median(seconds[min(seconds)])
    return [
        SlotFigures(slots, jobs, rows, len(mine), median(mine), rows / median(mine), one / median(mine))
        for slots, mine in seconds.items()
    ]


def volume_figures(
    replicas: int,
    tuples_per_s: int,
    tuple_bytes: float,
    stretches: Sequence[tuple[float, Mapping[str, int]]],
    tentative: int,
) -> VolumeFigures:
    """From what each class of topics grew by in each stretch.

    Args:
        tuple_bytes: of a tuple as it is published. stretches: seconds, and class of topics -> bytes.
    """
    per_s = {name: median(grown[name] / s for s, grown in stretches) for name in stretches[0][1]}
    input_per_s = tuples_per_s * tuple_bytes
    share = {name: value / input_per_s for name, value in per_s.items()}
    return VolumeFigures(replicas, len(stretches), tuples_per_s, input_per_s, share, per_s, tentative)
