"""Processes of a simulated world, and the machines on which they run.

Each process is a production object in a simulated host, which runs a turn when woken and when due, each a few simulated
milliseconds long. A *machine* is where such a process runs: a source, a replica index of a node, a client. It may be
killed, stopped, paused, cut off or doubled; faults may overlap, so each is counted.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection

from borealis_py.simulation.clock import Scheduler
from borealis_py.simulation.log.client import MemoryLog
from borealis_py.simulation.log.network import Cut
from sunion.units import MonotonicUs, WallUs

RESTART_US = 300_000
"""Delay after which a supervisor restarts a process."""


class LocalClock:
    """One process's clocks: monotonic time has an arbitrary start, wall time is slightly off, and may jump (F7)."""

    def __init__(self, scheduler: Scheduler, base_us: int, skew_us: int = 0) -> None:
        self._scheduler = scheduler
        self.offset_us = base_us - scheduler.now_us
        self.skew_us = skew_us

    def now_us(self) -> MonotonicUs:
        return MonotonicUs(self._scheduler.now_us + self.offset_us)

    def wall_us(self) -> WallUs:
        return WallUs(self._scheduler.now_us + self.skew_us)


class Ticker:
    """Calls `fn` at the earliest time requested since the last call; not while `paused`, never once `stopped`."""

    def __init__(self, scheduler: Scheduler, fn: Callable[[], None]) -> None:
        self._scheduler = scheduler
        self._fn = fn
        self._due: int | None = None
        self._asked = 0
        self.not_before = 0
        self.paused = False
        self.stopped = False

    def request(self, at_us: int) -> None:
        now = self._scheduler.now_us
        at = at_us if at_us > now else now
        if at < self.not_before:
            at = self.not_before
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
    """One process: a name of its own in the log, a ticker, and its turns."""

    def __init__(self, scheduler: Scheduler, name: str, rng: random.Random, turn_us: tuple[int, int]) -> None:
        self.scheduler = scheduler
        self.name = name
        self.rng = rng
        self.ticker = Ticker(scheduler, self._turn)
        self.apart = False
        """Cut off from everything or asleep, while a successor has its machine."""
        self._turn_us = turn_us

    def wake(self) -> None:
        """Something has arrived."""
        self.ticker.request(self.scheduler.now_us)

    @property
    def alive(self) -> bool:
        return not self.ticker.stopped

    def die(self) -> None:  # noqa: B027 (only some have more to lose than their memory)
        """The process is gone, with everything that it had not handed to the log."""

    def close(self) -> None:  # noqa: B027 (only some have something to say)
        """Ask the process to end in order."""

    @abstractmethod
    def turn(self) -> int | None:
        """Run one turn; returns when the next is due, in simulated time."""

    def _turn(self) -> None:
        low, high = self._turn_us
        self.ticker.not_before = self.scheduler.now_us + low + int(self.rng.random() * (high - low))
        due = self.turn()
        if due is not None:
            self.ticker.request(due)


class Machine:
    """A machine with at most one current process, and perhaps older ones that do not know that they are replaced.

    Args:
        start: creates and starts the process of this name; None: it could not start.
        changed: called after every fault and its end, and when a process ends.
    """

    def __init__(
        self, label: str, log: MemoryLog, start: Callable[[str], Process | None], changed: Callable[[], None]
    ) -> None:
        self.label = label
        self.current: Process | None = None
        self.zombies: list[Process] = []
        self.cuts: list[Cut] = []
        self.given_up: str | None = None
        """Why no process will ever run here again."""
        self.odd = 0
        """Number of active faults here that neither stop nor cut: slow links, wrong clocks."""
        self._log = log
        self._start = start
        self._changed = changed
        self._made = 0
        self._down = 0
        self._paused = 0

    @property
    def troubled(self) -> bool:
        """Whether a fault is active here."""
        return bool(self._down or self._paused or self.cuts or self.odd or self._apart)

    @property
    def _apart(self) -> bool:
        """The successor has ended first, so that the unaware process has the machine."""
        return self.current is not None and self.current.apart

    @property
    def down(self) -> bool:
        """Whether no process may run here now."""
        return self._down > 0

    def reaches(self, topic: str) -> bool:
        """Whether it is not cut off from the topic."""
        return not self._apart and not any(cut.blocks(topic, out) for cut in self.cuts for out in (True, False))

    def reaches_all(self, topics: Collection[str]) -> bool:
        """Whether it is up, not paused, not slowed down, and not cut off from any of these topics."""
        return not (self._down or self._paused or self.odd) and all(self.reaches(topic) for topic in topics)

    @property
    def processes(self) -> list[Process]:
        found = [*self.zombies, self.current]
        return [p for p in found if p is not None and p.alive]

    def start_process(self) -> None:
        """Start a process, if the machine is empty and nothing holds it down."""
        if self.current is not None or self._down or self.given_up is not None:
            return
        self._made += 1
        name = f"{self.label}.{self._made}"
        for cut in self.cuts:
            self._log.add_cut(name, cut)
        self.current = self._start(name)
        if self.current is None:  # it could not even start: retry soon
            self._log.kill(name)
            self._log.scheduler.after(RESTART_US, self.start_process)
        elif self._paused:
            self.current.ticker.pause()
        self._changed()

    def replace(self, before: Process, after: Process) -> None:
        """A process goes on as another object, with the same name and in the same trouble."""
        before.ticker.stopped = True
        after.apart = before.apart
        if before is self.current:
            self.current = after
        else:
            self.zombies[self.zombies.index(before)] = after
        if before.ticker.paused:
            after.ticker.pause()
        self._changed()

    def ended(self, process: Process) -> None:
        """A process has ended by itself; if it was the last one here, another one starts soon."""
        self._kill(process)
        if process is self.current:
            self.current = self.zombies.pop() if self.zombies else None
        elif process in self.zombies:
            self.zombies.remove(process)
        if self.current is None:
            self._log.scheduler.after(RESTART_US, self.start_process)
        self._changed()

    def give_up(self, why: str) -> None:
        """Nothing can run here any more, and this is the named error."""
        self.given_up = why
        self._changed()

    def crash(self) -> None:
        """Kill every process here, until `restart`."""
        self._down += 1
        for process in self.processes:
            self._kill(process)
        self.current, self.zombies = None, []
        self._changed()

    def stop(self) -> None:
        """Ask every process here to end, and start none until `restart`."""
        for process in self.processes:
            process.close()
        self.crash()

    def restart(self) -> None:
        self._down -= 1
        self.start_process()
        self._changed()

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

    def cut(self, cut: Cut) -> None:
        """Cut off the machine, including later processes, until `mend`."""
        self.cuts.append(cut)
        for process in self.processes:
            self._log.add_cut(process.name, cut)
        self._changed()

    def mend(self, cut: Cut) -> None:
        self.cuts.remove(cut)
        for process in self.processes:
            self._log.heal(process.name, cut)
        self._changed()

    def disturb(self) -> None:
        """Something is wrong here from now on, until `settle`."""
        self.odd += 1
        self._changed()

    def settle(self) -> None:
        self.odd -= 1
        self._changed()

    def double(self, cut: Cut | None) -> Process | None:
        """Start a successor; the old process stays, cut off or (None) asleep. Returns the old one."""
        old = self.current
        if old is None:
            return None
        if cut is None:
            old.ticker.pause()
        else:
            self._log.add_cut(old.name, cut)
        old.apart = True
        self.zombies.append(old)
        self.current = None
        self.start_process()
        return old

    def reunite(self, old: Process | None, cut: Cut | None) -> None:
        """The old process, which may be another object by now, can reach everything again, and will find out."""
        old = None if old is None else next((process for process in self.processes if process.name == old.name), None)
        if old is None:
            return
        old.apart = False
        if cut is not None:
            self._log.heal(old.name, cut)
            old.wake()
        elif not self._paused:
            old.ticker.resume()
        self._changed()

    def _kill(self, process: Process) -> None:
        process.ticker.stopped = True
        process.die()
        self._log.kill(process.name)
