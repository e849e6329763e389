"""The API for defining an app: its sources, the streams derived from them, and its queries.

Names and column sets are checked here immediately; SQL expressions are checked by the engine when it loads the query.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from pathlib import PurePath
from typing import get_args

from borealis_py.query.bykey import table_key
from borealis_py.query.errors import QueryError
from borealis_py.query.field_paths import split_schema
from borealis_py.query.foreign import ingress_of
from borealis_py.query.formats import TopicFormat, refusing_flat_options
from borealis_py.query.functions import code_files
from borealis_py.query.ingress_spec import (
    BoundaryName,
    FormatName,
    IngressSpec,
    KeyFormatName,
    StartName,
    StimeUnit,
)
from borealis_py.query.linear import linearised
from borealis_py.query.names import check_no_collision, check_schema, check_stream_name
from borealis_py.query.partitions import checked, checked_count, checked_replicas
from borealis_py.query.recovery import SaidRecovery, check_plan, said_recovery
from borealis_py.query.retention import Keep, all_kept, checked_retain, parse_retain, parse_source_retain
from borealis_py.query.schemas import columns_of
from borealis_py.query.spec import AppSpec, NodeSpec, Partitioning, PolicyName, QuerySpec
from borealis_py.query.stream import Framed, Stream, Windowed
from borealis_py.query.tables import Table, file_table, or_nothing_left
from borealis_py.query.units import parse_duration


class App:
    """An app: sources and queries that share a bucket width and a set of Kafka topics.

    Args:
        name: prefix of every topic's name.
        bucket: bucket width, in whole milliseconds: "100ms".
        modules: Python files with functions for `apply`: paths, relative to the working directory. Their content is
            part of the queries that use them; `up` copies them beside the checkpoints, and replicas load them from
            there. They may import each other, the standard library and what is installed.
        retain: how much of each stream between nodes and to live readers is kept beyond what is needed: "needed",
            "all", or time behind the last stable result, not less than a query's threshold. Corrected streams are kept
            whole, and so are sources unless they say otherwise.
    """

    def __init__(
        self, name: str, bucket: str = "100ms", modules: Sequence[str | PurePath] = (), retain: str = "1h"
    ) -> None:
        self.name = check_stream_name(name, "app")
        self.modules = code_files(modules, name)
        self.bucket_us = parse_duration(bucket, f"bucket of app {name!r}")
        if self.bucket_us % 1000:
            raise QueryError(
                f"bucket of app {name!r}: {bucket!r} must be whole milliseconds (as Kafka's timestamps are)"
            )
        self._sources: dict[str, dict[str, str]] = {}
        self._source_partitions: dict[str, int] = {}
        self._ingresses: dict[str, IngressSpec] = {}
        self._nodes: dict[str, NodeSpec] = {}  # insertion order: a stream comes before the streams derived from it
        self._queries: dict[str, QuerySpec] = {}
        self._retain_us = parse_retain(retain, f"app {name!r}")
        self._retain: dict[str, Keep] = {}
        self._recovery: dict[str, SaidRecovery] = {}

    def source(
        self, name: str, schema: Mapping[str, str] | type, partitions: int | None = None, retain: str = "all"
    ) -> Stream:
        """A source stream. Types: string, int64, double, bool, decimal(p,s), timestamp, date, binary, json; any value
        may be null.

        Other spellings: str, text, varchar for string; int, bigint, long for int64; float, float64 for double; boolean
        for bool; numeric(p,s) for decimal(p,s); datetime for timestamp; bytes, blob for binary.

        Args:
            schema: column -> type, or a class: a pydantic model, a dataclass or a TypedDict. Its str, int, float, bool,
                datetime, date and bytes are columns, dicts, lists and classes within it json, and a Decimal says its
                digits: `Annotated[Decimal, "decimal(12,2)"]`, or pydantic's `Field(max_digits=12, decimal_places=2)`.
            partitions: number of partitions, each with its own publisher (`borealis publish NAME.0 ...`). The stream
                merges all their rows by (stime, partition, seq); a bucket is complete when it is complete in every
                partition.
            retain: how much of it is kept beyond what replicas need: "all", "needed", time behind the last stable
                result: "24h", or "audited": what `borealis audit QUERY --advance` has not verified yet. Else what is
                deleted can be audited no more.

        Raises:
            QueryError: a name that is taken or invalid, an unknown type, or an invalid number of partitions.
        """
        self._free(check_stream_name(name, "source"), "source")
        where = f"source {name!r}"
        self._retain[name] = parse_source_retain(retain, where)
        self._sources[name] = check_schema(columns_of(schema, where), where)
        if partitions is not None:
            self._source_partitions[name] = checked_count(partitions, f"source {name!r}")
        return Stream(self, tuple(self._sources[name]), {"op": "source", "name": name}, ())

    @refusing_flat_options
    def topic(
        self,
        name: str,
        topic: str,
        schema: Mapping[str, str] | type,
        format: TopicFormat | FormatName = "json",
        *,
        key: str | Sequence[str] | None = None,
        key_format: KeyFormatName | None = None,
        stime: str | None = None,
        stime_unit: StimeUnit = "us",
        stime_format: str | None = None,
        stime_sql: str | None = None,
        lateness: str = "2s",
        boundary: BoundaryName = "clock",
        expect: str | None = None,
        heartbeat: str | None = None,
        by: str | None = None,
        values: Sequence[bool | int | str] | None = None,
        other: bool = True,
        start: StartName = "latest",
        cluster: str | None = None,
        partitions: int | None = None,
        retain: str = "all",
    ) -> Stream:
        """A source whose rows other programs write into a Kafka topic of theirs. `up` starts two ingresses, which copy
        them.

        Each partition of the topic is an input of its own: while one cannot be read, results go on without it, and name
        it (`NAME.0`).

        Args:
            name: of the source in the app.
            topic: the full name of the topic in Kafka. It is only read.
            schema: columns and types, as for `source`. A column is the field of its name, or the one beside its type:
                `{"at": ("timestamp", "@timestamp"), "lat": ("double", "$.geo.lat"), "c": ("string", '$.a["b c"]')}`;
                of a class `Annotated[float, "$.geo.lat"]`. Fields that are not named are ignored; missing ones are
                null.
            format: of the records: `JSON()`, one object each; `CSV(...)`, one line each; `Avro(...)`, `Protobuf()` and
                `JSONSchema()`, as the serializers of a schema registry write them; `Debezium(...)`, one change of a
                database's row each, as JSON; or `Text()`, one column with the whole record. Without options a word
                does: "json", "csv", "avro", "protobuf", "json-schema", "debezium", "text".
            key: the columns that records' keys hold: one, or several of an object. A value may hold them, too: where
                the two differ, or neither has one, the record is a dead letter. A record without a value is a row of
                its key, the time of its record, and nulls. None: keys are not read, and such a record is a dead letter.
            key_format: of keys: "json", one value or an object; "text", UTF-8; "int", 2, 4 or 8 bytes, as Kafka's
                serializers of integers write them; or "avro", "protobuf", "json-schema", as those of a schema registry
                do. None: JSON, and of a string column anything else is the text itself.
            stime: the column with a row's time: numbers, text or a timestamp; or the path to a field that is no column,
                "$.meta.at". None: the timestamp of its record in Kafka.
            stime_unit: what a number in that column counts since 1970: "s", "ms", "us" or "ns". It may have a fraction,
                and be text.
            stime_format: how text in that column is written, like "%d.%m.%Y %H:%M:%S" (`datetime.strptime`); UTC
                without a zone (%z). None: numbers, ISO 8601, and what else can mean one time only.
            stime_sql: SQL expression over the columns that gives a row's time, a timestamp or a date, instead of
                `stime`: "CAST(day || ' ' || clock AS TIMESTAMP)". A row for which it is null or fails is a dead letter.
            lateness: how long after its time a row may come. Every result waits for as long; a later row is a dead
                letter.
            boundary: "clock": time goes on by the clock where everything in the topic has been read. "data": only rows
                move it, so a silent input is missing.
            expect: an input that is silent for longer is missing. None: silence means that nothing happened. Less than
                the delay threshold.
            heartbeat: SQL condition over the columns; records that meet it prove that an input lives, and are no rows.
            by, values: make an input of each of these values of a column, and one of all others, instead of each
                partition. Then it shows which value is silent. With `expect`, the input of all others is missing only
                once it has had a record.
            other: False: there are no other values, and a record with one is a dead letter.
            start: where the first `up` begins to read: "latest", rows from then on; or "earliest", all that the topic
                has.
            cluster: name of a cluster under `clusters:` in borealis.yaml; None: the app's own.
            partitions: the topic's number of partitions, so that `check` needs no broker. None: `up` asks.
            retain: how much of the source is kept, as for `source`. The topic itself is never trimmed.

        Raises:
            QueryError: a name that is taken or invalid, or an argument that makes no sense.
        """
        self._free(check_stream_name(name, "source"), "source")
        types, paths = split_schema(columns_of(schema, f"topic {name!r}"), f"topic {name!r}")
        columns = check_schema(types, f"topic {name!r}")
        self._ingresses[name] = ingress_of(
            name,
            columns,
            paths,
            topic=topic,
            format=format,
            key=key,
            key_format=key_format,
            stime=stime,
            stime_unit=stime_unit,
            stime_format=stime_format,
            stime_sql=stime_sql,
            lateness=lateness,
            boundary=boundary,
            expect=expect,
            heartbeat=heartbeat,
            by=by,
            values=values,
            other=other,
            start=start,
            cluster=cluster,
            partitions=partitions,
        )
        self._sources[name], self._retain[name] = columns, parse_source_retain(retain, f"topic {name!r}")
        return Stream(self, tuple(columns), {"op": "source", "name": name}, ())

    def table(
        self,
        name: str,
        key: str | Sequence[str],
        schema: Mapping[str, str] | type,
        deleted: str | None = None,
        topic: str | None = None,
        key_format: KeyFormatName | None = None,
        stime: str | None = None,
        stime_unit: StimeUnit = "us",
        stime_format: str | None = None,
        lateness: str = "2s",
        partitions: int | None = None,
        file: str | None = None,
        nulls: Sequence[str] | None = None,
    ) -> Table:
        """A table for `Stream.lookup`, made of a stream of changes: each row replaces the earlier one of its key.

        `prices = app.table("prices", key="item", schema={"item": "string", "price": "double"})`. It is read from its
        beginning, and missing like any other source: while it is, results are tentative, with what is known of it.

        Args:
            name: of the source with the changes. `borealis publish NAME` writes them, unless there is a topic.
            key: the columns that name a row of the table.
            schema: columns and types, as for `source`.
            deleted: SQL condition over the columns; a row for which it is true deletes its key: "op = 'd'", "gone" (a
                bool column), "price IS NULL".
            topic: the full name of a Kafka topic with the changes as JSON, which other programs write; None: publishers
                of ours do. Its records' keys hold `key`, or they have none; a record without a value deletes its key.
            key_format, stime, stime_unit, stime_format, lateness: as for `topic`, which has more arguments:
                `app.topic(...).table(key)`.
            partitions: of the source, or of the topic: as for `source` and `topic`.
            file: of a table that does not change: a path, relative to the working directory, to "x.csv" (with a line of
                names), "x.jsonl" (an object each line) or "x.parquet"; one row for each key. It must lie at the same
                path on all machines; its SHA-256 is part of the query. No source is made, and `name` is for messages.
            nulls: of a CSV file: values that mean null, quoted or not, like ["NA"]. None: only an empty one.

        Raises:
            QueryError: a name that is taken or invalid, an unknown column, or none beside the key.
        """
        if file is not None:
            return file_table(name, key, schema, file, (deleted, topic, key_format, stime, partitions), nulls)
        if nulls is not None:
            raise QueryError(f"table {name!r}: nulls= are values of a CSV file, and there is no file=: leave it out")
        if topic is None:
            if stime is not None:
                raise QueryError(f"table {name!r}: stime= names a column of a topic; publishers give each row its time")
            if key_format is not None:
                raise QueryError(f"table {name!r}: key_format= is of a topic's records; publishers write none")
            return self.source(name, schema, partitions).table(key, deleted)
        keys = table_key(key, tuple(columns_of(schema, f"topic {name!r}")))
        changes = self.topic(
            name,
            topic,
            schema,
            key=keys,
            key_format=key_format,
            stime=stime,
            stime_unit=stime_unit,
            stime_format=stime_format,
            lateness=lateness,
            start="earliest",
            partitions=partitions,
        )
        return changes.table(key, or_nothing_left(changes.columns, keys, deleted))

    def union(self, *streams: Stream) -> Stream:
        """All rows of these streams, which must have the same columns, in the order (stime, position in this call,
        seq).

        Raises:
            QueryError: no streams, streams of another app, or different columns.
        """
        if not streams:
            raise QueryError("union() needs streams")
        first = self._own(streams[0], "union()")
        for other in streams[1:]:
            if set(self._own(other, "union()").columns) != set(first.columns):
                ours, theirs = ", ".join(first.columns), ", ".join(other.columns)
                raise QueryError(
                    f"union() of streams with different columns: ({ours}) and ({theirs}); make them alike with map()"
                )
        return first if len(streams) == 1 else Stream(self, first.columns, {"op": "union"}, streams)

    def query(
        self,
        name: str,
        stream: Stream,
        delay_threshold: str = "3s",
        on_failure: PolicyName = "process",
        on_stabilization: PolicyName = "process",
        replicas: int = 2,
        partitions: int | None = None,
        by: str | Sequence[str] | None = None,
        retain: str | None = None,
        recovery: str | None = None,
        guarantee: str | None = None,
        sync: str | None = None,
    ) -> None:
        """Run `stream` continuously as query `name`; its results are the corrected stream `<app>.<name>`.

        Args:
            delay_threshold: how much later a result may arrive than it would without failures, end to end. It can be
                changed while the app runs.
            on_failure: what to do while an input is missing: "process" what has arrived, within the threshold; "delay"
                every bucket up to the threshold; or "suspend", so that nothing tentative is emitted.
            on_stabilization: the same choice for new input during corrections.
            replicas: how many replicas run the query, 1 to 9.
            partitions, by: as for `Stream.node`. The corrected stream's topic has the same number of partitions and
                keeps the order of each key.
            retain: of its replicas' streams, as for `App`, and not less than the threshold; None: as the app says.
            recovery: how it survives the crash of a replica. "active": all replicas run. Else one runs, and another one
                takes over. "active-standby": it computes, too, and says nothing; "passive-standby": it has a state
                at most `sync` old; "upstream-backup": it reads again what the open windows stand on; "amnesia": it has
                nothing, so what comes meanwhile is lost, and named; no node or query may read this one. None: active.
            guarantee: the least that readers are to have after a crash. "precise": the same rows as without it;
                "rollback": others, and none lost; "gap": some may be lost, which are named, also where retention was
                too short. A way that gives less is refused. None: precise.
            sync: how old the state of a passive standby is at most; from a bucket to 1h. None: 500ms.

        Raises:
            QueryError: a name that is taken or invalid, an invalid threshold or policy, invalid partitions, or a way of
                recovery that is unknown or that would leave nobody to take over.
        """
        self._free(check_stream_name(name, "query"), "query")
        where = f"query {name!r}"
        self._own(stream, where)
        for what, policy in (("on_failure", on_failure), ("on_stabilization", on_stabilization)):
            if policy not in get_args(PolicyName):
                raise QueryError(f"{where}: {what}={policy!r}; choose process, delay or suspend")
        parts = checked(partitions, by, stream.columns, where)
        plan, inputs = linearised(stream, parts, where)
        threshold_us = parse_duration(delay_threshold, f"delay_threshold of {where}")
        said = said_recovery(recovery, guarantee, sync, where)
        plan_of_recovery, least = said.beside(())
        check_plan(plan_of_recovery, checked_replicas(replicas, where), self.bucket_us, where)
        if retain is not None:
            self._retain[name] = checked_retain(retain, threshold_us, where)
        self._queries[name] = QuerySpec(
            inputs=inputs,
            plan=plan,
            threshold_us=threshold_us,
            on_failure=on_failure,
            on_stabilization=on_stabilization,
            replicas=replicas,
            partitions=parts,
            recovery=plan_of_recovery,
            guarantee=least,
        )

    def _cut(
        self, stream: Stream, name: str, replicas: int | None, parts: Partitioning | None, recovery: SaidRecovery
    ) -> Stream:
        self._free(check_stream_name(name, "node"), "node")
        if replicas is not None:
            checked_replicas(replicas, f"node {name!r}")
        plan, inputs = linearised(stream, parts, f"node {name!r}")
        self._nodes[name] = NodeSpec(inputs=inputs, plan=plan, replicas=replicas or 0, partitions=parts)
        self._recovery[name] = recovery
        return Stream(self, stream.columns, {"op": "source", "name": name}, ())

    def describe(self) -> AppSpec:
        """The app as a value.

        Raises:
            QueryError: a node that no query reads, or one in whose way of recovery nobody would take over.
        """
        replicas = self._replicas()
        nodes = {name: node.model_copy(update={"replicas": replicas[name]}) for name, node in self._nodes.items()}
        spec = AppSpec(
            name=self.name,
            bucket_us=self.bucket_us,
            sources=dict(self._sources),
            source_partitions=self._source_partitions
            | {name: ingress.inputs for name, ingress in self._ingresses.items() if ingress.inputs},
            ingresses=dict(self._ingresses),
            nodes=nodes,
            queries=dict(self._queries),
            retain=all_kept(
                nodes, {name: q.threshold_us for name, q in self._queries.items()}, self._retain_us, self._retain
            ),
        )
        return spec.model_copy(update={"nodes": {name: self._recovering(spec, name) for name in nodes}})

    def _recovering(self, spec: AppSpec, name: str) -> NodeSpec:
        """A node, with how it recovers: as it says itself, or the queries that read it."""
        node, queries = spec.node(name), [spec.query(s.query) for s in spec.serves(name)]
        plan, least = self._recovery[name].beside([(query.recovery, query.guarantee) for query in queries])
        check_plan(plan, node.replicas, self.bucket_us, spec.label(name))
        return node.model_copy(update={"recovery": plan, "guarantee": least})

    def _replicas(self) -> dict[str, int]:
        """The number of replicas of each node: its own setting, or that of the largest query that reads it."""
        largest: dict[str, int] = {}

        def read(names: tuple[str, ...], by: int) -> None:
            for name in names:
                largest[name] = max(by, largest.get(name, 0))

        for spec in self._queries.values():
            read(spec.inputs, spec.replicas)
        for name, node in reversed(self._nodes.items()):
            if name not in largest:
                raise QueryError(
                    f"node {name!r} is read by no query: use the stream that .node({name!r}) returns, or remove it"
                )
            read(node.inputs, largest[name])
        return {name: node.replicas or largest[name] for name, node in self._nodes.items()}

    def _free(self, name: str, what: str) -> None:
        kinds: dict[str, Container[str]] = {"source": self._sources, "node": self._nodes, "query": self._queries}
        taken = next((kind for kind, names in kinds.items() if name in names), None)
        if taken:
            raise QueryError(f"{what} {name!r}: app {self.name!r} already has a {taken} of this name")
        nodes = {*self._nodes, *self._queries}
        check_no_collision(name, what, {*self._sources, *nodes}, nodes)

    def _own(self, stream: object, where: str) -> Stream:
        if isinstance(stream, Framed):
            raise QueryError(f"{where} was given frames without columns; finish them with .map(...)")
        if isinstance(stream, Table):
            raise QueryError(f"{where} was given a table; only stream.lookup(table, on=...) reads one")
        if isinstance(stream, Windowed):
            raise QueryError(
                f"{where} was given a window without aggregates; finish it with .agg(...), .top(...) or .apply(...)"
            )
        if not isinstance(stream, Stream):
            raise QueryError(f"{where} was given {type(stream).__name__}, not a stream")
        if stream._app is not self:
            raise QueryError(
                f"{where} was given a stream of app {stream._app.name!r}; an app uses its own streams only"
            )
        return stream
