"""Human-readable differences between two descriptions of one app: column types, partitions, functions. Pure."""

from __future__ import annotations

from borealis_py.query.plan import Function
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


def of_functions(before: AppSpec, after: AppSpec) -> list[str]:
    """One line per file or distribution of a function that both apps apply, in another content or version.

    `before` is the app on the broker, `after` the one in the file.
    """
    found = []
    others = {function.name: function for function in after.functions}
    for function in before.functions:
        if function.name in others:
            old, new = _made_of(function), _made_of(others[function.name])
            for what in dict.fromkeys([*old, *new]):
                one, other = old.get(what, "not there"), new.get(what, "not there")
                if one != other:
                    found.append(f"function {function.name}: {what} is {one} on the broker, {other} in the file")
    return found


def _made_of(function: Function) -> dict[str, str]:
    """What a function is made of, by name."""
    files = {f"{file.name}.py": f"SHA-256 {file.sha256[:12]}..." for file in function.files}
    return files | {needed.distribution: needed.version for needed in function.requirements}


def _counted(count: int | None) -> str:
    if count is None:
        return "not partitioned"
    return f"{count} partition{'s' if count > 1 else ''}"


def _by(parts: Partitioning | None) -> str:
    return _counted(None) if parts is None else f"{_counted(parts.count)} by {', '.join(parts.by)}"
