"""How well the machine keeps up: who uses its cores, what waits for one, and when nothing moved at all.

So that what came late for want of a core is told apart by measurement.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from confluent_kafka import Producer

from borealis_py.kafka.log import KafkaLog
from borealis_py.log.base import TopicSpec
from tests.harness.waiting import PATIENCE_S

PRESSURE = Path("/proc/pressure/cpu")
PERIOD_S = 1.0


@dataclass(frozen=True)
class Sample:
    """Totals since some time: seconds that somebody waited for a core, core seconds of the run and of all."""

    at_us: int
    waited_s: float
    own_s: float
    all_s: float


@dataclass(frozen=True)
class Load:
    """Of a stretch of time: the share in which somebody waited for a core, and how many cores who used."""

    pressure: float
    own: float
    others: float

    def __str__(self) -> str:
        return f"CPU pressure {self.pressure:.0%}, {self.own:.1f} cores ours, {self.others:.1f} others'"


def between(samples: Sequence[Sample], from_us: int, until_us: int) -> Load | None:
    """Over the shortest stretch of samples that covers these times; None: there is none."""
    times = [s.at_us for s in samples]
    first, last = max(0, bisect_right(times, from_us) - 1), bisect_right(times, until_us)
    if len(samples) < 2 or first >= len(samples) - 1:
        return None
    a, b = samples[first], samples[min(max(last, first + 1), len(samples) - 1)]
    s = (b.at_us - a.at_us) / 1e6
    own = (b.own_s - a.own_s) / s
    return Load((b.waited_s - a.waited_s) / s, own, max(0.0, (b.all_s - a.all_s) / s - own))


@dataclass
class Meter:
    """Takes samples in a thread from `start` to `stop`."""

    samples: list[Sample] = field(default_factory=list)
    _own_s: dict[tuple[int, float], float] = field(default_factory=dict)
    """By process, of those that are gone too."""
    _over: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        threading.Thread(target=self._run, name="load", daemon=True).start()

    def stop(self) -> None:
        self._over.set()

    def _run(self) -> None:
        while not self._over.wait(PERIOD_S):
            self.samples.append(self.take())

    def take(self) -> Sample:
        """How it is now."""
        own = psutil.Process()
        for process in [own, *own.children(recursive=True)]:
            with suppress(psutil.Error):
                used = process.cpu_times()
                self._own_s[process.pid, process.create_time()] = used.user + used.system
        cores = psutil.cpu_times()
        idle = cores.idle + getattr(cores, "iowait", 0.0)
        return Sample(time.time_ns() // 1000, _waited_s(), sum(self._own_s.values()), sum(cores) - idle)


def _waited_s() -> float:
    """0 where the kernel does not tell."""
    with suppress(OSError, StopIteration):
        fields = next(line for line in PRESSURE.read_text().splitlines() if line.startswith("some")).split()
        return int(fields[-1].removeprefix("total=")) / 1e6
    return 0.0


LOOK_S = 0.02
STALL_US = 300_000
"""A pause that is a stall: beside a take-over it may use up what a result may be late."""


def _wall_us() -> int:
    return time.time_ns() // 1000


class Stalls:
    """When nothing moved, by the wall clock in microseconds, as a client sees it that does nothing else.

    A result that came late because nothing moved is no sign of what was killed meanwhile.
    """

    def __init__(self, clock: Callable[[], int] = _wall_us) -> None:
        self.seen: list[tuple[int, int]] = []
        self._clock = clock
        self._since = clock()

    def look(self) -> None:
        """Called again and again, and as often as all goes well."""
        now = self._clock()
        if now - self._since > STALL_US:
            self.seen.append((self._since, now))
        self._since = now

    def between(self, from_us: int, until_us: int) -> list[tuple[int, int]]:
        """Those that reach into this time, with the one that has not ended yet."""
        now = self._clock()
        going_on = [(self._since, now)] if now - self._since > STALL_US else []
        return [stall for stall in [*self.seen, *going_on] if stall[0] < until_us and stall[1] > from_us]

    def unexcused(self, buckets: Iterable[int], bucket_us: int, late_us: int) -> list[int]:
        """The buckets for which nothing stalled from their begin until results of them may come at the latest."""
        return [b for b in buckets if not self.between(b * bucket_us, (b + 1) * bucket_us + late_us)]


@contextmanager
def watched_stalls(bootstrap: str, topic: str) -> Iterator[Stalls]:
    """A thread writes to this topic, which it makes, and waits until that has arrived, again and again."""
    KafkaLog(bootstrap).admin().create([TopicSpec(topic)])
    stalls, over = Stalls(), threading.Event()

    def write() -> None:
        producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
        while not over.wait(LOOK_S):
            producer.produce(topic, b"", partition=0)
            producer.flush(PATIENCE_S)
            stalls.look()

    thread = threading.Thread(target=write, name="stalls")
    thread.start()
    try:
        yield stalls
    finally:
        over.set()
        thread.join()
