"""An app as a value: what `up` writes to the settings topic and every replica, redo task and audit reads back.

Plain data (pydantic), no engine: expressions are strings that the engine checks when it loads a query.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, Literal

from pydantic import Field, ValidationError, model_validator

from borealis_py.query.errors import QueryError, did_you_mean
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
from borealis_py.query.plan import Plan, SourceOp, Value, columns_of, inlined, inputs_of
from sunion.model import Input

PolicyName = Literal["process", "delay", "suspend"]


class Partitioning(Value):
    """`count` partitions, each with the rows whose columns `by` fall to it."""

    by: tuple[str, ...]
    count: int


def count_of(partitioning: Partitioning | None) -> int:
    """How many partitions those are: one where nothing is partitioned."""
    return 1 if partitioning is None else partitioning.count


class NodeSpec(Value):
    """One node: a fragment behind one SUnion, whose only output is the stream of the node's name.

    `inputs`: names of sources and of other nodes, in order of their first use: input i of the SUnion is inputs[i].
    `partitions`: of a node as its user wrote it. `exchange`: of a node as it runs, how its readers are partitioned, if
    all of them alike: it then writes what each is to get into a partition of its own.
    """

    inputs: tuple[str, ...]
    plan: Plan
    replicas: int = 2
    partitions: Partitioning | None = None
    exchange: Partitioning | None = None


class QuerySpec(NodeSpec):
    """One query, which is the node that gives its result."""

    threshold_us: int
    on_failure: PolicyName = "process"
    on_stabilization: PolicyName = "process"


class Serves(Value):
    """A query that reads a node: `hops`, the longest way from the node to the query's result (0: it gives the result),
    and `depth`, how many nodes the query's longest chain has. Delay budgets follow from both (R13).
    """

    query: str
    hops: int = 0
    depth: int = 1


class AppSpec(Value):
    """An app: bucket width, sources with their columns' types, queries, and the nodes that queries were cut into.

    `nodes` are those that no query is named after, each after the nodes it reads. `source_partitions`: of sources with
    several partitions, each written by a publisher of its own, how many.
    """

    name: str
    bucket_us: int
    sources: dict[str, dict[str, str]]
    source_partitions: dict[str, int] = Field(default_factory=dict)
    nodes: dict[str, NodeSpec] = Field(default_factory=dict)
    queries: dict[str, QuerySpec]

    @model_validator(mode="after")
    def _consistent(self) -> AppSpec:
        """Bytes that somebody else wrote must not send us in circles."""
        self._check_names()
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
        """Names become parts of topics, paths and SQL, whoever wrote them. Raises QueryError."""
        check_stream_name(self.name, "app")
        for source, schema in self.sources.items():
            check_described_name(source, "source")
            if check_schema(schema, f"source {source!r}") != schema:
                raise QueryError(f"source {source!r}: its columns' types are not spelled as descriptions spell them")
        for name, node in self.all_nodes.items():
            check_described_name(name, "query" if name in self.queries else "node")
            if min(self.bucket_us, node.replicas, count_of(node.partitions), count_of(node.exchange)) < 1:
                raise QueryError(f"{self.label(name)}: bucket width, replicas and partitions are at least 1")
            for columns in map(columns_of, node.plan):
                check_columns(columns, f"a step of {name!r}", (STIME,))

    def query(self, name: str) -> QuerySpec:
        """The query of that name; of a partitioned one that runs, its first partition, which is like the others. Raises
        QueryError.
        """
        if name not in self.queries and part_name(name, 0) in self.queries:
            return self.queries[part_name(name, 0)]
        if name not in self.queries:
            hint = did_you_mean(name, self.queries) or ";"
            raise QueryError(
                f"app {self.name!r} has no query {name!r}{hint} queries: {', '.join(self.queries) or 'none'}"
            )
        return self.queries[name]

    @property
    def all_nodes(self) -> dict[str, NodeSpec]:
        """Every node, those that others read first. The position in it is the node's partition of the control log."""
        return {**self.nodes, **self.queries}

    def node(self, name: str) -> NodeSpec:
        """The node of that name, a query's too. Raises QueryError."""
        found = self.nodes.get(name) or self.queries.get(name)
        if found is None:
            names = (*self.nodes, *self.queries)
            what, all_of_them = ("node or query", "nodes and queries") if self.nodes else ("query", "queries")
            hint = did_you_mean(name, names) or ";"
            raise QueryError(
                f"app {self.name!r} has no {what} {name!r}{hint} {all_of_them}: {', '.join(names) or 'none'}"
            )
        return found

    def label(self, name: str) -> str:
        """What to call a node in a message: "node 'cleaned'", "query 'delays'"."""
        return f"{'node' if name in self.nodes else 'query'} {base_name(name)!r}"

    def inputs_of(self, name: str) -> tuple[Input, ...]:
        """What a node reads, in the order of its SUnion's inputs. Raises QueryError."""
        return tuple(self._input(i, name) for i in self.node(name).inputs)

    def _input(self, name: str, reader: str) -> Input:
        if name not in self.nodes:  # each dead letter of a source is told once in the app
            first = next(node for node, spec in self.all_nodes.items() if name in spec.inputs)
            return Input(name, 0, (name,), letters=first == reader)
        node = self.nodes[name]
        partition = part_index(reader) if node.exchange is not None else 0
        return Input(name, node.replicas, self.sources_of(name), partition=partition)

    def sources_of(self, name: str) -> tuple[str, ...]:
        """All sources that a node's rows come from, in the app's order. Raises QueryError."""
        used = {i for node in self.upstream_of(name) for i in self.node(node).inputs}
        return tuple(source for source in self.sources if source in used)

    def upstream_of(self, name: str) -> tuple[str, ...]:
        """The nodes that a node's rows come through, itself last, each after those it reads. Raises QueryError."""
        needed = {name, *self.node(name).inputs}
        for other in reversed(self.nodes):
            if other in needed:
                needed.update(self.nodes[other].inputs)
        return (*(other for other in self.nodes if other in needed and other != name), name)

    def position(self, name: str) -> int:
        """How many nodes the longest chain from a source to this node has, itself counted. Raises QueryError."""
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
        """The longest way from each node that the query needs to its result."""
        hops = {query: 0}
        for node in reversed(self.upstream_of(query)):
            for i in self.node(node).inputs:
                if i in self.nodes:
                    hops[i] = max(hops.get(i, 0), hops[node] + 1)
        return hops

    def flattened(self, query: str) -> AppSpec:
        """An app of this one query alone, as a single node that reads sources only. Its rows are the same, bit for bit.

        Raises:
            QueryError: an unknown query.
        """
        spec = self.query(query)
        upstream = {name: self.node(name) for name in self.upstream_of(query)}
        ordered = {name: node.partitions.by for name, node in upstream.items() if node.partitions is not None}
        plan = inlined({name: node.plan for name, node in upstream.items()}, ordered)
        inputs = tuple(op.name for op in plan if isinstance(op, SourceOp))
        flat = spec.model_copy(update={"plan": plan, "inputs": inputs, "partitions": None})
        return AppSpec(
            name=self.name,
            bucket_us=self.bucket_us,
            sources={name: self.sources[name] for name in inputs},
            source_partitions={name: n for name, n in self.source_partitions.items() if name in inputs},
            queries={query: flat},
        )

    @property
    def hash(self) -> str:
        """Hex of what determines any result: not thresholds, policies and replicas, which may change while it runs."""
        return _digest({"app": self.name, "queries": {name: self._determining(name) for name in self.queries}})

    def query_hash(self, name: str) -> str:
        """The same for one node or query and all it depends on, so that others may come and go. Raises QueryError."""
        return _digest(self._determining(name))

    def _determining(self, name: str) -> Any:
        sources = [(source, list(self.sources[source].items())) for source in self.sources_of(name)]
        nodes = {node: self.node(node) for node in self.upstream_of(name)}
        plans = [[node, spec.inputs, [op.model_dump(mode="json") for op in spec.plan]] for node, spec in nodes.items()]
        found: dict[str, Any] = {"bucket_us": self.bucket_us, "sources": sources, "plans": plans}
        parts: dict[str, Any] = {
            node: spec.partitions.model_dump() for node, spec in nodes.items() if spec.partitions is not None
        }
        parts |= {name: self.source_partitions[name] for name, _ in sources if name in self.source_partitions}
        return {**found, "parts": parts} if parts else found

    def to_json(self) -> str:
        return json.dumps(self.model_dump(mode="json"), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | bytes) -> AppSpec:
        """Raises QueryError."""
        try:
            return cls.model_validate_json(text)
        except ValidationError as exc:
            first = exc.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            raise QueryError(f"not an app's description: {first['msg']}{f' at {where}' if where else ''}") from exc


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()
