"""A small app on the real kernel, and logs for it with doubles whose sum depends on the order of addition."""

from __future__ import annotations

import random
from collections.abc import Mapping

import msgspec

from borealis_py import App
from borealis_py.engine import canonical_hash
from borealis_py.log.records import BatchHeader, ClaimHeader, pack, pack_stimes
from borealis_py.query.spec import AppSpec
from sunion.model import FOREVER, Output

WIDTH_US = 100_000
ORIGIN = 1_000
AHEAD_US = 3_600_000_000
START_US = ORIGIN * WIDTH_US


def app(name: str) -> AppSpec:
    """Query `totals`: a keyed sum per second over the union of two sources; `decimals`: the same, exact; `big`: the
    filtered rows."""
    built = App(name, bucket="100ms")
    s, t = (built.source(n, schema={"key": "string", "x": "double"}) for n in ("s", "t"))
    totals = (
        built.union(s, t).filter("x IS NOT NULL").window("1s").group_by("key").agg(n="count(*)", total="sum(x / 3.0)")
    )
    built.query("totals", totals, delay_threshold="3s")
    cents = built.union(s, t).filter("x IS NOT NULL").map(key="key", cents="CAST(x AS DECIMAL(38, 2))")
    sums = (
        cents.window("1s").group_by("key").agg(n="count(*)", total="sum(cents)", mean="avg(cents)", most="max(cents)")
    )
    built.query("decimals", sums, delay_threshold="3s")
    built.query("big", built.union(s, t).filter("x > 1000"), delay_threshold="3s")
    return built.describe()


def log(seed: int, seconds: int, ended: bool = False) -> list[bytes]:
    """A source: one record a bucket, now and then a malformed, late, repeated or foreign one."""
    random_ = random.Random(seed)
    values: list[bytes] = [pack(ClaimHeader("a1", 1, "u"))]
    seq = 0
    for bucket in range(ORIGIN, ORIGIN + seconds * 10):
        start = bucket * WIDTH_US
        count = random_.randint(0, 30)
        stimes = sorted(random_.randrange(start, start + WIDTH_US) for _ in range(count))
        if random_.random() < 0.1 and stimes:
            stimes[0] -= 3 * WIDTH_US  # late
        rows = [{"key": random_.choice("abc"), "x": _double(random_)} for _ in stimes]
        if random_.random() < 0.1 and rows:
            rows[-1]["x"] = "not a number"
        boundary = start + WIDTH_US
        value = _batch("u", seq, stimes, rows, boundary)
        values += [value, value] if random_.random() < 0.1 else [value]  # a repeat
        if random_.random() < 0.1:
            values.append(b'{"key": "a"}')
        if random_.random() < 0.1:
            values.append(_batch("zombie", seq, stimes, rows, boundary + WIDTH_US))
        seq += count
    if ended:
        values.append(_batch("u", seq, [], [], FOREVER))
    return values


def _double(random_: random.Random) -> float | None:
    if random_.random() < 0.05:
        return None
    return random_.uniform(-1, 1) * 10 ** random_.randint(-8, 12)


def _batch(uid: str, seq: int, stimes: list[int], rows: list[dict[str, object]], boundary: int) -> bytes:
    payload = msgspec.json.encode(rows) if rows else b""
    return pack(BatchHeader("a1", 1, uid, seq, pack_stimes(stimes), boundary, "json"), payload)


def bits(outputs: Mapping[int, Output]) -> dict[int, tuple[str | None, object]]:
    """Outputs in a form that is equal exactly if all bits are."""
    return {b: (None if o.rows is None else canonical_hash(o.rows), o.rejects) for b, o in outputs.items()}
