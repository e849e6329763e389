"""How fast an ingress copies a full topic, beside the hand loop over the same topic: JSON, and Avro."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec

from benchmarks.ingress import apps
from benchmarks.ingress.apps import AVRO, Form
from benchmarks.ingress.figures import CopyFigures
from benchmarks.ingress.source_follower import SourceFollower
from borealis_py.app.replicas import ProcessName
from borealis_py.bench import events
from borealis_py.bench.catchup import RAW_LOOP, needs_raw_loop
from borealis_py.bench.console import Bars
from borealis_py.bench.events import Backlog
from borealis_py.bench.figures import BenchError, RunFigures, run_figures
from borealis_py.bench.processes import tree_cpu_s
from borealis_py.bench.stage import Running, Stage
from borealis_py.log.base import Feed, NewRecord

PER_BUCKET = 500
TIMEOUT_S = 180.0
ONLY = ProcessName(0, ingress=True)


def needs_packages() -> None:
    """Raises BenchError: a program to be measured cannot run."""
    needs_raw_loop()
    if find_spec("fastavro") is None:
        raise BenchError("Avro needs fastavro: pip install 'borealis-py[avro]'")


def measure(stage: Stage, form: Form, rows: int, runs: int, bars: Bars) -> CopyFigures:
    """The hand loop, the ingress some times, the hand loop again.

    Raises:
        BenchError: a program failed, or did not read all.
        LaunchError: the ingress did not start.
    """
    topic, backlog = f"ingress-copy-{form}", Backlog(rows, PER_BUCKET)
    bars.say(f"filling a topic with {rows:,} events as {form}")
    apps.create(stage, topic)
    sizes = list[int]()
    stage.fill(NewRecord(Feed(topic), value) for value in _sized(_records(form, backlog), sizes))
    bars.say(f"the hand loop, {form}")
    loops = [_hand_loop(stage, topic, form, rows, 1)]
    copies = []
    for run in range(1, runs + 1):
        bars.say(f"one ingress, {form}, run {run}")
        copies.append(_copied(stage, topic, form, rows, run))
    bars.say(f"the hand loop again, {form}")
    loops.append(_hand_loop(stage, topic, form, rows, 2))
    stage.delete([topic])
    return CopyFigures(form, rows, sum(sizes) / len(sizes), tuple(loops), tuple(copies))


def _records(form: Form, backlog: Backlog) -> Iterator[bytes]:
    if form == "json":
        yield from backlog.plain()
        return
    from fastavro import parse_schema, schemaless_writer

    schema = parse_schema(AVRO)
    for i in range(backlog.events):
        to = io.BytesIO()
        schemaless_writer(to, schema, events.row(i, backlog.at_us(i)))
        yield to.getvalue()


def _sized(values: Iterator[bytes], sizes: list[int]) -> Iterator[bytes]:
    for value in values:
        sizes.append(len(value))
        yield value


def _hand_loop(stage: Stage, topic: str, form: Form, rows: int, run: int) -> RunFigures:
    results = f"{topic}-results-{run}"
    stage.create(results)
    command = [sys.executable, str(RAW_LOOP), "--bootstrap", stage.log.bootstrap, "--events", str(rows)]
    command += ["--avro", json.dumps(AVRO)] if form == "avro" else []
    done = subprocess.run([*command, topic, results], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if done.returncode:
        raise BenchError(f"the hand loop failed:\n{done.stderr.strip()}")
    stage.delete([results])
    said = json.loads(done.stdout)
    return run_figures("hand loop", rows, said["seconds"], said["cpu_s"])


def _copied(stage: Stage, topic: str, form: Form, rows: int, run: int) -> RunFigures:
    """From the first rows that lie in the source to the last."""
    name = f"{topic}-{run}"
    state = stage.describe(apps.copy(name, topic, form), str(events.START_US))
    with SourceFollower(stage.log, name, ["t0"]) as follower:
        running = stage.start_replicas(state, names=[ONLY])
        try:
            figures = _timed(follower, running, rows)
        finally:
            running.processes.stop()
    stage.forget(state)
    return figures


def _timed(follower: SourceFollower, running: Running, rows: int) -> RunFigures:
    pid, deadline = running.pids[ONLY], time.monotonic() + TIMEOUT_S
    began = cpu_s = 0.0
    first = seen = 0
    while seen < rows:
        for _, _, count, _ in follower.poll():
            seen += count
        if seen and not first:
            first, began, cpu_s = seen, time.monotonic(), tree_cpu_s([pid])
        if running.processes.ended(ONLY) is not None or time.monotonic() > deadline:
            raise BenchError(f"the ingress copied {seen} of {rows} rows:\n{running.processes.log_tail(ONLY)}")
    ended, cpu_s = time.monotonic(), tree_cpu_s([pid]) - cpu_s
    if first >= rows:
        raise BenchError(f"{rows} rows are too few to be timed: they came at once")
    share = rows / (rows - first)  # as if all had been timed
    return run_figures("ingress", rows, (ended - began) * share, cpu_s * share)
