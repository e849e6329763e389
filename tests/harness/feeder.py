"""`python -m tests.harness.feeder`: publishes made rows of some sources at a fixed rate until SIGTERM, then END.

Rows are numbered from 0 and row n is always the same, so a successor goes on where its predecessor's log ends. What the
log has acknowledged goes into a file, one line a flush: that much must never be lost.
"""

from __future__ import annotations

import argparse
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

from borealis_py.api import publisher
from borealis_py.client.ingest import InputRow, read_jsonl
from borealis_py.client.publisher import Publisher
from borealis_py.config.signals import set_by
from tests.harness.network import row_of
from tests.harness.pacing import FLUSH_ROWS, OUTAGE_S, due, note, options
from tests.harness.poison import Plan, line_of


def feed(publisher_: Publisher, source: str, args: argparse.Namespace, stop: threading.Event) -> None:
    """Publish row n when it is due."""
    poison = Plan(args.poison)
    with publisher_, args.acks.open("a", encoding="utf-8") as file:
        n = publisher_.last_seq + 1
        while due(args, n, stop):
            what = poison.of(source, n)
            if what is None:
                publisher_.send(row_of(source, n), seq=n)
            else:
                give(publisher_, line_of(what, source, n), n)
            n += 1
            if n % FLUSH_ROWS == 0:
                publisher_.flush(OUTAGE_S)
                note(file, source, n)
        publisher_.close(end=True)


def give(publisher_: Publisher, line: bytes, n: int) -> None:
    """A line of input as `borealis publish` takes it."""
    for one in read_jsonl([line]):
        if isinstance(one, InputRow):
            publisher_.send(one.values, seq=n)
        else:
            publisher_.reject(one.raw, one.reason, n)


def main() -> None:
    """One thread a source; an error of any ends the process with a traceback."""
    parser = options(__doc__)
    parser.add_argument("--app", required=True)
    parser.add_argument("--sources", required=True, help="comma separated")
    parser.add_argument("--take-over", action="store_true")
    args = parser.parse_args()
    stop = threading.Event()
    set_by([signal.SIGTERM], stop)

    def run(source: str) -> None:
        try:
            it = publisher(source, app=args.app, bootstrap=args.bootstrap, take_over=args.take_over)
            feed(it, source, args, stop)
        finally:
            stop.set()  # one that failed ends the others

    sources = args.sources.split(",")
    with ThreadPoolExecutor(len(sources)) as pool:
        list(pool.map(run, sources))


if __name__ == "__main__":
    main()
