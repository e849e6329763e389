"""Everything that must be equal for two processes to compute equal bits; replicas with another fingerprint do not
start.
"""

from __future__ import annotations

import hashlib
import platform
import struct
from datetime import date, datetime
from decimal import Decimal
from functools import cache

import duckdb
import msgspec
import numpy as np
import pyarrow as pa

from borealis_py.engine.arrow.partitioner import partitions_of, sort_by_key
from borealis_py.engine.arrow.rows import canonical_hash, merge
from borealis_py.engine.operators.grouped_sums import Measure, MeasureKind, grouped
from borealis_py.engine.sql.duck_connection import connect
from borealis_py.engine.sql.duck_statement import single_batch
from borealis_py.query.names import STIME
from borealis_py.types.arrow import JSON, said
from borealis_py.types.values import normal_json

RULES = 7
"""Version of our own rules that affect results: fold, total order, kernel, partitions, and what becomes a dead letter.
Increase it with every change after which the same log gives other rows or dead letters (`tests/engine/test_rules.py`).
"""

# Order-sensitive sums, functions of the platform's mathematical library, text, ordering, grouping.
_SELF_TEST = """
SELECT g, count(*) AS n, sum(x) AS s, avg(x) AS a, stddev(x) AS d, median(x) AS m, sum(i) // 7 AS q,
       sum(exp(sin(x / 1e3)) * ln(abs(x) + 1)) AS t, sum(pow(abs(x), 0.3) + cbrt(x) + atan2(x, i)) AS p,
       string_agg(upper(k) || '|' || CAST(x AS VARCHAR), ',' ORDER BY i) AS k, max(hash(k)) % 1000003 AS h
FROM (SELECT i, i % 5 AS g, 'k' || (i % 11) AS k,
             (CASE WHEN i % 3 = 0 THEN -1.0 ELSE 1.0 END)::DOUBLE * pow(10, (i * 7) % 33 - 16) * (1 + i / 7.0) AS x
      FROM range(500) t(i))
GROUP BY g ORDER BY g
"""

# Sums of decimals, times from the first to the last year, bytes and json, as columns and as keys.
_TYPES_TEST = """
SELECT m, t, d, y, j, sum(n) AS s, avg(n) AS a, min(n * 1.005) AS p, max(date_trunc('month', t)) AS c,
       string_agg(strftime(t, '%Y-%j %H:%M:%S.%f') || CAST(d AS VARCHAR), ',' ORDER BY i) AS x,
       max(json_extract(j, '$.a')) AS e, count(DISTINCT j ->> '$.a') AS u
FROM (SELECT i, CAST(i % 7 AS DECIMAL(12,2)) * 0.25 AS m, CAST((i * 7919) % 1000003 AS DECIMAL(18,3)) AS n,
             make_timestamp((i % 3 - 1) * 30000000000000000 + i % 2) AS t,
             DATE '1970-01-01' + CAST(i % 5 AS INTEGER) AS d,
             unhex(printf('%02x', i % 4)) AS y, CAST('{"a": ' || (i % 4) || '.10}' AS JSON) AS j
      FROM range(300) t(i))
GROUP BY m, t, d, y, j ORDER BY m, t, d, y, j
"""

# Keys of every type, and texts that another Python version may print differently.
_KEYS = pa.record_batch(
    {
        "s": ["a", "it's", "e\u0301", "\u00e9", "\U0001fae8", "\n", None],
        "i": [0, -1, 2**63 - 1, -(2**63), 7, 7, None],
        "d": [-0.0, 0.0, 0.1, 1e300, float("nan"), float("-inf"), None],
        "b": [True, False, True, False, True, False, None],
        "m": pa.array([Decimal(n) for n in ("0.00", "-1.50", "10.00", "0.05", "9999999999.99", "1.50")] + [None]),
        "t": pa.array([datetime.min, datetime.max, *(datetime(1970, 1, n, 1, 2, 3, n) for n in range(1, 5)), None]),
        "y": [b"", b"\0", b"'", b"\xff", b"a", b"a", None],
        "j": pa.array(["{}", "1.10", "1.1", '"\u00e9"', "null", "[1]", None], JSON),
    }
).append_column("day", pa.array([date.min, date.max, *(date(2024, 2, n) for n in range(26, 30)), None]))

# Clocks of zones with other rules, over 130 years: days and windows go by them.
_ZONES_TEST = """
SELECT z, us, timezone(z, make_timestamptz(us)) AS shown
FROM unnest(['Europe/Berlin', 'America/Sao_Paulo', 'Africa/Cairo', 'Africa/Casablanca', 'Pacific/Apia', 'Asia/Tehran',
             'Australia/Lord_Howe', 'America/Vancouver']) AS zones(z),
     (SELECT (i * 151 - 12000) * 86400000000 AS us FROM range(300) t(i))
ORDER BY z, us
"""

_SPACED = b' { "a" : 1.10 , "b" : [ 1E2 , "\\u00e9 " ] } '


@cache
def self_test() -> str:
    """Hex digest of the results of a fixed set of expressions in this process, and of how it partitions rows."""
    connection = connect()
    try:
        table = connection.execute(
            f"SELECT * REPLACE (CAST(q AS DOUBLE) AS q, CAST(h AS BIGINT) AS h) FROM ({_SELF_TEST})"
        )
        computed = canonical_hash(single_batch(table.to_arrow_table()))
        computed += canonical_hash(single_batch(connection.execute(_TYPES_TEST).to_arrow_table()))
        computed += canonical_hash(single_batch(connection.execute(_ZONES_TEST).to_arrow_table()))
    finally:
        connection.close()
    fallen = partitions_of(_KEYS, _KEYS.schema.names, 1 << 32).tolist()
    others = f"{_ordered()}|{_as_json()}|{_added()}"
    return hashlib.blake2b(f"{computed}|{fallen}|{others}".encode(), digest_size=16).hexdigest()


def _ordered() -> str:
    """Hash of rows in total order, of inputs and of partitions: covers ties and large inputs in numpy and pyarrow."""
    parts = [
        pa.record_batch({"i": list(range(n)), STIME: [(i * 7_919) % 97 for i in range(n)]}) for n in (1_000, 17, 300)
    ]
    merged = merge(parts)
    assert merged is not None
    keyed = pa.concat_batches([_KEYS] * 3)
    stimes = pa.array([i % 2 for i in range(keyed.num_rows)])
    parts_merged = sort_by_key(keyed.append_column(STIME, stimes), _KEYS.schema.names)
    return canonical_hash(merged) + canonical_hash(parts_merged)


def _added() -> str:
    """Hash of counts and sums by group, where another order of additions would give other bits."""
    rows = pa.concat_batches([_KEYS] * 50)
    wild = pa.array([None if i % 9 == 0 else (-1) ** i * (1 + i / 7) * 10.0 ** (i * 7 % 33 - 16) for i in range(350)])
    rows = rows.append_column("x", wild).append_column("n", pa.array(range(350)))
    kinds = {"ROWS": (), "VALUES": ("x",), "SUM": ("x",), "TOTAL": ("n",), "MEAN": ("x", "n")}
    measures = [Measure(MeasureKind[kind], of) for kind, of in kinds.items()]
    columns = grouped(rows, np.arange(350) // 175, ["s", "i", "b"], measures)
    return canonical_hash(pa.RecordBatch.from_arrays(columns, names=[str(i) for i in range(len(columns))]))


def _as_json() -> str:
    """The bytes that msgspec encodes from values, and the values that it decodes from bytes."""
    doubles = [0.1, -0.0, 1e16, 1e-7, 1.5e300, 5e-324, 2.0**53, 1 / 3, 123456789.125, float("nan"), float("inf")]
    encoded = msgspec.json.encode(
        {"d": doubles, "i": [2**63 - 1, -(2**63)], "s": 'é\u2028"\\\x1f\U0001fae8', "b": True}
    )
    texts = [b"0.1", b"1e-400", b"9007199254740993", b"-0.0", b"0.1000000000000000055511151231257827"]
    decoded = [struct.pack("<d", msgspec.json.decode(text, type=float)).hex() for text in texts]
    forms = msgspec.json.encode([said(column) for column in _KEYS.columns])
    return f"{encoded!r}{decoded}{forms!r}{normal_json(_SPACED)!r}"


def ingredients() -> dict[str, str]:
    """The components of a fingerprint other than the query, by name, to report which one differs."""
    return {
        "DuckDB": duckdb.__version__,
        "C library": "-".join(platform.libc_ver()),
        "architecture": platform.machine(),
        "rules": str(RULES),
        "self-test": self_test(),
    }


def fingerprint(query_hash: str) -> str:
    """Hex digest of engine version, C library, architecture, version of the rules, query, and the
    self-test's result.
    """
    *parts, tested = ingredients().values()
    parts += [query_hash, tested]
    return hashlib.blake2b("|".join(parts).encode(), digest_size=12).hexdigest()
