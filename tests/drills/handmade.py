"""A good history made by hand: two nodes, two replicas each, source `c` lost for a while. Tests spoil it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

from borealis_py.demo.checker.history import Replay, StreamRecord
from tests.drills.checker import judge
from tests.drills.checker.evidence import DeadLetter, Evidence, ProgressRecord, Published, Saw, Session
from tests.drills.checker.network import Row, Truth, by_bucket, stime_of
from tests.drills.checker.sources import END, SourceLog
from tests.drills.checker.words import Verdict
from tests.drills.network import BUCKET_US, CHAIN, COLUMNS, SOURCES, row_of

T0 = 1_700_000_000_000_000
B0 = T0 // BUCKET_US
LOST, BACK, LAST = B0 + 8, B0 + 13, B0 + 20
"""Source c is missing in [LOST, BACK); at LAST all sources end. Corrections come when bucket B0 + 16 is next."""
HEALED = B0 + 16
X_US = 1_000_000
USUAL_US = 20_000
FOREVER = END // BUCKET_US


def source_log(source: str) -> SourceLog:
    """Two tuples a bucket, then END; one record of the log is no envelope."""
    rank = SOURCES.index(source)
    rows: list[Row] = []
    for n in range(2 * (LAST - B0)):
        values = row_of(source, n)
        rows.append((*(values[c] for c in COLUMNS), T0 + n * BUCKET_US // 2 + rank * 1_000))  # type: ignore[arg-type]
    return SourceLog(rows, list(range(len(rows))), dead=Counter({7: 1}), boundary=END)


@dataclass
class World:
    """Everything that lies in the topics, and what was seen; change what you like, then `judge`."""

    sources: dict[str, SourceLog] = field(default_factory=lambda: {s: source_log(s) for s in SOURCES})
    replicas: list[list[list[StreamRecord]]] = field(default_factory=list)
    corrected: list[Published] = field(default_factory=list)
    aborted: list[Published] = field(default_factory=list)
    progress: list[list[ProgressRecord]] = field(default_factory=list)
    dead: list[DeadLetter] = field(default_factory=lambda: [DeadLetter(s, 7, "no envelope") for s in SOURCES])
    live: list[Saw] = field(default_factory=list)
    polled: list[Saw] = field(default_factory=list)
    acknowledged: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SOURCES, 2 * (LAST - B0) - 1))
    unreadable: list[str] = field(default_factory=list)
    healed: bool = True
    complete: bool = True

    def judge(self) -> Verdict:
        return judge(self.evidence())

    def evidence(self) -> Evidence:
        """The world as the checker gets it."""
        replays = [[Replay(list(records), list(self.unreadable)) for records in stage] for stage in self.replicas]
        sessions = [
            Session("live 1", "live", self.live, self.complete),
            Session("corrected 1", "corrected", self.polled, self.complete),
        ]
        return Evidence(
            CHAIN, self.sources, replays, self.corrected, [*self.corrected, *self.aborted], self.progress, self.dead,
            sessions, self.acknowledged, self.healed, X_US, (T0, LOST * BUCKET_US),
        )  # fmt: skip


def good() -> World:
    """Nothing is wrong with it."""
    world = World()
    truth = Truth(CHAIN, {s: log.rows for s, log in world.sources.items()})
    lost = {s: [r for r in log.rows if s != "c" or not _lacks(r)] for s, log in world.sources.items()}
    for stage in range(2):
        stable = truth.stable[stage]
        live = by_bucket(CHAIN.run(lost, stage + 1), BUCKET_US)
        history = [_stable(b, stable.get(b, ())) for b in range(B0, LOST)]
        history += [_tentative(b, live.get(b, ())) for b in range(LOST, HEALED)]
        history += [StreamRecord("UNDO", 1, LOST, LOST)]
        history += [_stable(b, stable.get(b, ())) for b in range(LOST, LAST)]
        history += [StreamRecord("REC_DONE", 1, LAST, LAST), StreamRecord("BOUNDARY", 1, LAST, FOREVER)]
        world.replicas.append([list(history), list(history)])
        world.progress.append([ProgressRecord(n, b) for n, b in enumerate((B0 + 5, B0 + 8, FOREVER))])
    _publish(world, truth)
    _show(world)
    return world


def _lacks(row: Row) -> bool:
    return LOST <= stime_of(row) // BUCKET_US < BACK


def _stable(bucket: int, rows: tuple[Row, ...]) -> StreamRecord:
    return StreamRecord("STABLE" if rows else "BOUNDARY", 1, bucket, bucket + 1, rows)


def _tentative(bucket: int, rows: tuple[Row, ...]) -> StreamRecord:
    lacked = ("c",) if bucket < BACK else ()
    return StreamRecord("TENTATIVE", 1, bucket, bucket + 1, rows, lacked, 2 / 3, LOST)


def _publish(world: World, truth: Truth) -> None:
    columns = CHAIN.stages[-1].columns
    for bucket, rows in sorted(truth.stable[-1].items()):
        for index, row in enumerate(rows):
            values = dict(zip(columns, row[:-1], strict=True))
            world.corrected.append(Published(len(world.corrected), (bucket, index), stime_of(row), values))


def _show(world: World) -> None:
    columns = CHAIN.stages[-1].columns
    at = 0
    for record in world.replicas[-1][0]:
        late = X_US // 2 if record.kind == "TENTATIVE" else USUAL_US
        at = max(at, (min(record.end, LAST) * BUCKET_US) + late)
        rows = tuple(dict(zip(columns, row[:-1], strict=True)) for row in record.rows)
        world.live.append(Saw(at, record.kind, record.bucket, record.end, rows, record.lacked))
    for row in world.corrected:
        assert row.id is not None
        assert row.row is not None
        world.polled.append(Saw(at, "ROW", row.id[0], row.id[0] + 1, (row.row,), (), row.id[1]))


def moved(saw: Saw, by_us: int) -> Saw:
    """The same, seen later."""
    return replace(saw, at_us=saw.at_us + by_us)
