"""Partitioned nodes: which may be, and how one becomes as many nodes as it has partitions.

Each partition is a node of its own: frontiers, control log, grant and checkpoints, so that one's failure or redo leaves
the others alone (Flux, Shah et al. 2003). What it reads of a source it picks out by key; its readers read the streams
of all partitions and put them in one order that does not depend on how many there are (`MergeOp`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from borealis_py.query.errors import QueryError, unknown_column
from borealis_py.query.names import STIME, part_name
from borealis_py.query.plan import MapOp, MergeOp, Op, PartOp, Plan, SourceOp, UnionOp, WindowOp, moved
from borealis_py.query.spec import AppSpec, NodeSpec, Partitioning, QuerySpec

PARTITIONS_MAX = 64

N = TypeVar("N", NodeSpec, QuerySpec)


def checked(count: object, by: object, result: Sequence[str], where: str) -> Partitioning | None:
    """What `partitions=` and `by=` of a node or query mean; None: it is not partitioned.

    Args:
        result: the columns of what it gives.

    Raises:
        QueryError: one without the other, a number that makes no sense, an unknown column.
    """
    if count is None and by is None:
        return None
    if count is None or by is None:
        raise QueryError(f'{where}: partitions and by go together: partitions=4, by="carrier"')
    number = checked_count(count, where)
    columns = (by,) if isinstance(by, str) else by
    if not isinstance(columns, Sequence) or not columns or not all(isinstance(c, str) for c in columns):
        raise QueryError(f"{where}: by={by!r}; give the name of a column, or several")
    known = {c.lower(): c for c in result}
    for column in columns:
        if column.lower() == STIME:
            raise QueryError(f"{where}: by={STIME!r} would spread every key over all partitions; choose a key column")
        if column.lower() not in known:
            raise unknown_column(column, f"by of {where}", result)
    if len({c.lower() for c in columns}) < len(columns):
        raise QueryError(f"{where}: by={by!r} names a column twice")
    return Partitioning(by=tuple(known[c.lower()] for c in columns), count=number)


def checked_count(count: object, where: str) -> int:
    """A number of partitions. Raises QueryError."""
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= PARTITIONS_MAX:
        raise QueryError(f"{where}: partitions={count!r}; choose 1 to {PARTITIONS_MAX}")
    return count


def check_keys(plan: Plan, by: Iterable[str], columns: Sequence[Sequence[str]], where: str) -> None:
    """A partition computes alone what it would as a part of the whole: rows that meet agree in the columns `by`.

    Args:
        columns: of each operator's rows.

    Raises:
        QueryError: an operator of the plan lacks one of the columns, changes it, or groups without it.
    """
    for op, has in zip(plan, columns, strict=True):
        for key in by:
            _check_key(op, key, has, where)


def _check_key(op: Op, key: str, has: Sequence[str], where: str) -> None:
    if isinstance(op, WindowOp) and key not in op.keys:
        keys = f"({', '.join(op.keys)})" if op.keys else "all rows together"
        raise QueryError(
            f"{where} is partitioned by {key!r}, but a window of it groups {keys}: its rows would lie in several "
            f"partitions. Add {key!r} to group_by(), or cut with .node() and partition only what is grouped by it"
        )
    if isinstance(op, MapOp) and dict(op.columns).get(key, "").strip().strip('"').lower() != key.lower():
        raise QueryError(
            f"{where} is partitioned by {key!r}, but a map of it drops or changes that column: keep it with "
            f"map({key}={key!r}, ...), or cut with .node() behind the map"
        )
    if isinstance(op, SourceOp) and key not in has:
        raise QueryError(
            f"{where} is partitioned by {key!r}, but {op.name!r}, which it reads, has no such column "
            f"({', '.join(has)}): cut with .node() behind what makes it, and partition what follows"
        )


def physical(app: AppSpec) -> AppSpec:
    """The app as it runs: each partition a node, or a source, of its own. One without is returned as it is."""
    if not app.source_partitions and not any(node.partitions for node in app.all_nodes.values()):
        return app
    return AppSpec(
        name=app.name,
        bucket_us=app.bucket_us,
        sources={part: columns for name, columns in app.sources.items() for part in _source_parts(app, name)},
        nodes={part: node for name, spec in app.nodes.items() for part, node in _parts(app, name, spec)},
        queries={part: query for name, spec in app.queries.items() for part, query in _parts(app, name, spec)},
    )


def parts_of(app: AppSpec, name: str) -> list[str]:
    """The nodes that run a node or query: one for each of its partitions. Raises QueryError for an unknown one."""
    partitions = app.node(name).partitions
    return [name] if partitions is None else [part_name(name, i) for i in range(partitions.count)]


def flattened(app: AppSpec, query: str) -> list[AppSpec]:
    """For each of the nodes that run a query, an app of one node that reads sources only and gives the same rows, bit
    for bit. Raises QueryError.
    """
    flat, partitions = app.flattened(query), app.node(query).partitions
    if partitions is None:
        return [physical(flat)]
    spec = flat.query(query)
    found = []
    for index in range(partitions.count):
        op = PartOp(input=len(spec.plan) - 1, by=partitions.by, count=partitions.count, index=index)
        part = spec.model_copy(update={"plan": (*spec.plan, op)})
        found.append(physical(flat.model_copy(update={"queries": {part_name(query, index): part}})))
    return found


def _exchange(app: AppSpec, name: str) -> Partitioning | None:
    """How all who read a node are partitioned, if alike."""
    readers = [node.partitions for node in app.all_nodes.values() if name in node.inputs]
    return readers[0] if readers and all(p == readers[0] for p in readers) else None


def _parts(app: AppSpec, name: str, spec: N) -> list[tuple[str, N]]:
    spec = spec.model_copy(update={"exchange": _exchange(app, name)})
    if spec.partitions is None:
        return [(name, _rewritten(app, spec, None))]
    count = spec.partitions.count
    parts = ((part_name(name, i), PartOp(input=0, by=spec.partitions.by, count=count, index=i)) for i in range(count))
    return [(part, _rewritten(app, spec, op)) for part, op in parts]


def _rewritten(app: AppSpec, spec: N, part: PartOp | None) -> N:
    """The same node on inputs as they are when it runs: the streams of all partitions, and only its part of them."""
    plan: list[Op] = []
    at: list[int] = []
    for op in spec.plan:
        if isinstance(op, SourceOp):
            _read(app, op, plan)
            if part is not None and not (op.name in app.nodes and _exchange(app, op.name)):
                plan.append(part.model_copy(update={"input": len(plan) - 1}))
        else:
            plan.append(moved(op, at))
        at.append(len(plan) - 1)
    if part is not None:
        plan.append(MergeOp(inputs=(len(plan) - 1,), by=part.by))  # each part is in the order of the whole
    inputs = dict.fromkeys(op.name for op in plan if isinstance(op, SourceOp))
    return spec.model_copy(update={"plan": tuple(plan), "inputs": tuple(inputs), "partitions": None})


def _source_parts(app: AppSpec, source: str) -> list[str]:
    count = app.source_partitions.get(source)
    return [source] if count is None else [part_name(source, i) for i in range(count)]


def _read(app: AppSpec, op: SourceOp, plan: list[Op]) -> None:
    first = len(plan)
    if op.name in app.source_partitions:
        plan += [SourceOp(name=part) for part in _source_parts(app, op.name)]
        plan.append(UnionOp(inputs=tuple(range(first, len(plan)))))
        return
    of = app.nodes[op.name].partitions if op.name in app.nodes else None
    if of is None:
        plan.append(op)
        return
    plan += [SourceOp(name=part_name(op.name, i)) for i in range(of.count)]
    plan.append(MergeOp(inputs=tuple(range(first, first + of.count)), by=of.by))
