"""Opens connections that compute the same on every machine: single-threaded, no files, no network, no extensions,
configuration locked.
"""

from __future__ import annotations

import duckdb

from borealis_py.engine.sql import checks

# filter_pushdown: Arrow would evaluate a filter pushed into its scan, and it compares NaN differently; also, a filter
# stays where the user wrote it, so that the optimiser does not decide which row fails in which expression. `ScanInput`
# takes none, so that neither do those that joins push (join_filter_pushdown).
# reorder_filter, sum_rewriter: we fix the order of evaluation and of additions.
_DISABLED = "filter_pushdown,join_filter_pushdown,reorder_filter,sum_rewriter,statistics_propagation"

_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "threads": 1,
    "enable_external_access": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "python_enable_replacements": False,  # a name in SQL never means a Python variable
    "temp_directory": "",
}
_SETTINGS = (
    "SET TimeZone='UTC'",
    "SET ieee_floating_point_ops=true",
    "SET integer_division=false",
    "SET default_null_order='NULLS_LAST'",
    f"SET disabled_optimizers='{_DISABLED}'",
    "SET explain_output='all'",  # EXPLAIN shows what was bound (`expressions.bound`)
)


MEMORY_BYTES = 1 << 30
"""Memory limit of one connection's engine, unless the configuration sets another (`engine_memory`)."""


def close_default() -> None:
    """Close the connection that DuckDB opens for itself on import, and end its thread. It may open another."""
    duckdb.close()


def open_default() -> None:
    """Open that connection before several threads need it. Of two that open it at once, one would hold Python's lock
    and wait for DuckDB's, and the other the reverse."""
    duckdb.default_connection()


def connect(memory_bytes: int = MEMORY_BYTES, *, lock: bool = True) -> duckdb.DuckDBPyConnection:
    """An isolated connection. With `lock`, SET can no longer change it.

    It never has a temporary directory: spilled rows are added in another order, which changes the last bits of sums.
    """
    connection = duckdb.connect(config={**_CONFIG, "memory_limit": f"{memory_bytes}B"})
    checks.register(connection)
    for setting in _SETTINGS:
        connection.execute(setting)
    if lock:
        connection.execute("SET lock_configuration=true")
    return connection
