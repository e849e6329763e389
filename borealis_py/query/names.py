"""The rules for names and column types in an app, and an error for each violation."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from borealis_py.query.errors import QueryError, did_you_mean
from borealis_py.types.spelling import WORDS, UnknownType, described, parse_type

STIME = "stime"
WINDOW_START, WINDOW_END = "window_start", "window_end"
RESERVED_STREAMS = ("control", "settings", "status", "deadletter", "acks")

_STREAM = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,99}")
_COLUMN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")


def check_stream_name(name: str, what: str) -> str:
    """Check that a name can be part of a Kafka topic's name. Raises QueryError."""
    if not isinstance(name, str) or not _STREAM.fullmatch(name):
        raise QueryError(
            f"{what} name {name!r}: use letters, digits, '_' and '-', starting with a letter, at most 100 of them "
            "(it becomes part of a Kafka topic's name)"
        )
    if name in RESERVED_STREAMS:
        raise QueryError(f"{what} name {name!r} is taken by the app's own topics; choose another")
    return name


def check_no_collision(name: str, what: str, streams: Iterable[str], nodes: Iterable[str]) -> None:
    """Kafka metrics do not distinguish '.' from '_': of two topics that differ only in these, Kafka creates only one.

    The topics of node `q` are `app.q`, `app.q.r0`, `app.q.r0.redo`, `app.q.r0.files`, `app.q.progress` and those of its
    partitions, `app.q.0.r0` and so on: stream `q_r0` would be `app.q_r0`.

    Args:
        streams: other sources, nodes and queries of the app. nodes: those of them that have replicas.

    Raises:
        QueryError: naming both streams.
    """
    shorter_nodes = [n for n in nodes if name.startswith(n)]
    longer_streams = [] if what == "source" else [s for s in streams if s.startswith(name)]
    for other in (*shorter_nodes, *longer_streams):
        longer, shorter = (name, other) if len(name) > len(other) else (other, name)
        rest = longer.removeprefix(shorter)
        if _OF_A_NODE.fullmatch(rest):
            raise QueryError(
                f"{what} {name!r} conflicts with {other!r}: the topics of {longer!r} and those of "
                f"{shorter!r} would differ in '.' and '_' alone, which Kafka does not allow; choose a name that does "
                f"not end in {rest!r}"
            )


_OF_A_NODE = re.compile(r"_(\d+|(\d+_)?(r\d+(_redo|_files)?|progress))")


def part_name(name: str, index: int | str) -> str:
    """Name of partition `index` of a partitioned node, which runs as a node of its own. User-given names contain no
    dot.
    """
    return f"{name}.{index}"


def base_name(name: str) -> str:
    """The name that the user gave to a node, from that of the node or of one of its partitions."""
    return name.partition(".")[0]


def check_described_name(name: str, what: str) -> None:
    """Check a stream or partition name from a description; it becomes part of topics and paths. Raises QueryError."""
    base, dot, index = name.partition(".")
    check_stream_name(base, what)
    if dot and not _INDEX.fullmatch(index):
        raise QueryError(f"{what} name {name!r}: the part after the dot is not a partition number")


_INDEX = re.compile(r"0|[1-9][0-9]{0,4}")


def part_index(name: str) -> int:
    """The partition number in a node's name; 0 for a node that is not partitioned."""
    return int(name.partition(".")[2] or 0)


def is_column_name(name: str) -> bool:
    """Whether SQL takes it as a name without quotation marks, and it is not too long."""
    return _COLUMN.fullmatch(name) is not None


def check_columns(names: Iterable[str], where: str, reserved: Iterable[str]) -> None:
    """Check spelling, clashes and duplicates (SQL ignores case). Raises QueryError."""
    taken = {r.lower() for r in reserved}
    seen: dict[str, str] = {}
    for name in names:
        if not isinstance(name, str) or not _COLUMN.fullmatch(name):
            raise QueryError(f"column name {name!r} in {where}: use letters, digits and '_', not starting with a digit")
        if name.startswith("__"):
            raise QueryError(f"column name {name!r} in {where}: names that start with '__' are used internally")
        if name.lower() in taken:
            raise QueryError(f"column name {name!r} in {where} is reserved: {_why(name.lower())}")
        if name.lower() in seen:
            raise QueryError(
                f"column name {name!r} in {where} is there twice (as {seen[name.lower()]!r}; SQL ignores case)"
            )
        seen[name.lower()] = name


def _why(name: str) -> str:
    if name == STIME:
        return "every stream already has it: the tuple's time in microseconds (int64)"
    if name in (WINDOW_START, WINDOW_END):
        return "a window's result already has it, in microseconds (int64)"
    return "it is a key of the same result"


def check_text(expression: object, where: str, columns: Iterable[str]) -> None:
    """Check that an expression over these columns is text at all. Raises QueryError."""
    if not isinstance(expression, str) or not expression.strip():
        raise QueryError(
            f"{where}() needs an SQL expression as text, got {expression!r}; columns: {', '.join(columns)}"
        )


def check_schema(schema: Mapping[str, str], where: str) -> dict[str, str]:
    """A source's columns with canonical type names. Raises QueryError."""
    if not schema:
        raise QueryError(f"{where} has no columns; give it schema={{'column': 'type', ...}}")
    check_columns(schema, where, (STIME, WINDOW_START, WINDOW_END))
    types: dict[str, str] = {}
    for column, kind in schema.items():
        if isinstance(kind, tuple | list):
            raise QueryError(
                f"column {column!r} of {where} is {kind!r}: only a topic of other programs has fields with other names "
                "than its columns; give the type alone"
            )
        try:
            types[column] = str(parse_type(kind if isinstance(kind, str) else ""))
        except UnknownType as exc:
            if str(exc):
                raise QueryError(f"column {column!r} of {where} has type {kind!r}: {exc}") from None
            hint = did_you_mean(str(kind), WORDS) or ";"
            told = f"column {column!r} of {where} has unknown type {kind!r}{hint} types: {described()}"
            raise QueryError(told) from None
    return types
