"""Each way for queries with windows of several lengths: how long a reader stands still, bytes and processor time."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import pairwise

from benchmarks.experiments.recovery import cases
from benchmarks.experiments.recovery.apart import Apart, apart
from benchmarks.experiments.recovery.cases import ACTIVE, RATE, WayBytes, WayCores, WayStills, query_of, recovery_app
from benchmarks.experiments.recovery.drill import REPLICAS, Drill
from benchmarks.measure.volume import log_sizes
from borealis_py.app.explain import explain
from borealis_py.app.recovery_forecast import Forecast, forecasts
from borealis_py.app.recovery_trial import try_nodes
from borealis_py.app.replicas import ProcessName
from borealis_py.bench import events
from borealis_py.bench.console import Say
from borealis_py.bench.figures import BenchError
from borealis_py.bench.processes import tree_cpu_s
from borealis_py.bench.stage import Stage
from borealis_py.log import topics
from borealis_py.protocol.settings import Timing
from borealis_py.query.recovery import RecoveryWay
from borealis_py.query.spec import AppSpec
from tests.harness.event_feeders import SOURCES

FILL_S = 5
"""After windows are full."""
KILL_S = 300
"""Upper bound of a kill with its restart: the publishers have rows for that long."""
GROWN_S = 0.25
SETTLE_BUSY_S = 5.0


def predicted(spec: AppSpec, rate: int) -> dict[tuple[str, RecoveryWay], Forecast]:
    """What `borealis explain` says of each query and way, at this many rows a second, tried on rows of the bench."""
    found = explain(spec, Timing())
    rates = dict.fromkeys(found.spec.sources, rate / SOURCES)
    rows = [events.event_json(i, events.START_US + i * 1_000) for i in range(1_000)]
    tried = try_nodes(found.spec, rates, {name: rows[i::SOURCES] for i, name in enumerate(found.spec.sources)})
    ways = forecasts(found, Timing(), tried, {})
    return {(name, one.way): one for name, some in ways.items() for one in some}


@contextmanager
def _running(
    stage: Stage, way: RecoveryWay, windows_s: Sequence[int], replicas: int = REPLICAS, suffix: str = ""
) -> Iterator[Apart]:
    """An app with a query for each window. Raises LaunchError, BenchError."""
    names = [ProcessName(k, query_of(w)) for w in windows_s for k in range(replicas)]
    with apart(stage, recovery_app(f"recovery-{way.value}{suffix}", way, windows_s, replicas), names, way) as app:
        yield app


def bytes_alone(stage: Stage, windows_s: Sequence[int], seconds: float, say: Say) -> list[WayBytes]:
    """Of one replica. Raises BenchError, LaunchError."""
    say(f"one replica alone: bytes in {seconds:g} s")
    with _running(stage, ACTIVE, windows_s, 1, "-alone") as app:
        t0 = app.publish(RATE, math.ceil(seconds) + 3 * FILL_S)
        time.sleep(max(0.0, t0 + FILL_S - time.time()))
        return [WayBytes(way="", window_s=w, by_kind=b) for w, b in grown(app, windows_s, seconds).items()]


def grown(app: Apart, windows_s: Sequence[int], seconds: float) -> dict[int, dict[str, float]]:
    """Bytes a second by window and kind. Raises BenchError: nothing came."""
    began, sizes = time.monotonic(), [_sizes(app, windows_s)]
    while time.monotonic() < began + seconds:
        time.sleep(GROWN_S)
        sizes.append(_sizes(app, windows_s))
    took_s, bytes_ = time.monotonic() - began, written_bytes(sizes)
    found: dict[int, dict[str, float]] = {w: dict.fromkeys(cases.KINDS, 0.0) for w in windows_s}
    for window_s, by in found.items():
        for name, kind in _kinds(app, window_s).items():
            by[kind] += bytes_.get(name, 0) / took_s
        if by[cases.SOURCE_KIND] <= 0:
            raise BenchError("nothing was written to the sources while bytes were counted")
    return found


def _kinds(app: Apart, window_s: int) -> dict[str, str]:
    """Topic -> what it holds of the query with this window."""
    kept = [topics.kept_files(app.name, f"{query_of(window_s)}.r{k}") for k in range(REPLICAS)]
    of = {name: kind for name in app.topics() if (kind := cases.kind_of(app.name, name, window_s)) is not None}
    return {**of, **dict.fromkeys(kept, cases.STATE_KIND)}


def _sizes(app: Apart, windows_s: Sequence[int]) -> dict[str, int]:
    """Bytes of each topic as it lies in the broker's log."""
    names = {name for window_s in windows_s for name in _kinds(app, window_s)}
    return log_sizes(app.stage.broker.data_dir / "log", dict(zip(names, names, strict=True)))


def written_bytes(sizes: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """What was written to each topic while these sizes were looked at: checkpoints are deleted soon, and then their
    topics are shorter than before."""
    found: Counter[str] = Counter()
    for before, after in pairwise(sizes):
        for name, size in after.items():
            found[name] += max(0, size - before.get(name, 0))
    return dict(found)


def killed(
    stage: Stage, way: RecoveryWay, windows_s: Sequence[int], kills: int, seconds: float, say: Say
) -> tuple[list[WayStills], list[WayBytes]]:
    """One way: first its bytes for `seconds`, then `kills` kills of each window.

    Raises:
        BenchError: the streams do not flow, or nobody took over. CannotRead: a result cannot be read back.
        LaunchError: a replica did not start.
    """
    say(f"{way}: starting")
    with _running(stage, way, windows_s) as app, ExitStack() as stack:
        of = predicted(app.running.state.spec, RATE)
        t0 = app.publish(RATE, max(windows_s) + round(seconds) + kills * len(windows_s) * KILL_S)
        drills = [Drill(app, way, query_of(w), query_of(w), w, stack) for w in windows_s]
        say(f"{way}: windows fill")
        time.sleep(max(0.0, t0 + max(windows_s) + FILL_S - time.time()))
        say(f"{way}: bytes in {seconds:g} s")
        written = grown(app, windows_s, seconds)
        found = []
        for drill in drills:
            for number in range(kills):
                say(f"{way}, window of {drill.window_s} s: kill {number + 1} of {kills}")
                drill.kill(number)
            known = of[query_of(drill.window_s), way].predicted
            assert known is not None
            found.append(drill.figures(known.still_s))
    return found, [_way_bytes(way, w, by, of) for w, by in written.items()]


def _way_bytes(
    way: RecoveryWay, window_s: int, by: dict[str, float], of: Mapping[tuple[str, RecoveryWay], Forecast]
) -> WayBytes:
    known = of[query_of(window_s), way].predicted
    return WayBytes(way=way.value, window_s=window_s, by_kind=by, predicted=0.0 if known is None else known.bytes_per_s)


def cores(stage: Stage, way: RecoveryWay | None, seconds: float, say: Say) -> WayCores:
    """Processor time of all replicas at `BUSY_RATE`. `way`: None: of one replica alone.

    Raises:
        BenchError: a publisher failed. LaunchError: a replica did not start.
    """
    say(f"{way or 'one replica alone'}: {cases.BUSY_RATE:,} tuples/s for {seconds:g} s")
    windows_s = [cases.BUSY_WINDOW_S]
    with _running(stage, way or ACTIVE, windows_s, REPLICAS if way else 1, "-busy" if way else "-busy-alone") as app:
        t0 = app.publish(cases.BUSY_RATE, math.ceil(cases.BUSY_WINDOW_S + SETTLE_BUSY_S + seconds) + FILL_S)
        time.sleep(max(0.0, t0 + cases.BUSY_WINDOW_S + SETTLE_BUSY_S - time.time()))
        pids = app.running.pids.values()
        began, before = time.monotonic(), tree_cpu_s(pids)
        time.sleep(seconds)
        found = (tree_cpu_s(pids) - before) / (time.monotonic() - began)
        app.check()
        beside = None
        if way is not None:
            name = query_of(cases.BUSY_WINDOW_S)
            beside = predicted(app.running.state.spec, cases.BUSY_RATE)[name, way].predicted
    return WayCores(way=way.value if way else "", cores=found, predicted=0.0 if beside is None else beside.cores)
