"""What a replica is told: small values only, so that it can run in this process or travel to a Spark task."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from borealis_py.log import topics
from borealis_py.log.base import Feed, Log
from borealis_py.protocol.settings import Delays, Timing


@dataclass(frozen=True, slots=True)
class ReplicaSpec:
    """One replica of one query's node.

    `sources`: names in input order. `partition`: the node's in the control log. `origin`: first bucket.
    `query_hash`: checkpoints of another query are refused. `app_json`: for the kernel and redo tasks.
    """

    app: str
    query: str
    replica: int
    sources: tuple[str, ...]
    bucket_us: int
    origin: int
    partition: int
    query_hash: str
    app_json: str
    delays: Delays
    log: Log
    data_dir: Path
    timing: Timing = field(default_factory=Timing)

    def source_feed(self, index: int) -> Feed:
        return Feed(topics.stream(self.app, self.sources[index]))

    @property
    def own_feed(self) -> Feed:
        """What this replica says."""
        return Feed(topics.replica(self.app, self.query, self.replica))

    @property
    def control_feed(self) -> Feed:
        return Feed(topics.control(self.app), self.partition)

    @property
    def settings_feed(self) -> Feed:
        return Feed(topics.settings(self.app))

    @property
    def progress_feed(self) -> Feed:
        return Feed(topics.progress(self.app, self.query))

    @property
    def status_feed(self) -> Feed:
        return Feed(topics.status(self.app))

    @property
    def transactional_id(self) -> str:
        """The same for all replicas of the query: whoever takes it fences the others."""
        return f"{self.app}.{self.query}"

    @property
    def name(self) -> str:
        return f"{self.query}.r{self.replica}"
