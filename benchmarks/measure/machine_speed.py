"""How fast this machine is at the time, by the raw loop: goals were set where that does 584 000 events a second."""

from __future__ import annotations

from borealis_py.bench.catchup import RAW_LOOP, raw_loop
from borealis_py.bench.console import Bars
from borealis_py.bench.events import Backlog
from borealis_py.bench.figures import BenchError
from borealis_py.bench.stage import Stage
from borealis_py.log.base import Feed, NewRecord

GOALS_AT = 584_000
"""Events a second of the raw loop, one a record, where the goals were set."""
EVENTS, PER_BUCKET, SOURCES, RUNS = 600_000, 3_000, 3, 2


def events_per_s(stage: Stage, bars: Bars) -> float:
    """What the raw loop does here now; the fastest of its runs. Raises BenchError."""
    bars.say("how fast this machine is: the raw loop")
    backlog = Backlog(EVENTS, PER_BUCKET, SOURCES)
    names = [f"machine-speed-{i}" for i in range(SOURCES)]
    results = [f"machine-speed-results-{n}" for n in range(RUNS)]
    stage.create(*names)
    for i, name in enumerate(names):
        stage.fill(NewRecord(Feed(name), value) for value in backlog.plain(i))
    runs = [raw_loop(stage, RAW_LOOP, names, EVENTS, topic)[0] for topic in results]
    stage.delete([*names, *results])
    return max(run.events_per_s for run in runs)


def slower(raw_per_s: float) -> float:
    """How many times slower this machine is than that of the goals; at least 1. Raises BenchError."""
    if raw_per_s <= 0:
        raise BenchError("the raw loop did nothing")
    return max(1.0, GOALS_AT / raw_per_s)
