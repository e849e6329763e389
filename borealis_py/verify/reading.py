"""Everything on the broker about one query that a model knows, read whole into memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from borealis_py.verify.description import place
from borealis_py.verify.envelope import Raw, life_of
from borealis_py.verify.evidence import (
    CommittedRow,
    Evidence,
    ProgressRecord,
    corrected_rows,
    dead_letters,
    lost_buckets,
    progress,
    subscriber_history,
)
from borealis_py.verify.history import ReplicaHistory, replay
from borealis_py.verify.kafka_reader import TopicReader
from borealis_py.verify.network import Network
from borealis_py.verify.partitions import Piece
from borealis_py.verify.source_log import SourceRules, fold


def read_evidence(
    topics: TopicReader,
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

    Raises:
        CannotRead: a topic is missing or cannot be read to its end.
    """
    last = network.stages[-1]
    rules = SourceRules(dict.fromkeys(network.columns, ""), origin_us, network.bucket_us)

    def read(stream: str, partition: int = 0) -> list[Raw]:
        topic = f"{app}.{stream}"
        found = _whole((deleted or {}).get(topic, ()), topics.read(topic, partition))
        return [record for record in found if not app_uid or life_of(record.value) in (None, app_uid)]

    def said(piece: Piece, replica: int) -> ReplicaHistory:
        stage = network.stages[piece.stage]
        stream = f"{stage.parts[piece.part]}.r{replica}"
        topic = f"{app}.{stream}"
        trimmed = topic not in (deleted or {}) and topics.beginning(topic, piece.reader) > 0
        return replay(read(stream, piece.reader), stage.schema, trimmed)

    def rows(partition: int, committed: bool) -> list[CommittedRow]:
        raw = read(last.name, partition) if committed else topics.read(f"{app}.{last.name}", partition, False)
        return list(corrected_rows(raw, partition))

    def published(part: str, partition: int) -> Iterator[ProgressRecord]:
        return progress(read(f"{part}.progress"), app_uid, partition)

    numbered = [list(enumerate(stage.parts)) for stage in network.stages]
    return Evidence(
        network=network,
        origin=origin_us // network.bucket_us,
        sources={s: fold(read(*place(s)), rules) for s in network.sources},
        replicas={
            piece: [said(piece, k) for k in range(n)]
            for stage, n in enumerate(replicas)
            for piece in network.pieces(stage)
        },
        corrected=[row for i, _ in numbered[-1] for row in rows(i, committed=True)],
        written=[row for i, _ in numbered[-1] for row in rows(i, committed=False)],
        progress=[[r for i, part in parts for r in published(part, i)] for parts in numbered],
        dead_letters=list(dead_letters(read("deadletter"))),
        lost={i: lost_buckets(read(f"{part}.progress"), app_uid) for i, part in numbered[-1]},
        subscribers=[subscriber_history(path, view) for path in histories for view in ("live", "corrected")],
    )


def _whole(before: Sequence[Raw], now: Sequence[Raw]) -> list[Raw]:
    """A log that lost its beginning since it was read before."""
    last = max((record.offset for record in before), default=-1)
    return [*before, *(record for record in now if record.offset > last)]
