"""A process of an ingress under the simulated clock: the production session, driven by the scheduler."""

from __future__ import annotations

from borealis_py.client.target import PublisherError, StreamEnded
from borealis_py.ingress.catch_up import BacklogFronts
from borealis_py.ingress.decoder import TopicDecoder
from borealis_py.ingress.formats.base import RecordFormat
from borealis_py.ingress.formats.json_objects import JsonFormat
from borealis_py.ingress.only_values import OnlyValues
from borealis_py.ingress.plan import IngressPlan
from borealis_py.ingress.session import IngressSession
from borealis_py.log.base import LogError
from borealis_py.simulation.clock import Alarm, Scheduler
from borealis_py.simulation.log.client import MemoryLog

RESTART_US = 300_000
"""How long a supervisor takes to start a process again."""
LOOK_US = 100_000
"""A real process looks so often, whatever its clock makes of the time that it is to wait for."""


class SimIngress:
    """One ingress process, started again when it ends with an error. Its client of the log bears its `name`.

    Args:
        catch_up: shared with other ingresses; None: its own.
        form: of the topic's records; None: JSON objects.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        memory: MemoryLog,
        plan: IngressPlan,
        name: str,
        index: int,
        catch_up: BacklogFronts | None = None,
        form: RecordFormat | None = None,
    ) -> None:
        self.name = name
        self.paused = False
        self.ahead_us = 0
        """By how much its wall clock is ahead of the world's, see `set_clock`."""
        self._furthest_us = 0
        """What its session's wall clock has shown at most."""
        self.errors: list[str] = []
        """Why it ended, each time."""
        self._scheduler = scheduler
        self._memory = memory
        self._plan = plan
        self._index = index
        self._catch_up = catch_up
        self._form = form or JsonFormat(plan.columns)
        self._lives = 0
        self._queued = False
        self._alarm = Alarm(scheduler, lambda: self._wake(self._lives))
        self.session: IngressSession | None = None
        self.ended = False
        """The source has ended: it is not started again."""
        self.start()

    def start(self) -> None:
        """Start it, unless it runs, or its source has ended."""
        if self.session is not None or self.ended:
            return
        self._lives += 1
        self._furthest_us = 0
        spec = self._plan.spec
        decoder = TopicDecoder(
            self._form,
            spec.stime,
            spec.stime_unit,
            self._plan.targets[0].row_max_bytes,
            stime_format=spec.stime_format,
            only=OnlyValues.of(spec),
        )
        client, life = self._memory.client(self.name), self._lives
        try:
            self.session = IngressSession(
                client,
                client,
                self._plan,
                decoder,
                f"{self.name}.{life}",
                self._index,
                lambda: self._wake(life),
                self._catch_up,
            )
        except LogError as exc:  # no broker answers
            self._end(str(exc))
            return
        self._wake(life)

    def kill(self) -> None:
        """The process is gone at once."""
        self.session = None
        self._memory.kill(self.name)

    def pause(self) -> None:
        """The process stands still (SIGSTOP) until `resume`."""
        self.paused = True

    def resume(self) -> None:
        self.paused = False
        self._wake(self._lives)

    def set_clock(self, ahead_us: int) -> None:
        """Its wall clock is ahead of the world's by this, from now on."""
        self.ahead_us = ahead_us
        self._wake(self._lives)

    @property
    def stands(self) -> bool:
        """Whether its clock was set back, and has not caught up: a session's time never goes back."""
        return self._scheduler.now_us + self.ahead_us < self._furthest_us

    @property
    def owner(self) -> bool:
        """Whether it believes that it owns the inputs."""
        return self.session is not None and self.session.owner

    def _wake(self, life: int) -> None:
        if not self._queued and life == self._lives:
            self._queued = True
            self._scheduler.after(0, self._turn)

    def _turn(self) -> None:
        self._queued = False
        session = self.session
        if session is None or self.paused:
            return
        self._furthest_us = max(self._furthest_us, self._scheduler.now_us + self.ahead_us)
        try:
            session.turn(self._scheduler.now_us + self.ahead_us, self._scheduler.now_us)
        except (PublisherError, LogError) as exc:
            self.ended = isinstance(exc, StreamEnded)
            self.kill()
            self._end(str(exc))
            return
        at_us = session.next_wakeup() - self.ahead_us
        self._alarm.set(min(at_us, self._scheduler.now_us + LOOK_US) if self.ahead_us else at_us)

    def _end(self, why: str) -> None:
        self.errors.append(why)
        self._scheduler.after(RESTART_US, self.start)
