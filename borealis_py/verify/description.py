"""The checker's description of an app: names, counts, schemas, widths. Plain values, filled in by the caller.

All else it finds out from the topics. These it believes: the schemas of results lie in no topic (Arrow batches do not
tell theirs), and a wrong one shows, since rows of another schema cannot be read. `borealis verify` takes them from the
app's description and the engine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa


@dataclass(frozen=True)
class CheckedNode:
    """A node as it runs: each partition is one.

    Attributes:
        name: such as "clean.0".
        inputs: names of the sources and nodes that it reads.
        schema: of its rows in replica topics, stime last.
        replicas: how many it has.
        readers: how many Kafka partitions its replica topics have.
        lookback: how many buckets before its own a result may depend on.
        query: whether it gives a query's result.
        one_runs: whether one of its replicas runs and the others stand by.
    """

    name: str
    inputs: tuple[str, ...]
    schema: pa.Schema
    replicas: int
    readers: int = 1
    lookback: int = 0
    query: bool = True
    one_runs: bool = False

    @property
    def columns(self) -> list[str]:
        """Of a corrected row: its stime travels in a header."""
        return [name for name in self.schema.names if name != "stime"]


@dataclass(frozen=True)
class CheckedApp:
    """An app as it runs.

    Attributes:
        name: of the app, with which its topics' names begin. app_uid: of its present life.
        origin: its first bucket. bucket_us: width of a bucket, in microseconds.
        ahead_max_us, row_max_bytes: how far ahead, and how large, a tuple may be, as in its `timing`.
        sources: columns and their types (string, int64, double, bool); each partition is a source, such as "paris.0".
        nodes: each after those that it reads, in the app's order.
        called: what labels of tentative results call sources, where that is not their name.
    """

    name: str
    app_uid: str
    origin: int
    bucket_us: int
    ahead_max_us: int
    row_max_bytes: int
    sources: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    nodes: tuple[CheckedNode, ...] = ()
    called: Mapping[str, str] = field(default_factory=dict)

    def of(self, queries: Iterable[str]) -> tuple[CheckedNode, ...]:
        """The nodes that these queries need, each after those that it reads."""
        asked = set(queries)
        needed = {node.name for node in self.nodes if node.query and node.name.partition(".")[0] in asked}
        for node in reversed(self.nodes):
            if node.name in needed:
                needed.update(node.inputs)
        return tuple(node for node in self.nodes if node.name in needed)

    def sources_of(self, name: str) -> frozenset[str]:
        """All sources that a node's rows come from."""
        if name in self.sources:
            return frozenset([name])
        (node,) = (node for node in self.nodes if node.name == name)
        return frozenset().union(*(self.sources_of(i) for i in node.inputs))

    def teller(self, source: str) -> str:
        """The node that tells the source's dead letters: the first that reads it."""
        return next(node.name for node in self.nodes if source in node.inputs)


def place(stream: str) -> tuple[str, int]:
    """Topic (without the app) and Kafka partition of a source or corrected stream, or of one partition of it."""
    base, _, index = stream.partition(".")
    return base, int(index or 0)
