"""An app that has run: its sources, and what its nodes made of them, on the simulated log."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import msgspec

from borealis_py.app.topics import topics_of
from borealis_py.engine import compile_query
from borealis_py.log import topics
from borealis_py.log.base import Feed, NewRecord
from borealis_py.log.corrected import Progress, dead_letter, row_headers
from borealis_py.log.kernel import Kernel
from borealis_py.query import AppSpec
from borealis_py.query.names import base_name
from borealis_py.query.partitions import physical
from reconcile.audit import Audited, AuditResult, audit, audit_specs
from sunion.model import Input, Output
from tests.reconcile import flights_world
from tests.reconcile.replica import Replica
from tests.support.instant_log import InstantLog

_NONE: Mapping[str, Any] = MappingProxyType({})


class Lived:
    """What the nodes of an app make of its sources, one after the other. `logs`: values of its sources' records.

    Attributes:
        records: of each source, of each node's corrected stream, and of its progress, by name.
        letters: the dead letters.
    """

    def __init__(self, spec: AppSpec, logs: Mapping[str, list[bytes]]) -> None:
        self.spec, self.end = spec, flights_world.ORIGIN + 60
        self.letters: list[NewRecord] = []
        self.records: dict[str, list[NewRecord]] = {
            name: [NewRecord(topics.source(spec.name, name), value) for value in values]
            for name, values in logs.items()
        }
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
        self,
        query: str,
        letters: list[NewRecord] | None = None,
        parts: int | None = None,
        starts: Mapping[str, Audited] = _NONE,
        advance: bool = False,
        trimmed: Mapping[str, int] = _NONE,
        **changed: list[NewRecord],
    ) -> list[AuditResult]:
        """Of each partition, or the first so many; with other dead letters or other records than were written.

        Args:
            starts: by partition. trimmed: the first offset of each source that is still there.
        """
        log = InstantLog()
        with closing(log.admin()) as admin:
            admin.create(topics_of(self.spec))
        log.put(*(self.letters if letters is None else letters))
        for records in (self.records | changed).values():
            log.put(*records)
        for source, first in trimmed.items():
            log.delete_before(topics.source(self.spec.name, source), first)
        todo = audit_specs(self.spec, query, log, flights_world.ORIGIN, flights_world.AHEAD_US, "a1")
        return [audit(replace(one, start=starts.get(one.work.node), advance=advance)) for one in todo[:parts]]

    def _run(self, name: str) -> Mapping[int, Output]:
        kernel, inputs, first = self._kernels[name], self._running.inputs_of(name), flights_world.ORIGIN
        if {of.name for of in inputs} <= self._sources.keys():
            own = {of.name: self._sources[of.name] for of in inputs}
            tells = all(of.dead_letters for of in inputs)
            return Replica(kernel, own, first, flights_world.WIDTH_US, flights_world.AHEAD_US, tells).outputs
        parts = {b: tuple(self._said(of, b) for of in inputs) for b in range(first, self.end)}
        return kernel.step(kernel.initial(), first, self.end, parts)[1]

    def _said(self, of: Input, bucket: int) -> object:
        rows, exchange = self._streams[of.name].get(bucket, Output()).rows, self._running.node(of.name).exchange
        if rows is None or exchange is None:
            return rows
        return self._kernels[of.name].divide(rows, exchange.by, exchange.count)[of.partition]

    def _publish(self, name: str) -> None:
        app, kernel = self.spec.name, self._kernels[name]
        feed, rows = topics.corrected(app, name), list[NewRecord]()
        for bucket, output in self._streams[name].items():
            rejects = output.rejects if bucket < self.end else ()
            self.letters += [dead_letter(app, name, bucket, reject, i) for i, reject in enumerate(rejects)]
            if output.rows is None or base_name(name) not in self.spec.queries:
                continue
            values = kernel.published(output.rows)
            rows += [NewRecord(feed, v, headers=row_headers(bucket, i, s)) for i, (v, s) in enumerate(values)]
        self.records[name] = rows
        self.records[f"{name}.progress"] = [
            NewRecord(Feed(topics.progress(app, name)), msgspec.json.encode(Progress("a1", self.end, 0, 1)))
        ]
