"""Processes of a simulated world and what can be done to them: publishers, replicas, a client.

Each is the production object (`PublisherSession`, `Replica`, `LiveSubscription`) with the host's part around it: turns
when woken and when due, each a few simulated milliseconds long. A *seat* is where such a process runs: a source, or a
replica index. It may be killed, paused, cut off or doubled; faults may overlap, so each is counted.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection

from borealis_py.sim.clock import Scheduler
from borealis_py.sim.log import MemoryLog

Topics = Collection[str] | None


class LocalClock:
    """One process's clocks: monotonic time starts anywhere, wall time is a little off."""

    def __init__(self, scheduler: Scheduler, base_us: int, skew_us: int = 0) -> None:
        self._scheduler = scheduler
        self.offset_us = base_us - scheduler.now_us
        self._skew_us = skew_us

    def now_us(self) -> int:
        return self._scheduler.now_us + self.offset_us

    def wall_us(self) -> int:
        return self._scheduler.now_us + self._skew_us


class Ticker:
    """Calls `fn` at the earliest time asked for since the last call; not while `paused`, never once `stopped`."""

    def __init__(self, scheduler: Scheduler, fn: Callable[[], None]) -> None:
        self._scheduler = scheduler
        self._fn = fn
        self._due: int | None = None
        self._asked = 0
        self.not_before = 0
        self.paused = False
        self.stopped = False

    def request(self, at_us: int) -> None:
        at = max(at_us, self.not_before, self._scheduler.now_us)
        if self.stopped or self.paused or (self._due is not None and self._due <= at):
            return
        self._due = at
        self._asked += 1
        asked = self._asked
        self._scheduler.at(at, lambda: self._fire(asked))

    def pause(self) -> None:
        self.paused = True
        self._due = None
        self._asked += 1

    def resume(self) -> None:
        self.paused = False
        self.request(self._scheduler.now_us)

    def _fire(self, asked: int) -> None:
        if asked == self._asked and not self.stopped and not self.paused:
            self._due = None
            self._fn()


class Process(ABC):
    """One process: a name of its own in the log, a ticker, and the turns that it takes."""

    def __init__(self, scheduler: Scheduler, name: str, rng: random.Random, turn_us: tuple[int, int]) -> None:
        self.scheduler = scheduler
        self.name = name
        self.rng = rng
        self.turns = 0
        self.ticker = Ticker(scheduler, self._turn)
        self._turn_us = turn_us

    def wake(self) -> None:
        """Something has arrived."""
        self.ticker.request(self.scheduler.now_us)

    @property
    def alive(self) -> bool:
        return not self.ticker.stopped

    def die(self) -> None:  # noqa: B027 (only some have more to lose than their memory)
        """The process is gone, and what it had not handed to the log with it."""

    @abstractmethod
    def turn(self) -> int | None:
        """Do one turn; returns when the next is due, in simulated time."""

    def _turn(self) -> None:
        self.turns += 1
        low, high = self._turn_us
        self.ticker.not_before = self.scheduler.now_us + low + int(self.rng.random() * (high - low))
        due = self.turn()
        if due is not None:
            self.ticker.request(due)


class Seat:
    """A place with at most one current process, and perhaps older ones that do not know that they are replaced.

    Args:
        start: makes the process of this name and starts it.
        changed: called after every fault and its end, and when a process ends.
    """

    def __init__(
        self, label: str, log: MemoryLog, start: Callable[[str], Process | None], changed: Callable[[], None]
    ) -> None:
        self.label = label
        self.current: Process | None = None
        self.zombies: list[Process] = []
        self._log = log
        self._start = start
        self._changed = changed
        self._made = 0
        self._down = self._paused = 0
        self._cuts: list[Topics] = []

    @property
    def troubled(self) -> bool:
        """A fault is at work here."""
        return bool(self._down or self._paused or self._cuts)

    @property
    def down(self) -> bool:
        """Nobody is to run here now."""
        return self._down > 0

    def reaches(self, topic: str) -> bool:
        """Not cut off from it."""
        return all(topics is not None and topic not in topics for topics in self._cuts)

    def reaches_all_but(self, topics: Collection[str]) -> bool:
        """Up, not paused, and cut off from none but some of these topics."""
        cut: set[str] = set()
        for some in self._cuts:
            if some is None:
                return False
            cut.update(some)
        return not self._down and not self._paused and cut.issubset(topics)

    @property
    def processes(self) -> list[Process]:
        found = [*self.zombies, self.current]
        return [p for p in found if p is not None and p.alive]

    def start(self) -> None:
        """A new process, if the seat is empty and nothing holds it down."""
        if self.current is not None or self._down:
            return
        self._made += 1
        name = f"{self.label}.{self._made}"
        if self._cuts:
            self._cut(name)
        self.current = self._start(name)
        if self.current is None:  # it could not even start: try again soon
            self._log.kill(name)
            self._log.scheduler.after(300_000, self.start)
        elif self._paused:
            self.current.ticker.pause()
        self._changed()

    def ended(self, process: Process, restart: bool) -> None:
        """A process has ended by itself."""
        self._kill(process)
        if process is self.current:
            self.current = self.zombies.pop() if self.zombies else None
        elif process in self.zombies:
            self.zombies.remove(process)
        if self.current is None and restart:
            self._log.scheduler.after(300_000, self.start)
        self._changed()

    def crash(self) -> None:
        """Every process here is gone, until `restart`."""
        self._down += 1
        for process in self.processes:
            self._kill(process)
        self.current, self.zombies = None, []
        self._changed()

    def restart(self) -> None:
        self._down -= 1
        self.start()

    def pause(self) -> None:
        self._paused += 1
        for process in self.processes:
            process.ticker.pause()
        self._changed()

    def resume(self) -> None:
        self._paused -= 1
        if not self._paused:
            for process in self.processes:
                process.ticker.resume()
        self._changed()

    def cut(self, topics: Topics) -> None:
        """Cut off from these topics (None: all), until `mend` with the same."""
        self._cuts.append(topics)
        for process in self.processes:
            self._cut(process.name)
        self._changed()

    def mend(self, topics: Topics) -> None:
        self._cuts.remove(topics)
        for process in self.processes:
            self._log.heal(process.name)
            self._cut(process.name)
        self._changed()

    def double(self, topics: Topics) -> Process | None:
        """A successor starts; the old process stays, cut off from `topics`. Returns the old one."""
        old = self.current
        if old is None:
            return None
        self._log.cut(old.name, topics)
        self.zombies.append(old)
        self.current = None
        self.start()
        return old

    def reunite(self, old: Process | None) -> None:
        """The old process can reach everything again, and will find out."""
        if old is not None and old.alive:
            self._log.heal(old.name)
            self._cut(old.name)
            old.wake()

    def _cut(self, name: str) -> None:
        if None in self._cuts:
            self._log.cut(name, None)
        elif self._cuts:
            self._log.cut(name, {topic for topics in self._cuts for topic in topics or ()})

    def _kill(self, process: Process) -> None:
        process.ticker.stopped = True
        process.die()
        self._log.heal(process.name)
        self._log.kill(process.name)
