"""Human-readable differences between two descriptions of one app: column types and partitions. Pure."""

from __future__ import annotations

from borealis_py.query.spec import AppSpec, Partitioning


def of_partitions(before: AppSpec, after: AppSpec) -> list[str]:
    """One line per source, node or query that exists in both apps with different partitions.

    `before` is the app on the broker, `after` the one in the file.
    """
    found = []
    for source in before.sources:
        if source in after.sources:
            old, new = (_counted(app.source_partitions.get(source)) for app in (before, after))
            if old != new:
                found.append(f"source {source!r}: {old} on the broker, {new} in the file")
    for name, node in before.all_nodes.items():
        if name in after.all_nodes:
            old, new = (_by(parts) for parts in (node.partitions, after.node(name).partitions))
            if old != new:
                found.append(f"{after.label(name)}: {old} on the broker, {new} in the file")
    return found


def of_columns(before: AppSpec, after: AppSpec) -> list[str]:
    """One line per column of a source that exists in both apps and is of another type, or in one of them only.

    `before` is the app on the broker, `after` the one in the file.
    """
    found = []
    for source, columns in before.sources.items():
        others = after.sources.get(source, columns)
        for column in dict.fromkeys([*columns, *others]):
            old, new = columns.get(column, "not there"), others.get(column, "not there")
            if old != new:
                renamed = (old, new) == ("int64", "timestamp")
                hint = " (timestamp was another name of int64: write int64 to go on with it)" if renamed else ""
                found.append(f"source {source!r}: column {column!r} is {old} on the broker, {new} in the file{hint}")
    return found


def _counted(count: int | None) -> str:
    if count is None:
        return "not partitioned"
    return f"{count} partition{'s' if count > 1 else ''}"


def _by(parts: Partitioning | None) -> str:
    return _counted(None) if parts is None else f"{_counted(parts.count)} by {', '.join(parts.by)}"
