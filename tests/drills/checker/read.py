"""Reading the raw topics with kafka-python, the client that the product does not carry data with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from kafka import TopicPartition

from borealis_py.demo.checker.history import Raw, ReplicaHistory, life_of, replay
from borealis_py.demo.checker.topics import CannotRead, open_consumer, read_whole
from tests.drills.checker.evidence import Evidence, Published, dead_letters, progress, published, session
from tests.drills.checker.network import Network
from tests.drills.checker.parts import Piece
from tests.drills.checker.sources import fold


class Topics:
    """Whole topics of one broker, as they lie. `committed`: without what was aborted."""

    def __init__(self, bootstrap: str) -> None:
        self._committed = open_consumer(bootstrap)
        self._written = open_consumer(bootstrap, "read_uncommitted")

    def read(self, topic: str, partition: int = 0, committed: bool = True) -> list[Raw]:
        """Every record of one partition of a topic, from its beginning to its end now. Raises CannotRead."""
        return read_whole(self._committed if committed else self._written, topic, partition)

    def first_at(self, topic: str, timestamp_ms: int) -> int:
        """Offset of the first record of that time or later. Raises CannotRead."""
        feed = TopicPartition(topic, 0)
        found = self._committed.offsets_for_times({feed: timestamp_ms})[feed]
        if found is None:
            raise CannotRead(f"topic {topic} has no record at {timestamp_ms} ms or later")
        return int(found.offset)

    def close(self) -> None:
        """Let go of the clients."""
        self._committed.close()
        self._written.close()


def read_evidence(
    bootstrap: str,
    app: str,
    network: Network,
    replicas: Sequence[int],
    origin_us: int,
    histories: Sequence[Path] = (),
    deleted: Mapping[str, Sequence[Raw]] | None = None,
    app_uid: str = "",
) -> Evidence:
    """All there is on the broker about one query.

    Args:
        replicas: how many each stage has.
        origin_us: start of the app's first bucket.
        histories: files that subscribers wrote, both views in each.
        deleted: by topic of one partition, records that were read before they were deleted.
        app_uid: of the life that is judged: what carries another one is nothing. Empty: there was one only.
    """
    topics = Topics(bootstrap)
    last = network.stages[-1]

    def read(stream: str, partition: int = 0) -> list[Raw]:
        topic = f"{app}.{stream}"
        found = _whole((deleted or {}).get(topic, ()), topics.read(topic, partition))
        return [record for record in found if not app_uid or life_of(record.value) in (None, app_uid)]

    def said(piece: Piece, replica: int) -> ReplicaHistory:
        stage = network.stages[piece.stage]
        return replay(read(f"{stage.parts[piece.part]}.r{replica}", piece.reader), stage.schema)

    def rows(partition: int, committed: bool) -> list[Published]:
        raw = read(last.name, partition) if committed else topics.read(f"{app}.{last.name}", partition, False)
        return published(raw, partition)

    numbered = [list(enumerate(stage.parts)) for stage in network.stages]
    try:
        return Evidence(
            network=network,
            origin=origin_us // network.bucket_us,
            sources={s: fold(read(s), network.columns, origin_us) for s in network.sources},
            replicas={
                piece: [said(piece, k) for k in range(n)]
                for stage, n in enumerate(replicas)
                for piece in network.pieces(stage)
            },
            corrected=[row for i, _ in numbered[-1] for row in rows(i, committed=True)],
            written=[row for i, _ in numbered[-1] for row in rows(i, committed=False)],
            progress=[[r for i, part in parts for r in progress(read(f"{part}.progress"), i)] for parts in numbered],
            dead_letters=dead_letters(read("deadletter")),
            sessions=[session(path, view) for path in histories for view in ("live", "corrected")],
        )
    finally:
        topics.close()


def _whole(before: Sequence[Raw], now: Sequence[Raw]) -> list[Raw]:
    """A log that lost its beginning since it was read before."""
    last = max((record.offset for record in before), default=-1)
    return [*before, *(record for record in now if record.offset > last)]
