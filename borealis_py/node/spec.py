"""What a replica is told: small values only, so that it can run in this process or travel to a Spark task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from borealis_py.log import topics
from borealis_py.log.base import Feed, Log
from borealis_py.node.checkpoint_storage import CheckpointLocation, LocalLocation, location_at
from borealis_py.protocol.settings import Delays, Timing
from borealis_py.query.spec import Partitioning, Serves, count_of
from sunion.model import Input


@dataclass(frozen=True, slots=True)
class ReplicaSpec:
    """One replica of one node.

    `app_uid`: of the app's life that it belongs to. `node`: its name; a query is the node of its result.
    `inputs`: in the order of its SUnion. `partition`: the node's in the control log. `origin`: first bucket.
    `query_hash`: checkpoints of another query are
    refused. `app_json`: for the kernel and redo tasks. `delays`: at the start, of each query that reads the node.
    `serves`: how the node lies in those. `position`: in its longest chain, from 1. `corrected`: its rows go to a
    corrected stream; without one only its dead letters are published. `exchange`: how the node's
    readers are partitioned, if all alike. `http`: where its process answers, for status.
    `pid`: for status, of the process that stands for it, where another one runs it; 0: the one that runs it.
    `host`: the machine that `pid` is of.
    `checkpoint_uri`: where checkpoints lie, for pyarrow.fs; empty: below `data_dir` on this machine.
    `replicas`: how many the node has. `run`: of its process, which all its incarnations' uids begin with; or empty.
    `engine_memory_bytes`: what its engine may use; 0: the engine's default.
    `made_of`: what kernels that may run the app are made of, by name; empty: nobody has said.
    """

    app: str
    app_uid: str
    node: str
    replica: int
    inputs: tuple[Input, ...]
    bucket_us: int
    origin: int
    partition: int
    query_hash: str
    app_json: str
    delays: Mapping[str, Delays]
    log: Log
    data_dir: Path
    timing: Timing
    serves: tuple[Serves, ...]
    position: int
    corrected: bool
    exchange: Partitioning | None = None
    http: str = ""
    pid: int = 0
    checkpoint_uri: str = ""
    replicas: int = 1
    run: str = ""
    engine_memory_bytes: int = 0
    host: str = ""
    made_of: tuple[tuple[str, str], ...] = ()

    def feeds(self, index: int) -> tuple[Feed, ...]:
        """What is read of one input."""
        return topics.input_feeds(self.app, self.inputs[index])

    @property
    def checkpoints(self) -> CheckpointLocation:
        """Where this replica keeps its checkpoints; its peers' lie beside it. Raises PlaceError."""
        if self.checkpoint_uri:
            return location_at(self.checkpoint_uri, self.app, self.name)
        return LocalLocation(self.data_dir / "checkpoints" / self.name)

    def feeds_of(self, replica: int) -> tuple[Feed, ...]:
        """What replica `replica` of this node says."""
        return topics.own_feeds(self.app, self.node, replica, count_of(self.exchange))

    @property
    def own_feeds(self) -> tuple[Feed, ...]:
        """What this replica says, apart for each partition of its readers."""
        return self.feeds_of(self.replica)

    @property
    def control_feed(self) -> Feed:
        return Feed(topics.control(self.app), self.partition)

    @property
    def settings_feed(self) -> Feed:
        return Feed(topics.settings(self.app))

    @property
    def progress_feed(self) -> Feed:
        return Feed(topics.progress(self.app, self.node))

    @property
    def status_feed(self) -> Feed:
        return Feed(topics.status(self.app))

    @property
    def transactional_id(self) -> str:
        return topics.transactional_id(self.app, self.node)

    @property
    def name(self) -> str:
        return f"{self.node}.r{self.replica}"
