"""Loads an app's nodes as a replica would, to find errors before anything starts. No broker."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from borealis_py.app.errors import LaunchError
from borealis_py.app.foreign import check_foreign
from borealis_py.app.waits import check_query_threshold
from borealis_py.config.probe import check_directory, check_writable
from borealis_py.engine import compile_query
from borealis_py.engine.fingerprint import fingerprint, ingredients
from borealis_py.engine.kernel import DuckKernel
from borealis_py.node.checkpoint_storage import LocationError
from borealis_py.node.delays import as_enforced, declared
from borealis_py.protocol.settings import NodeDelays, Timing
from borealis_py.query.partitions import parts_of, physical
from borealis_py.query.recovery import ACTIVE, RecoveryPlan
from borealis_py.query.spec import AppSpec
from borealis_py.recovery.ways import check_way
from borealis_py.types.arrow import spelled

PROBE = "borealis" * 512
"""Large enough to detect a full disk."""


@dataclass(frozen=True, slots=True)
class NodeReport:
    """The result of checking one node; a query is the node that gives its result.

    `inputs`: names of the sources and nodes that it reads. `columns`: name and type of each result column.
    `operator_class`: name of its most general operator's class (`engine.operators.classes`). `position`: its place in
    its longest chain, from 1. `serves`: the queries that read it. `delays`: D and the policies that they leave it.
    `fingerprints`: of each of its partitions. `made_of`: what all of them are made of, by name. `recovery`: how it
    survives a crash. `unbounded`: its operators, as its user wrote them, whose results may depend on any earlier
    bucket.
    """

    name: str
    inputs: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]
    operator_class: str
    position: int
    serves: tuple[str, ...]
    delays: NodeDelays
    fingerprints: tuple[str, ...]
    made_of: tuple[tuple[str, str], ...] = ()
    recovery: RecoveryPlan = ACTIVE
    unbounded: tuple[str, ...] = ()


def check(spec: AppSpec, timing: Timing) -> list[NodeReport]:
    """Load every node as a replica would, each after those it reads.

    Raises:
        QueryError: an invalid expression or type, a foreign topic that the queries cannot use, or a way of recovery
            that promises less than is asked.
        SettingsError: a threshold below what the timing allows; names the query and the smallest valid one.
    """
    timing.validate()
    for name, query in spec.queries.items():
        check_query_threshold(timing, name, query.threshold_us, spec.position(name))
    check_foreign(spec, timing)
    runs = physical(spec)
    return [_check(spec, runs, name, timing) for name in spec.all_nodes]


def _check(spec: AppSpec, runs: AppSpec, name: str, timing: Timing) -> NodeReport:
    kernel = compile_query(spec, name)
    try:
        columns = tuple((field.name, spelled(field.type)) for field in kernel.output_schema)
        operator_class, unbounded = str(kernel.operator_class), kernel.unbounded
        _check_way(spec, name, spec.node(name).recovery, kernel)
    finally:
        kernel.close()
    serves, parts = spec.serves(name), parts_of(spec, name)
    if parts != [name]:
        compile_query(runs, parts[0]).close()  # a key may be wrong, too
    return NodeReport(
        name=name,
        inputs=spec.node(name).inputs,
        columns=columns,
        operator_class=operator_class,
        position=spec.position(name),
        serves=tuple(s.query for s in serves),
        delays=as_enforced(serves, {s.query: declared(spec.query(s.query)) for s in serves}, timing),
        fingerprints=tuple(fingerprint(runs.query_hash(part)) for part in parts),
        made_of=tuple(ingredients().items()),
        recovery=spec.node(name).recovery,
        unbounded=unbounded,
    )


def check_way_of(spec: AppSpec, name: str, plan: RecoveryPlan) -> None:
    """Check that what a node or query computes can recover in this way. Raises QueryError."""
    kernel = compile_query(spec, name)
    try:
        _check_way(spec, name, plan, kernel)
    finally:
        kernel.close()


def _check_way(spec: AppSpec, name: str, plan: RecoveryPlan, kernel: DuckKernel) -> None:
    least = spec.node(name).guarantee
    read_by = [spec.label(reader) for reader in spec.readers_of(name)]
    check_way(plan.way, least, kernel.operator_class, kernel.unbounded, spec.label(name), read_by)


def check_places(app: str, uri: str, directory: Path | None = None) -> None:
    """Check that an app's checkpoints can be written, before anything starts or changes.

    Args:
        uri: of pyarrow.fs; empty: below `directory`, the app's own; None: skip the check.

    Raises:
        LaunchError: they cannot be written; the message says where and why.
    """
    try:
        if uri:
            check_writable(uri, PROBE)
        elif directory is not None:
            check_directory(directory / "checkpoints", PROBE)
    except LocationError as exc:
        raise LaunchError(f"app {app!r}: {exc}") from exc
