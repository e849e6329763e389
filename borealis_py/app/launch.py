"""`borealis up` as functions: check an app, describe it on the broker, start its replicas, wait for them.

Call them in this order: `check`, `reset` to begin anew, `store_functions`, `describe`, `start_processes` or `keep`,
`wait_ready`. All but `reset` are idempotent: what exists stays.
"""

from __future__ import annotations

import shutil
import time
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence

import msgspec

from borealis_py.app import origin as origins
from borealis_py.app.check import NodeReport as NodeReport
from borealis_py.app.check import check as check
from borealis_py.app.errors import LaunchError
from borealis_py.app.liveness import alive, ensure_nobody
from borealis_py.app.process_spec import ProcessSpec
from borealis_py.app.recovery_in_force import refuse_unfit
from borealis_py.app.replicas import ProcessName, ReplicaProcesses, process_names, process_of
from borealis_py.app.source_ended import ended_sources
from borealis_py.app.state import AppState, NoSuchApp, StatusReader, put_settings, read_settings
from borealis_py.app.timing import refuse_other
from borealis_py.app.topics import AppTopics, create_topics, redo_topics_of, refuse_small_topics, topics_of
from borealis_py.engine.applied.loader import load
from borealis_py.log import topics
from borealis_py.log.base import Log
from borealis_py.log.description import APP_KEY, OtherVersion
from borealis_py.log.ingress_status import IngressRole
from borealis_py.log.messages import (
    Description,
    ExpectedSilence,
    Policy,
    RecoverySetting,
    RetainSetting,
    Status,
    Threshold,
)
from borealis_py.node.checkpoint_storage import LocationError, forget
from borealis_py.node.checkpoint_topic import KAFKA
from borealis_py.node.code_storage import StoredCode
from borealis_py.protocol.settings import Timing
from borealis_py.query.differences import of_columns, of_functions, of_partitions
from borealis_py.query.names import base_name
from borealis_py.query.partitions import physical
from borealis_py.query.spec import AppSpec, Beginning
from sunion.bucket import Buckets

READY_TIMEOUT_S = 180.0
LOOK_S = 0.1
Pids = dict[ProcessName, int]
"""The process that runs under each name."""


def describe(
    log: Log,
    spec: AppSpec,
    reports: list[NodeReport],
    origin: str,
    now_us: int,
    timing: Timing,
    first_foreign_us: Callable[[], int | None] = lambda: None,
    beginnings: Callable[[], Mapping[str, Beginning]] = dict,
    known: AppTopics | None = None,
) -> AppState:
    """Create the app's topics and write its description, unless they exist.

    The origin is written once, the timing only while no replica runs. A threshold, policy or expected silence is
    written if the file changed it, so that one set while the app runs stays.

    Args:
        origin: see `origin.choose`.
        now_us: wall time.
        timing: the one used for `reports`. Replicas and subscribers take it from the description.
        first_foreign_us: called for a new app: the time of the first row in topics that are read from their beginning.
        beginnings: called for a new app: where it begins to read the other topics.
        known: the app's topics, which are asked for once they have been made.

    Raises:
        LaunchError: an app of this name has other queries, or runs with another timing, or its topics are too small.
        LogUnreachable: no broker.
    """
    before = described(log, spec.name)
    fingerprint = ",".join(sorted({f for r in reports for f in r.fingerprints}))
    if before is not None:
        refuse_changed(before, spec)
        spec = _in_the_order_of(before.spec, spec)
        _refuse_other_kernel(before, fingerprint)
        refuse_unfit(before, spec)
        refuse_other(log, before, timing, now_us)
    create_topics(log, topics_of(spec))
    refuse_small_topics(log, spec, timing.row_max_bytes, known)
    begun = beginnings() if before is None else before.spec.beginnings
    spec = spec.model_copy(update={"beginnings": dict(begun)})
    buckets = Buckets(spec.bucket_us)
    bucket = origins.choose(log, spec, origin, now_us, first_foreign_us()) if before is None else before.origin
    asked = None if origin in origins.WORDS else buckets.of(origins.parse(origin))
    if asked is not None and asked != bucket:
        raise LaunchError(
            f"app {spec.name!r} already has an origin, {origins.show(buckets.start(bucket))}: it is written once. "
            "`--reset` starts the app anew"
        )
    app_uid = uuid.uuid4().hex[:8] if before is None else before.app_uid
    made_of = {name: what for report in reports for name, what in report.made_of}
    description = Description(spec.to_json(), spec.hash, bucket, fingerprint, app_uid, timing, made_of)
    values: dict[str, msgspec.Struct] = _changed_settings(before, spec, app_uid)
    if before is None or before.description != description:
        values[APP_KEY] = description  # last: whoever finds a description finds its settings, too
    if values:
        put_settings(log, spec.name, values)
    state = read_settings(log, spec.name)
    if state is None:
        raise LaunchError(
            f"the description of app {spec.name!r} was written and is gone: another `borealis up --reset` is at work"
        )
    return state


def described(log: Log, app: str) -> AppState | None:
    """The app as described on the broker; None: it is not there. Raises NoSuchApp for one that cannot be read."""
    return read_settings(log, app) if topics.settings(app) in _topic_names(log) else None


def refuse_changed(before: AppState, spec: AppSpec) -> None:
    """Raises LaunchError, with both hashes, if the results would differ from those already written."""
    if before.hash == spec.hash:
        return
    lines = []
    for name in dict.fromkeys([*before.spec.all_nodes, *spec.all_nodes]):
        old, new = (s.query_hash(name) if name in s.all_nodes else "not there" for s in (before.spec, spec))
        if old != new:
            label = (spec if name in spec.all_nodes else before.spec).label(name)
            lines.append(f"  {label}: {old} on the broker, {new} in the file")
    lines += [f"  {line}" for line in (*of_columns(before.spec, spec), *of_functions(before.spec, spec))]
    parted = of_partitions(before.spec, spec)
    if parted:
        lines += ["Their partitions differ, so keys would move:", *(f"  {line}" for line in parted)]
    raise LaunchError(
        f"app {spec.name!r} is on the broker with other queries (hash {before.hash}, the file has {spec.hash}):\n"
        + "\n".join(lines)
        + "\nIts results cannot be continued. Rename the app, or start anew: `borealis up --reset` deletes its topics"
    )


def _in_the_order_of(before: AppSpec, spec: AppSpec) -> AppSpec:
    """The app with its nodes in their previous order: a node's position is its partition of the control log."""
    nodes = {name: spec.nodes[name] for name in before.nodes}
    return spec.model_copy(update={"nodes": nodes, "queries": {name: spec.queries[name] for name in before.queries}})


def _refuse_other_kernel(before: AppState, fingerprint: str) -> None:
    """Raises LaunchError if this machine would not compute the same bits as before."""
    if before.description.fingerprint != fingerprint:
        raise LaunchError(
            f"app {before.name!r} was described with kernel {before.description.fingerprint}, this machine's is "
            f"{fingerprint}: another engine version, architecture or C library, and its results might differ in a bit. "
            "Use the same version of borealis-py, or start anew with `borealis up --reset`"
        )


def _changed_settings(before: AppState | None, spec: AppSpec, app_uid: str) -> dict[str, msgspec.Struct]:
    values: dict[str, msgspec.Struct] = {}
    for name, query in spec.queries.items():
        old = before.spec.queries.get(name) if before is not None else None
        if old is None or old.threshold_us != query.threshold_us:
            values[f"threshold/{name}"] = Threshold(query.threshold_us, app_uid)
        policy = (query.on_failure, query.on_stabilization)
        if old is None or (old.on_failure, old.on_stabilization) != policy:
            values[f"policy/{name}"] = Policy(*policy, app_uid)
    if before is not None:
        for name, one in spec.ingresses.items():
            declared = before.spec.ingresses.get(name)
            if declared is not None and declared.expect_us != one.expect_us:
                values[f"expect/{name}"] = ExpectedSilence(before.app_uid, one.expect_us)
    streams = [] if before is None else [*spec.sources, *spec.all_nodes]
    for name in streams:
        if before is not None and before.spec.keeps(name) != spec.keeps(name):
            values[f"retain/{name}"] = RetainSetting.of(before.app_uid, spec.keeps(name))
    if before is not None:
        plans = before.changed_recovery(physical(spec))
        values |= {f"recovery/{name}": RecoverySetting.of(before.app_uid, plan) for name, plan in plans.items()}
    return values


def store_functions(spec: AppSpec, code: StoredCode) -> None:
    """Copy the files of the app's functions to where replicas look for them, and load the functions from there.

    Raises:
        LaunchError: they cannot be kept there. FunctionDiffers: a function does not load.
    """
    try:
        code.store(spec)
    except LocationError as exc:
        raise LaunchError(f"app {spec.name!r}: {exc}") from exc
    for function in spec.functions:
        load(function, code)


def resized(before: AppState, after: AppState) -> dict[str, tuple[int, int]]:
    """Nodes read by others whose number of replicas changed: (before, after). Running readers keep the old number."""
    known = before.spec.nodes
    return {
        name: (known[name].replicas, node.replicas)
        for name, node in after.spec.nodes.items()
        if name in known and known[name].replicas != node.replicas
    }


def waits_changed(before: AppState, after: AppState) -> list[str]:
    """Sources whose foreign topic is waited for in another way than before. Running ingresses keep the old one, but for
    the silence that they expect, which is a setting."""
    known = before.spec.ingresses
    now = {name: i for name, i in after.spec.ingresses.items() if name in known}
    return [n for n, i in now.items() if known[n] != i.model_copy(update={"expect_us": known[n].expect_us})]


def reset(log: Log, spec: AppSpec, processes: ReplicaProcesses, checkpoints: str = "", take_over: bool = False) -> None:
    """Delete the app's topics and checkpoints, after stopping its replicas below this data directory.

    The description is deleted first, and the writers of corrected streams are fenced before anything is created: a
    writer that comes back looks at the description after it has fenced, and finds none or another one
    (`Replica._resume`).

    Args:
        checkpoints: a URI where checkpoints are stored, too, or `kafka`. Any that remain belong to a past life and are
            not used again.
        take_over: start anew even though replicas elsewhere are alive.

    Raises:
        LaunchError: replicas elsewhere are alive; nothing was changed.
    """
    there = set(_topic_names(log))
    names = {t.name for t in (*topics_of(spec), *redo_topics_of(spec))}
    nodes = set(physical(spec).all_nodes)
    try:
        before = described(log, spec.name)
    except (NoSuchApp, OtherVersion):  # unreadable: a reset is meant for exactly that
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
        kept = {name for name in there if topics.keeper_of(spec.name, name) is not None}
        admin.delete(sorted((names & there) | kept))
        if there & names:
            admin.fence([topics.transactional_id(spec.name, node) for node in sorted(nodes)])
    finally:
        admin.close()
    shutil.rmtree(processes.directory, ignore_errors=True)
    if checkpoints and checkpoints != KAFKA:
        try:
            forget(checkpoints, spec.name)
        except LocationError as exc:
            raise LaunchError(str(exc)) from exc


def _topic_names(log: Log) -> list[str]:
    admin = log.admin()
    try:
        return admin.topics()
    finally:
        admin.close()


def start_processes(
    state: AppState,
    processes: ReplicaProcesses,
    spec: ProcessSpec,
    names: Sequence[ProcessName] = (),
    take_over: bool = False,
) -> Pids:
    """Start the processes that are not running. Returns the pid of each that runs now. Raises AddressError.

    Args:
        names: all processes of the app; empty: `process_names`.
        take_over: take their indices even from processes that live elsewhere.
    """
    wanted = names or process_names(state.spec)
    specs = {name: spec.at(place) for place, name in enumerate(wanted)}
    running = {name: process.pid for name, process in processes.running().items()}
    for name in wanted:
        if name not in running:
            running[name] = processes.start_process(name, specs[name], take_over)
    return {name: running[name] for name in wanted}


def keep(
    state: AppState, processes: ReplicaProcesses, spec: ProcessSpec, only: set[ProcessName], take_over: bool = False
) -> Pids:
    """Like `start_processes` for those in `only`, but under a supervisor, which restarts any process that dies, also
    those that run already.

    Args:
        take_over: at the first start only: a restarted process must not take its index from one that lives elsewhere.

    Raises:
        LaunchError, AddressError.
    """
    wanted = process_names(state.spec)
    specs = {name: spec.at(place) for place, name in enumerate(wanted) if name in only}
    if not (processes.kept and specs.keys() <= processes.running().keys()):
        processes.keep(specs, take_over)
    pids = processes.pids()
    return {name: pids[name] for name in specs if name in pids}


def surplus(state: AppState, processes: ReplicaProcesses) -> list[ProcessName]:
    """Processes that run and that the app does not have any more: its replicas became fewer."""
    wanted = process_names(state.spec)
    return [name for name in processes.running() if name not in wanted]


def wait_ready(
    log: Log,
    state: AppState,
    processes: ReplicaProcesses,
    pids: Pids,
    since_ms: int,
    on_status: Callable[[Status], None] = lambda status: None,
    timeout_s: float = READY_TIMEOUT_S,
) -> None:
    """Wait until every replica and ingress that these processes run reports that it is ready.

    Args:
        pids: updated here, since a supervisor may restart a process meanwhile.
        since_ms: wall time before the processes were started.
        on_status: called with every status while waiting.

    Raises:
        LaunchError: a process ended (the message quotes the end of its log), or the time ran out.
    """
    missing = {(node, k) for node, k in state.replicas() if process_of(pids, node, k) in pids}
    ended = _ended_ingresses(log, state)
    starting = {
        (source, k) for source, k in state.ingresses() if ProcessName(k, ingress=True) in pids and source not in ended
    }
    # Their source has ended, and their process may have, too. One that goes on for another source says so only once.
    over = {(source, k) for source, k in state.ingresses() if source in ended}
    reader = StatusReader(log, state.name, since_ms)
    deadline = time.monotonic() + timeout_s
    try:
        while True:
            running = processes.running()  # before statuses are read: one that ends has told why
            pids.update((name, p.pid) for name, p in running.items() if name in pids)
            for status in reader.poll():
                on_status(status)
                by = process_of(pids, status.node, status.replica)
                if status.pid == pids.get(by) and status.state != "RECOVERING":
                    missing.discard((status.node, status.replica))
            for key in list(starting):
                told = reader.ingresses.get(key)
                if (
                    told is not None
                    and told.pid == pids.get(ProcessName(key[1], ingress=True))
                    and told.reads_its_source
                ):
                    starting.discard(key)
                    if told.role is IngressRole.ENDED:
                        over.add(key)
            if not missing and not starting:
                return
            done = [
                n for n in pids if n.ingress and all((source, n.replica) in over for source in state.spec.ingresses)
            ]
            _refuse_ended(processes, {name: pid for name, pid in pids.items() if name not in done}, running)
            if time.monotonic() > deadline:
                raise LaunchError(_why_late(processes, pids, missing, starting, timeout_s))
            time.sleep(LOOK_S)
    finally:
        reader.close()


def _why_late(
    processes: ReplicaProcesses,
    pids: Pids,
    missing: Collection[tuple[str, int]],
    starting: Collection[tuple[str, int]],
    timeout_s: float,
) -> str:
    """The replicas (`missing`) and ingresses (`starting`) that are not ready, and the logs of their processes."""
    late = [f"{node}.r{k}" for node, k in sorted(missing)]
    names = ", ".join([*late, *(f"ingress {k} of {source}" for source, k in sorted(starting))])
    behind = {process_of(pids, *key) for key in missing} | {ProcessName(k, ingress=True) for _, k in starting}
    logs = ", ".join(str(processes.log_file(name)) for name in sorted(behind))
    return f"not ready after {timeout_s:g} s: {names}. They keep running; see {logs}, and `borealis status`"


def _ended_ingresses(log: Log, state: AppState) -> frozenset[str]:
    """The sources whose ingresses have written END into each of their inputs. Raises LogUnreachable."""
    if not state.spec.ingresses:
        return frozenset()
    ended = ended_sources(log, state)
    going_on = {base_name(name) for name, over in ended.items() if not over}
    return frozenset(state.spec.ingresses) - going_on


def _refuse_ended(processes: ReplicaProcesses, pids: Pids, running: Collection[ProcessName]) -> None:
    """Raises LaunchError if a process ended and will not be restarted."""
    kept = processes.kept
    fates = processes.fates()  # read after that: a supervisor notes an end before it exits
    for name in pids:
        if name not in running and not (kept and not (name in fates and fates[name].final)):
            code = processes.ended(name)
            how = f" ({fates[name].how})" if name in fates else f" with code {code}" if code is not None else ""
            file, tail = processes.log_file(name), processes.log_tail(name)
            raise LaunchError(f"{name} ended while starting{how}. End of {file}:\n{tail}")
