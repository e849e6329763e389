"""The process of one replica index: one loop a node.

    python -m borealis_py.runtime.process --bootstrap localhost:9092 --app flights --replica 0 --data-dir .borealis

It runs that replica of all nodes and queries, or with --node NAME (more than once, if you like) of these: in this
process and without Spark (`runtime/threads.py`), or with --host spark as tasks of a Spark application of its own
(`runtime/spark`), and then without the engine, which only tasks load.

A crash of one process never touches the other. SIGTERM and SIGINT end it in order.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import structlog

from borealis_py.app import exit_codes
from borealis_py.app.replicas import (
    CHECKPOINTS,
    ENGINE_MEMORY,
    KAFKA_PROPERTIES,
    SPARK_PROPERTIES,
    ProcessName,
    ReplicaProcesses,
)
from borealis_py.app.state import AppState, read_app
from borealis_py.app.topics import create_topics, redo_topics_of
from borealis_py.config.address import AddressError
from borealis_py.config.logs import configure_logs
from borealis_py.config.signals import set_by
from borealis_py.kafka.log import KafkaLog
from borealis_py.log.base import LogError
from borealis_py.node.checkpoint_storage import LocationError
from borealis_py.node.probe import check_directory, check_writable
from borealis_py.node.reporter import StatusListener
from borealis_py.node.spec import ReplicaSpec
from borealis_py.observe.http_server import HttpUnavailable, open_http
from borealis_py.observe.status_registry import StatusRegistry
from borealis_py.protocol.settings import SettingsError
from borealis_py.query.errors import QueryError
from borealis_py.query.partitions import parts_of
from borealis_py.runtime.cpu_affinity import StartCores
from borealis_py.runtime.ends import KernelDiffers, end_of
from borealis_py.runtime.index_in_use import IndexTaken, ensure_free
from borealis_py.runtime.lean_imports import load_engine, without
from borealis_py.runtime.process_notes import ProcessNotes
from borealis_py.runtime.specs import replica_spec

log = structlog.get_logger("borealis.host")

HOSTS = ("process", "spark")
NOT_STARTED = (
    LogError,
    QueryError,
    SettingsError,
    IndexTaken,
    KernelDiffers,
    AddressError,
    HttpUnavailable,
    LocationError,
)
"""What stands in the way of a start, told as one line."""
SENSELESS = (QueryError, SettingsError, AddressError)
"""Those of them that another attempt does not change."""
LOCAL = "local"
"""Spark on this machine, with as many slots as it takes for replicas and redos."""


class ReplicaHost(Protocol):
    """Runs the replicas of this process."""

    stop: threading.Event

    def run(self) -> int:
        """Run until stopped; returns the exit code."""


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="borealis_py.runtime.process", description="One replica index of an app.")
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--app", required=True)
    parser.add_argument("--replica", type=int, required=True)
    parser.add_argument("--node", action="append", default=[], help="run this node or query instead of all")
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--host", choices=HOSTS, default=HOSTS[0], help="where replicas run")
    parser.add_argument("--master", help="with --host spark; default: this machine, with as many slots as it takes")
    parser.add_argument("--redo-slots", type=int, help="with --host spark: slots for redo jobs")
    parser.add_argument("--slot-wait-us", type=int, help="with --host spark")
    parser.add_argument("--take-over", action="store_true")
    parser.add_argument("--http", metavar="HOST:PORT", help="answer HTTP there; port 0: any free one")
    parser.add_argument("--run", default="", help="name of this run: all its incarnations' uids begin with it")
    parser.add_argument("--after", default="", metavar="RUN", help="the run before, which has ended")
    parser.add_argument("--log", default="", metavar="FILE", help="that standard error is, and that is to be bounded")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    """Returns one of the exit codes in `exit_codes.py`."""
    args = parse(argv)
    configure_logs(file=args.log)
    beside = ProcessNotes(args.data_dir / args.app / _name(args).stem, args.run)
    code = exit_codes.FAILED.code
    try:
        with ExitStack() as closing:
            code = _run(args, beside, closing)
        return code
    finally:
        beside.ended(code)


def _name(args: argparse.Namespace) -> ProcessName:
    return ProcessName(args.replica, args.node[0] if args.node else "")


def _run(args: argparse.Namespace, beside: ProcessNotes, closing: ExitStack) -> int:
    """`closing`: ends what is open once the replicas have ended."""
    try:
        process = _open(args, beside, closing)
    except NOT_STARTED as exc:
        log.error("replica does not start", replica=args.replica, nodes=args.node, why=str(exc))
        return _code_of(exc)
    set_by((signal.SIGTERM, signal.SIGINT), process.stop)
    return process.run()


def _code_of(exc: Exception) -> int:
    """Of what stood in the way of a start."""
    end = end_of(exc)
    if end is not None:
        return end.exit.code
    return (exit_codes.REFUSED if isinstance(exc, SENSELESS) else exit_codes.FAILED).code


def _open(args: argparse.Namespace, beside: ProcessNotes, closing: ExitStack) -> ReplicaHost:
    kafka = KafkaLog.of(args.bootstrap, json.loads(os.environ.get(KAFKA_PROPERTIES, "{}")))
    state, checkpoints = read_app(kafka, args.app), os.environ.get(CHECKPOINTS, "")
    memory_bytes = int(os.environ.get(ENGINE_MEMORY, "0"))
    if checkpoints:
        check_writable(checkpoints)
    else:
        check_directory(args.data_dir / args.app / "checkpoints")
    names = args.node or list(state.spec.all_nodes)
    specs = [
        replica_spec(state, node, args.replica, kafka, args.data_dir, checkpoints, memory_bytes)
        for name in names
        for node in parts_of(state.spec, name)
        if args.replica < state.runs.node(node).replicas
    ]
    if not specs:
        raise SettingsError(f"app {args.app}: none of {', '.join(names)} has a replica {args.replica}")
    if not args.take_over:
        ensure_free(kafka, specs, args.after)
    board = StatusRegistry(state, [(spec.node, spec.replica) for spec in specs], afar=args.host == "spark")
    url = open_http(args.http, board, closing)
    specs = [replace(spec, http=url, run=args.run) for spec in specs]
    others = ReplicaProcesses(args.data_dir, args.app).running().keys() - {_name(args)}
    cores = StartCores(args.replica, bool(others))
    seen = beside.seen(board, cores.done)
    return _tasks(args, state, kafka, specs, seen) if args.host == "spark" else _threads(state, specs, seen)


def _threads(state: AppState, specs: list[ReplicaSpec], seen: StatusListener) -> ReplicaHost:
    """Raises KernelDiffers."""
    load_engine()
    from borealis_py.runtime.kernel_check import check_fingerprint
    from borealis_py.runtime.threads import ThreadHost

    for spec in specs:
        check_fingerprint(spec, state)
    return ThreadHost(specs, seen)


def _tasks(
    args: argparse.Namespace, state: AppState, kafka: KafkaLog, specs: list[ReplicaSpec], seen: StatusListener
) -> ReplicaHost:
    """Loads no engine: tasks do, and they check it."""
    without("pandas", "numpy", "pyarrow")  # PySpark would load them to convert what a driver never has
    from borealis_py.runtime.spark.driver import SLOT_WAIT_S, DriverSettings, SparkDriver
    from borealis_py.runtime.spark.slot_plan import redos_for

    create_topics(kafka, redo_topics_of(state.spec))
    output = args.data_dir / args.app / f"{_name(args).stem}.spark.log"
    output.parent.mkdir(parents=True, exist_ok=True)
    extra = json.loads(os.environ.get(SPARK_PROPERTIES, "{}"))
    master, wait_s = args.master or LOCAL, SLOT_WAIT_S if args.slot_wait_us is None else args.slot_wait_us / 1e6
    redos = redos_for(master, len(specs)) if args.redo_slots is None else args.redo_slots
    settings = DriverSettings(master, redos, output, wait_s, tuple(extra.items()), args.log)
    return SparkDriver(specs, kafka, tuple(state.description.fingerprint.split(",")), settings, seen)


if __name__ == "__main__":
    sys.exit(main())
