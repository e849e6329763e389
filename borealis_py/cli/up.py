"""`borealis up`: check an app, create its topics, start its replicas, wait until they are ready."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from borealis_py.cli.check import AppFile
from borealis_py.cli.console import say, waiting
from borealis_py.cli.context import Context, open_context
from borealis_py.cli.options import Bootstrap, DataDir, Http, NoSpark

if TYPE_CHECKING:
    from borealis_py.host.appstate import AppState
    from borealis_py.host.launch import ProcessOptions
    from borealis_py.host.replicas import ProcessName, ReplicaProcesses
    from borealis_py.log.messages import Status

HOSTS = ("process", "spark")
Host = Annotated[
    str,
    typer.Option(
        "--host",
        help="Where replicas run: in a process on this machine for each index (process), or as tasks of that process's "
        "Spark application (spark).",
    ),
]
Master = Annotated[
    str | None,
    typer.Option(
        "--master",
        help="Spark's master: local[n], spark://host:port ... Also in borealis.yaml.",
        show_default="local[2]",
    ),
]
Origin = Annotated[
    str,
    typer.Option(
        "--origin",
        help="First bucket: earliest (of the sources' tuples, else now), now, or a time (ISO 8601 or microseconds). "
        "Earlier tuples are late. Written once.",
    ),
]
Reset = Annotated[bool, typer.Option("--reset", help="Delete the app's topics and checkpoints, and begin anew.")]
TakeOver = Annotated[bool, typer.Option("--take-over", help="Take the place of replicas that run elsewhere.")]
DescribeOnly = Annotated[
    bool,
    typer.Option(
        "--describe-only",
        help="Write topics and description only; replicas run elsewhere, each started with `borealis replica`.",
    ),
]


def check_host(host: str, no_spark: bool) -> None:
    """Raises typer.BadParameter for what cannot be."""
    if host not in HOSTS:
        raise typer.BadParameter(f"{host!r}: choose {' or '.join(HOSTS)}", param_hint="--host")
    if host == "spark" and no_spark:
        raise typer.BadParameter("replicas cannot be Spark tasks without Spark", param_hint="--no-spark")


def up(
    file: AppFile,
    bootstrap: Bootstrap = None,
    data_dir: DataDir = None,
    host: Host = "process",
    no_spark: NoSpark = False,
    origin: Origin = "earliest",
    reset: Reset = False,
    take_over: TakeOver = False,
    http: Http = None,
    master: Master = None,
    describe_only: DescribeOnly = False,
) -> None:
    """Start an app, or what is missing of it. Safe to repeat."""
    check_host(host, no_spark)
    from borealis_py.host import launch
    from borealis_py.host.appfile import load_app
    from borealis_py.host.check import check_places
    from borealis_py.host.replicas import ReplicaProcesses

    context = open_context(bootstrap, data_dir, http)
    spec = load_app(file).describe()
    reports = launch.check(spec, context.config.protocol_timing())
    processes = ReplicaProcesses(context.data_dir, spec.name)
    if not describe_only:
        check_places(spec.name, context.config.checkpoints, processes.directory)
    if reset:
        with waiting(f"deleting what there is of app {spec.name}"):
            launch.reset(context.log, spec, processes, context.config.checkpoints)
    with waiting(f"describing app {spec.name} at {context.log.bootstrap}"):
        before = launch.described(context.log, spec.name)
        state = launch.describe(context.log, spec, reports, origin, time.time_ns() // 1000)
    if describe_only:
        say(f"app {state.name} is described at {context.log.bootstrap}", "bold green")
        return
    if before is not None and processes.running():
        for node, (old, new) in launch.resized(before, state).items():
            say(
                f"node {node} has {new} replicas now, {old} before: processes that run already go on reading {old}; "
                "`borealis down` and `borealis up` have all of them read",
                "yellow",
            )
    _start(context, state, processes, process_options(context, not no_spark, take_over, host, master))


def process_options(context: Context, spark: bool, take_over: bool, host: str, master: str | None) -> ProcessOptions:
    """What replica processes are told: flags over configuration."""
    from borealis_py.host.address import Address
    from borealis_py.host.launch import ProcessOptions

    config = context.config
    configured, slots = config.spark.get("master"), config.spark.get("redo_slots")
    return ProcessOptions(
        context.log,
        context.data_dir,
        config.timing_overrides(),
        master or (None if configured is None else str(configured)),
        spark,
        take_over,
        None if config.http is None else Address.parse(config.http),
        host,
        None if slots is None else int(slots),
        tuple(config.spark_properties.items()),
        config.checkpoints,
    )


def _start(context: Context, state: AppState, processes: ReplicaProcesses, options: ProcessOptions) -> None:
    from borealis_py.host import launch
    from borealis_py.host.replicas import process_of

    before = set(processes.running())
    since_ms = time.time_ns() // 1_000_000 - 1
    with waiting("starting replicas") as spinner:
        try:
            pids = launch.start(state, processes, options)
            seen: dict[tuple[str, int], str] = {}
            urls: dict[ProcessName, str] = {}

            def show(status: Status) -> None:
                process = process_of(state.spec, status.query, status.replica)
                if status.pid == pids.get(process):
                    urls[process] = f"; {status.http}" if status.http else ""
                    seen[status.query, status.replica] = status.state
                    states = ", ".join(f"{query}.r{k} {s}" for (query, k), s in sorted(seen.items()))
                    spinner.update(f"waiting for replicas: {states}")

            spinner.update("waiting for replicas (Spark takes some seconds to be warm)")
            launch.wait_ready(context.log, state, processes, pids, since_ms, show)
        finally:
            processes.release()
    for process, pid in pids.items():
        queries = ", ".join(name for name, q in state.spec.queries.items() if process.replica < q.replicas)
        told, runs = "was running" if process in before else "started", "" if process.node else f": {queries}"
        say(f"{process} {told} (pid {pid}){runs}; log {processes.log_file(process)}{urls.get(process, '')}")
    names = ", ".join(f"{state.name}.{query}" for query in state.spec.queries)
    say(f"app {state.name} is up. Corrected streams: {names} at {context.log.bootstrap}", "bold green")
