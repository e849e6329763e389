"""An app as a value: `up` writes it to the settings topic; every replica, redo task and audit reads it from there.

Plain data (pydantic), no engine: expressions are strings that the engine checks when it loads a query.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar

from pydantic import Field, SerializerFunctionWrapHandler, ValidationError, model_serializer, model_validator

from borealis_py.query.errors import QueryError, WrongValue, did_you_mean, wrong_place, wrong_value
from borealis_py.query.ingress_spec import IngressSpec
from borealis_py.query.names import (
    STIME,
    base_name,
    check_columns,
    check_described_name,
    check_schema,
    check_stream_name,
    part_index,
    part_name,
)
from borealis_py.query.plan import (
    ApplyOp,
    FileLookupOp,
    Function,
    Op,
    Plan,
    SourceOp,
    TableFile,
    Value,
    WindowApplyOp,
    columns_of,
    inlined,
    inputs_of,
)
from borealis_py.query.recovery import ACTIVE, Guarantee, RecoveryPlan, check_plan
from borealis_py.query.retention import AUDITED, Keep
from sunion.model import Input

PolicyName = Literal["process", "delay", "suspend"]


class Partitioning(Value):
    """`count` partitions, each with the rows whose columns `by` hash to it."""

    by: tuple[str, ...]
    count: int


def count_of(partitioning: Partitioning | None) -> int:
    """The number of partitions; 1 if nothing is partitioned."""
    return 1 if partitioning is None else partitioning.count


_NO_REPLICAS = {"recovery": ACTIVE, "guarantee": Guarantee.PRECISE}
"""How what is only computed again recovers."""


class NodeSpec(Value):
    """One node: a fragment behind one SUnion, whose only output is the stream of the node's name.

    `inputs`: names of sources and other nodes, in order of first use: input i of the SUnion is inputs[i]. `plan`: the
    fragment's operators. `replicas`: how many run it. `partitions`: set on a node as the user wrote it; None: it has
    none. `exchange`: set on a node as it runs, the partitioning of its readers if they all have the same one; the node
    then writes a separate Kafka partition for each of their partitions. None: it writes one. `recovery`: how it
    survives the crash of a replica, and `guarantee`: what its readers are to have then; both may change.
    """

    inputs: tuple[str, ...]
    plan: Plan
    replicas: int = 2
    partitions: Partitioning | None = None
    exchange: Partitioning | None = None
    recovery: RecoveryPlan = ACTIVE
    guarantee: Guarantee = Guarantee.PRECISE

    @model_serializer(mode="wrap")
    def _without_defaults(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """A node that is active is written as by versions that had no other way."""
        usual = {"recovery": self.recovery == ACTIVE, "guarantee": self.guarantee is Guarantee.PRECISE}
        return {name: value for name, value in handler(self).items() if not usual.get(name)}


class QuerySpec(NodeSpec):
    """One query, which is the node that gives its result. `threshold_us`: delay threshold X in microseconds.
    `on_failure`, `on_stabilization`: policy while an input is missing, and while a replica corrects."""

    threshold_us: int
    on_failure: PolicyName = "process"
    on_stabilization: PolicyName = "process"


N = TypeVar("N", NodeSpec, QuerySpec)


class Serves(Value):
    """A `query` that depends on a node. Delay budgets follow from both numbers (R13.1).

    `hops`: the longest way from the node to the query's result (0: it gives the result). `depth`: number of nodes in
    the query's longest chain.
    """

    query: str
    hops: int = 0
    depth: int = 1


class Beginning(Value):
    """Where `up` began to read a topic that is read from its end.

    `offsets`: of each partition of the topic, the first one that is copied. `whole_us`: the source has all rows of this
    stime (microseconds) or later; earlier ones were written before the app began, or may have been. 0: none were.
    """

    offsets: tuple[int, ...]
    whole_us: int = Field(ge=0)


class AppSpec(Value):
    """An app `name`: bucket width (`bucket_us`, microseconds), `sources` with their column types, `queries`, and the
    nodes that queries were cut into.

    `nodes`: those that are not queries, each after the nodes it reads. `source_partitions`: the number of partitions of
    each partitioned source; every partition has its own publisher. `ingresses`: the sources that an ingress writes from
    a topic of other programs, instead of a publisher; each input of it is a partition of the source. `retain`: what is
    kept of sources and of the streams of nodes and queries beyond what is needed, by name as written (`keeps`).
    `beginnings`: of sources whose topic is read from its end, known once the app has been started; they determine no
    result's value, only which results are left out since they would not be whole.
    `input_names`: of an app as it runs, what people call the sources that are inputs of an ingress, where that is not
    their name (`hall.1` -> `hall.d2`).
    """

    name: str
    bucket_us: int
    sources: dict[str, dict[str, str]]
    source_partitions: dict[str, int] = Field(default_factory=dict)
    ingresses: dict[str, IngressSpec] = Field(default_factory=dict)
    nodes: dict[str, NodeSpec] = Field(default_factory=dict)
    queries: dict[str, QuerySpec]
    retain: dict[str, Keep] = Field(default_factory=dict)
    beginnings: dict[str, Beginning] = Field(default_factory=dict)
    input_names: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _consistent(self) -> AppSpec:
        """Reject inconsistent descriptions: whoever wrote them must not be able to send us in circles."""
        self._check_names()
        for source, ingress in self.ingresses.items():
            if source not in self.sources or self.source_partitions.get(source, 0) != ingress.inputs:
                raise ValueError(f"the ingress of {source!r} does not feed a source with a partition for each input")
        known = set(self.sources)
        if len(known | self.all_nodes.keys()) != len(self.sources) + len(self.nodes) + len(self.queries):
            raise ValueError("two streams have one name")
        for name, node in self.all_nodes.items():
            read = {op.name for op in node.plan if isinstance(op, SourceOp)}
            if not node.plan or read != set(node.inputs) or not read <= known:
                raise ValueError(f"the plan of {name!r} does not read its inputs {', '.join(node.inputs)}")
            if any(not 0 <= i < at for at, op in enumerate(node.plan) for i in inputs_of(op)):
                raise ValueError(f"the plan of {name!r} is not in order")
            known |= {name} & self.nodes.keys()
        return self

    def _check_names(self) -> None:
        """Names become parts of topics, paths and SQL, so names read from a log are checked, too. Raises QueryError."""
        check_stream_name(self.name, "app")
        for source, schema in self.sources.items():
            check_described_name(source, "source")
            if check_schema(schema, f"source {source!r}") != schema:
                raise QueryError(f"source {source!r}: its column types are not the canonical ones")
        streams = set(map(base_name, (*self.sources, *self.all_nodes)))
        for name, kept in self.retain.items():
            if name not in streams or (isinstance(kept, int) and kept < 0):
                raise QueryError(f"retain of {name!r}: there is no such stream, or {kept} is no duration")
            if kept == AUDITED and name not in map(base_name, self.sources):
                raise QueryError(f"retain of {name!r}: it is no source, and audits read nothing else")
        for name, node in self.all_nodes.items():
            check_described_name(name, "query" if name in self.queries else "node")
            if min(self.bucket_us, node.replicas, count_of(node.partitions), count_of(node.exchange)) < 1:
                raise QueryError(f"{self.label(name)}: bucket width, replicas and partitions must be at least 1")
            check_plan(node.recovery, node.replicas, self.bucket_us, self.label(name))
            for columns in map(columns_of, node.plan):
                check_columns(columns, f"a step of {name!r}", (STIME,))
            for file in (op.file for op in node.plan if isinstance(op, FileLookupOp)):
                if check_schema(dict(file.columns), f"file {file.path!r}") != dict(file.columns):
                    raise QueryError(f"file {file.path!r}: its column types are not the canonical ones")
            for op in (op for op in node.plan if isinstance(op, ApplyOp | WindowApplyOp)):
                if check_schema(dict(op.columns), f"apply({op.function.name})") != dict(op.columns):
                    raise QueryError(f"apply({op.function.name}): its column types are not the canonical ones")

    def keeps(self, name: str) -> Keep:
        """How much of a source's or node's stream is kept. `name`: as written, or as it runs."""
        return self.retain.get(base_name(name))

    def query(self, name: str) -> QuerySpec:
        """The query of that name. Of a partitioned query that runs, its first partition: all are alike. Raises
        WrongValue.
        """
        if name not in self.queries and part_name(name, 0) in self.queries:
            return self.queries[part_name(name, 0)]
        if name not in self.queries:
            hint = did_you_mean(name, self.queries) or ";"
            raise WrongValue(
                f"app {self.name!r} has no query {name!r}{hint} queries: {', '.join(self.queries) or 'none'}"
            )
        return self.queries[name]

    @property
    def all_nodes(self) -> dict[str, NodeSpec]:
        """Every node after those it reads. A node's position here is its partition of the control log."""
        return {**self.nodes, **self.queries}

    def node(self, name: str) -> NodeSpec:
        """The node or query of that name. Raises WrongValue."""
        found = self.nodes.get(name) or self.queries.get(name)
        if found is None:
            names = (*self.nodes, *self.queries)
            what, all_of_them = ("node or query", "nodes and queries") if self.nodes else ("query", "queries")
            hint = did_you_mean(name, names) or ";"
            raise WrongValue(
                f"app {self.name!r} has no {what} {name!r}{hint} {all_of_them}: {', '.join(names) or 'none'}"
            )
        return found

    def label(self, name: str) -> str:
        """How messages name a node: "node 'cleaned'", "query 'delays'"."""
        return f"{'node' if name in self.nodes else 'query'} {base_name(name)!r}"

    def inputs_of(self, name: str) -> tuple[Input, ...]:
        """The inputs of a node, in the order of its SUnion's inputs. Raises QueryError."""
        return tuple(self._input(i, name) for i in self.node(name).inputs)

    def _input(self, name: str, reader: str) -> Input:
        if name not in self.nodes:  # only one node of the app publishes the dead letters of a source
            first = next(node for node, spec in self.all_nodes.items() if name in spec.inputs)
            return Input(name, 0, (self.shown(name),), dead_letters=first == reader)
        node = self.nodes[name]
        partition = part_index(reader) if node.exchange is not None else 0
        return Input(name, node.replicas, tuple(map(self.shown, self.sources_of(name))), partition=partition)

    def shown(self, name: str) -> str:
        """What people call a source or node of an app as it runs: `hall.d2` for `hall.1`."""
        return self.input_names.get(name, name)

    def readers_of(self, name: str) -> tuple[str, ...]:
        """The nodes that read a node's stream, in the app's order."""
        return tuple(other for other, node in self.all_nodes.items() if name in node.inputs)

    def sources_of(self, name: str) -> tuple[str, ...]:
        """All sources that a node's rows come from, in the app's order. Raises QueryError."""
        used = {i for node in self.upstream_of(name) for i in self.node(node).inputs}
        return tuple(source for source in self.sources if source in used)

    def upstream_of(self, name: str) -> tuple[str, ...]:
        """The nodes that a node depends on, each after those it reads; itself last. Raises QueryError."""
        needed = {name, *self.node(name).inputs}
        for other in reversed(self.nodes):
            if other in needed:
                needed.update(self.nodes[other].inputs)
        return (*(other for other in self.nodes if other in needed and other != name), name)

    def fed_by(self) -> dict[str, str]:
        """What of a foreign topic feeds each input of an ingress, for people: `orders.0` -> `partition 0`."""
        each = ((name, i, ingress) for name, ingress in self.ingresses.items() for i in range(ingress.inputs))
        return {part_name(name, i): ingress.label(i) for name, i, ingress in each}

    def position(self, name: str) -> int:
        """Number of nodes in the longest chain from a source to this node, itself included. Raises QueryError."""
        found: dict[str, int] = {}
        for node in self.upstream_of(name):
            found[node] = 1 + max((found.get(i, 0) for i in self.node(node).inputs), default=0)
        return found[name]

    def serves(self, name: str) -> tuple[Serves, ...]:
        """The queries whose results depend on a node, in the app's order. Raises QueryError."""
        self.node(name)
        found: dict[str, Serves] = {}  # the partitions of a query are alike
        for query in self.queries:
            hops = self._hops(query).get(name)
            if hops is not None:
                whole = base_name(query)
                found[whole] = Serves(query=whole, hops=hops, depth=self.position(query))
        return tuple(found.values())

    def _hops(self, query: str) -> dict[str, int]:
        """The length of the longest way from each node that the query needs to its result."""
        hops = {query: 0}
        for node in reversed(self.upstream_of(query)):
            for i in self.node(node).inputs:
                if i in self.nodes:
                    hops[i] = max(hops.get(i, 0), hops[node] + 1)
        return hops

    def flattened(self, query: str) -> AppSpec:
        """An app with only this query, as a single node that reads only sources. Its rows are the same, bit for bit.

        Raises:
            QueryError: an unknown query.
        """
        spec = self.query(query)
        upstream = {name: self.node(name) for name in self.upstream_of(query)}
        ordered = {name: node.partitions.by for name, node in upstream.items() if node.partitions is not None}
        plan = inlined({name: node.plan for name, node in upstream.items()}, ordered)
        inputs = tuple(op.name for op in plan if isinstance(op, SourceOp))
        flat = spec.model_copy(update={"plan": plan, "inputs": inputs, "partitions": None} | _NO_REPLICAS)
        return AppSpec(
            name=self.name,
            bucket_us=self.bucket_us,
            sources={name: self.sources[name] for name in inputs},
            source_partitions={name: n for name, n in self.source_partitions.items() if name in inputs},
            ingresses={name: i for name, i in self.ingresses.items() if name in inputs},
            beginnings=self.beginnings,
            queries={query: flat},
        )

    @property
    def hash(self) -> str:
        """Hex digest of all that determines results; thresholds, policies and replicas may change."""
        return _digest({"app": self.name, "queries": {name: self._determining(name) for name in self.queries}})

    def query_hash(self, name: str) -> str:
        """The same for one node or query and everything it depends on, so that others can change. Raises QueryError."""
        return _digest(self._determining(name))

    def _determining(self, name: str) -> Any:
        sources = [(source, list(self.sources[source].items())) for source in self.sources_of(name)]
        nodes = {node: self.node(node) for node in self.upstream_of(name)}
        whole: Any = {  # of a file its content counts, wherever it lies
            "file": {"path", "table"},
            "function": {"files": {"__all__": {"path"}}},
        }
        plans = [
            [node, spec.inputs, [op.model_dump(mode="json", exclude=whole) for op in spec.plan]]
            for node, spec in nodes.items()
        ]
        found: dict[str, Any] = {"bucket_us": self.bucket_us, "sources": sources, "plans": plans}
        parts: dict[str, Any] = {
            node: spec.partitions.model_dump() for node, spec in nodes.items() if spec.partitions is not None
        }
        parts |= {name: self.source_partitions[name] for name, _ in sources if name in self.source_partitions}
        foreign = {name: self.ingresses[name].determining() for name, _ in sources if name in self.ingresses}
        return {**found, **({"parts": parts} if parts else {}), **({"foreign": foreign} if foreign else {})}

    def with_partitions(self, counts: Mapping[str, int]) -> AppSpec:
        """The app with the number of inputs of each ingress that is not known yet.

        Args:
            counts: the number of partitions of the foreign topic of each such source.
        """
        found = {name: self.ingresses[name].with_partitions(count) for name, count in counts.items()}
        return self.model_copy(
            update={
                "ingresses": {**self.ingresses, **found},
                "source_partitions": {**self.source_partitions, **{name: i.inputs for name, i in found.items()}},
            }
        )

    def with_files(self, known: Callable[[TableFile], TableFile]) -> AppSpec:
        """The app with what `known` says of each file of a table."""
        return self._with_ops(
            lambda op: op.model_copy(update={"file": known(op.file)}) if isinstance(op, FileLookupOp) else op
        )

    def with_functions(self, known: Callable[[Function], Function]) -> AppSpec:
        """The app with what `known` says of each function."""
        return self._with_ops(
            lambda op: (
                op.model_copy(update={"function": known(op.function)})
                if isinstance(op, ApplyOp | WindowApplyOp)
                else op
            )
        )

    @property
    def functions(self) -> tuple[Function, ...]:
        """The Python functions that its nodes apply, each once."""
        ops = (op for node in self.all_nodes.values() for op in node.plan)
        return tuple(dict.fromkeys(op.function for op in ops if isinstance(op, ApplyOp | WindowApplyOp)))

    def _with_ops(self, change: Callable[[Op], Op]) -> AppSpec:
        def changed(node: N) -> N:
            return node.model_copy(update={"plan": tuple(map(change, node.plan))})

        nodes, queries = ({name: changed(node) for name, node in some.items()} for some in (self.nodes, self.queries))
        return self.model_copy(update={"nodes": nodes, "queries": queries})

    def to_json(self) -> str:
        return json.dumps(self.model_dump(mode="json"), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | bytes) -> AppSpec:
        """Parse a description. Raises QueryError."""
        try:
            return cls.model_validate_json(text)
        except ValidationError as exc:
            first = exc.errors()[0]
            where = wrong_place(first)
            raise QueryError(
                f"not an app's description: {wrong_value(first)}{f' at {where}' if where else ''}"
            ) from exc


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()
