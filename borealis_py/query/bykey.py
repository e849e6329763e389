"""Checks the arguments of operators that compare rows by key: `join`, `lookup`, `distinct`, `over`, `top`."""

from __future__ import annotations

from collections.abc import Sequence

from borealis_py.query.errors import QueryError, unknown_column
from borealis_py.query.names import STIME, check_columns
from borealis_py.query.plan import LAST_MAX, WITHIN_MAX_US
from borealis_py.query.units import CENTURY_US, parse_duration

RANK = "rank"
"""The column with a row's place in its group, from 1."""
TOP_MAX = 10_000
JOINS = ("inner", "left")


def key_columns(names: Sequence[str], where: str, columns: Sequence[str]) -> tuple[str, ...]:
    """The columns of a stream with these names, as it spells them. Raises QueryError."""
    check_columns(names, where, (STIME,))
    by_name = {c.lower(): c for c in columns}
    for name in names:
        if name.lower() not in by_name:
            raise unknown_column(name, where, columns)
    return tuple(by_name[name.lower()] for name in names)


def join_keys(on: object, left: Sequence[str], right: Sequence[str]) -> tuple[str, ...]:
    """The columns that `join(on=...)` names, as the left stream spells them. Raises QueryError."""
    names = (on,) if isinstance(on, str) else on
    if not isinstance(names, list | tuple) or not names or not all(isinstance(n, str) for n in names):
        raise QueryError(f"join(): on={on!r}; give the name of a column that both streams have, or several")
    if any(name.lower() == STIME for name in names):
        raise QueryError('join(): on="stime" would compare times exactly; say how far apart they may be with within=')
    key_columns(names, "on of join(), in the stream that is joined", right)
    return key_columns(names, "on of join()", left)


def table_key(key: object, columns: Sequence[str]) -> tuple[str, ...]:
    """The columns that `table(key=...)` names, as the stream spells them. Raises QueryError."""
    names = (key,) if isinstance(key, str) else key
    if not isinstance(names, list | tuple) or not names or not all(isinstance(n, str) for n in names):
        raise QueryError(f"table(): key={key!r}; give the name of a column, or several")
    found = key_columns(names, "key of table()", columns)
    if len(found) == len(columns):
        raise QueryError(
            f"table(): all columns ({', '.join(columns)}) are its key, so a lookup would find nothing more; it needs "
            "another one"
        )
    return found


def lookup_keys(on: object, left: Sequence[str], key: Sequence[str]) -> tuple[str, ...]:
    """The columns that `lookup(on=...)` names, as the stream spells them, in the order of the table's `key`. Raises
    QueryError."""
    names = (on,) if isinstance(on, str) else on
    if not isinstance(names, list | tuple) or not all(isinstance(n, str) for n in names):
        raise QueryError(f"lookup(): on={on!r}; give the names of the table's key: {', '.join(key)}")
    found = {c.lower(): c for c in key_columns(names, "on of lookup()", left)}
    if set(found) != {c.lower() for c in key}:
        raise QueryError(
            f"lookup(): on={on!r}, but the table has one row for each ({', '.join(key)}): name all columns of its key, "
            "and no other; where the stream has other names, rename with map()"
        )
    return tuple(found[c.lower()] for c in key)


def joined_columns(
    on: Sequence[str], left: Sequence[str], right: Sequence[str], where: str = "join"
) -> tuple[str, ...]:
    """The columns of a pair: the left stream's, then the right one's without those joined on. Raises QueryError."""
    keys = {c.lower() for c in on}
    rest = [c for c in right if c.lower() not in keys]
    both = {c.lower() for c in left} & {c.lower() for c in rest}
    if both:
        names = ", ".join(repr(c) for c in rest if c.lower() in both)
        raise QueryError(
            f"{where}(): both {'streams' if where == 'join' else 'stream and table'} have {names}; rename with map() "
            f"before the {where}{', or join on it' if where == 'join' else ''}: "
            f"the result has the columns of both ({', '.join(left)}) and ({', '.join(rest)})"
        )
    return (*left, *rest)


def join_range(within: object) -> tuple[int, int]:
    """Microseconds from `within=("0s", "10m")`: how long after the left row the right one may be, at least and at
    most. Raises QueryError.
    """
    if not isinstance(within, list | tuple) or len(within) != 2:
        raise QueryError(
            f'join(): within={within!r}; give two durations, within=("0s", "10m"): how long after a row of this stream '
            'the other one\'s may be, at least and at most; "-10m" means before it'
        )
    low, high = (_signed(text) for text in within)
    _check_year("join()", within, max(abs(low), abs(high)))
    if low > high:
        raise QueryError(f"join(): within={within!r} is empty: the first duration is longer than the second")
    return low, high


def _signed(text: object) -> int:
    if not isinstance(text, str):
        raise QueryError(f'join(): within has {text!r}; write a duration, like "10m" or "-30s"')
    before = text.strip().startswith("-")
    value = parse_duration(text.strip().removeprefix("-"), "within of join()", zero=True, most_us=CENTURY_US)
    return -value if before else value


def distinct_range(within: object) -> int:
    """Microseconds from `within="10m"`. Raises QueryError."""
    if not isinstance(within, str):
        raise QueryError(
            f'distinct(): within={within!r}; give a duration, within="10m": a row is dropped if an equal one came at '
            "most this long before it. Without a bound all keys of all time would have to be kept"
        )
    return _bounded("distinct()", within)


def frame_range(within: object) -> int:
    """Microseconds from `within="1h"` of over(). Raises QueryError."""
    if not isinstance(within, str):
        raise QueryError(
            f'over(): within={within!r}; give a duration, within="1h": a row sees no row that is older. Without a '
            "bound the last rows of all keys of all time would have to be kept"
        )
    return _bounded("over()", within)


def check_last(last: object) -> int:
    """The `last` of `over(last=...)`. Raises QueryError."""
    if isinstance(last, bool) or not isinstance(last, int) or not 2 <= last <= LAST_MAX:
        raise QueryError(f"over(last={last!r}): choose 2 to {LAST_MAX} rows, the present one included")
    return last


def _bounded(where: str, within: str) -> int:
    within_us = parse_duration(within, f"within of {where}", most_us=CENTURY_US)
    _check_year(where, within, within_us)
    return within_us


def _check_year(where: str, within: object, value_us: int) -> None:
    if value_us > WITHIN_MAX_US:
        raise QueryError(
            f"{where}: within={within!r} is more than a year; all rows of that time would be kept in memory"
        )


def check_top(limit: object, taken: Sequence[str], columns: Sequence[str]) -> int:
    """The `limit` of `top(limit, ...)`, whose result adds the columns `taken` to the stream's. Raises QueryError."""
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= TOP_MAX:
        raise QueryError(f"top({limit!r}): choose 1 to {TOP_MAX} rows for each group")
    both = [c for c in columns if c.lower() in taken]
    if both:
        raise QueryError(
            f"top(): the result has columns {', '.join(taken)} of its own; rename {', '.join(map(repr, both))} with "
            "map() before the window"
        )
    return limit


def check_how(how: object) -> str:
    """Check `join(how=...)`. Raises QueryError."""
    if how not in JOINS:
        swap = "; for a right join, exchange the two streams" if how == "right" else ""
        raise QueryError(f"join(): how={how!r}; choose inner or left{swap}")
    return str(how)
