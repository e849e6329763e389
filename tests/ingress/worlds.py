"""A foreign topic in the simulated log, ingresses that copy it, and what readers of the source make of that."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import msgspec

from borealis_py.client.target import Target
from borealis_py.engine.arrow.rows import ArrowRows
from borealis_py.engine.codec import ArrowSourceCodec
from borealis_py.ingress.catch_up import BacklogFronts
from borealis_py.ingress.formats.base import RecordFormat
from borealis_py.ingress.plan import IngressPlan
from borealis_py.log.base import Feed, NewRecord, TopicSpec
from borealis_py.log.description import Life
from borealis_py.log.messages import encode
from borealis_py.log.records import BatchHeader, unpack_source
from borealis_py.log.source_records import decode_source
from borealis_py.protocol.settings import ROW_MAX_BYTES
from borealis_py.query.ingress_spec import IngressSpec
from borealis_py.simulation.clock import Scheduler
from borealis_py.simulation.ingress.process import SimIngress
from borealis_py.simulation.log.client import MemoryLog
from sunion.source import SourceFold, fold
from tests.sunion.lists import opened

T0 = 1_700_000_000_000_000
W = 100_000
AHEAD_MAX_US = 60_000_000
TOPIC = "prod.orders"
COLUMNS = {"n": "int64", "shop": "string", "at": "int64"}


@dataclass
class Copied:
    """What readers make of one input's log."""

    rows: list[dict[str, Any]]
    letters: list[tuple[str, bytes]]
    boundary: int
    late: int
    fenced: int
    at: dict[int, int]


class TopicWorld:
    """The topic with its writers, and processes of its ingress. `more`: of `IngressSpec`."""

    def __init__(
        self, partitions: int = 2, seed: int = 0, width_us: int = W, row_max_bytes: int = ROW_MAX_BYTES, **more: Any
    ) -> None:
        self.scheduler = Scheduler(T0)
        self.memory = MemoryLog(self.scheduler, seed, append_timeout_us=5_000_000)
        self.admin = self.memory.client("admin").admin()
        spec = IngressSpec(**{"topic": TOPIC, "stime": "at", "lateness_us": 0, **more})
        if spec.by is None and not spec.inputs:
            spec = spec.with_partitions(max(1, partitions))
        targets = tuple(
            Target(
                "shop",
                "a1",
                f"orders.{i}",
                width_us,
                T0 // width_us,
                ahead_max_us=AHEAD_MAX_US,
                row_max_bytes=row_max_bytes,
            )
            for i in range(spec.inputs)
        )
        self.catch_up = BacklogFronts()
        self.form: RecordFormat | None = None
        """Of the topic's records; None: JSON objects."""
        self.plan = IngressPlan(spec, COLUMNS, targets)
        self.admin.create([TopicSpec("shop.orders", spec.inputs), TopicSpec("shop.settings")])
        if partitions:
            self.admin.create([TopicSpec(TOPIC, partitions)])
        self.processes: list[SimIngress] = []
        self.sent = 0

    def ingress(self, name: str = "a", index: int = 0) -> SimIngress:
        process = SimIngress(self.scheduler, self.memory, self.plan, name, index, self.catch_up, self.form)
        self.processes.append(process)
        return process

    def copying(self, name: str = "a", index: int = 0) -> SimIngress:
        """An ingress that owns the inputs and copies."""
        process = self.ingress(name, index)
        self.run(0.5)
        assert process.owner, process.errors
        return process

    @property
    def now(self) -> int:
        return self.scheduler.now_us

    def run(self, seconds: float) -> None:
        self.scheduler.run_until(self.now + round(seconds * 1_000_000))

    def send(self, partition: int = 0, ago: int = 0, **row: Any) -> int:
        """Write a row whose stime is so long ago, and return its number."""
        self.sent += 1
        value = {"n": self.sent, "shop": "berlin", "at": self.now - ago, **row}
        self.write(partition, json.dumps(value).encode())
        return self.sent

    def write(self, partition: int, value: bytes | None) -> None:
        self.memory.broker.append(NewRecord(Feed(TOPIC, partition), value))

    def set(self, key: str, value: msgspec.Struct) -> None:
        """Write a setting."""
        self.memory.broker.append(NewRecord(Feed("shop.settings"), encode(value), key.encode()))

    def copied(self, index: int = 0) -> Copied:
        """What the fold makes of an input."""
        target = self.plan.targets[index]
        codec, state = ArrowSourceCodec(target.source, COLUMNS, target.row_max_bytes), SourceFold(T0)
        found = Copied([], [], T0, 0, 0, {})
        for record in self.memory.committed(target.feed):
            decoded = opened(decode_source(record, codec, target.source, Life("a1")))
            before = (state.epoch, state.owner)
            state, accepted = fold(state, decoded, target.buckets, ArrowRows(), target.source, target.ahead_max_us)
            for bucket, rows, _ in accepted.rows:
                found.rows += [{**row, "bucket": bucket} for row in rows.to_pylist()]
            found.letters += [(reject.reason, reject.raw) for reject in accepted.rejects]
            found.late += accepted.late
            found.fenced += accepted.fenced
            header, _ = unpack_source(record.value)
            if isinstance(header, BatchHeader) and (header.epoch, header.uid) == before:
                found.at = dict(header.at)
        found.boundary = state.boundary
        return found

    def numbers(self) -> list[int]:
        """The numbers of all copied rows, input by input."""
        return [row["n"] for i in range(len(self.plan.targets)) for row in self.copied(i).rows]
