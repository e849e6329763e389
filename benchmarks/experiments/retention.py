"""`make bench NAME=retention`: whether topics that are kept for a while stop growing.

Live, with small segments, since only whole ones are freed, and with what Kafka keeps for an hour, or compacts after ten
minutes, hastened likewise: a run of minutes stands for hours. Sizes are those of the files, on the broker's disk.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import mean

from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from benchmarks.load import keyed
from benchmarks.measure.volume import (
    BASE_US,
    CLASSES,
    CONTROL_CLASS,
    LEAD_S,
    NODE_CLASS,
    QUERY_CLASS,
    RATE,
    classes,
    log_sizes,
    tentative_buckets,
    write_source,
)
from benchmarks.report.goals import goals, published
from benchmarks.report.outcome import Curve, Outcome, Panel
from benchmarks.report.runner import ExperimentOptions
from borealis_py.app.topics import topics_of
from borealis_py.bench.console import Bars
from borealis_py.bench.events import KeptTopics
from borealis_py.bench.figures import BenchError
from borealis_py.bench.stage import Running, Stage, stage_for
from borealis_py.log.base import TopicSpec

INTERNAL = (NODE_CLASS, QUERY_CLASS, CONTROL_CLASS)
"""What no user reads."""
SETTLED = 1 / 3
"""Share of the time after which sizes are to stand still."""
STRETCH_S = 150.0
"""Sizes are compared by their means over so long: the broker looks every 30 s for segments to free, and means of two
looks go up and down with how the segments of several topics happen to fill between them."""
GOAL: float = goals("retention")["spread"]


@dataclass(frozen=True, slots=True)
class TopicSizes:
    """Sizes of the topics at `at_s` (seconds since the first tuple), by class, in bytes. `tentative`: buckets."""

    rate: int
    seconds: int
    at_s: list[float]
    sizes: dict[str, list[int]]
    tentative: int

    def together(self, names: Sequence[str]) -> list[int]:
        """Of several classes."""
        return [sum(each) for each in zip(*(self.sizes[name] for name in names), strict=True)]

    def means(self, sizes: Sequence[int]) -> list[float]:
        """Means of whole stretches, once sizes are to stand still.

        Raises:
            ValueError: there is no whole stretch.
        """
        first, found = self.seconds * SETTLED, []
        while first + STRETCH_S <= self.seconds:
            own = [size for at, size in zip(self.at_s, sizes, strict=True) if first <= at < first + STRETCH_S]
            found.append(mean(own))
            first += STRETCH_S
        if not found:
            raise ValueError(f"{self.seconds} s are too short")
        return found

    def spread(self, sizes: Sequence[int]) -> float:
        """By how much the largest of these means exceeds the least, as a share of it."""
        means = self.means(sizes)
        return max(means) / min(means) - 1


def outcome(growth: TopicSizes, retain: str, segment_bytes: int, host: str) -> Outcome:
    """All of it."""
    internal = growth.together(INTERNAL)
    spread = growth.spread(internal)
    met = spread <= GOAL
    rows = [_row(growth, name, growth.sizes[name], "") for name in growth.sizes]
    rows.append(_row(growth, "internal topics together", internal, f"<= {GOAL:.0%} {'met' if met else 'MISSED'}"))
    settled_s = growth.seconds * SETTLED
    return Outcome(
        name="retention",
        title="Topics that are kept for a while",
        published=published("retention"),
        setup=(
            f"A node and a query behind it, two replicas each, host {host}, {growth.rate:,} tuples/s for "
            f"{growth.seconds} s, retain {retain} of everything but the corrected stream, which nothing trims, and "
            f"segments of {segment_bytes:,} bytes; control and status kept for a minute instead of an hour, progress "
            f"compacted after 15 s instead of 10 min. Means of {STRETCH_S:g} s from {settled_s:g} s on. "
            f"{growth.tentative} buckets were tentative."
        ),
        worse=_worse(growth, spread),
        columns=["topics", "first>", "last>", "largest mean above the least>", "goal"],
        rows=rows,
        ratios={"internal topics: least mean to the largest": 1 / (1 + spread)},
        data=asdict(growth),
        panels=[
            Panel(
                title="Size on the broker's disk",
                x="seconds since the first tuple",
                y="MB",
                curves=[
                    Curve(label=name, x=growth.at_s, y=[size / 1e6 for size in growth.sizes[name]])
                    for name in growth.sizes
                ],
            )
        ],
    )


def _worse(growth: TopicSizes, spread: float) -> str:
    if spread > GOAL:
        return f"Internal topics vary by {spread:.0%} once they are to stand still."
    apart = {name: found for name in INTERNAL if (found := growth.spread(growth.sizes[name])) > GOAL}
    each = ", ".join(f"{name} by {found:.0%}" for name, found in apart.items())
    return each and f"The goal is for their sum; apart they vary more, since segments leave the disk whole: {each}."


def _row(growth: TopicSizes, name: str, sizes: Sequence[int], goal: str) -> list[str]:
    means = growth.means(sizes)
    return [name, f"{means[0] / 1e6:.1f} MB", f"{means[-1] / 1e6:.1f} MB", f"{growth.spread(sizes):.0%}", goal]


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
    return outcome(growth, RETAIN, SEGMENT_BYTES, options.host)


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
