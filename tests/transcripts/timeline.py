"""What happened in a scene, as a figure of lines: when, who, what. Consecutive buckets that are alike share a line.

Times are seconds since the scene began. Buckets count from the first one. "waited" is how long past its end a bucket
had waited when it ran (`waited_us`); stable buckets show it from 50 ms on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from borealis_py.protocol.states import ReplicaState
from sunion.model import (
    RecDone,
    Rows,
    StableBucket,
    StableRange,
    StreamRecord,
    TentativeBucket,
    Undo,
)
from sunion.view import Change

SHOWN_US = 50_000
Count = Callable[[Rows], int]
PLACES = {"inline": "inline", "spark": "a job on Spark", "peer": "a peer's checkpoint"}
"""Where a redo ran, by the engine that a status names."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that happened, to buckets [first, end) if to any.

    `rows`, `waited_us` (least, most) and `commits` are totals over those buckets; `empty` of them were BOUNDARY.
    """

    at_us: int
    who: str
    what: str
    detail: str = ""
    first: int = -1
    end: int = -1
    rows: int = 0
    waited_us: tuple[int, int] | None = None
    until_us: int = -1
    commits: int = 0
    empty: int = 0

    def follows(self, before: Entry) -> bool:
        """It continues the buckets of the one before and is otherwise like it."""
        mine, its = (self.who, self.what, self.detail), (before.who, before.what, before.detail)
        return self.first >= 0 and mine == its and self.first == before.end

    def with_next(self, after: Entry) -> Entry:
        waited = [w for w in (self.waited_us, after.waited_us) if w is not None]
        return replace(
            self,
            end=after.end,
            rows=self.rows + after.rows,
            until_us=after.at_us,
            waited_us=(min(w[0] for w in waited), max(w[1] for w in waited)) if waited else None,
            commits=self.commits + after.commits,
            empty=self.empty + after.empty,
        )

    def __str__(self) -> str:
        at = f"{self.at_us / 1e6:7.3f}"
        until = f" .. {self.until_us / 1e6:7.3f}" if self.until_us > self.at_us else ""
        last = f"..{self.end - 1}" if self.end > self.first + 1 else ""
        what = f"{self.what} {self.first}{last}" if self.first >= 0 else self.what
        rows = f"{self.rows} row{'s' * (self.rows != 1)}" if self.rows else ""
        commits = f"in {self.commits} transaction{'s' * (self.commits != 1)}" if self.commits else ""
        empty = f"{self.empty} as BOUNDARY" if self.empty else ""
        said = [part for part in (rows, empty, commits, self._waited(), self.detail) if part]
        return f"{at + until:18}  {self.who:10}  {what:21}  {'  '.join(said)}".rstrip()

    def _waited(self) -> str:
        if self.waited_us is None or (self.what != "TENTATIVE" and self.waited_us[1] < SHOWN_US):
            return ""
        low, high = (f"{us / 1000:.0f}" for us in self.waited_us)
        return f"waited {low} ms" if low == high else f"waited {low}..{high} ms"


@dataclass
class Timeline:
    """What has happened since `take` was last called.

    `shown`: prefixes of the actors to keep. `hidden`: prefixes of the kinds of lines to leave out.
    """

    shown: tuple[str, ...] = ("",)
    hidden: tuple[str, ...] = ()
    entries: list[Entry] = field(default_factory=list)

    def add(self, entry: Entry) -> None:
        if entry.who.startswith(self.shown) and not entry.what.startswith(self.hidden):
            self.entries.append(entry)

    def take(self) -> str:
        """The lines by the time at which they begin; lines of one time keep the order in which they were added."""
        lines: list[Entry] = []
        last: dict[str, int] = {}
        for entry in sorted(self.entries, key=lambda e: e.at_us):
            at = last.get(entry.who)
            if at is not None and entry.follows(lines[at]):
                lines[at] = lines[at].with_next(entry)
            else:
                last[entry.who] = len(lines)
                lines.append(entry)
        self.entries.clear()
        return "\n".join(map(str, lines)) or "(nothing)"


def state_entry(at_us: int, who: str, state: str, frontiers: str) -> Entry:
    """A replica enters a state."""
    granted = state == ReplicaState.STABILIZATION.value
    return Entry(at_us, who, state, f"has the grant, {frontiers}" if granted else frontiers)


def record_entry(
    at_us: int, who: str, record: StreamRecord, count: Count, origin: int = 0, apart: bool = True
) -> Entry:
    """A record of a replica's topic. `count`: how many rows. `apart`: BOUNDARY has a line of its own."""
    inc = f"inc {record.inc}" if record.inc > 1 else ""
    match record:
        case StableBucket(_, bucket, output, waited_us):
            rows = 0 if output.rows is None else count(output.rows)
            return _of(at_us, who, "STABLE", inc, bucket - origin, bucket + 1 - origin, rows, waited_us)
        case StableRange(_, first, end, waited_us):
            if apart:
                return _of(at_us, who, "BOUNDARY", inc, first - origin, end - origin, 0, waited_us)
            empty = _of(at_us, who, "STABLE", inc, first - origin, end - origin, 0, waited_us)
            return replace(empty, empty=end - first)
        case TentativeBucket(bucket=bucket, output=output, waited_us=waited_us):
            rows = 0 if output.rows is None else count(output.rows)
            label = labels(record.missing_sources, record.missing, record.completeness, record.diverged_from - origin)
            detail = f"{label}  {inc}".rstrip()
            return _of(at_us, who, "TENTATIVE", detail, bucket - origin, bucket + 1 - origin, rows, waited_us)
        case Undo(_, bucket):
            return Entry(at_us, who, f"UNDO from {bucket - origin}", inc)
        case RecDone(_, bucket):
            return Entry(at_us, who, f"REC_DONE below {bucket - origin}", inc)


def change_entry(at_us: int, who: str, change: Change, count: Count, origin: int = 0) -> Entry:
    """A change of a client's view."""
    name, first, end = change.kind.value, change.bucket - origin, change.end - origin
    if name in ("UNDO", "REC_DONE"):
        return Entry(at_us, who, f"{name} {'from' if name == 'UNDO' else 'below'} {first}")
    rows = 0 if change.output.rows is None else count(change.output.rows)
    tentative = name == "TENTATIVE"
    detail = f"missing {' '.join(change.missing) or '-'}" if tentative else ""
    return Entry(at_us, who, name, detail, first, end, rows)


def labels(missing_sources: tuple[str, ...], missing: tuple[str, ...], completeness: float, diverged_from: int) -> str:
    """What a tentative result says of itself."""
    return (
        f"missing_sources {','.join(missing_sources) or '-'}  missing {','.join(missing) or '-'}  "
        f"completeness {completeness:.2f}  diverged_from {diverged_from}"
    )


def _of(at_us: int, who: str, what: str, detail: str, first: int, end: int, rows: int, waited_us: int) -> Entry:
    return Entry(at_us, who, what, detail, first, end, rows, (waited_us, waited_us))
