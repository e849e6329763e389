"""An app as a value: what `up` writes to the settings topic and every replica, redo task and audit reads back.

Plain data (pydantic), no engine: expressions are strings that the engine checks when it loads a query.
"""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from borealis_py.query.errors import QueryError, did_you_mean

Policy = Literal["process", "delay", "suspend"]


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class SourceOp(_Value):
    """Rows of one source, by (stime, seq)."""

    op: Literal["source"] = "source"
    name: str


class FilterOp(_Value):
    """The rows for which `predicate` is true."""

    op: Literal["filter"] = "filter"
    input: int
    predicate: str


class MapOp(_Value):
    """Replaces the columns: (name, expression) each. `stime` stays."""

    op: Literal["map"] = "map"
    input: int
    columns: tuple[tuple[str, str], ...]


class UnionOp(_Value):
    """Rows of all inputs, by (stime, input, position)."""

    op: Literal["union"] = "union"
    inputs: tuple[int, ...]


class WindowOp(_Value):
    """Aggregates over windows [s, s + size) that end at multiples of `every` since 1970."""

    op: Literal["window"] = "window"
    input: int
    size_us: int
    every_us: int
    keys: tuple[str, ...]
    aggregates: tuple[tuple[str, str], ...]


Op = Annotated[SourceOp | FilterOp | MapOp | UnionOp | WindowOp, Field(discriminator="op")]


class QuerySpec(_Value):
    """One query. `plan` is in topological order (inputs are indices into it), its last operator gives the result.

    `sources` in order of their first use: input i of the node's SUnion is sources[i].
    """

    sources: tuple[str, ...]
    plan: tuple[Op, ...]
    threshold_us: int
    on_failure: Policy = "process"
    on_stabilization: Policy = "process"
    replicas: int = 2


class Serves(_Value):
    """A query that reads a node: `hops`, the longest way from the node to the query's result (0: it gives the result),
    and `depth`, how many nodes the query's longest chain has. Delay budgets follow from both (protocol R13).
    """

    query: str
    hops: int = 0
    depth: int = 1


class AppSpec(_Value):
    """An app: bucket width, sources with their columns' types, queries."""

    name: str
    bucket_us: int
    sources: dict[str, dict[str, str]]
    queries: dict[str, QuerySpec]

    def query(self, name: str) -> QuerySpec:
        """The query of that name. Raises QueryError."""
        if name not in self.queries:
            hint = did_you_mean(name, self.queries) or ";"
            raise QueryError(
                f"app {self.name!r} has no query {name!r}{hint} queries: {', '.join(self.queries) or 'none'}"
            )
        return self.queries[name]

    @property
    def hash(self) -> str:
        """Hex of what determines any result: not thresholds, policies and replicas, which may change while it runs."""
        return _digest({"app": self.name, "queries": {name: self._determining(name) for name in self.queries}})

    def query_hash(self, name: str) -> str:
        """The same for one query, so that others may come and go. Raises QueryError."""
        return _digest(self._determining(name))

    def _determining(self, name: str) -> Any:
        spec = self.query(name)
        sources = [[source, list(self.sources[source].items())] for source in spec.sources]
        return {
            "bucket_us": self.bucket_us,
            "sources": sources,
            "plan": [op.model_dump(mode="json") for op in spec.plan],
        }

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
