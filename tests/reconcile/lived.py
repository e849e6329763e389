"""An app that has run: its sources, and what its nodes made of them, as the logs of a broker hold it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from borealis_py.engine import compile_query
from borealis_py.log.base import Feed, Lookup, Record
from borealis_py.log.corrected import Progress, dead_letter, row_headers
from borealis_py.log.kernel import Kernel
from borealis_py.query import AppSpec
from borealis_py.query.partitions import physical
from reconcile.audit import AuditResult, audit, audit_specs
from sunion.model import Input, Output
from tests.reconcile import flights_world
from tests.reconcile.list_world import StubLog, StubLookup
from tests.reconcile.replica import Replica


class CorrectedLog(StubLog):
    """Also holds whole records, and partitions: the log of partition `n` of topic `t` is `t.n`."""

    def lookup(self) -> Lookup:
        return CorrectedLookup(self.logs, self.lost)


class CorrectedLookup(StubLookup):
    def bounds(self, feed):
        return super().bounds(self._named(feed))

    def read(self, feed, first, end):
        feed = self._named(feed)
        for offset in range(first, end):
            value = self.logs[feed.topic][offset]
            if isinstance(value, Record):
                yield msgspec.structs.replace(value, feed=feed, offset=offset)
            elif value is not None:
                yield from super().read(feed, offset, offset + 1)

    def _named(self, feed: Feed) -> Feed:
        parted = f"{feed.topic}.{feed.partition}"
        return Feed(parted) if parted in self.logs else feed


class Lived:
    """What the nodes of an app make of its sources, one after the other. `logs`: those of its sources."""

    def __init__(self, spec: AppSpec, logs: Mapping[str, list[bytes]]) -> None:
        self.spec, self.end = spec, flights_world.ORIGIN + 60
        self.letters: list[Record] = []
        self.logs: dict[str, list[object]] = {f"{spec.name}.{name}": list(values) for name, values in logs.items()}
        self._running, self._sources = physical(spec), logs
        self._kernels: dict[str, Kernel] = {}
        self._streams: dict[str, Mapping[int, Output]] = {}
        for name in self._running.all_nodes:
            self._kernels[name] = compile_query(self._running, name)
            self._streams[name] = self._run(name)
            self._publish(name)
        for kernel in self._kernels.values():
            kernel.close()

    def audit(
        self, query: str, letters: list[Record] | None = None, parts: int | None = None, **logs: list[object]
    ) -> list[AuditResult]:
        """Of each partition, or the first so many; with other dead letters or other logs than were written."""
        told = self.letters if letters is None else letters
        changed = {f"{self.spec.name}.{name}": values for name, values in logs.items()}
        log = CorrectedLog({**self.logs, f"{self.spec.name}.deadletter": told, **changed})
        todo = audit_specs(self.spec, query, log, flights_world.ORIGIN, flights_world.AHEAD_US, "a1")
        return [audit(one) for one in todo[:parts]]

    def _run(self, name: str) -> Mapping[int, Output]:
        kernel, inputs, first = self._kernels[name], self._running.inputs_of(name), flights_world.ORIGIN
        if {of.name for of in inputs} <= self._sources.keys():
            own = {of.name: self._sources[of.name] for of in inputs}
            tells = all(of.letters for of in inputs)
            return Replica(kernel, own, first, flights_world.WIDTH_US, flights_world.AHEAD_US, tells).outputs
        parts = {b: tuple(self._said(of, b) for of in inputs) for b in range(first, self.end)}
        return kernel.step(kernel.initial(), first, self.end, parts)[1]

    def _said(self, of: Input, bucket: int) -> object:
        rows, exchange = self._streams[of.name].get(bucket, Output()).rows, self._running.node(of.name).exchange
        if rows is None or exchange is None:
            return rows
        return self._kernels[of.name].divide(rows, exchange.by, exchange.count)[of.partition]

    def _publish(self, name: str) -> None:
        app, kernel, rows = self.spec.name, self._kernels[name], []
        for bucket, output in self._streams[name].items():
            rejects = output.rejects if bucket < self.end else ()
            told = [dead_letter(app, name, bucket, reject, i) for i, reject in enumerate(rejects)]
            self.letters += [Record(Feed(""), 0, 0, None, new.value, new.headers) for new in told]
            if output.rows is None:
                continue
            values = kernel.published(output.rows)
            rows += [Record(Feed(""), 0, 0, None, v, row_headers(bucket, i, s)) for i, (v, s) in enumerate(values)]
        self.logs[f"{app}.{name}"] = rows
        self.logs[f"{app}.{name}.progress"] = [msgspec.json.encode(Progress("a1", self.end, 0, 1))]
