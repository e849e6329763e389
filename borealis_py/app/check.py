"""Loading an app's nodes as a replica would, to find what is wrong with them before anything starts. No broker."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from borealis_py.app.errors import LaunchError
from borealis_py.engine import compile_query
from borealis_py.engine.fingerprint import fingerprint, ingredients
from borealis_py.node.checkpoint_storage import LocationError
from borealis_py.node.probe import check_directory, check_writable
from borealis_py.protocol.settings import SettingsError, Timing, budget
from borealis_py.query.partitions import parts_of, physical
from borealis_py.query.spec import AppSpec

PROBE = "borealis" * 512
"""Enough to find a full disk."""


@dataclass(frozen=True, slots=True)
class NodeReport:
    """What `check` found out about one node; a query is the node that gives its result.

    `columns`: name and type of each result column. `wait_us`: D, how long past a bucket's end it waits for an input
    that was there before: the least of what the queries that read it (`serves`) leave it. `fingerprints`: of each of
    its partitions. `made_of`: what all of them are made of, by name.
    """

    name: str
    inputs: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]
    operator_class: str
    position: int
    serves: tuple[str, ...]
    wait_us: int
    fingerprints: tuple[str, ...]
    made_of: tuple[tuple[str, str], ...] = ()


def check(spec: AppSpec, timing: Timing) -> list[NodeReport]:
    """Load every node as a replica would; those that others read come first.

    Raises:
        QueryError: an expression or type that is wrong.
        SettingsError: a threshold below what the timing allows; names the query and the least that would do.
    """
    timing.validate()
    for name, query in spec.queries.items():
        check_threshold(timing, name, query.threshold_us, spec.position(name))
    runs = physical(spec)
    return [_check(spec, runs, name, timing) for name in spec.all_nodes]


def _check(spec: AppSpec, runs: AppSpec, name: str, timing: Timing) -> NodeReport:
    kernel = compile_query(spec, name)
    try:
        columns = tuple((field.name, str(field.type)) for field in kernel.output_schema)
        operator_class = str(kernel.operator_class)
    finally:
        kernel.close()
    serves, parts = spec.serves(name), parts_of(spec, name)
    if parts != [name]:
        compile_query(runs, parts[0]).close()  # a key may be wrong too
    return NodeReport(
        name=name,
        inputs=spec.node(name).inputs,
        columns=columns,
        operator_class=operator_class,
        position=spec.position(name),
        serves=tuple(s.query for s in serves),
        wait_us=min(budget(timing, spec.query(s.query).threshold_us, s.hops, s.depth) for s in serves),
        fingerprints=tuple(fingerprint(runs.query_hash(part)) for part in parts),
        made_of=tuple(ingredients().items()),
    )


def check_places(app: str, uri: str, directory: Path | None = None) -> None:
    """Whether an app's checkpoints can be written: found out before anything starts or is changed.

    Args:
        uri: of pyarrow.fs; empty: below `directory`, an app's own; None: that is not asked.

    Raises:
        LaunchError: they cannot; the message says where and why.
    """
    try:
        if uri:
            check_writable(uri, PROBE)
        elif directory is not None:
            check_directory(directory / "checkpoints", PROBE)
    except LocationError as exc:
        raise LaunchError(f"app {app!r}: {exc}") from exc


def check_threshold(timing: Timing, query: str, threshold_us: int, depth: int) -> None:
    """Raises SettingsError with the query's name when the threshold cannot hold in a chain of `depth` nodes."""
    try:
        budget(timing, threshold_us, depth=depth)
    except SettingsError as exc:
        raise SettingsError(f"query {query!r}: {exc}") from exc
