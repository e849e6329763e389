"""`make bench NAME=retention`: whether topics that are kept for a while stop growing.

Live, with small segments, since only whole ones are freed, and with what Kafka keeps for an hour, or compacts after ten
minutes, hastened likewise: a run of minutes stands for hours. Sizes are those of the files, on the broker's disk.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping

from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from benchmarks.experiments.retention import tables
from benchmarks.experiments.retention.tables import TopicSizes
from benchmarks.load import keyed
from benchmarks.measure.volume import (
    BASE_US,
    CLASSES,
    LEAD_S,
    RATE,
    classes,
    log_sizes,
    tentative_buckets,
    write_source,
)
from benchmarks.report.outcome import Outcome
from benchmarks.report.runner import ExperimentOptions
from borealis_py.app.topics import topics_of
from borealis_py.bench.console import Bars
from borealis_py.bench.events import KeptTopics
from borealis_py.bench.figures import BenchError
from borealis_py.bench.stage import Running, Stage, stage_for
from borealis_py.log.base import TopicSpec

MINUTES = {"short": 8, "usual": 15, "full": 60}
RETAIN = "30s"
SEGMENT_BYTES = 1 << 20
"""The least that Kafka takes."""
KEPT_MS, ROLL_MS = 60_000, 15_000
"""For what is kept for an hour, or compacted: control, status, progress."""
ANSWER_S = 10.0
LOOK_S = 5.0
NAME = "bench-retention"


def run(options: ExperimentOptions, bars: Bars) -> Outcome:
    """Measure it.

    Raises:
        BenchError: a publisher failed, or topics cannot have small segments.
        BrokerError, LaunchError, LogError: something to be measured did not start.
    """
    minutes = MINUTES[options.size]
    with stage_for(options.work, bars) as stage:
        bars.say("starting 2 replicas of a node and of a query")
        state = stage.describe(keyed.app(NAME, 1, 2, kept=KeptTopics(RETAIN, RETAIN)))
        hasten(stage.log.bootstrap, topics_of(state.spec))
        running = stage.start_replicas(state, options.host)
        stage.wait_ready(running)
        with bars.bar(f"{RATE:,} tuples/s", minutes * 60) as at:
            growth = _fed(stage, running, minutes * 60, at)
        running.processes.stop()
    return tables.outcome(growth, RETAIN, SEGMENT_BYTES, options.host)


def hasten(bootstrap: str, specs: Iterable[TopicSpec]) -> None:
    """Let segments be small, and old ones go soon. Raises BenchError: the broker refuses."""
    resources = [
        ConfigResource(
            ResourceType.TOPIC,
            spec.name,
            incremental_configs=[
                ConfigEntry(key, str(value), incremental_operation=AlterConfigOpType.SET)
                for key, value in hastened(dict(spec.config)).items()
            ],
        )
        for spec in specs
    ]
    client = AdminClient({"bootstrap.servers": bootstrap})
    for topic, answer in client.incremental_alter_configs(resources, request_timeout=ANSWER_S).items():
        try:
            answer.result()
        except KafkaException as exc:
            raise BenchError(f"{topic.name}: {exc}") from exc


def hastened(config: Mapping[str, str]) -> dict[str, int | float]:
    """What to change of a topic's settings."""
    found: dict[str, int | float] = {"segment.bytes": SEGMENT_BYTES}
    if config.get("cleanup.policy") == "compact":
        found |= {"segment.ms": ROLL_MS, "min.compaction.lag.ms": ROLL_MS, "min.cleanable.dirty.ratio": 0.1}
    elif config.get("retention.ms", "-1") != "-1":
        found |= {"segment.ms": ROLL_MS, "retention.ms": KEPT_MS}
    return found


def _fed(stage: Stage, running: Running, seconds: int, at: Callable[[float], object]) -> TopicSizes:
    """Sizes while tuples come. Raises BenchError."""
    path = stage.work / "retention.csv"
    write_source(path, seconds + LEAD_S)
    t0, of = math.ceil(time.time()) + LEAD_S, classes(running.state)
    pace = ["--stime", "at", "--speed", "1", "--base", str(BASE_US), "--start", str(t0 * 1_000_000)]
    publisher = stage.borealis("publish", "publish", keyed.SOURCE, str(path), "--app", NAME, *pace)
    at_s: list[float] = []
    sizes: dict[str, list[int]] = {name: [] for name in CLASSES}
    while (elapsed := time.time() - t0) < seconds:
        if publisher.poll() is not None:
            raise BenchError(f"the publisher ended with code {publisher.returncode}; see publish.log")
        at(max(0.0, elapsed))
        if elapsed >= 0:
            found = log_sizes(stage.broker.data_dir / "log", of)
            at_s.append(elapsed)
            for name, size in found.items():
                sizes[name].append(size)
        time.sleep(LOOK_S)
    return TopicSizes(RATE, seconds, at_s, sizes, tentative_buckets(stage, running.state))
