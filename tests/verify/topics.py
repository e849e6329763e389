"""An app's topics made by hand: two sources, a cut node, a query; source `b` is lost for a while. Tests spoil them."""

from __future__ import annotations

import json
import struct
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import msgspec
import pyarrow as pa

from borealis_py.verify.anomalies import Verdict
from borealis_py.verify.description import CheckedApp, CheckedNode
from borealis_py.verify.envelope import Raw
from borealis_py.verify.kafka_reader import CannotRead, Told
from borealis_py.verify.survey import survey

LIFE, WIDTH, ORIGIN = "a1", 100, 10
CLOSED = 30
"""The first bucket that the sources have not closed."""
LOST, BACK, HEALED = 16, 18, 20
"""`b` is missing in [LOST, BACK); corrections come when HEALED is next."""
PUBLISHED = 25
SCHEMA = pa.schema([("n", pa.int64()), ("x", pa.float64()), ("stime", pa.int64())])
APP = CheckedApp(
    "app",
    LIFE,
    ORIGIN,
    WIDTH,
    60_000_000,
    1_000_000,
    sources={"a": {"n": "int64"}, "b": {"n": "int64"}},
    nodes=(
        CheckedNode("cut", ("a", "b"), SCHEMA, 2, query=False),
        CheckedNode("q", ("cut",), SCHEMA, 2, lookback=2),
    ),
)
Row = tuple[int, float, int]


def envelope(*header: object, payload: bytes = b"", life: str = LIFE) -> bytes:
    """By the tables of A4."""
    body = msgspec.msgpack.encode([header[0], life, *header[1:]])
    return struct.pack(">2sBI", b"BZ", 2, len(body)) + body + payload


def arrow(rows: Sequence[Row]) -> bytes:
    """Rows as a replica writes them."""
    if not rows:
        return b""
    columns = [pa.array(list(c), t) for c, t in zip(zip(*rows, strict=True), SCHEMA.types, strict=True)]
    return bytes(pa.RecordBatch.from_arrays(columns, schema=SCHEMA).serialize())


def rows_of(bucket: int) -> list[Row]:
    """Two in every third bucket."""
    return [(bucket, bucket / 3, bucket * WIDTH + i) for i in range(2)] if bucket % 3 == 0 else []


def stable(bucket: int, rows: Sequence[Row], letters: Sequence[object] = (), inc: int = 1) -> bytes:
    """What a replica says of one bucket."""
    return envelope("STABLE", inc, bucket, 0, 0, 1, "h", list(letters), payload=arrow(rows))


def tentative(
    bucket: int,
    missing_sources: Sequence[str] = ("b",),
    missing: Sequence[str] = ("b",),
    completeness: float = 0.5,
    diverged: int = LOST,
) -> bytes:
    """Without rows."""
    return envelope("TENTATIVE", 1, bucket, 0, 0, 1, "h", missing_sources, missing, completeness, diverged)


def corrected(bucket: int, index: int, row: Row) -> tuple[bytes, tuple[tuple[str, bytes], ...]]:
    """Value and headers of a row of the corrected stream."""
    value = json.dumps({"n": row[0], "x": row[1]}).encode()
    return value, (("id", f"{bucket}:{index}".encode()), ("stime", str(row[2]).encode()))


def letter(source: str, offset: int, bucket: int, index: int = 0) -> tuple[bytes, tuple[tuple[str, bytes], ...]]:
    """Value and headers of a dead letter of the cut node."""
    told = {"source": source, "offset": offset, "reason": "garbage", "node": "cut", "bucket": bucket, "index": index}
    return b"?", tuple((name, str(value).encode()) for name, value in told.items())


def progress(bucket: int, life: str = LIFE) -> bytes:
    """Value of a progress record."""
    return json.dumps({"app_uid": life, "bucket": bucket, "replica": 0, "inc": 1}).encode()


@dataclass
class HandTopics:
    """Topics as lists of (value, headers); change what you like, then `judge`. `begin`: offsets of first records."""

    lists: dict[str, list[tuple[bytes | None, tuple[tuple[str, bytes], ...]]]] = field(default_factory=dict)
    begin: dict[str, int] = field(default_factory=dict)
    read: list[str] = field(default_factory=list)
    later: dict[str, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    """What is appended to a topic when it was read once."""

    def add(self, topic: str, *values: bytes | None) -> None:
        self.lists.setdefault(topic, []).extend((value, ()) for value in values)

    def stream(self, topic: str, partition: int = 0, committed: bool = True, told: Told | None = None) -> Iterator[Raw]:
        name = topic.removeprefix("app.")
        if name not in self.lists:
            raise CannotRead(f"topic {topic} does not exist")
        self.read.append(name)
        first = self.begin.get(name, 0)
        yield from (Raw(first + n, value, headers) for n, (value, headers) in enumerate(self.lists[name]))
        self.add(name, *self.later.pop(name, ()))

    def beginning(self, topic: str, partition: int = 0) -> int:
        return self.begin.get(topic.removeprefix("app."), 0)

    def judge(self, *queries: str, app: CheckedApp = APP) -> Verdict:
        return survey(app, queries or ("q",), self)


def good() -> HandTopics:
    """Nothing is wrong with them. Offset 1 of source `a` is garbage: a dead letter of bucket 10."""
    topics = HandTopics()
    for source in ("a", "b"):
        stimes = struct.pack("<3q", 1_000, 1_050, 1_099)
        values = b'[{"n": 1}, {"n": 2}, {"n": 3}]'
        batch = envelope("TUPLES", 1, "u", 0, stimes, 1_100, "json", payload=values)
        end = envelope("TUPLES", 1, "u", 3, b"", CLOSED * WIDTH, "json")
        topics.add(source, envelope("EPOCH", 1, "u", 0), *([b"garbage"] if source == "a" else []), batch, end)
    rejected = [["a", 1, "garbage", b"?", -1]]
    for node in ("cut", "q"):
        said = [stable(b, rows_of(b), rejected if (node, b) == ("cut", ORIGIN) else ()) for b in range(ORIGIN, LOST)]
        for b in range(LOST, HEALED):
            lacks = b - (2 if node == "q" else 0) < BACK
            missing = ("b",) if b < BACK else ()
            said.append(tentative(b, ("b",) if lacks else (), missing, 0.5 if lacks else 1.0))
        said.append(envelope("UNDO", 1, LOST))
        said += [stable(b, rows_of(b)) for b in range(LOST, 28)]
        said += [envelope("REC_DONE", 1, 28), envelope("BOUNDARY", 1, 28, 30, 0)]
        for k in (0, 1):
            topics.add(f"{node}.r{k}", *said)
        topics.add(f"{node}.progress", progress(15), progress(PUBLISHED))
    topics.lists["q"] = [corrected(b, i, row) for b in range(ORIGIN, PUBLISHED) for i, row in enumerate(rows_of(b))]
    topics.lists["deadletter"] = [letter("a", 1, ORIGIN)]
    return topics
