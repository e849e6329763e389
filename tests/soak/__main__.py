"""`python -m tests.soak`: an app runs for hours while something is killed every minute. Exit code 0 when what died came
back each time, nothing grows, and the corrected streams are what their sources give.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import random
import shutil
import sys
import tempfile
import threading
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import psutil
from rich.console import Console

from borealis_py.kafka.broker import LocalBroker
from borealis_py.simulation.runner.ledger import commit_of
from tests.harness.processes import ROOT
from tests.harness.tidy import leaving_nothing
from tests.soak.figures import KINDS, OURS, Drift, Sample, drifts, take
from tests.soak.site import APP, COMMAND_S, HOSTS, Site, kill

LEDGER = ROOT / "docs" / "evidence" / "soak.md"
LOOK_S = 2.0
SETTLED_S = 10.0
"""So long after everything is READY again what is there is measured."""
BACK_S = {"spark": 240.0, "process": 60.0}
"""By when a process that was killed must be READY again."""
END_S = 300.0


@dataclass
class Soak:
    """One run."""

    site: Site
    minutes: float
    every_s: float
    dice: random.Random
    began: float = field(default_factory=time.monotonic)
    samples: list[Sample] = field(default_factory=list)
    kills: list[str] = field(default_factory=list)
    back_s: list[float] = field(default_factory=list)
    rows: int = 0

    @property
    def at_s(self) -> float:
        return time.monotonic() - self.began

    def run(self) -> None:
        """Kill and measure until the time is over. Raises AssertionError when something does not come back."""
        pause, due, well = threading.Event(), self.at_s + self.every_s, self.at_s
        while self.at_s < self.minutes * 60:
            if self.at_s >= due:
                self._kill()
                well = self.at_s
                due = max(due + self.every_s, well + SETTLED_S + 2 * LOOK_S)
            if self.at_s > well + SETTLED_S:
                self.samples.append(self._sample())
            pause.wait(LOOK_S)

    def _kill(self) -> None:
        """Kill something and wait until it is back."""
        what, name, pid = kill(self.site, self.dice)
        self.kills.append(what)
        if what == "supervisor":
            self.site.up()
            assert self.site.supervisor is not None, "`up` started no supervisor"
        if name is not None:
            pause, begin = threading.Event(), time.monotonic()
            while not self.site.ready(name, pid):
                fate = self.site.processes.fates().get(name)
                assert time.monotonic() - begin < BACK_S[self.site.host], f"{name} did not come back: {fate}"
                pause.wait(0.1)
            self.back_s.append(time.monotonic() - begin)

    def _sample(self) -> Sample:
        supervisor = self.site.supervisor
        broker = LocalBroker(self.site.directory / "data" / "_broker").status().pid
        feeders = [f.popen.pid for f in self.site.feeders.values()]
        groups = {
            "replicas": take(self.site.processes.running().values()),
            "publishers": take(psutil.Process(pid) for pid in feeders if psutil.pid_exists(pid)),
            "supervisor": take([supervisor] if supervisor is not None else [], below=False),
            "broker": take([psutil.Process(broker)] if broker else []),
        }
        return Sample(self.at_s, groups)

    def end(self) -> list[str]:
        """Sources end, results are audited, everything is stopped. Returns what is wrong."""
        wrong: list[str] = []
        self.site.end()
        pause, limit = threading.Event(), time.monotonic() + END_S
        while any(r.get("stable_until") != "END" for r in self.site.status()["replicas"]):
            if time.monotonic() > limit:
                return ["not all replicas came to the end of their sources"]
            pause.wait(LOOK_S)
        within_s = max(COMMAND_S, self.minutes * 60)  # whatever was computed live is computed once more
        audit = self.site.borealis("audit", "--app", APP, "--whole", "--no-spark", "--json", within_s=within_s)
        audited = json.loads(audit)
        wrong += [f"{one['query']}: {one['differences']} differences" for one in audited if not one["clean"]]
        self.rows = sum(one["rows"] for one in audited)
        if not self.rows:
            wrong.append("the corrected stream is empty")
        if self.minutes > 2 and not sum(one["dead_letters"] or 0 for one in audited):
            wrong.append("none of the rows that nobody can use is a dead letter")
        counted = sum(fate.restarts for fate in self.site.processes.fates().values())
        if counted != len(self.back_s):
            wrong.append(f"{len(self.back_s)} replica processes were killed, {counted} starts again are noted")
        self.site.borealis("down", "--app", APP)
        self.site.borealis("broker", "down")
        left = self.site.left()
        return wrong + [f"left behind: {line}" for line in left]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=120.0)
    parser.add_argument("--kills", type=float, default=1.0, help="a minute")
    parser.add_argument("--host", choices=HOSTS, default="spark")
    parser.add_argument("--seed", type=int, default=None, help="default: a random one, printed")
    parser.add_argument("--logs", type=Path, default=None, help="directory for logs; default: a new one below /tmp")
    parser.add_argument("--ledger", type=Path, default=LEDGER)
    return parser.parse_args()


def main() -> int:
    args = parse()
    seed = random.SystemRandom().randrange(1_000_000) if args.seed is None else args.seed
    directory = args.logs or Path(tempfile.mkdtemp(prefix="borealis-soak-"))
    out = Console(width=160, highlight=False)
    out.print(f"seed {seed}, {args.minutes:g} minutes, {args.kills:g} kills a minute, {args.host}, logs in {directory}")
    at, soak, wrong = dt.datetime.now(dt.UTC), None, list[str]()
    with leaving_nothing(directory):
        site = Site(directory, args.host)
        try:
            site.begin()
            soak = Soak(site, args.minutes, 60 / args.kills, random.Random(seed))
            soak.run()
            wrong += soak.end()
        except BaseException as exc:
            traceback.print_exc()
            wrong.append(f"{type(exc).__name__}: {exc}")
        finally:
            site.close()
    found = list[Drift]()
    try:
        found = drifts(soak.samples if soak is not None else [], args.minutes * 60)
    except ValueError as exc:
        wrong.append(str(exc))
    wrong += [str(drift) for drift in found if not drift.good]
    for drift in found:
        out.print(str(drift))
    if soak is not None and soak.back_s:
        out.print(
            f"{len(soak.kills)} kills; READY again after {median(soak.back_s):.1f} s, {max(soak.back_s):.1f} s at most"
        )
    for line in wrong:
        out.print(f"WRONG: {line}", style="bold red")
    if soak is not None:
        append(args.ledger, at, args, seed, soak, found, wrong)
    if not wrong:
        shutil.rmtree(directory, ignore_errors=True)
    return 1 if wrong else 0


def append(
    ledger: Path, at: dt.datetime, args: argparse.Namespace, seed: int, soak: Soak, found: list[Drift], wrong: list[str]
) -> None:
    """A line of the ledger; a run that failed is one too."""
    back = f"{median(soak.back_s):.1f} / {max(soak.back_s):.1f} s" if soak.back_s else ""
    by_kind = {kind: [d for d in found if d.kind == kind and d.group in OURS] for kind in KINDS}
    cells = [
        *(f"{at:%Y-%m-%d %H:%M}", commit_of(ROOT, ledger), args.host, str(seed), f"{args.minutes:g}"),
        *(str(len(soak.kills)), back, str(soak.rows)),
        *("; ".join(f"{d.group} {d.first:.0f} {d.second:.0f}" for d in by_kind[kind]) for kind in KINDS),
        "; ".join(wrong).replace("|", "/").replace("\n", " ")[:300] or "none",
    ]
    with ledger.open("a", encoding="utf-8") as file:
        file.write(f"| {' | '.join(cells)} |\n")


if __name__ == "__main__":
    sys.exit(main())
