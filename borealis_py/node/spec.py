"""What a replica is started with: small values only, so that it can run in this process or be sent to a Spark task."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import structlog

from borealis_py.log import topics
from borealis_py.log.base import Feed, Log
from borealis_py.node.checkpoint_storage import CheckpointLocation, LocalLocation, id_of, local_directory, location_at
from borealis_py.node.checkpoint_topic import KAFKA, TopicLocation
from borealis_py.node.code_storage import StoredCode
from borealis_py.protocol.settings import Delays, Timing
from borealis_py.protocol.trimming import Trimming
from borealis_py.query.recovery import ACTIVE, RecoveryPlan
from borealis_py.query.spec import Partitioning, Serves, count_of
from sunion.model import Input

_logger = structlog.get_logger(__package__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSpec:
    """One replica of one node.

    Attributes:
        app: name of the app. app_uid: of the app's life that the replica belongs to.
        node: name of the node; a query is the node of its result. replica: its index, from 0.
        inputs: in the order of the node's SUnion.
        bucket_us: bucket width, in microseconds. origin: first bucket of the app.
        partition: of the node in the control log.
        query_hash: checkpoints of another query are skipped.
        app_json: the app as JSON, from which the kernel and redo tasks are compiled.
        delays: of each query that reads the node, until settings are read.
        log: makes the log's clients. data_dir: directory of this machine.
        timing: of the app.
        serves: for each query that reads the node, the way from the node to its result.
        position: of the node in its longest chain, counted from the sources from 1.
        corrected: the node's rows go to a corrected stream; if False, only its dead letters are published.
        exchange: how the readers of the node are partitioned, if all alike; None: one partition.
        http: address at which the replica's process answers HTTP, for the status; empty: none.
        pid: for the status, of the process that stands for the replica; 0: of the process that runs it.
        checkpoint_uri: where checkpoints are kept, for pyarrow.fs, or `kafka`; empty: below `data_dir`.
        replicas: how many the node has.
        run: name of the run of its process, with which the uids of all its incarnations begin; may be empty.
        engine_memory_bytes: the most memory of its engine; 0: the engine's default.
        host: machine of `pid`, for the status; empty: this one.
        trimming: how it trims and acknowledges (R16); None: it does neither.
        recovery: who of its node runs, and what a standby has.
        gap: it may begin anew and name what it leaves out (R18.8): no node reads it, and its readers ask for no more.
        place: where checkpoints lie, as `keeps_at` of the machine where the replica runs; empty: not looked up.
        made_of: the components, by name, of which a kernel must be made to run the app; empty: unknown.
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
    trimming: Trimming | None = None
    recovery: RecoveryPlan = ACTIVE
    gap: bool = False
    place: str = ""

    def feeds(self, index: int) -> tuple[Feed, ...]:
        """The feeds of one input: of a stream, one for each replica."""
        return topics.input_feeds(self.app, self.inputs[index])

    @property
    def checkpoints(self) -> CheckpointLocation:
        """Where this replica keeps its checkpoints, next to its peers'. Raises LocationError."""
        if self.checkpoint_uri == KAFKA:
            return TopicLocation(self.log, self.app, self.name)
        if self.checkpoint_uri:
            return location_at(self.checkpoint_uri, self.app, self.name)
        return LocalLocation(self.data_dir / "checkpoints" / self.name)

    @property
    def keeps_at(self) -> str:
        """Where checkpoints lie, equal for those who find each other's there, and for nobody else: a URI, or a
        directory with the random id that lies in it. Blocking. Raises LocationError."""
        directory = self.data_dir / "checkpoints"
        if self.checkpoint_uri:
            of_uri = None if self.checkpoint_uri == KAFKA else local_directory(self.checkpoint_uri)
            if of_uri is None:
                return self.checkpoint_uri
            directory = of_uri / self.app
        try:
            return f"{id_of(directory)}:{directory}"
        except OSError as exc:
            _logger.warning("peers on this machine cannot know where this replica keeps its checkpoints", why=str(exc))
            return f"{uuid.uuid4().hex}:{directory}"

    @property
    def code(self) -> StoredCode:
        """Where the files of the app's functions are kept."""
        return StoredCode(self.app, self.data_dir, self.checkpoint_uri)

    def feeds_of(self, replica: int) -> tuple[Feed, ...]:
        """The stream of replica `replica` of this node, one feed for each partition of its readers."""
        return topics.own_feeds(self.app, self.node, replica, count_of(self.exchange))

    @property
    def own_feeds(self) -> tuple[Feed, ...]:
        """The stream of this replica, one feed for each partition of its readers."""
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
