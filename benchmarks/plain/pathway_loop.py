"""The same on Pathway, by an interpreter that has it (`BENCH_PATHWAY=PYTHON`); it imports nothing of borealis.

    PYTHON pathway_loop.py BOOTSTRAP LATENESS_MS RESULTS OUT TOPIC...

It creates OUT when it begins, and goes on until SIGTERM. A window's result comes with the first event that lies the
lateness beyond its end.
"""

from __future__ import annotations

import sys
import time
from importlib import import_module
from pathlib import Path

READ_MS = 20
"""How often what has come is worked on."""


def main() -> None:
    pw = import_module("pathway")
    bootstrap, lateness_ms, results, out, *topics = sys.argv[1:]
    settings = {"bootstrap.servers": bootstrap, "group.id": f"pathway-{time.time_ns()}", "auto.offset.reset": "latest"}
    event = pw.schema_from_types(at=int, customer=str, amount=float)
    read = [
        pw.io.kafka.read(settings, topic=topic, format="json", schema=event, autocommit_duration_ms=READ_MS)
        for topic in topics
    ]
    events = read[0].concat_reindex(*read[1:])
    windows = events.windowby(
        events.at,
        window=pw.temporal.tumbling(duration=1_000_000),
        instance=events.customer,
        behavior=pw.temporal.exactly_once_behavior(shift=int(lateness_ms) * 1_000),
    ).reduce(
        window_start=pw.this._pw_window_start,
        customer=pw.this._pw_instance,
        n=pw.reducers.count(),
        total=pw.reducers.sum(pw.this.amount),
    )
    pw.io.kafka.write(windows, settings, topic_name=results, format="json")
    Path(out).touch()
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)


if __name__ == "__main__":
    main()
