"""A good history made by hand: two nodes, two replicas each, source `c` lost for a while. Tests spoil it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

from borealis_py.verify import judge
from borealis_py.verify.anomalies import Verdict
from borealis_py.verify.envelope import Row
from borealis_py.verify.evidence import CommittedRow, DeadLetterRecord, Evidence, ProgressRecord, Saw, SubscriberHistory
from borealis_py.verify.history import HistoryRecord, ReplicaHistory
from borealis_py.verify.network import Network, Truth, by_bucket, stime_of
from borealis_py.verify.partitions import Piece
from borealis_py.verify.source_log import END, SourceHistory
from tests.harness.network import BUCKET_US, CHAIN, COLUMNS, SOURCES, row_of

T0 = 1_700_000_000_000_000
B0 = T0 // BUCKET_US
LOST, BACK, LAST = B0 + 8, B0 + 13, B0 + 20
"""Source c is missing in [LOST, BACK); at LAST all sources end. Corrections come when bucket B0 + 16 is next."""
HEALED = B0 + 16
X_US = 1_000_000
USUAL_US = 20_000
FOREVER = END // BUCKET_US


def source_log(source: str) -> SourceHistory:
    """Two tuples a bucket, then END; one record of the log is no envelope."""
    rank = SOURCES.index(source)
    rows: list[Row] = []
    for n in range(2 * (LAST - B0)):
        values = row_of(source, n)
        rows.append((*(values[c] for c in COLUMNS), T0 + n * BUCKET_US // 2 + rank * 1_000))  # type: ignore[arg-type]
    return SourceHistory(rows, list(range(len(rows))), dead=Counter({7: 1}), boundary=END)


def dead_letters() -> list[DeadLetterRecord]:
    """One in each source's log."""
    return [DeadLetterRecord(source, 7, "no envelope") for source in SOURCES]


@dataclass
class HandmadeTopics:
    """Everything that lies in the topics, and what was seen; change what you like, then `judge`.

    `replicas`: for each of `pieces` (of a chain without partitions: each stage) what each replica said. `trimmed`: how
    many records of each topic are deleted. `one_runs`: stages of which one replica runs and the other stands by.
    """

    network: Network = CHAIN
    sources: dict[str, SourceHistory] = field(default_factory=lambda: {s: source_log(s) for s in SOURCES})
    replicas: list[list[list[HistoryRecord]]] = field(default_factory=list)
    corrected: list[CommittedRow] = field(default_factory=list)
    aborted: list[CommittedRow] = field(default_factory=list)
    progress: list[list[ProgressRecord]] = field(default_factory=list)
    dead: list[DeadLetterRecord] = field(
        default_factory=lambda: [DeadLetterRecord(s, 7, "no envelope") for s in SOURCES]
    )
    live: list[Saw] = field(default_factory=list)
    polled: list[Saw] = field(default_factory=list)
    acknowledged: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SOURCES, 2 * (LAST - B0) - 1))
    unreadable: list[str] = field(default_factory=list)
    healed: bool = True
    complete: bool = True
    poison: dict[str, dict[int, bool]] = field(default_factory=dict)
    trimmed: int = 0
    one_runs: frozenset[int] = frozenset()

    @property
    def pieces(self) -> list[Piece]:
        return [piece for stage in range(2) for piece in self.network.pieces(stage)]

    def judge(self) -> Verdict:
        return judge(self.evidence())

    def evidence(self) -> Evidence:
        """The world as the checker gets it."""
        said = zip(self.pieces, self.replicas, strict=True)
        cut = self.trimmed
        replays = {
            piece: [ReplicaHistory(list(r)[cut:], list(self.unreadable), cut > 0) for r in records]
            for piece, records in said
        }
        histories = [
            SubscriberHistory("live 1", "live", self.live, self.complete),
            SubscriberHistory("corrected 1", "corrected", self.polled, self.complete),
        ]
        return Evidence(
            self.network, B0, self.sources, replays, self.corrected, [*self.corrected, *self.aborted], self.progress,
            self.dead, histories, self.acknowledged, self.poison, self.healed, X_US, (T0, LOST * BUCKET_US),
            one_runs=self.one_runs,
        )  # fmt: skip


def good(network: Network = CHAIN, sources: dict[str, SourceHistory] | None = None) -> HandmadeTopics:
    """Nothing is wrong with it. `sources`: what their logs hold; None: tuples that can all be used."""
    world = HandmadeTopics(network) if sources is None else HandmadeTopics(network, sources)
    truth = Truth(network, {s: log.rows for s, log in world.sources.items()})
    lost = {s: [r for r in log.rows if s != "c" or not _lacks(r)] for s, log in world.sources.items()}
    for piece in world.pieces:
        stable = truth.stable(piece)
        live = by_bucket(network.keep(network.run(lost, piece.stage + 1), piece), BUCKET_US)
        history = [_stable(b, stable.get(b, ())) for b in range(B0, LOST)]
        history += [_tentative(b, live.get(b, ()), _depends(network, piece)) for b in range(LOST, HEALED)]
        history += [HistoryRecord("UNDO", 1, LOST, LOST)]
        history += [_stable(b, stable.get(b, ())) for b in range(LOST, LAST)]
        history += [HistoryRecord("REC_DONE", 1, LAST, LAST), HistoryRecord("BOUNDARY", 1, LAST, FOREVER)]
        world.replicas.append([list(history), list(history)])
    for stage in network.stages:
        marks = [(n, b, part) for part in range(len(stage.parts)) for n, b in enumerate((B0 + 5, B0 + 8, FOREVER))]
        world.progress.append([ProgressRecord(*mark) for mark in marks])
    for piece in network.pieces(1):
        _publish(world, truth, piece)
        _show(world, piece)
    return world


def _lacks(row: Row) -> bool:
    return LOST <= stime_of(row) // BUCKET_US < BACK


def _stable(bucket: int, rows: tuple[Row, ...]) -> HistoryRecord:
    return HistoryRecord("STABLE" if rows else "BOUNDARY", 1, bucket, bucket + 1, rows)


def _depends(network: Network, piece: Piece) -> int:
    """How many buckets before its own a result depends on."""
    return max(0, network.stages[piece.stage].reach_us // BUCKET_US - 1)


def _tentative(bucket: int, rows: tuple[Row, ...], depends: int) -> HistoryRecord:
    missing = ("c",) if bucket < BACK else ()
    missing_sources = ("c",) if bucket - depends < BACK else ()
    return HistoryRecord(
        "TENTATIVE", 1, bucket, bucket + 1, rows, missing_sources, missing, 2 / 3 if missing_sources else 1.0, LOST
    )


def _publish(world: HandmadeTopics, truth: Truth, piece: Piece) -> None:
    columns = CHAIN.stages[-1].columns
    offset = 0
    for bucket, rows in sorted(truth.stable(piece).items()):
        for index, row in enumerate(rows):
            values = dict(zip(columns, row[:-1], strict=True))
            world.corrected.append(CommittedRow(offset, (bucket, index), stime_of(row), values, piece.part))
            offset += 1


def _show(world: HandmadeTopics, piece: Piece) -> None:
    columns = CHAIN.stages[-1].columns
    at = 0
    for record in world.replicas[world.pieces.index(piece)][0]:
        late = X_US // 2 if record.kind == "TENTATIVE" else USUAL_US
        at = max(at, (min(record.end, LAST) * BUCKET_US) + late)
        rows = tuple(dict(zip(columns, row[:-1], strict=True)) for row in record.rows)
        saw = Saw(at, record.kind, record.bucket, record.end, rows, record.missing_sources, 0, piece.part)
        world.live.append(saw)
    for row in world.corrected:
        if row.partition == piece.part:
            assert row.id is not None
            assert row.row is not None
            world.polled.append(Saw(at, "ROW", row.id[0], row.id[0] + 1, (row.row,), (), row.id[1], row.partition))


def moved(saw: Saw, by_us: int) -> Saw:
    """The same, seen later."""
    return replace(saw, at_us=saw.at_us + by_us)
