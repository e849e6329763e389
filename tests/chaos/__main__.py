"""`python -m tests.chaos`: real faults, picked by a printed seed; exit code 0 when nothing was lost or wrong."""

from __future__ import annotations

import argparse
import datetime as dt
import os
import random
import shutil
import sys
import tempfile
import traceback
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from borealis_py.simulation.runner.ledger import commit_of
from tests.chaos.arena import arena
from tests.chaos.faults import GAP_S, draw, kinds_of
from tests.chaos.report import Run, append, kinds_table, late_told, result, timeline
from tests.chaos.run import Done, run
from tests.harness.machine import Meter
from tests.harness.plan import Plan
from tests.harness.processes import ROOT
from tests.harness.tidy import leaving_nothing

LEDGER = ROOT / "docs" / "evidence" / "chaos.md"
THRESHOLD_MS = 6_000
SLACK_US = 3_000_000
"""Of the threshold: Spark applications start now and then, on as many cores as there are."""


READY_S = 400.0


WAYS = ("active", "active-standby", "passive-standby", "upstream-backup")


def plan_of(host: str, threshold_ms: int, retain: str = "all", recovery: tuple[str, ...] = ("active",)) -> Plan:
    """A chain of two nodes with two partitions and two replicas each, of two sources and a foreign topic; all but the
    shortest redos are jobs.

    Spark tasks run as `up` has them, an application for each index; processes as containers may be, one for each node.
    """
    timing = (("slack_us", min(SLACK_US, threshold_ms * 500)), ("inline_us", 0))
    return Plan(
        "chaos",
        True,
        threshold_ms * 1000,
        timing=timing,
        parted=True,
        foreign=True,
        host=host,
        apart=host == "process",
        ready_s=READY_S,
        retain=retain,
        recovery=recovery,
    )


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--faults", type=int, default=300)
    parser.add_argument("--seed", type=int, default=None, help="default: a random one, printed")
    parser.add_argument("--host", choices=("spark", "process"), default="spark", help="where replicas run")
    parser.add_argument("--brokers", type=int, choices=(1, 3), default=1, help="three need root and `ip`")
    parser.add_argument("--gap", type=float, nargs=2, default=GAP_S, metavar="S", help="between two faults")
    parser.add_argument("--threshold-ms", type=int, default=THRESHOLD_MS, help="delay threshold X")
    parser.add_argument(
        "--retain", default=None, help="how much of the replicas' streams is kept; default: all, with odd seeds: needed"
    )
    parser.add_argument(
        "--recovery",
        default=None,
        help="ways of the cut node and the query, such as active,active; default: drawn",
    )
    parser.add_argument("--kinds", default="", help="only these, comma separated")
    parser.add_argument("--logs", type=Path, default=None, help="directory for logs; default: a new one below /tmp")
    parser.add_argument("--ledger", type=Path, default=LEDGER)
    return parser.parse_args()


def main() -> int:
    args = parse()
    os.environ["PYTHONFAULTHANDLER"] = "1"  # a process that crashes says where
    out, err = Console(width=160), Console(stderr=True)
    seed = random.SystemRandom().randrange(1_000_000) if args.seed is None else args.seed
    logs = args.logs or Path(tempfile.mkdtemp(prefix="borealis-chaos-"))
    scratch = logs / "spark"  # Spark's that are killed leave theirs, here and not below /tmp
    scratch.mkdir(parents=True, exist_ok=True)
    os.environ["SPARK_LOCAL_DIRS"] = str(scratch)
    kinds = [k.strip() for k in args.kinds.split(",") if k.strip()] or kinds_of(args.host, args.brokers)
    faults = draw(seed, args.faults, kinds, tuple(args.gap), apart=args.host == "process")
    retain = args.retain or ("needed" if seed % 2 else "all")  # what is deleted cannot be judged any more
    drawn = random.Random(f"recovery {seed}").choices(WAYS, k=2)
    recovery = tuple(args.recovery.split(",") if args.recovery else drawn)
    said = f"replicas on {args.host}, brokers {args.brokers}, retain {retain}, recovery {', '.join(recovery)}"
    out.print(f"seed {seed}, {args.faults} faults, {said}, logs in {logs}", highlight=False)
    begin, done, meter = dt.datetime.now(dt.UTC), list[Done](), Meter()
    columns = TextColumn("{task.description:60.60}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    try:
        with Progress(*columns, console=err) as progress:
            task = progress.add_task("starting", total=args.faults)

            def told(so_far: list[Done]) -> None:
                done[:] = so_far
                (logs / "timeline.txt").write_text(timeline(so_far, so_far[0].begin_us) + "\n")
                open_ = [str(d.fault) for d in so_far if d.end_us is None]
                progress.update(task, completed=len(so_far) - len(open_), description=" + ".join(open_) or "well")

            plan = plan_of(args.host, args.threshold_ms, retain, recovery)
            with leaving_nothing(logs), arena(plan, logs, args.brokers) as it:
                meter.start()
                run(it, faults, told)
                meter.stop()
                progress.update(task, description="the end, and the checker")
                verdict = it.end()
    except BaseException as exc:
        traceback.print_exc()
        out.print(timeline(done, done[0].begin_us) if done else "no fault yet", highlight=False)
        out.print(
            f"FAILED: {exc}\nseed {seed}, fault {len(done)}; logs are kept in {logs}", highlight=False, soft_wrap=True
        )
        return 1
    commit = commit_of(ROOT, args.ledger)
    over = Run(
        seed, args.host, commit, begin, done, verdict, it.plan.threshold_us, it.cluster.crashed, meter.samples,
        tuple(args.gap), recovery, it.cluster.again, args.brokers,
    )  # fmt: skip
    out.print(timeline(done, done[0].begin_us), highlight=False)
    out.print(kinds_table(over))
    out.print(late_told(over), highlight=False, soft_wrap=True)
    out.print(result(over), highlight=False, soft_wrap=True)
    append(args.ledger, over)
    shutil.rmtree(scratch, ignore_errors=True)
    if not over.good:
        out.print(f"seed {seed}; logs are kept in {logs}", highlight=False)
    return 0 if over.good else 1


if __name__ == "__main__":
    sys.exit(main())
