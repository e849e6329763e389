"""`borealis up`: check an app, create its topics, start its replicas and ingresses, wait until they are ready."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from borealis_py.cli.commands.check import AppFile
from borealis_py.cli.commands.retain import accept_all_times, fit_segments, say_copies
from borealis_py.cli.shared.console import INTERRUPTED, say, waiting
from borealis_py.cli.shared.context import Context, open_context
from borealis_py.cli.shared.foreign import (
    check_clusters,
    first_foreign_us,
    foreign_beginnings,
    say_left_out,
    say_remarks,
    with_described_inputs,
)
from borealis_py.cli.shared.options import Bootstrap, DataDir, Http

if TYPE_CHECKING:
    from borealis_py.app.launch import Pids
    from borealis_py.app.process_spec import ProcessSpec
    from borealis_py.app.replicas import ReplicaProcesses
    from borealis_py.app.state import AppState
    from borealis_py.log.messages import Status

HOSTS = ("spark", "process")
Host = Annotated[
    str,
    typer.Option(
        "--host",
        help="Where replicas run: as tasks of a Spark application for each index (spark), or in a process on this "
        "machine for each (process: no Spark, no Java).",
    ),
]
Master = Annotated[
    str | None,
    typer.Option(
        "--master",
        help="Spark's master: local[n], spark://host:port ... Also in borealis.yaml.",
        show_default="this machine, with as many slots as it takes",
    ),
]
Origin = Annotated[
    str,
    typer.Option(
        "--origin",
        help="First bucket: earliest (of the sources' tuples, else now less the lateness of topics), now, or a time "
        "(ISO 8601 or microseconds). Earlier tuples are late. Written once.",
    ),
]
Reset = Annotated[
    bool, typer.Option("--reset", help="Delete the app's topics, checkpoints, logs and audits, and begin anew.")
]
TakeOver = Annotated[bool, typer.Option("--take-over", help="Take the place of replicas that run elsewhere.")]
NoRestart = Annotated[
    bool,
    typer.Option("--no-restart", help="Start replicas once; leave no supervisor that starts again what dies."),
]
DescribeOnly = Annotated[
    bool,
    typer.Option(
        "--describe-only",
        help="Write topics and description only; replicas run elsewhere, each started with `borealis replica`.",
    ),
]


def check_host(host: str, master: str | None = None) -> None:
    """Raises typer.BadParameter for an invalid host, or a master without Spark."""
    if host not in HOSTS:
        raise typer.BadParameter(f"{host!r}: choose {' or '.join(HOSTS)}", param_hint="--host")
    if host == "process" and master:
        raise typer.BadParameter("--host process runs without Spark: leave out --master", param_hint="--master")


def up(
    ctx: typer.Context,
    file: AppFile,
    bootstrap: Bootstrap = None,
    data_dir: DataDir = None,
    host: Host = "spark",
    origin: Origin = "earliest",
    reset: Reset = False,
    take_over: TakeOver = False,
    http: Http = None,
    master: Master = None,
    describe_only: DescribeOnly = False,
    no_restart: NoRestart = False,
) -> None:
    """Start an app, or the missing parts of it. Safe to repeat.

    Its parts are its replicas and, if it reads topics of other programs, two ingresses that copy them. Processes that
    die are restarted by a small supervisor, until `borealis down`.
    """
    check_host(host, master)
    from borealis_py.app.loader import load_spec
    from borealis_py.app.process_spec import ProcessSpec
    from borealis_py.app.replicas import ReplicaProcesses
    from borealis_py.app.up_lock import alone
    from borealis_py.node.code_storage import StoredCode
    from borealis_py.runtime.lean_imports import hidden

    context = open_context(bootstrap, data_dir, http)
    context.log.open_early()  # for the description: the engine loads meanwhile
    spec = with_described_inputs(load_spec(file), context, anew=reset)  # first: the file may want pandas
    timing = context.config.protocol_timing()
    with hidden("pandas"):  # the engine would load it, for 0.2 s, and has no use for it here
        from borealis_py.app import launch
        from borealis_py.app.check import check_places
        from borealis_py.app.topics import AppTopics

        reports = launch.check(spec, timing)
    check_clusters(spec, context.config)
    say_remarks(spec, timing)
    processes = ReplicaProcesses(context.data_dir, spec.name)
    if not describe_only:
        check_places(spec.name, context.config.checkpoints, processes.directory)
    context.check_broker()  # last: what is wrong with the file or a place comes first
    if reset or not describe_only:
        ctx.with_resource(alone(context.data_dir, spec.name, partial(say, style="yellow")))
    if reset:
        with waiting(f"deleting app {spec.name}"):
            launch.reset(context.log, spec, processes, context.config.checkpoints, take_over)
    if spec.functions:
        launch.store_functions(spec, StoredCode(spec.name, processes.directory, context.config.checkpoints))
    with waiting(f"describing app {spec.name} at {context.log.bootstrap}"):
        before = launch.described(context.log, spec.name)
        first = partial(first_foreign_us, spec, context, timing)
        begun = partial(foreign_beginnings, spec, context, timing)
        known = AppTopics(context.log, spec, [one.topic for one in spec.ingresses.values() if one.cluster is None])
        now_us = time.time_ns() // 1000
        state = launch.describe(context.log, spec, reports, origin, now_us, timing, first, begun, known)
    if before is None:
        say_left_out(state.spec)
    fit_segments(context.log, state)
    accept_all_times(context.log, state.spec, known)
    say_copies(state.spec, context, known)
    given = ctx.get_parameter_source("origin")
    asked = origin if given is not None and given.name == "COMMANDLINE" else None
    _say_description(context, before, state, asked)
    if describe_only:
        say(f"app {state.name} is described at {context.log.bootstrap}", "bold green")
        return
    if before is not None:
        _say_unlike_running(before, state, processes)
        _say_all_ended(context, state)
    replicas = ProcessSpec.of(context.config, context.log, host, master)
    _start(context, state, processes, replicas, not no_restart, take_over)


def _say_description(context: Context, before: AppState | None, state: AppState, asked: str | None) -> None:
    """What a user should know of the app as it is described now.

    Args:
        before: as it was described before; None: it was not.
        asked: the origin that the command line names, if it does.
    """
    from borealis_py.app.clocks import ahead_of_broker_us
    from borealis_py.app.settings import kept_too_short_now
    from borealis_py.app.timing import differences
    from borealis_py.log.clock import apart
    from borealis_py.query import format_duration

    if differs := apart(ahead_of_broker_us(context.log, state.name)):
        say(f"{differs}: results are right all the same, but set it: a publisher here may go by it", "yellow")
    if before is not None and asked is not None:
        _tell_origin(state, asked)
    if before is not None and (other := differences(before.timing, state.timing)):
        say(f"timing of app {state.name}: {', '.join(other)}", "yellow")
    for query, why in kept_too_short_now(state).items():
        least = format_duration(state.threshold_us(query))
        say(f"{why}. `borealis retain {query} {least}` keeps enough, `borealis threshold` waits less", "yellow")


def _say_unlike_running(before: AppState, state: AppState, processes: ReplicaProcesses) -> None:
    """In what the processes that run differ from the description: only a new start would follow it."""
    from borealis_py.app import launch

    if not processes.running():
        return
    for node, (old, new) in launch.resized(before, state).items():
        say(
            f"node {node} has {new} replicas now, {old} before: running processes still read {old}; "
            "`borealis down` and `borealis up` have all of them read",
            "yellow",
        )
    for process in launch.surplus(state, processes):
        say(
            f"{process} goes on, and the app's file has no such replica any more: `borealis down` and "
            "`borealis up` end it",
            "yellow",
        )
    for source in launch.waits_changed(before, state):
        say(
            f"source {source}: its ingresses run as they were started; `borealis down` and `borealis up` have them "
            "wait as the app's file says now",
            "yellow",
        )


def _say_all_ended(context: Context, state: AppState) -> None:
    from borealis_py.app.source_ended import ended_sources

    if all((ended := ended_sources(context.log, state)).values()):
        say(
            f"every source of app {state.name} has ended ({', '.join(ended)}): nothing can follow END, so no row will "
            "come. `borealis up --reset` begins anew",
            "yellow",
        )


def _tell_origin(state: AppState, asked: str) -> None:
    """What holds, where an origin was asked for that an app has already. Another time than its own is refused."""
    from borealis_py.app.origin import WORDS, show
    from sunion.bucket import Buckets

    if asked in WORDS:
        begun = show(Buckets(state.spec.bucket_us).start(state.origin))
        say(
            f"app {state.name} begins at {begun}, which was written once: --origin {asked} changes nothing. "
            f"`borealis up --reset --origin {asked}` begins anew",
            "yellow",
        )


def _start(
    context: Context,
    state: AppState,
    processes: ReplicaProcesses,
    spec: ProcessSpec,
    restart: bool,
    take_over: bool,
) -> None:
    from borealis_py.app import launch
    from borealis_py.app.child_processes import terminated_as_interrupt
    from borealis_py.app.replicas import process_of
    from borealis_py.app.supervision import available
    from borealis_py.cli.shared.replica_table import too_late
    from borealis_py.runtime.spark import class_archive

    if spec.host == "spark":
        with waiting("starting replicas") as spinner:
            class_archive.prepare(spinner.update)
    before, kept = set(processes.running()), processes.kept
    if restart and not available():
        restart = False
        say("this system has no /proc: replicas that die are not started again", "yellow")
    seen: dict[tuple[str, int], Status] = {}
    try:
        with terminated_as_interrupt(), waiting("starting replicas") as spinner:
            pids = _started(context, state, processes, spec, restart, take_over, seen, spinner)
    except KeyboardInterrupt:
        with waiting("interrupted: stopping what was started"):
            processes.stop([name for name in processes.running() if name not in before])
            if kept and before:
                launch.keep(state, processes, spec, before, take_over)
        raise typer.Exit(INTERRUPTED) from None
    finally:
        processes.release()
    others = {host for name, host in processes.hosts().items() if name in before and host != spec.host}
    if others:
        say(
            f"--host {spec.host} does not change what runs: it goes on with --host {', '.join(sorted(others))}, as "
            "it was started. `borealis down` and `borealis up` change it",
            "yellow",
        )
    urls = {process_of(pids, s.node, s.replica): f"; {s.http}" for s in seen.values() if s.http}
    for process, pid in pids.items():
        runs = [name for name, node in state.spec.all_nodes.items() if process.replica < node.replicas]
        nodes = ", ".join(state.spec.ingresses if process.ingress else runs)
        told = "was running" if process in before else "started"
        say(f"{process} {told} (pid {pid}): {nodes}; log {processes.log_file(process)}{urls.get(process, '')}")
    for line in dict.fromkeys(line for query in state.spec.queries for line in too_late(state, query, seen)):
        say(line, "yellow")
    names = ", ".join(f"{state.name}.{query}" for query in state.spec.queries)
    say(f"app {state.name} is up. Corrected streams: {names} at {context.log.bootstrap}", "bold green")


def _started(
    context: Context,
    state: AppState,
    processes: ReplicaProcesses,
    spec: ProcessSpec,
    restart: bool,
    take_over: bool,
    seen: dict[tuple[str, int], Status],
    spinner: Any,
) -> Pids:
    """Start what is not running and wait until all replicas are ready; stores their last statuses in `seen`."""
    from borealis_py.app import launch
    from borealis_py.app.errors import LaunchError
    from borealis_py.app.liveness import alive, explain_taken
    from borealis_py.app.replicas import process_names, process_of

    since_ms, alone = time.time_ns() // 1_000_000 - 1, not processes.running()
    if restart:
        pids = launch.keep(state, processes, spec, set(process_names(state.spec)), take_over)
    else:
        processes.release_supervisor()
        pids = launch.start_processes(state, processes, spec, take_over=take_over)

    def show(status: Status) -> None:
        if status.pid == pids.get(process_of(pids, status.node, status.replica)):
            seen[status.node, status.replica] = status
            states = ", ".join(f"{query}.r{k} {s.state}" for (query, k), s in sorted(seen.items()))
            spinner.update(f"waiting for replicas: {states}")

    spinner.update("waiting for replicas (Spark takes some seconds to be warm)")
    try:
        launch.wait_ready(context.log, state, processes, pids, since_ms, show)
    except LaunchError as exc:
        own = {*pids.values(), *(process.pid for process in processes.running().values())}
        found = alive(context.log, state.name, len(state.runs.all_nodes))
        taken = explain_taken(found, state.name, {name.replica for name in pids if not name.ingress}, own)
        if taken is None:
            raise
        if alone and state.spec.ingresses:  # they would go on, and the app has two already
            processes.stop()
        raise LaunchError(taken) from exc
    return pids
