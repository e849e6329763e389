"""A crash that takes longer to recover from than readers wait: upstream backup, a window of 5 minutes that is full, and
a query with X = 1 s that reads another source, too. It goes on tentatively, and corrects that later."""

from __future__ import annotations

import subprocess
from contextlib import ExitStack
from dataclasses import replace

from benchmarks.experiments.recovery.apart import apart
from benchmarks.experiments.recovery.cases import EVERY, RATE, UPSTREAM, BeyondX
from benchmarks.experiments.recovery.drill import REPLICAS, Drill
from benchmarks.experiments.recovery.ways import FILL_S, KILL_S, predicted
from borealis_py.app.replicas import ProcessName
from borealis_py.bench import events
from borealis_py.bench.console import Say
from borealis_py.bench.figures import BenchError
from borealis_py.bench.stage import Stage
from borealis_py.query import App
from tests.harness.event_feeders import SOURCES

NODE, QUERY = "totals", "seen"
WINDOW_S, X_S = 300, 1
JUDGED_S = 600.0


def beyond_app() -> App:
    """Count per customer of the last 5 minutes of two sources, by upstream backup; and per customer and second of what
    that gives and of the third source."""
    built = App("recovery-beyond", bucket="100ms")
    *slow, other = (built.source(f"s{i}", schema=events.SCHEMA) for i in range(SOURCES))
    counts = built.union(*slow).window(f"{WINDOW_S}s", every=EVERY).group_by("customer").agg(n="count(*)")
    totals = counts.map(customer="customer", n="n").node(NODE, replicas=REPLICAS, recovery=UPSTREAM.value)
    union = built.union(totals, other.map(customer="customer", n="1::bigint"))
    seen = union.window("1s").group_by("customer").agg(rows="count(*)", n="sum(n)")
    built.query(QUERY, seen, f"{X_S}s", replicas=REPLICAS)
    return built


def killed(stage: Stage, kills: int, say: Say) -> BeyondX:
    """Kill who computes the window, `kills` times; then verify and audit the query.

    Raises:
        BenchError: the streams do not flow, or nobody took over. CannotRead: a result cannot be read back.
        LaunchError: a replica did not start.
    """
    what = f"{UPSTREAM}, window of {WINDOW_S} s, X = {X_S} s"
    say(f"{what}: starting")
    names = [ProcessName(k, node) for node in (NODE, QUERY) for k in range(REPLICAS)]
    with apart(stage, beyond_app(), names, UPSTREAM, WINDOW_S + FILL_S) as app, ExitStack() as stack:
        forecast = predicted(app.running.state.spec, RATE)[NODE, UPSTREAM]
        assert forecast.predicted is not None
        app.publish(RATE, (kills + 1) * KILL_S)
        drill = Drill(app, UPSTREAM, NODE, QUERY, WINDOW_S, stack)
        say(f"{what}: window fills")
        drill.settle()
        before = drill.tentative
        for number in range(kills):
            say(f"{what}: kill {number + 1} of {kills}")
            drill.kill(number)
        drill.settle()
        stills = drill.figures(min(forecast.predicted.still_s, forecast.wait_s))
        say(f"{what}: verify, audit")
        return BeyondX(
            x_s=X_S,
            stills=replace(stills, tentative=stills.tentative - before),
            predicted_tentative=kills * forecast.beyond_s * 1_000_000 / events.BUCKET_US,
            verify=_exit_code(stage, app.name, "verify"),
            audit=_exit_code(stage, app.name, "audit", "--no-spark"),
        )


def _exit_code(stage: Stage, app: str, command: str, *options: str) -> int:
    """Of a command that judges the query. Raises BenchError: it takes too long."""
    process = stage.borealis(command, command, QUERY, "--app", app, *options)
    try:
        return process.wait(JUDGED_S)
    except subprocess.TimeoutExpired as exc:
        raise BenchError(f"`borealis {command} {QUERY}` still runs after {JUDGED_S:g} s; see {command}.log") from exc
