"""The process of one replica index, one loop per node; or of one ingress index (`runtime/ingress`).

    BOREALIS_PROCESS='{"bootstrap": "localhost:9092", "data_dir": ".borealis"}' \\
        python -m borealis_py.runtime.process --app flights --replica 0

The variable holds a `ProcessSpec`; `borealis replica` makes it from the configuration. The process runs that replica of
all nodes and queries, or with --node NAME of that one: in this process and without Spark (`threads.py`), or with host
"spark" as tasks of its own Spark application (`runtime/spark`). In the latter case only the tasks load the engine.

A crash of one process never affects the other. SIGTERM and SIGINT end it in order.
"""

from __future__ import annotations

import argparse
import gc
import os
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from typing import Protocol

from borealis_py.runtime.lean_imports import load_engine, without

if __name__ == "__main__":
    gc.disable()  # until all is loaded: none of that is garbage
    without("rich")  # structlog would load it, for 0.1 s, and draw with it what no file shows
import structlog

from borealis_py.app.process_spec import ProcessSpec, ProcessSpecError
from borealis_py.app.replicas import ProcessName, ReplicaProcesses
from borealis_py.app.state import AppState, read_app
from borealis_py.app.supervisor import exit_codes
from borealis_py.app.topics import create_topics, redo_topics_of
from borealis_py.config.address import AddressError, HttpUnavailable
from borealis_py.config.logs import configure_logs
from borealis_py.config.probe import check_directory, check_writable
from borealis_py.config.signals import set_by
from borealis_py.log.base import LogError
from borealis_py.node.checkpoint_storage import LocationError
from borealis_py.node.recovery_setting import recovering_as_set
from borealis_py.node.reporter import StatusListener
from borealis_py.node.spec import ReplicaSpec
from borealis_py.observe.status_registry import StatusRegistry
from borealis_py.protocol.settings import SettingsError
from borealis_py.query.errors import QueryError
from borealis_py.query.partitions import parts_of
from borealis_py.runtime.ends import KernelDiffers, end_of
from borealis_py.runtime.process.cpu_affinity import StartCores
from borealis_py.runtime.process.index_in_use import IndexTaken, ensure_free
from borealis_py.runtime.process_notes import ProcessNotes
from borealis_py.runtime.specs import replica_spec

log = structlog.get_logger(__package__)

NOT_STARTED = (
    LogError,
    ProcessSpecError,
    QueryError,
    SettingsError,
    IndexTaken,
    KernelDiffers,
    AddressError,
    HttpUnavailable,
    LocationError,
)
"""Errors that prevent a start, reported as one line."""
SENSELESS = (ProcessSpecError, QueryError, SettingsError, AddressError)
"""Those of them that a retry does not fix."""


class ReplicaHost(Protocol):
    """Runs the replicas of this process, or its ingresses."""

    stop: threading.Event

    def run(self) -> int:
        """Run until stopped; returns the exit code."""


def parse(argv: list[str] | None) -> argparse.Namespace:
    """Which process this is, and what holds for this start alone; `ProcessSpec` has the rest."""
    parser = argparse.ArgumentParser(prog="borealis_py.runtime.process", description="One process of an app.")
    parser.add_argument("--app", required=True)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--replica", type=int)
    which.add_argument("--ingress", type=int, help="no replica, but the ingress of this index")
    parser.add_argument("--node", default="", help="run this node or query instead of all")
    parser.add_argument("--take-over", action="store_true")
    parser.add_argument("--run", default="", help="name of this run: all its incarnations' uids begin with it")
    parser.add_argument("--after", default="", metavar="RUN", help="the run before, which has ended")
    parser.add_argument("--log", default="", metavar="FILE", help="that standard error is, and that is to be bounded")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    """Returns one of the exit codes in `exit_codes.py`."""
    args = parse(argv)
    configure_logs(file=args.log)
    try:
        process = ProcessSpec.from_environment(os.environ)
    except ProcessSpecError as exc:
        return _not_started(args, exc)
    beside = ProcessNotes(process.data_dir / args.app / _name(args).stem, args.run)
    code = exit_codes.FAILED.code
    try:
        with ExitStack() as closing:
            code = _run(args, process, beside, closing)
        return code
    finally:
        beside.ended(code)


def _name(args: argparse.Namespace) -> ProcessName:
    return ProcessName(args.replica, args.node) if args.ingress is None else ProcessName(args.ingress, ingress=True)


def _run(args: argparse.Namespace, process: ProcessSpec, beside: ProcessNotes, closing: ExitStack) -> int:
    """Run the process. `closing`: closes what is open once the replicas have ended."""
    try:
        host = (
            _open(args, process, beside, closing)
            if args.ingress is None
            else _open_ingress(args, process, beside, closing)
        )
    except NOT_STARTED as exc:
        return _not_started(args, exc)
    gc.enable()
    set_by((signal.SIGTERM, signal.SIGINT), host.stop)
    return host.run()


def _not_started(args: argparse.Namespace, exc: Exception) -> int:
    """Log an error that prevented the start. Returns the exit code."""
    if args.ingress is not None:
        log.error("ingress does not start", ingress=args.ingress, why=str(exc))
    else:
        log.error("replica does not start", replica=args.replica, nodes=[args.node] if args.node else [], why=str(exc))
    return _code_of(exc)


def _code_of(exc: Exception) -> int:
    """Exit code for an error that prevented the start."""
    end = end_of(exc)
    if end is not None:
        return end.exit.code
    return (exit_codes.REFUSED if isinstance(exc, SENSELESS) else exit_codes.FAILED).code


def _open(args: argparse.Namespace, process: ProcessSpec, beside: ProcessNotes, closing: ExitStack) -> ReplicaHost:
    kafka, data_dir, checkpoints = process.log, process.data_dir, process.checkpoints
    state = read_app(kafka, args.app)
    if checkpoints:
        check_writable(checkpoints)
    else:
        check_directory(data_dir / args.app / "checkpoints")
    names = [args.node] if args.node else list(state.spec.all_nodes)
    specs = [
        replica_spec(state, node, args.replica, kafka, data_dir, checkpoints, process.engine_memory_bytes)
        for name in names
        for node in parts_of(state.spec, name)
        if args.replica < state.runs.node(node).replicas
    ]
    if not specs:
        raise SettingsError(f"app {args.app}: none of {', '.join(names)} has a replica {args.replica}")
    with ThreadPoolExecutor(1, "index watch") as beside_start:
        watch = None if args.take_over else beside_start.submit(ensure_free, kafka, specs, args.after)
        if process.host != "spark":
            kafka.open_early(len(specs))
            load_engine()  # meanwhile
        if watch is not None:
            watch.result()
    board = StatusRegistry(state, [(spec.node, spec.replica) for spec in specs], afar=process.host == "spark")
    url = _opened_http(process, board, closing)
    specs = [replace(spec, http=url, run=args.run) for spec in specs]
    here, me = ReplicaProcesses(data_dir, args.app), {_name(args)}
    cores = StartCores(args.replica, bool(here.running().keys() - me), bool(here.ready() - me))
    seen = beside.seen(board, cores.done)
    return _tasks(args, process, state, specs, seen) if process.host == "spark" else _threads(state, specs, seen)


def _opened_http(process: ProcessSpec, board: StatusRegistry, closing: ExitStack) -> str:
    """The address of this process's pages; empty: it has none. Raises AddressError, HttpUnavailable."""
    if process.http is None:
        return ""  # and loads nothing for them
    from borealis_py.observe.http_routes import replica_routes
    from borealis_py.observe.http_server import open_http

    return open_http(process.http, replica_routes(board), closing)


def _open_ingress(
    args: argparse.Namespace, process: ProcessSpec, beside: ProcessNotes, closing: ExitStack
) -> ReplicaHost:
    load_engine()
    from borealis_py.runtime.ingress.process import open_ingress

    return open_ingress(args.app, args.ingress, args.run, process, beside, closing)


def _threads(state: AppState, specs: list[ReplicaSpec], seen: StatusListener) -> ReplicaHost:
    """Raises KernelDiffers."""
    from borealis_py.runtime.kernel_check import check_fingerprint
    from borealis_py.runtime.process.threads import ThreadHost

    for spec in specs:
        check_fingerprint(spec, state)
    return ThreadHost(specs, seen)


def _tasks(
    args: argparse.Namespace, process: ProcessSpec, state: AppState, specs: list[ReplicaSpec], seen: StatusListener
) -> ReplicaHost:
    """A host for Spark tasks. Loads no engine: the tasks do, and check it."""
    without("pandas", "numpy", "pyarrow")  # PySpark would load them to convert values that a driver never has
    from borealis_py.runtime.spark.driver import DriverFiles, SparkDriver

    create_topics(process.log, redo_topics_of(state.spec))
    specs = recovering_as_set(specs, process.log)
    output = process.data_dir / args.app / f"{_name(args).stem}.spark.log"
    output.parent.mkdir(parents=True, exist_ok=True)
    fingerprints = tuple(state.description.fingerprint.split(","))
    return SparkDriver(specs, process, fingerprints, DriverFiles(output, args.log), seen)


if __name__ == "__main__":
    sys.exit(main())
