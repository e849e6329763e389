"""The footprint of an app: processor time, memory, threads and connections of each process, idle and busy, and how long
it takes to start, and to recover from a kill. As a user runs it: `borealis up`, two replicas of a first query, and of a
network of two nodes in two partitions each with one more query.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass

import psutil

from benchmarks.measure.machine_speed import GOALS_AT, events_per_s, slower
from benchmarks.report.goals import goals, published
from benchmarks.report.outcome import Curve, Outcome, Panel
from benchmarks.report.runner import ExperimentOptions, Size
from borealis_py.api import publisher
from borealis_py.app.child_processes import terminated_as_interrupt
from borealis_py.app.replicas import ProcessName, ReplicaProcesses
from borealis_py.app.state import AppState, StatusReader, read_app
from borealis_py.bench import events
from borealis_py.bench.catchup import needs_raw_loop
from borealis_py.bench.console import Bars
from borealis_py.bench.figures import BenchError
from borealis_py.bench.processes import MB, cpu_s
from borealis_py.bench.stage import Stage, directory, staged
from borealis_py.client.publisher import Publisher
from borealis_py.log.clock import SystemClock
from borealis_py.observe.process_tree import JVM, members
from borealis_py.runtime.spark import class_archive

APP, SOURCES, REPLICAS = "weight", 3, 2
RATES: Mapping[Size, tuple[int, ...]] = {"short": (900, 0), "usual": (50_000, 900, 0), "full": (50_000, 900, 0)}
"""Events a second, all sources together. The busiest first: a broker that has just started compiles for a minute, which
is no cost of an idle app."""
KILLED_RATE = 900
"""Events a second while a replica is killed."""
SECONDS: Mapping[Size, float] = {"short": 5.0, "usual": 15.0, "full": 60.0}
SETTLE_S: Mapping[Size, float] = {"short": 4.0, "usual": 20.0, "full": 60.0}
"""Time from a change of the rate until the measurement: the broker goes on compiling for what it had to do before."""
TOTALS = ("CPU %", "of it JVMs", "broker %", "PSS MB", "RSS MB", "processes", "JVMs", "threads", "connections")
COLUMNS = ("events/s", *TOTALS, "up s", "again s", "late s")
TICK_S = 0.1
UP_S, BACK_S = 180.0, 120.0
LOOK_S = 0.05
BROKER = "broker"
Case = tuple[str, str, int]
"""App, host and events a second."""
FIRST, NETWORK = "a query", "a network"
APPS = {FIRST: "app", NETWORK: "network"}
"""App -> its function in `events`."""
_GOALS = goals("weight")
CPU_GOALS: dict[tuple[str, int, str], float] = {
    (g["app"], g["rate"], g["of"]): g["most"] for g in _GOALS["cpu_percent"]
}
"""(App, events a second, whose) -> percent of a core at most, each replica's on average."""
PSS_GOALS_MB: dict[tuple[str, str], float] = {(g["app"], g["host"]): g["most"] for g in _GOALS["pss_mb"]}
TIME_GOALS_S: dict[tuple[str, str], tuple[float, float]] = {
    (g["app"], g["host"]): (g["up"], g["again"]) for g in _GOALS["start_s"]
}
"""(App, host) -> seconds to start, and to start again, at most."""
X_S = 3.0
FILE = """
from borealis_py.bench import events
app = events.{function}("{app}", {sources}, {replicas})
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weight:
    """One process over a period. `cpu_percent`: of one core. `pss_mb`: shared memory counts once."""

    app: str
    host: str
    rate_per_s: int
    process: str
    cpu_percent: float
    rss_mb: float
    pss_mb: float
    threads: int
    connections: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Seconds. `up_s`: of `borealis up`, until all replicas are ready. `again_s`: from a kill of replica 0's process,
    under `KILLED_RATE`, until all nodes' replicas 0 are STABLE. `late_s`: how far the live results of any replica 1
    were behind the clock meanwhile, at most, by what it reported."""

    app: str
    host: str
    up_s: float
    again_s: float
    late_s: float


def run(options: ExperimentOptions, bars: Bars) -> Outcome:
    """Measure each host, or the requested one.

    Raises:
        BenchError: `up` failed, or a replica did not come back.
        BrokerError: no Java, or the broker did not start.
    """
    cases = [(FIRST, "process"), (FIRST, "spark"), (NETWORK, "spark")]
    if options.size == "short":
        cases = [(FIRST, options.host)]
    needs_raw_loop()
    weights: list[Weight] = []
    times: list[Times] = []
    raw_per_s = 0.0
    if any(host == "spark" for _, host in cases):
        class_archive.prepare(bars.say)
    for app, host in cases:
        where = f"{host}-{APPS[app]}"
        with directory(options.work) as work, terminated_as_interrupt(), staged(work / where) as stage:
            raw_per_s = raw_per_s or events_per_s(stage, bars)
            bars.say(f"{app}, {host}: starting {REPLICAS} replicas")
            with _up(stage, app, host) as (state, processes, up_s), _publishers(stage) as open_:
                weights += _weigh(stage, open_, processes, (app, host), options.size, bars)
                bars.say(f"{app}, {host}: a replica is killed")
                with _sending(open_, KILLED_RATE):
                    again_s, late_s = _killed(stage, state, processes)
                times.append(Times(app=app, host=host, up_s=up_s, again_s=again_s, late_s=late_s))
    return outcome(weights, times, raw_per_s)


@contextmanager
def _up(stage: Stage, app: str, host: str) -> Iterator[tuple[AppState, ReplicaProcesses, float]]:
    """The app as a user starts it; stopped at the end."""
    file, data = stage.work / "app.py", stage.work / "data"
    file.write_text(FILE.format(function=APPS[app], app=APP, sources=SOURCES, replicas=REPLICAS))
    began = time.monotonic()
    command = stage.borealis("up", "up", str(file), "--host", host, "--data-dir", str(data))
    processes = ReplicaProcesses(data, APP)
    try:
        if command.wait(UP_S) != 0:
            raise BenchError(f"`borealis up --host {host}` failed: {(stage.work / 'up.log').read_text()[-500:]}")
        up_s = time.monotonic() - began
        yield read_app(stage.log, APP), processes, up_s
    finally:
        processes.stop()


@contextmanager
def _publishers(stage: Stage) -> Iterator[Sequence[Publisher]]:
    """One per source. Without them replicas would miss their input and not be STABLE."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(publisher(f"s{i}", "0s", app=APP, bootstrap=stage.log.bootstrap))
            for i in range(SOURCES)
        ]


def _weigh(
    stage: Stage,
    publishers: Sequence[Publisher],
    processes: ReplicaProcesses,
    of: tuple[str, str],
    size: Size,
    bars: Bars,
) -> list[Weight]:
    found: list[Weight] = []
    for rate in RATES[size]:
        bars.say(f"{', '.join(of)}: {rate} events/s")
        with _sending(publishers, rate):
            time.sleep(SETTLE_S[size])
            found += _over(SECONDS[size], _family(stage, processes), (*of, rate))
    return found


@contextmanager
def _sending(publishers: Sequence[Publisher], rate: int) -> Iterator[None]:
    """Send this many events per second, in a thread of this process, evenly over the sources and every tenth of a
    second.
    """
    stop, failed = threading.Event(), list[Exception]()
    thread = threading.Thread(target=_send, args=(publishers, rate, stop, failed), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(10)
    if failed:
        raise BenchError(f"a publisher failed: {failed[0]}") from failed[0]


def _send(publishers: Sequence[Publisher], rate: int, stop: threading.Event, failed: list[Exception]) -> None:
    many = round(rate * TICK_S / len(publishers))
    at, sent = time.monotonic(), 0
    try:
        while rate and not stop.is_set():
            for each in publishers:
                rows = [events.row(n, n) for n in range(sent, sent + many)]
                each.send_many(rows)
                sent += many
            at += TICK_S
            stop.wait(max(0.0, at - time.monotonic()))
    except Exception as exc:
        failed.append(exc)


def _family(stage: Stage, processes: ReplicaProcesses) -> dict[psutil.Process, str]:
    """Every process of the app and the broker, with its role. Roles of children follow their replica's name."""
    found: dict[psutil.Process, str] = {}
    for member in members(processes):
        found[member.process] = str(member.name) if member.first else f"{member.name}: {member.role}"
    pid = stage.broker.status().pid
    if pid is not None:
        found[psutil.Process(pid)] = BROKER
    return found


def _over(seconds: float, family: Mapping[psutil.Process, str], case: Case) -> list[Weight]:
    before = {process: at for process in family if (at := cpu_s(process)) is not None}
    began = time.monotonic()
    time.sleep(seconds)
    took_s = time.monotonic() - began
    found = []
    for process, spent_s in before.items():
        after_s = cpu_s(process)
        if after_s is None:
            continue
        memory = process.memory_full_info()
        app, host, rate = case
        weight = Weight(
            app=app,
            host=host,
            rate_per_s=rate,
            process=family[process],
            cpu_percent=100 * (after_s - spent_s) / took_s,
            rss_mb=memory.rss / MB,
            pss_mb=memory.pss / MB,
            threads=process.num_threads(),
            connections=len(process.net_connections("tcp")),
        )
        found.append(weight)
    return found


def _killed(stage: Stage, state: AppState, processes: ReplicaProcesses) -> tuple[float, float]:
    """Kill index 0; the app's supervisor starts it again. Returns `Times.again_s` and `late_s`."""
    victim = processes.running()[ProcessName(0)]
    reader = StatusReader(stage.log, state.name, SystemClock().wall_us() // 1000)
    awaited, late_us = {node for node, replica in state.replicas() if replica == 0}, 0
    began = time.monotonic()
    victim.kill()
    try:
        while time.monotonic() - began < BACK_S:
            for status in reader.poll():
                if status.replica != 0:
                    late_us = max(late_us, status.at_wall_us - status.f_l * events.BUCKET_US)
                elif status.state == "STABLE" and status.pid != victim.pid:
                    awaited.discard(status.node)
            if not awaited:
                return time.monotonic() - began, late_us / 1e6
            time.sleep(LOOK_S)
    finally:
        reader.close()
    raise BenchError(f"index 0 was killed; {BACK_S:g} s later not STABLE: {sorted(awaited)}; see {processes.directory}")


def outcome(weights: Sequence[Weight], times: Sequence[Times], raw_per_s: float) -> Outcome:
    """Tables and figures of what was measured. `raw_per_s`: events a second of the raw loop, at the same time."""
    cases: list[Case] = list(dict.fromkeys(map(_case, weights)))
    sums = {case: _total([w for w in weights if _case(w) == case]) for case in cases}
    took = {(t.app, t.host): [f"{s:.1f}" for s in (t.up_s, t.again_s, t.late_s)] for t in times}
    return Outcome(
        name="weight",
        title="What two replicas weigh: of a first query, and of a network of five",
        published=published("weight"),
        setup="3 sources; a query: count and sum by 100 keys and second; a network: a filter and such a query behind "
        "it, each in two partitions, and one more query beside them, X = 3 s. Publishers send every 100 ms from the "
        f"bench's own process, which is not counted. Each case settles for {SETTLE_S['usual']:g} s first. Memory is "
        "PSS: pages that processes share count once. JVMs: those of replicas. Up: `borealis up`, with class archives "
        "there, until it returns: each replica is READY then, and STABLE with its sources' first boundaries. Again: at "
        f"{KILLED_RATE} events/s, from the kill of index 0 until "
        "all its replicas are STABLE; late: how far results of the other index were behind the clock meanwhile.",
        worse="A JVM and a Python process beside each replica's own stand by only to run and to redo."
        + _verdict(sums, times, raw_per_s),
        columns=["app", "host", *(f"{name}>" for name in COLUMNS)],
        rows=[[app, host, f"{rate:,}", *_cells(sums[app, host, rate]), *took[app, host]] for app, host, rate in cases],
        ratios={
            f"{app}, {host}, {rate}/s: 1000 MB to PSS": 1000 / sums[app, host, rate]["pss_mb"]
            for app, host, rate in cases
        }
        | {name: value for t in times for name, value in _of_goals(t).items()},
        data={
            "raw_loop_events_per_s": raw_per_s,
            "processes": [asdict(w) for w in weights],
            "sums": [
                {"app": app, "host": host, "rate_per_s": rate, **sums[app, host, rate]} for app, host, rate in cases
            ],
            "times": [asdict(t) for t in times],
        },
        panels=[
            Panel(title="Memory (PSS)", x="case", y="MB", curves=_bars(sums, "pss_mb")),
            Panel(title="Processor, replicas", x="case", y="% of a core", curves=_bars(sums, "cpu_percent")),
        ],
    )


def _verdict(sums: Mapping[Case, Mapping[str, float]], times: Sequence[Times], raw_per_s: float) -> str:
    """The goals that were missed; and those that were missed by more than this machine is slower."""
    over, factor = missed(sums, times), slower(raw_per_s)
    if not over or factor == 1:
        return f" Over the goal: {', '.join(over)}." if over else ""
    still = missed(sums, times, factor)
    return (
        f" Over the goal: {', '.join(over)}. But the raw loop did {raw_per_s:,.0f} events/s here, {GOALS_AT:,} where "
        f"the goals were set. If processor time and the time of starts may be {factor:.2f} times as long, "
        + (f"these are over it: {', '.join(still)}." if still else "none is over it.")
    )


def missed(sums: Mapping[Case, Mapping[str, float]], times: Sequence[Times], factor: float = 1.0) -> list[str]:
    """Each goal that was not reached, with what was measured and the goal. Those of processor time and of starts are
    multiplied by `factor`; neither memory, nor processes, nor X."""
    found = []
    for (app, host, rate), total in sums.items():
        measured = {
            "replica's CPU %": (total["cpu_percent"] - total["jvm_percent"]) / REPLICAS,
            "JVM's CPU %": total["jvm_percent"] / REPLICAS,
            "broker's CPU %": total["broker_percent"],
            "PSS MB": total["pss_mb"],
            "JVMs": total["jvms"],
        }
        cpu = {name: most * factor for name in measured if (most := CPU_GOALS.get((app, rate, name))) is not None}
        goals = {**cpu, "PSS MB": PSS_GOALS_MB.get((app, host)), "JVMs": float(REPLICAS)}
        for name, value in measured.items():
            most = goals.get(name)
            if most is not None and value > most:
                found.append(f"{name} of {app} ({host}) at {rate:,}/s {value:.1f} ({most:,.4g})")
    for t in times:
        for name, value, most in zip(("up", "again"), (t.up_s, t.again_s), TIME_GOALS_S[t.app, t.host], strict=True):
            if value > most * factor:
                found.append(f"{t.app} ({t.host}) {name} after {value:.1f} s ({most * factor:,.4g})")
        if t.late_s > X_S:
            found.append(f"{t.app} ({t.host}) {t.late_s:.1f} s late ({X_S:g})")
    return found


def _of_goals(of: Times) -> dict[str, float]:
    """The goals divided by the times; at most 1, since shorter times differ by chance."""
    up_s, again_s = TIME_GOALS_S[of.app, of.host]
    return {
        f"{of.app}, {of.host}: goal / seconds to start": min(1.0, up_s / of.up_s),
        f"{of.app}, {of.host}: goal / seconds to start again": min(1.0, again_s / of.again_s),
    }


def _case(of: Weight) -> Case:
    return of.app, of.host, of.rate_per_s


def _total(of: Sequence[Weight]) -> dict[str, float]:
    """The sum over all processes except the broker, whose processor time is separate."""
    own = [w for w in of if w.process != BROKER]
    return {
        "cpu_percent": sum(w.cpu_percent for w in own),
        "jvm_percent": sum(w.cpu_percent for w in own if w.process.endswith(JVM)),
        "jvms": float(sum(w.process.endswith(JVM) for w in own)),
        "broker_percent": sum(w.cpu_percent for w in of if w.process == BROKER),
        "pss_mb": sum(w.pss_mb for w in own),
        "rss_mb": sum(w.rss_mb for w in own),
        "processes": float(len(own)),
        "threads": float(sum(w.threads for w in own)),
        "connections": float(sum(w.connections for w in own)),
    }


def _cells(total: Mapping[str, float]) -> list[str]:
    one = [f"{total[name]:.1f}" for name in ("cpu_percent", "jvm_percent", "broker_percent")]
    return [
        *one,
        *(f"{total[name]:.0f}" for name in ("pss_mb", "rss_mb", "processes", "jvms", "threads", "connections")),
    ]


def _bars(sums: Mapping[Case, Mapping[str, float]], of: str) -> list[Curve]:
    return [
        Curve(label=f"{app}, {host}, {rate:,}/s", x=[float(i)], y=[total[of]], style="bars")
        for i, ((app, host, rate), total) in enumerate(sums.items())
    ]
