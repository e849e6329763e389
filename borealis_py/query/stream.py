"""The streams that an app's queries are made of: what a user calls on them, and the errors for what cannot run.

SQL expressions are checked by the engine when it loads a query; names and column sets are checked here, immediately.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from borealis_py.query.bykey import (
    RANK,
    check_how,
    check_last,
    check_top,
    distinct_range,
    frame_range,
    join_keys,
    join_range,
    joined_columns,
    key_columns,
    lookup_keys,
    table_key,
)
from borealis_py.query.errors import QueryError, unknown_column
from borealis_py.query.functions import apply_op, window_apply_op
from borealis_py.query.names import STIME, WINDOW_END, WINDOW_START, check_columns, check_text
from borealis_py.query.partitions import checked
from borealis_py.query.plan import CodeFile, StyleName
from borealis_py.query.recovery import SaidRecovery, said_recovery
from borealis_py.query.spec import Partitioning
from borealis_py.query.tables import Table
from borealis_py.query.windows import window_kind


class Owner(Protocol):
    """The app that a stream belongs to, as its streams see it."""

    name: str
    bucket_us: int
    modules: tuple[CodeFile, ...]

    def _cut(
        self, stream: Stream, name: str, replicas: int | None, parts: Partitioning | None, recovery: SaidRecovery
    ) -> Stream:
        """Add a node that gives `stream`; returns the stream that reads it."""

    def _own(self, stream: object, where: str) -> Stream:
        """The argument, a stream of this app. Raises QueryError."""


class Stream:
    """An immutable stream: columns, and `stime` (int64, microseconds since 1970), which every stream has.

    Expressions are SQL over these columns. Streams are made by an `App`, not constructed directly.
    """

    def __init__(self, app: Owner, columns: tuple[str, ...], op: Mapping[str, Any], inputs: tuple[Stream, ...]) -> None:
        self._app = app
        self._op = op
        self._inputs = inputs
        self.columns = columns

    def filter(self, predicate: str) -> Stream:
        """The rows for which the SQL `predicate` is true (not those where it is NULL)."""
        check_text(predicate, "filter", self.columns)
        return Stream(self._app, self.columns, {"op": "filter", "predicate": predicate}, (self,))

    def map(self, **columns: str) -> Stream:
        """A stream with exactly these columns, each an SQL expression over the old ones, and `stime`.

        Like SELECT: columns that are not named are dropped. `map(carrier="carrier", hours="dep_delay / 60")`.

        Raises:
            QueryError: no columns, or an invalid name.
        """
        if not columns:
            raise QueryError('map() needs columns: map(hours="dep_delay / 60", ...)')
        check_columns(columns, "map()", (STIME,))
        for expression in columns.values():
            check_text(expression, "map", self.columns)
        return Stream(self._app, tuple(columns), {"op": "map", "columns": tuple(columns.items())}, (self,))

    def apply(
        self,
        f: Callable[[Any], Any],
        columns: Mapping[str, str],
        *,
        keep: Sequence[str] = (),
        style: StyleName = "arrow",
    ) -> Stream:
        """One row for each row, by a Python function: columns `keep` of the row, then `columns`, and the row's `stime`.

        `scored = orders.apply(my_functions.score, columns={"score": "double"}, keep=("id",))`. `f` gets the rows of one
        bucket, in order, with `stime`, and returns as many rows in the same order, each computed from its own row alone
        and always alike: no clock, chance, network, file or state between calls. A row for which it raises, or returns
        no value of the type, is a dead letter; a function that hangs stops the query, with a line in the log.

        Args:
            f: a function of an installed module, or of a file in `App(modules=...)`.
            columns: names and types, as for `App.source`. Others that `f` returns are dropped.
            keep: columns that are copied from the row; a key of `partitions=` must be among them.
            style: "arrow": `f` takes a `pyarrow.Table`; "pandas": a `pandas.DataFrame` with nullable dtypes.

        Raises:
            QueryError: a function that no name leads to, or invalid columns.
        """
        op = apply_op(f, self._app.modules, columns, style, keep, self.columns)
        return Stream(self._app, (*op["keep"], *columns), op, (self,))

    def join(self, other: Stream, on: str | Sequence[str], within: tuple[str, str], how: str = "inner") -> Stream:
        """Pairs of a row of this stream and one of `other` that agree in the columns `on`, close in time.

        `paid = orders.join(payments, on="id", within=("0s", "10m"), how="left")`. A pair has this stream's columns,
        then the other one's without `on`, and the stime of the later row. Null matches nothing, not even null; NaN
        matches NaN. Pairs are in the order (stime, left row, right row).

        Args:
            on: columns that both streams have, of the same type.
            within: how long after this stream's row the other one's may be, at least and at most, both included;
                "-10m" means 10 minutes before it. Rows are kept for this long, at their size and 24 bytes more.
            how: "inner": pairs only. "left": also each row of this stream without a pair, with nulls for the other
                one's columns, as soon as none can come any more: its stime is then `within[1]` later than the row's
                (the row's own if that is negative).

        A key with over 100 000 pairs in one bucket is a dead letter. Conditions on both rows: `filter` after the join.

        Raises:
            QueryError: unknown columns, columns of one name on both sides, an empty range, or a stream of another app.
        """
        right = self._app._own(other, "join()")
        keys = join_keys(on, self.columns, right.columns)
        low_us, high_us = join_range(within)
        op = {"op": "join", "on": keys, "low_us": low_us, "high_us": high_us, "how": check_how(how)}
        return Stream(self._app, joined_columns(keys, self.columns, right.columns), op, (self, right))

    def lookup(self, table: Table, on: str | Sequence[str]) -> Stream:
        """Each row with the table's columns, as the table was at the row's stime.

        `priced = orders.lookup(prices, on="item")`, where `prices = app.table("prices", key="item", schema=...)`. A row
        has this stream's columns, then the table's without its key: nulls where the table has no such row, or not yet,
        or has deleted it. A change of the table counts from its own stime on, that instant included; of several at one
        instant the last counts. Null matches nothing; NaN matches NaN. Rows keep their order and stime. The whole table
        is in the state of each replica; one from a file is in its memory.

        Args:
            on: the table's key, whose columns this stream has too, of the same types.

        Raises:
            QueryError: other columns than the table's key, columns of one name on both sides, or a table of another
                app.
        """
        if not isinstance(table, Table):
            made = 'stream.table(key="item")' if isinstance(table, Stream) else 'app.table("prices", key="item", ...)'
            raise QueryError(f"lookup() needs a table, got {type(table).__name__}; make one with {made}")
        keys = lookup_keys(on, self.columns, table.key)
        columns = joined_columns(keys, self.columns, table.columns, "lookup")
        if isinstance(table._rows, Stream):
            changes = self._app._own(table._rows, "lookup()")
            return Stream(self._app, columns, {"op": "lookup", "on": keys, "deleted": table._deleted}, (self, changes))
        return Stream(self._app, columns, {"op": "file_lookup", "on": keys, "file": table._rows}, (self,))

    def table(self, key: str | Sequence[str], deleted: str | None = None) -> Table:
        """This stream as a table for `lookup`: each row replaces the one before it that has the same key.

        `app.topic("prices", ..., start="earliest").map(item="item", price="price", op="op").table("item", "op = 'd'")`.

        Args:
            key: the columns that name a row of the table.
            deleted: SQL condition over the columns; a row for which it is true deletes its key: "op = 'd'", "gone" (a
                bool column), "price IS NULL".

        Raises:
            QueryError: an unknown column, or none beside the key.
        """
        if deleted is not None:
            check_text(deleted, "table", self.columns)
        return Table(self, self.columns, table_key(key, self.columns), deleted)

    def distinct(self, *columns: str, within: str) -> Stream:
        """The rows before which, for `within`, no row with the same values of these columns came.

        `once = orders.distinct("id", within="10m")`. A row that comes again and again, each time at most 10 minutes
        after the last time, passes once. Null is a value like any other, as in SELECT DISTINCT. Of each row, these
        columns and 24 bytes more are kept for this long.

        Raises:
            QueryError: no columns, an unknown column, or no duration.
        """
        if not columns:
            raise QueryError('distinct() needs columns: distinct("id", within="10m")')
        by = key_columns(columns, "distinct()", self.columns)
        op = {"op": "distinct", "by": by, "within_us": distinct_range(within)}
        return Stream(self._app, self.columns, op, (self,))

    def over(self, *columns: str, last: int, within: str) -> Framed:
        """Frames by key: each row, and the rows with the same values of these columns before it.

        `moving = orders.over("shop", last=10, within="1h").map(shop="shop", before="lag(euros)", avg10="avg(euros)")`.
        Without columns all rows are together. Null is a value like any other.

        Args:
            last: how many rows a frame has at most, the row itself included: 2 to 1000.
            within: how long before the row the others may have come. Rows are kept for this long.

        Raises:
            QueryError: an unknown column, or an invalid `last` or `within`.
        """
        keys = key_columns(columns, "over()", self.columns) if columns else ()
        return Framed(self, keys, check_last(last), frame_range(within))

    def window(
        self,
        size: str | None = None,
        every: str | None = None,
        *,
        rows: int | None = None,
        gap: str | None = None,
        most: str | None = None,
        offset: str | None = None,
        zone: str | None = None,
    ) -> Windowed:
        """Windows by stime, `window("1s")` or `window("10s", every="1s")`; count windows; session windows.

        Windows by stime end at multiples of `every` since 1970-01-01T00:00:00Z, a Thursday, or `offset` after them:
        `window("7d", offset="4d")` are weeks from Monday, `window("1d", offset="6h")` days from 6 o'clock, both in UTC.
        Size, every and offset are multiples of the app's bucket.

        `window("1d", zone="Europe/Berlin")`: days as clocks there show them, 23 or 25 hours long where clocks change,
        and `window("7d", offset="4d", zone="Europe/Berlin")` weeks from Monday. A day begins at the first instant of
        its date, also where clocks skip midnight or show it twice; a date that a zone left out has no window.

        `window(rows=100).group_by("shop")`: count windows, each of 100 rows of a shop in the stream's order. A window
        that is not full yet gives no result; its rows are kept until it is, however long that takes.

        `window(gap="30s", most="1h").group_by("shop")`: session windows. A session ends when no row of its shop came
        for 30 s, or 1 h after its first row; the next row of the shop begins the next one.

        Without `group_by` all rows are together.

        Args:
            rows: 1 to 100 000.
            gap: a row this long after the one before it, or longer, begins the next session.
            most: a row this long after the first one of its session, or longer, begins the next one. At least the gap,
                at most a year.
            offset: of windows by stime, shorter than `every`: how much later than multiples of it they end. None: at
                them. With a zone, by its clocks: "6h" is 6 o'clock.
            zone: of windows of whole days: a name of the time zone database, as `timezone()` in SQL takes it, of the
                same data. None: UTC. The app's bucket divides 15 minutes, since a day of a zone may begin at any
                quarter of an hour.

        Raises:
            QueryError: not multiples, `every` longer than the size (tuples between windows would be lost silently),
                `most` shorter than the gap, or arguments that do not go together.
        """
        return Windowed(self, window_kind(size, every, rows, gap, most, offset, zone, self._app.bucket_us))

    def node(
        self,
        name: str,
        replicas: int | None = None,
        partitions: int | None = None,
        by: str | Sequence[str] | None = None,
        recovery: str | None = None,
        guarantee: str | None = None,
        sync: str | None = None,
    ) -> Stream:
        """Cut here: everything up to this stream runs as a node of its own; what follows reads that node's stream.

        Nodes run in separate processes and fail independently; several queries may read one node.

        Args:
            replicas: how many replicas run it, 1 to 9; None: the highest number of any query that reads it.
            partitions, by: run the node in this many partitions. Each handles the rows whose key columns `by` hash to
                it, and fails, recovers and is corrected independently. Everything the node reads, groups and returns
                must have these columns. The result is in the order (stime, by, seq), with the same bits for any number
                of partitions.
            recovery, guarantee, sync: as for `App.query`; None: as the queries that read it have it (of several
                `sync` the shortest), active if they have several ways, or amnesia.

        Raises:
            QueryError: a name that is taken or invalid, invalid partitions, or an unknown way of recovery.
        """
        where = f"node {name!r}"
        parts, said = checked(partitions, by, self.columns, where), said_recovery(recovery, guarantee, sync, where)
        return self._app._cut(self, name, replicas, parts, said)

    if not TYPE_CHECKING:  # a type checker must go on finding these calls

        def __getattr__(self, name: str) -> Any:
            if name in ("group_by", "agg", "top"):
                raise QueryError(f'{name}() needs a window: stream.window("1s").{name}(...)')
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)


_TIMES = ("size_us", "every_us", "offset_us", "zone")


class Windowed:
    """A stream cut into windows. It is not a stream itself: `agg`, `top` or `apply` makes one."""

    def __init__(self, stream: Stream, kind: Mapping[str, Any], keys: tuple[str, ...] = ()) -> None:
        self._stream = stream
        self._kind = kind
        self._keys = keys

    def group_by(self, *columns: str) -> Windowed:
        """One result for each distinct combination of these columns (names, not expressions: use `map` first).

        Raises:
            QueryError: an unknown column.
        """
        if self._keys or not columns:
            raise QueryError(
                "group_by() takes all key columns in one call" if self._keys else "group_by() needs a column"
            )
        check_columns(columns, "group_by()", (STIME, WINDOW_START, WINDOW_END))
        by_name = {c.lower(): c for c in self._stream.columns}
        for column in columns:
            if column.lower() not in by_name:
                raise unknown_column(column, "group_by()", self._stream.columns)
        keys = tuple(by_name[c.lower()] for c in columns)
        return Windowed(self._stream, self._kind, keys)

    def agg(self, **aggregates: str) -> Stream:
        """The stream of window results: window_start, window_end (int64 us), keys, aggregates.

        Each value is an SQL expression over aggregates: `flights="count(*)"`, `ratio="sum(x) / count(*)"`. The stime of
        a result is the window's last instant; a window without rows has no result. A window is [window_start,
        window_end): a count window from its first row's stime to 1 us after its last row's, a session from its first
        row's to `gap` after its last row's, or to `most` after its first row's.

        Raises:
            QueryError: no aggregates, or an invalid name.
        """
        if not aggregates:
            raise QueryError('agg() needs aggregates: agg(flights="count(*)", ...)')
        check_columns(aggregates, "agg()", (STIME, WINDOW_START, WINDOW_END, *self._keys))
        for expression in aggregates.values():
            check_text(expression, "agg", self._stream.columns)
        op = {**self._kind, "keys": self._keys, "aggregates": tuple(aggregates.items())}
        columns = (WINDOW_START, WINDOW_END, *self._keys, *aggregates)
        return Stream(self._stream._app, columns, op, (self._stream,))

    def top(self, limit: int, by: str) -> Stream:
        """The stream of the first `limit` rows of each window and group: window_start, window_end, all columns, `rank`.

        `best = orders.window("1m").group_by("shop").top(3, by="euros DESC")`. `rank` counts from 1. Rows that are equal
        in `by` are in the stream's order, so no two have one rank. The stime of a result is the window's last instant.
        Of aggregates, over windows of the same times: `totals.window("1m").top(3, by="total DESC")`, where `totals` is
        `orders.window("1m").group_by("shop").agg(total="sum(euros)")`.

        Args:
            limit: 1 to 10 000.
            by: SQL expressions, each with ASC (the default) or DESC, NULLS FIRST or LAST (the default), as in ORDER BY:
                "euros DESC, id". NaN is greater than any number.

        Raises:
            QueryError: an invalid limit, columns named window_start, window_end or rank, or windows that are not by
                time.
        """
        check_text(by, "top", self._stream.columns)
        if self._kind["op"] != "window":
            raise QueryError('top() ranks the rows of windows by time: stream.window("1m").top(...)')
        stream = self._without_window()
        columns = stream.columns
        op = {
            **self._kind, "op": "top", "keys": self._keys,
            "limit": check_top(limit, (WINDOW_START, WINDOW_END, RANK), columns), "by": by,
        }  # fmt: skip
        return Stream(stream._app, (WINDOW_START, WINDOW_END, *columns, RANK), op, (stream,))

    def _without_window(self) -> Stream:
        """The stream; without window_start and window_end if it has the results of the same windows, whose own they
        are: a result's stime is the last instant of its window, so it lies in the window of the same times."""
        made = self._stream
        while made._op["op"] == "filter":
            (made,) = made._inputs
        if not (made._op["op"] in ("window", "top") and all(made._op[name] == self._kind[name] for name in _TIMES)):
            return self._stream
        if self._kind["size_us"] != self._kind["every_us"]:
            return self._stream
        columns = [name for name in self._stream.columns if name not in (WINDOW_START, WINDOW_END)]
        return self._stream.map(**{name: '"' + name.replace('"', '""') + '"' for name in columns})

    def apply(self, f: Callable[[Any], Any], columns: Mapping[str, str], *, style: StyleName = "arrow") -> Stream:
        """What a Python function makes of each window and group: window_start, window_end, keys, `columns`.

        `f` gets a table of the group's rows, in order, with `window_start`, `window_end` and `stime`, and returns one
        of any number of rows up to 100 000, in their order. The stime of a result is the window's last instant. A group
        for which it raises is a dead letter. `f`, `columns`, `style`: as for `Stream.apply`.

        Raises:
            QueryError: a function that no name leads to, or invalid columns.
        """
        how = columns, style, self._keys, self._stream.columns
        op = window_apply_op(self._kind, f, self._stream._app.modules, *how)
        return Stream(self._stream._app, (WINDOW_START, WINDOW_END, *self._keys, *columns), op, (self._stream,))


class Framed:
    """Each row of a stream with its frame, the last rows of its key. It is not a stream itself: `map` makes one."""

    def __init__(self, stream: Stream, keys: tuple[str, ...], last: int, within_us: int) -> None:
        self._stream = stream
        self._keys = keys
        self._last = last
        self._within_us = within_us

    def map(self, **columns: str) -> Stream:
        """A stream with exactly these columns, one row for each row, and its `stime`.

        An expression may use the row's columns, aggregates over its frame (`avg(euros)`, in the stream's order), and
        `lag(x)` or `lag(x, 3)`: the value of one or three rows before, null where the frame has no such row.

        Raises:
            QueryError: no columns, or an invalid name.
        """
        if not columns:
            raise QueryError('map() needs columns: map(before="lag(euros)", ...)')
        check_columns(columns, "map()", (STIME,))
        for expression in columns.values():
            check_text(expression, "map", self._stream.columns)
        op = {
            "op": "over", "keys": self._keys, "last": self._last, "within_us": self._within_us,
            "columns": tuple(columns.items()),
        }  # fmt: skip
        return Stream(self._stream._app, tuple(columns), op, (self._stream,))
