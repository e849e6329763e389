"""The command: `python -m tests.tiers test|slow|third|stress|record|rotate`."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console

from tests.tiers import changed, durations, plan, reruns, rotation
from tests.tiers.plugin import ROOT
from tests.tiers.stages import CHECK, Chosen, of_tier, run

BUSY = "import os, sys\nwhile os.getppid() == int(sys.argv[1]): sum(range(10_000))"
"""A loop that keeps a core busy as long as its parent lives."""


def main() -> int:
    """Returns 0 if all is green, 1 if something is red, 130 after Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m tests.tiers", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, what in (("test", "what `make test` runs"), ("slow", "what it leaves out"), ("third", "a third of that")):
        command = commands.add_parser(name, help=what)
        command.add_argument("--rotation", type=int, help="by default that of .ci/rotation")
        command.add_argument("--record", action="store_true", help="note what they take")
    stress = commands.add_parser("stress", help="the tests of processes beside two busy loops a core")
    stress.add_argument("--times", type=int, default=5)
    stress.add_argument("files", nargs="*", help="only these")
    record = commands.add_parser("record", help="measure test files, all by default, and note what they take")
    record.add_argument("files", nargs="*")
    commands.add_parser("rotate", help="take the next rotation")
    options = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # what a shell runs in the background ignores it
    os.chdir(ROOT)
    console = Console(soft_wrap=True)
    with TemporaryDirectory(prefix="borealis-tests-") as scratch:
        try:
            return _do(options, Path(scratch), console)
        except KeyboardInterrupt:
            console.print("interrupted")
            return 130


def _do(options: argparse.Namespace, scratch: Path, console: Console) -> int:
    match options.command:
        case "test" | "slow" | "third":
            return _tiers(options, scratch, console)
        case "stress":
            return _stress(options.times, options.files, scratch, console)
        case "record":
            return _record(options.files, scratch, console)
        case _:
            console.print(f"rotation {rotation.take(ROOT)}")
    return 0


def _tiers(options: argparse.Namespace, scratch: Path, console: Console) -> int:
    """Every tier's tests; red files of processes once more, alone."""
    test, third = options.command == "test", options.command == "third"
    now = rotation.current(ROOT) if options.rotation is None else options.rotation
    chosen = Chosen("not slow" if test else "slow", now, third, changed.tests(ROOT) if third else ())
    broker, spark, pure = (of_tier(tier, chosen) for tier in ("broker", "spark", "pure"))
    first = run([(broker, spark), (CHECK, pure) if test else (pure,)], scratch, console)
    again = {file: of_tier(one.stage.tier, chosen, [file]) for one in first for file in reruns.files(one)}
    if options.record and not third:
        record = durations.load()
        for one in (one for one in first if one.stage.tier):
            record = durations.merged(record, one.taken, one.stage.tier, slow=not test)
        durations.save(record)
    second = dict(zip(again, run([tuple(again.values())], scratch, console, "again"), strict=True))
    red = [one.stage.name for one in first if not one.green and not all(file in second for file in one.red or [""])]
    red += [f"{file}, twice" for file, one in second.items() if not one.green]
    forgiven = [file for file, one in second.items() if one.green]
    red += [f"{file}: too often only when run again" for file in reruns.note(forgiven, reruns.ledger())]
    for file in forgiven:
        console.print(f"{file}: red, and green when run again; {reruns.pressure()}")
    console.print(f"RED: {'; '.join(red)}" if red else "all green")
    return 1 if red else 0


def _stress(times: int, files: Sequence[str], scratch: Path, console: Console) -> int:
    """The tests of processes, again and again, on a machine that has other things to do."""
    record = durations.load()
    if files:  # one that was never measured may have tests of any tier
        chosen = {tier: [file for file in files if tier in record.get(file, plan.TIERS)] for tier in plan.TIERS}
        stages = [of_tier(tier, Chosen(), some) for tier, some in chosen.items() if some]
    else:
        stages = [of_tier("pure", Chosen(), plan.PROCESSES), *(of_tier(tier, Chosen()) for tier in ("broker", "spark"))]
    red = 0
    with _busy(2 * (os.cpu_count() or 1)):
        for n in range(times):
            ended = run([stages], scratch, console, f"{n + 1}")
            red += sum(1 for one in ended if not one.green)
            console.print(f"run {n + 1} of {times}: {red} red so far; {reruns.pressure()}")
    return 1 if red else 0


@contextmanager
def _busy(loops: int) -> Iterator[None]:
    with ExitStack() as stack:
        for _ in range(loops):
            loop = stack.enter_context(subprocess.Popen([sys.executable, "-c", BUSY, str(os.getpid())]))
            stack.callback(loop.kill)
        yield


def _record(files: Sequence[str], scratch: Path, console: Console) -> int:
    """What test files take goes into the record; that of files which are gone is taken out."""
    before = durations.load()
    ended = run([[of_tier(tier, Chosen(), files) for tier in plan.TIERS]], scratch, console)
    kept = {file: tiers for file, tiers in before.items() if (ROOT / file).exists() and files and file not in files}
    for one in ended:
        for file, tiers in one.taken.items():
            kept[file] = {**kept.get(file, {}), **tiers}
    durations.save(kept)
    return 0 if all(one.green for one in ended) else 1


if __name__ == "__main__":
    sys.exit(main())
