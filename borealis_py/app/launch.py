"""`borealis up` without a command line: check an app, describe it on the broker, start its replicas, wait for them.

Each step is a function of its own, in this order: `check`, `describe`, `start`, `wait_ready`. All may be run again:
what is there stays.
"""

from __future__ import annotations

import json
import shutil
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from borealis_py.app import origin as origins
from borealis_py.app.check import NodeReport as NodeReport
from borealis_py.app.check import check as check
from borealis_py.app.errors import LaunchError
from borealis_py.app.liveness import alive, ensure_nobody
from borealis_py.app.replicas import (
    CHECKPOINTS,
    ENGINE_MEMORY,
    KAFKA_PROPERTIES,
    SPARK_PROPERTIES,
    ProcessName,
    ReplicaProcesses,
    process_names,
    process_of,
)
from borealis_py.app.state import AppState, NoSuchApp, StatusReader, put_settings, read_settings
from borealis_py.app.timing import refuse_other
from borealis_py.app.topics import create_topics, redo_topics_of, topics_of
from borealis_py.config.address import Address
from borealis_py.kafka.log import KafkaLog
from borealis_py.log import topics
from borealis_py.log.base import Log
from borealis_py.log.description import APP_KEY, OtherVersion
from borealis_py.log.messages import Description, Policy, Status, Threshold
from borealis_py.node.checkpoint_storage import LocationError, forget
from borealis_py.protocol.settings import Timing
from borealis_py.query.differences import of_partitions
from borealis_py.query.partitions import physical
from borealis_py.query.spec import AppSpec
from sunion.bucket import Buckets

READY_TIMEOUT_S = 180.0
LOOK_S = 0.1
SERVED_TIMEOUT_S = 15.0


def describe(log: Log, spec: AppSpec, reports: list[NodeReport], origin: str, now_us: int, timing: Timing) -> AppState:
    """Create the app's topics and write its description, unless they are there.

    The origin is written once, the timing while no replica runs. A threshold or policy is written when the file changed
    it, so that one set while the app runs stays.

    Args:
        origin: see `origin.choose`.
        now_us: wall time.
        timing: what `reports` were made with. Replicas and subscribers find it in the description.

    Raises:
        LaunchError: an app with another query runs under this name, or by another timing.
        LogUnreachable: no broker.
    """
    before = described(log, spec.name)
    fingerprint = ",".join(sorted({f for r in reports for f in r.fingerprints}))
    if before is not None:
        refuse_changed(before, spec)
        spec = _in_the_order_of(before.spec, spec)
        _refuse_other_kernel(before, fingerprint)
        refuse_other(log, before, timing, now_us)
    create_topics(log, topics_of(spec))
    buckets = Buckets(spec.bucket_us)
    bucket = origins.choose(log, spec, origin, now_us) if before is None else before.origin
    asked = None if origin in origins.WORDS else buckets.of(origins.parse(origin))
    if asked is not None and asked != bucket:
        raise LaunchError(
            f"app {spec.name!r} has an origin already, {origins.show(buckets.start(bucket))}: it is written once. "
            "`--reset` starts the app anew"
        )
    app_uid = uuid.uuid4().hex[:8] if before is None else before.app_uid
    made_of = {name: what for report in reports for name, what in report.made_of}
    description = Description(spec.to_json(), spec.hash, bucket, fingerprint, app_uid, timing, made_of)
    values: dict[str, msgspec.Struct] = _changed_settings(before, spec)
    if before is None or before.description != description:
        values[APP_KEY] = description  # last: who finds a description finds its settings too
    if values:
        put_settings(log, spec.name, values)
    state = read_settings(log, spec.name)
    assert state is not None, "the description that was just written can be read"
    return state


def refuse_changed(before: AppState, spec: AppSpec) -> None:
    """Raises LaunchError, with both hashes, when the results would be others than those that lie there."""
    if before.hash == spec.hash:
        return
    lines = []
    for name in dict.fromkeys([*before.spec.all_nodes, *spec.all_nodes]):
        old, new = (s.query_hash(name) if name in s.all_nodes else "not there" for s in (before.spec, spec))
        if old != new:
            label = (spec if name in spec.all_nodes else before.spec).label(name)
            lines.append(f"  {label}: {old} on the broker, {new} in the file")
    parted = of_partitions(before.spec, spec)
    if parted:
        lines += ["Their partitions are others, so keys would fall elsewhere:", *(f"  {line}" for line in parted)]
    raise LaunchError(
        f"app {spec.name!r} is on the broker with other queries (hash {before.hash}, the file has {spec.hash}):\n"
        + "\n".join(lines)
        + "\nIts results cannot be continued. Rename the app, or begin anew: `borealis up --reset` deletes its topics"
    )


def _in_the_order_of(before: AppSpec, spec: AppSpec) -> AppSpec:
    """The same app with its nodes in the order they had: a node's place is its partition of the control log."""
    nodes = {name: spec.nodes[name] for name in before.nodes}
    return spec.model_copy(update={"nodes": nodes, "queries": {name: spec.queries[name] for name in before.queries}})


def _refuse_other_kernel(before: AppState, fingerprint: str) -> None:
    """Raises LaunchError when this machine would not compute the bits that lie there already."""
    if before.description.fingerprint != fingerprint:
        raise LaunchError(
            f"app {before.name!r} was described with kernel {before.description.fingerprint}, this machine's is "
            f"{fingerprint}: another engine version, architecture or C library, and its results might differ in a bit. "
            "Use the same version of borealis-py, or begin anew with `borealis up --reset`"
        )


def reset(log: Log, spec: AppSpec, processes: ReplicaProcesses, checkpoints: str = "", take_over: bool = False) -> None:
    """Delete the app's topics and checkpoints. Its replicas below this data directory are stopped first.

    The description goes first, and who writes the corrected streams is fenced before anything is made anew: a writer
    that comes back looks at the description after it has fenced, and finds none or another one (`Replica._resume`).

    Args:
        checkpoints: a URI where they lie too. Those that are left anywhere belong to a life that is over, and are
            not used again.
        take_over: begin anew although replicas elsewhere are alive.

    Raises:
        LaunchError: replicas elsewhere are alive; nothing was changed.
    """
    there = set(_topic_names(log))
    names = {t.name for t in (*topics_of(spec), *redo_topics_of(spec))}
    nodes = set(physical(spec).all_nodes)
    try:
        before = described(log, spec.name)
    except (NoSuchApp, OtherVersion):  # unreadable: exactly what a reset is for
        before = None
    if before is not None:
        names |= {t.name for t in (*topics_of(before.spec), *redo_topics_of(before.spec))}
        nodes |= set(before.runs.all_nodes)
    if not take_over and topics.control(spec.name) in there:
        ensure_nobody(alive(log, spec.name, len(nodes)), [process.pid for process in processes.running().values()])
    processes.stop()
    admin = log.admin()
    try:
        admin.delete([topics.settings(spec.name)])
        admin.delete(sorted(names & there))
        if there & names:
            admin.fence([topics.transactional_id(spec.name, node) for node in sorted(nodes)])
    finally:
        admin.close()
    shutil.rmtree(processes.directory, ignore_errors=True)
    if checkpoints:
        try:
            forget(checkpoints, spec.name)
        except LocationError as exc:
            raise LaunchError(str(exc)) from exc


@dataclass(frozen=True, slots=True)
class ProcessOptions:
    """What the replica processes are told beside the app.

    `http`: of the first; the others take the ports after it. `host`: "process" (no Spark) or "spark"; `master`,
    `redo_slots`, `slot_wait_us` and `spark_properties` are for the latter. `checkpoints`: a URI for them; empty:
    `data_dir`.
    """

    kafka: KafkaLog
    data_dir: Path
    master: str | None = None
    take_over: bool = False
    http: Address | None = None
    host: str = "process"
    redo_slots: int | None = None
    slot_wait_us: int | None = None
    spark_properties: tuple[tuple[str, str], ...] = ()
    checkpoints: str = ""
    engine_memory_bytes: int = 0

    def arguments(self, app: str, process: ProcessName, place: int = 0) -> list[str]:
        """The command line of one process, the one at `place` of the app's. Raises AddressError."""
        out = ["--bootstrap", self.kafka.bootstrap, "--app", app, "--replica", str(process.replica)]
        out += ["--node", process.node] if process.node else []
        out += ["--data-dir", str(self.data_dir)]
        out += ["--master", self.master] if self.master else []
        out += ["--http", str(self.http.after(place))] if self.http else []
        out += ["--host", self.host]
        out += [] if self.redo_slots is None else ["--redo-slots", str(self.redo_slots)]
        out += [] if self.slot_wait_us is None else ["--slot-wait-us", str(self.slot_wait_us)]
        return out + (["--take-over"] if self.take_over else [])

    def environment(self) -> dict[str, str]:
        """Kafka's and Spark's properties, and a URI: a password in them is not for the list of processes."""
        spark = {SPARK_PROPERTIES: json.dumps(dict(self.spark_properties))} if self.spark_properties else {}
        checkpoints = {CHECKPOINTS: self.checkpoints} if self.checkpoints else {}
        memory = {ENGINE_MEMORY: str(self.engine_memory_bytes)} if self.engine_memory_bytes else {}
        return {KAFKA_PROPERTIES: json.dumps(dict(self.kafka.properties)), **spark, **checkpoints, **memory}


Pids = dict[ProcessName, int]


def start(
    state: AppState, processes: ReplicaProcesses, options: ProcessOptions, names: Sequence[ProcessName] = ()
) -> Pids:
    """Start the processes that do not run yet. Returns the pid of each that runs now. Raises AddressError.

    Args:
        names: of all of them; none: one an index.
    """
    wanted = names or process_names(state.spec)
    arguments = {name: options.arguments(state.name, name, place) for place, name in enumerate(wanted)}
    running = {name: process.pid for name, process in processes.running().items()}
    for name in wanted:
        if name not in running:
            running[name] = processes.start(name, arguments[name], options.environment())
    return {name: running[name] for name in wanted}


def keep(state: AppState, processes: ReplicaProcesses, options: ProcessOptions, only: set[ProcessName]) -> Pids:
    """As `start`, of those in `only`, and by a supervisor that starts again what dies, also of those that run already.

    What dies is started again without `--take-over`: it must not take its index from one that lives elsewhere.

    Raises:
        LaunchError, AddressError.
    """
    wanted = process_names(state.spec)
    again = replace(options, take_over=False)
    arguments = {name: again.arguments(state.name, name, place) for place, name in enumerate(wanted) if name in only}
    if not (processes.kept and arguments.keys() <= processes.running().keys()):
        processes.keep(arguments, ["--take-over"] if options.take_over else [], options.environment())
    pids = processes.pids()
    return {name: pids[name] for name in arguments if name in pids}


def resized(before: AppState, after: AppState) -> dict[str, tuple[int, int]]:
    """Nodes that others read, with another number of replicas than before: running readers keep to the old ones."""
    known = before.spec.nodes
    return {
        name: (known[name].replicas, node.replicas)
        for name, node in after.spec.nodes.items()
        if name in known and known[name].replicas != node.replicas
    }


def wait_ready(
    log: Log,
    state: AppState,
    processes: ReplicaProcesses,
    pids: Pids,
    since_ms: int,
    on_status: Callable[[Status], None] = lambda status: None,
    timeout_s: float = READY_TIMEOUT_S,
) -> None:
    """Wait until every replica that these processes run says that it is ready.

    Args:
        pids: kept up to date here, since a supervisor may start a process again meanwhile.
        since_ms: wall time before the processes were started.
        on_status: sees every status while waiting.

    Raises:
        LaunchError: a process ended, with the end of its log; or time ran out.
    """
    missing = {(node, k) for node, k in state.replicas() if process_of(pids, node, k) in pids}
    reader = StatusReader(log, state.name, since_ms)
    deadline = time.monotonic() + timeout_s
    try:
        while True:
            pids.update((name, p.pid) for name, p in processes.running().items() if name in pids)
            for status in reader.poll():
                on_status(status)
                by = process_of(pids, status.node, status.replica)
                if status.pid == pids.get(by) and status.state != "RECOVERING":
                    missing.discard((status.node, status.replica))
            if not missing:
                return
            _refuse_ended(processes, pids)
            if time.monotonic() > deadline:
                names = ", ".join(f"{node}.r{k}" for node, k in sorted(missing))
                behind = sorted({process_of(pids, node, k) for node, k in missing})
                logs = ", ".join(str(processes.log_file(name)) for name in behind)
                raise LaunchError(
                    f"not ready after {timeout_s:g} s: {names}. The processes go on; see {logs}, and `borealis status`"
                )
            time.sleep(LOOK_S)
    finally:
        reader.close()


def _refuse_ended(processes: ReplicaProcesses, pids: Pids) -> None:
    """Raises LaunchError for one that is not started again."""
    running, kept = processes.running(), processes.kept
    fates = processes.fates()  # after that: a supervisor notes an end before it goes
    for name in pids:
        if name not in running and not (kept and not (name in fates and fates[name].final)):
            code = processes.ended(name)
            how = f" ({fates[name].how})" if name in fates else f" with code {code}" if code is not None else ""
            file, tail = processes.log_file(name), processes.log_tail(name)
            raise LaunchError(f"{name} ended while starting{how}. End of {file}:\n{tail}")


def _topic_names(log: Log) -> list[str]:
    admin = log.admin()
    try:
        return admin.topics()
    finally:
        admin.close()


def described(log: Log, app: str) -> AppState | None:
    """The app as it lies on the broker; None: it is not there. Raises NoSuchApp for one that cannot be read."""
    return read_settings(log, app) if topics.settings(app) in _topic_names(log) else None


def _changed_settings(before: AppState | None, spec: AppSpec) -> dict[str, msgspec.Struct]:
    values: dict[str, msgspec.Struct] = {}
    for name, query in spec.queries.items():
        old = before.spec.queries.get(name) if before is not None else None
        if old is None or old.threshold_us != query.threshold_us:
            values[f"threshold/{name}"] = Threshold(query.threshold_us)
        policy = (query.on_failure, query.on_stabilization)
        if old is None or (old.on_failure, old.on_stabilization) != policy:
            values[f"policy/{name}"] = Policy(*policy)
    return values
