"""What a run of chaos tells: a timeline, tables, and one line for the ledger. Pure."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from rich.table import Table
from rich.text import Text

from borealis_py.verify import AnomalyKind, Verdict
from borealis_py.verify.anomalies import Delay
from tests.chaos.faults import GAP_S, kinds_of
from tests.chaos.run import Done
from tests.harness.machine import Sample, between
from tests.support.late import LATE

LEDGER_HEAD = """# Chaos ledger

Runs of `make chaos`: real faults on a real broker, a chain of two nodes with two partitions and two replicas each that
are Spark tasks or in processes (host), judged by a checker that shares no code with the product (RELIABILITY.md). Two
sources have publishers; the third, since seed 13001, is a foreign topic that a plain producer writes and two ingresses
copy. Runs before it had a third publisher: their seeds draw other faults now.
Oldest first; a line is added by each run that came to its end, and none is ever taken away. Rows are those of the
corrected stream. The worst added delay is that of a bucket for which the bound was promised: one replica of each node,
the broker and the subscriber were there; beside it, how busy the machine was meanwhile: the share of time in which
something waited for a core, and the cores that the run and others used. Late: buckets later than the bound allows.
Lines with BROKERS=3: three brokers and a controller, every record on all three, two needed to acknowledge one.
The bound is not promised from when a broker breaks until results of then have come (no leader); it is while the
controller alone is away, and with two brokers once they lead.
Undecided: tentative buckets of which the checker could not find out whether they follow from a part of the input.
By kind: how often each was made, and how often it had no effect; kinds that never did; and how
many dead letters were compared one by one, with those of rows that a kernel had to refuse.

A line's run is repeated by `make chaos HOST=... SEED=... FAULTS=...` with its host, seed and number of faults (and GAP
where it ends with one: seconds between two faults, 3 to 15 else): the same faults, as long, on the same things.

| date (UTC) | commit | host | seed | faults | rows | lost | duplicated | different | unlabelled | undecided | late | \
worst added delay | by kind |
|---|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|---|
"""

LOST = (AnomalyKind.LOST_WRITE, AnomalyKind.UNSEEN)
DUPLICATED = (AnomalyKind.DUPLICATE,)
DIFFERENT = (
    AnomalyKind.STABLE_CHANGED,
    AnomalyKind.INCONSISTENT_OFFSETS,
    AnomalyKind.ABORTED_READ,
    AnomalyKind.NONMONOTONIC_POLL,
)
UNLABELLED = (AnomalyKind.UNLABELLED_PARTIAL,)
LATE_GAP = 3
"""Late buckets so near each other have one cause."""


@dataclass(frozen=True)
class Run:
    """One run, over. `threshold_us`: X."""

    seed: int
    host: str
    commit: str
    begin: dt.datetime
    faults: Sequence[Done]
    verdict: Verdict
    threshold_us: int
    crashed: Sequence[str] = ()
    """Processes that ended by a signal which nobody sent."""
    samples: Sequence[Sample] = ()
    """Of the machine's load."""
    gap_s: tuple[float, float] = GAP_S
    recovery: Sequence[str] = ()
    """How each node recovers."""
    again: int = 0
    """How often a process could not start and was started again."""
    brokers: int = 1

    @property
    def good(self) -> bool:
        """Nothing was found."""
        return not self.verdict.anomalies and not self.verdict.undecided and not self.crashed

    @property
    def by_kind(self) -> Counter[str]:
        return Counter(done.fault.kind for done in self.faults)

    @property
    def nothing(self) -> Counter[str]:
        """By kind: faults that broke nothing of what they are about."""
        return Counter(done.fault.kind for done in self.faults if done.nothing)

    @property
    def not_made(self) -> list[str]:
        """Kinds that can be done on this host and that were not drawn, or came to nothing each time."""
        made = self.by_kind - self.nothing
        return sorted(kind for kind in kinds_of(self.host, self.brokers) if not made[kind])

    @property
    def dead(self) -> str:
        """How many dead letters were compared, and how many of them are rows that a kernel refused."""
        looked = self.verdict.looked_at
        return f"{looked['dead letters'] + looked['refused by kernels']} ({looked['refused by kernels']} of kernels)"

    @property
    def rows(self) -> int:
        return self.verdict.looked_at["corrected rows"]

    def count(self, kinds: Collection[AnomalyKind]) -> int:
        """Anomalies of these kinds."""
        return self.verdict.count(*kinds)

    @property
    def worst(self) -> Delay | None:
        """The latest of the buckets for which the bound was promised."""
        return max((d for d in self.verdict.delays if d.promised), key=lambda d: d.added_ms, default=None)

    def causes(self, delay: Delay) -> list[Done]:
        """Faults that were not over when the bucket ended, and had begun when its first word came."""
        return [d for d in self.faults if d.begin_us <= delay.at_us and (d.end_us is None or d.end_us >= delay.end_us)]

    @property
    def worst_told(self) -> str:
        """For people: how late, of how much, and why."""
        worst = self.worst
        if worst is None:
            return "none"
        return f"{worst.added_ms / 1000:.2f} s of {self.threshold_us / 1e6:g} s ({self.circumstances(worst)})"

    def circumstances(self, delay: Delay) -> str:
        """What was broken while a bucket was waited for, and how busy the machine was."""
        why = " + ".join(str(d.fault) for d in self.causes(delay)) or "nothing in particular"
        load = between(self.samples, delay.end_us, delay.at_us)
        return why if load is None else f"{why}; {load}"

    @property
    def late(self) -> list[list[Delay]]:
        """Buckets that came too late, those that follow each other together."""
        found: list[list[Delay]] = []
        for delay in sorted((d for d in self.verdict.delays if d.late), key=lambda d: (d.partition, d.bucket)):
            last = found[-1][-1] if found else None
            if last is not None and last.partition == delay.partition and delay.bucket <= last.bucket + LATE_GAP:
                found[-1].append(delay)
            else:
                found.append([delay])
        return found


def timeline(faults: Sequence[Done], origin_us: int) -> str:
    """One line a fault: when, what, until when."""
    lines = []
    for n, done in enumerate(faults, 1):
        lines.append(f"{n:4d}  +{(done.begin_us - origin_us) / 1e6:7.1f} s  {done}")
    return "\n".join(lines)


def late_told(run: Run) -> str:
    """One line for each stretch of buckets that came too late: how late at worst, what was broken, how busy it was."""
    lines = []
    for stretch in run.late:
        worst = max(stretch, key=lambda d: d.added_ms)
        lines.append(
            f"late: partition {worst.partition}, {len(stretch)} buckets from {stretch[0].bucket}, at worst "
            f"{worst.added_ms / 1000:.2f} s, {'promised' if worst.promised else 'after a blackout'} "
            f"({run.circumstances(worst)})"
        )
    return "\n".join(lines)


def kinds_table(run: Run) -> Table:
    """Each kind: how often, and how long until all was well again."""
    out = Table(title=f"{len(run.faults)} faults, seed {run.seed}", title_justify="left")
    for column in ("fault", "count", "came to nothing", "healed after: median", "longest"):
        out.add_column(column, justify="left" if column == "fault" else "right")
    for kind, count in sorted(run.by_kind.items()):
        spans = [(d.end_us - d.begin_us) / 1e6 for d in run.faults if d.fault.kind == kind and d.end_us is not None]
        middle, longest = (f"{f(spans):.1f} s" if spans else "-" for f in (median, max))
        out.add_row(Text(kind), str(count), str(run.nothing[kind] or ""), middle, longest)
    return out


def result(run: Run) -> str:
    """The line that counts."""
    return (
        f"{len(run.faults)} faults, {run.rows} rows: {run.count(LOST)} lost, {run.count(DUPLICATED)} duplicated, "
        f"{run.count(DIFFERENT)} different, {run.count(UNLABELLED)} unlabelled, "
        f"{len(run.verdict.undecided)} undecided, bound broken {run.count(LATE)}; "
        f"worst added delay {run.worst_told}; {run.dead} dead letters"
        + (f"; {run.nothing.total()} faults came to nothing" if run.nothing else "")
        + (f"; {run.again} processes could not start and were started again" if run.again else "")
        + "".join(f"; crashed: {one}" for one in run.crashed)
    )


def ledger_line(run: Run) -> str:
    """A row of the ledger's table."""
    void = run.nothing
    kinds = ", ".join(
        f"{kind} {count}" + (f" ({void[kind]} came to nothing)" if void[kind] else "")
        for kind, count in sorted(run.by_kind.items())
    )
    kinds += f"; never: {', '.join(run.not_made)}" if run.not_made else ""
    kinds += f"; dead letters {run.dead}"
    kinds += f"; recovery {', '.join(run.recovery)}" if run.recovery else ""
    kinds += "".join(f"; crashed: {one}" for one in run.crashed)
    kinds += f"; BROKERS={run.brokers}" if run.brokers > 1 else ""
    if run.gap_s != GAP_S:
        kinds += '; GAP="{:g} {:g}"'.format(*run.gap_s)
    counts = [run.count(kinds) for kinds in (LOST, DUPLICATED, DIFFERENT, UNLABELLED)]
    counts += [len(run.verdict.undecided), run.count(LATE)]
    cells = [
        f"{run.begin:%Y-%m-%d %H:%M}", run.commit, run.host, run.seed, len(run.faults), run.rows, *counts,
        run.worst_told, kinds,
    ]  # fmt: skip
    return "| " + " | ".join(map(str, cells)) + " |\n"


def append(ledger: Path, run: Run) -> None:
    """Add the run's line; the ledger is begun where there is none."""
    if not ledger.exists():
        ledger.write_text(LEDGER_HEAD)
    with ledger.open("a") as file:
        file.write(ledger_line(run))
