"""One run: N works, fails perhaps, and N' takes over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.recovery.events import EventClock, PaperLink
from benchmarks.recovery.nodes import Downstream, Upstream, WorkingNode
from benchmarks.recovery.operators import PaperTuple, QueryNetwork
from benchmarks.recovery.setting import PaperReading, PaperSetting

SECOND = 1_000_000
LONGEST_US = 10 * SECOND
"""No run takes longer."""
SETTLES_US = 20_000
"""How long a run goes on after that, so that Nd hears of every stream again."""


class NotRecovered(Exception):
    """N' never came so far as N had been."""


@dataclass(frozen=True, slots=True)
class TimerPhases:
    """When timers and source tick, each between 0 and 1 of its interval; `fails`: when N does, of M."""

    source: float = 0.0
    primary: float = 0.0
    secondary: float = 0.0
    downstream: float = 0.0
    fails: float = 0.0


class Way:
    """One way. `precise`: readers see no tuple twice (section 6), else perhaps some (rollback, section 5).

    Attributes:
        feeds_both: Nu sends to N' from the beginning.
        logs: Nu keeps what it has sent until it is acknowledged.
    """

    name = ""
    feeds_both = False
    logs = True

    def __init__(self, precise: bool = False) -> None:
        self.precise = precise

    @property
    def marked(self) -> bool:
        """Whether each tuple between nodes carries an indicator of an input stream."""
        return False

    def interval(self, world: PaperWorld) -> None:
        """N's timer has run down."""

    def interval_of_secondary(self, world: PaperWorld) -> None:
        """The timer of N' has run down."""

    def take_over(self, world: PaperWorld) -> None:
        """N' knows that N has failed."""
        raise NotImplementedError


class PaperWorld:
    """The four nodes and their links.

    Attributes:
        ha_bytes, tuple_bytes: sent for high availability, and of tuples from Nu to N. Counted is what runs between Nu,
            N and N'; what runs between N and Nd counts as overhead of Nd.
        confirmed: the latest output of N that Nd has acknowledged at level 0.
        recovered_us: when N' began to send the first output that N had not sent. state_us: when it had N's state.
        replayed: tuples that N' processed until then.
        log_most: the most tuples that Nu had in its output queues before the failure.
    """

    def __init__(
        self, setting: PaperSetting, reading: PaperReading, network: QueryNetwork, way: Way, phases: TimerPhases
    ) -> None:
        self.setting = setting
        self.reading = reading
        self.network = network
        self.way = way
        self.clock = EventClock()
        self.upstream = Upstream(network.inputs, way.logs)
        self.primary = WorkingNode(self.clock, network.build(setting, reading))
        self.secondary = WorkingNode(self.clock, network.build(setting, reading))
        self.downstream = Downstream()
        links = [PaperLink(self.clock, setting) for _ in range(8)]
        self._feeds_primary, self._feeds_secondary, self.from_primary, self.from_secondary = links[:4]
        self.to_secondary, self._primary_out, self._secondary_out, self._from_downstream = links[4:]
        self.level_0 = [[-1] * network.inputs, [-1] * network.inputs]
        self.confirmed: PaperTuple | None = None
        self.ha_bytes = 0
        self.tuple_bytes = 0
        self.recovered_us: int | None = None
        self.state_us: int | None = None
        self.detected_us = 0
        self.replayed = 0
        self.log_most = 0
        self._sent: list[tuple[int, tuple[int, int]]] = []
        self._before: set[tuple[int, int]] = set()
        self._reached: list[int] = []
        self._speaks = False
        self._failed = False
        self._begin(phases)

    # Usual work -------------------------------------------------------------------------------------------------------

    @property
    def item_bytes(self) -> int:
        """Size of a tuple between two nodes."""
        return self.setting.tuple_bytes + self.way.marked * self.setting.id_bytes

    @property
    def sending_us(self) -> int:
        """How long a link is busy with one."""
        return self.setting.sending_us(self.item_bytes)

    @property
    def receiving_us(self) -> int:
        """How long it keeps the processor of who receives it."""
        return 0 if self.reading.overlaps else self.sending_us

    def emitted_us(self, item: PaperTuple) -> int:
        """When Nu emitted it."""
        return self._offset_us + item.seq * self._period_us + item.stream * self._period_us // self.network.inputs

    def tell(self, link: PaperLink, size_bytes: int, arrives: Callable[..., None], *args: Any) -> None:
        """Send a message that is there for high availability."""
        self.ha_bytes += size_bytes
        link.send(size_bytes, arrives, *args)

    def hear_level_0(self, who: int, stream: int, seq: int) -> None:
        """Nu hears that N (0) or N' (1) has received a tuple."""
        self.level_0[who][stream] = seq

    def _begin(self, phases: TimerPhases) -> None:
        setting, network = self.setting, self.network
        self._period_us = SECOND * network.inputs // setting.rate_per_s
        self._offset_us = round(phases.source * self._period_us * network.advance)
        for stream in range(network.inputs):
            self.clock.at(self._offset_us + stream * self._period_us // network.inputs, self._emit, stream)
        self.upstream.targets = [self._feed_primary]
        if self.way.feeds_both:
            self.upstream.targets.append(self._feed_secondary)
        self.primary.sends, self.secondary.sends = self._primary_sends, self._secondary_sends
        self.secondary.processed = self._secondary_processed
        for phase, call in (
            (phases.primary, self._primary_interval),
            (phases.secondary, lambda: self.way.interval_of_secondary(self)),
            (phases.downstream, self._acknowledge),
        ):
            self.clock.at(round(phase * setting.interval_us), self._tick, call)

    def _emit(self, stream: int) -> None:
        self.upstream.emit(stream)
        if not self._failed:
            self.log_most = max(self.log_most, len(self.upstream.log))
        self.clock.at(self.clock.now_us + self._period_us, self._emit, stream)

    def _feed_primary(self, item: PaperTuple) -> None:
        self.tuple_bytes += self.setting.tuple_bytes
        self.ha_bytes += self.item_bytes - self.setting.tuple_bytes
        self._feed(self._feeds_primary, self.primary, item)

    def _feed_secondary(self, item: PaperTuple) -> None:
        self.ha_bytes += self.item_bytes
        self._feed(self._feeds_secondary, self.secondary, item)

    def _feed(self, link: PaperLink, worker: WorkingNode, item: PaperTuple) -> None:
        link.send(self.item_bytes, worker.take, item, self.receiving_us)

    def _tick(self, call: Callable[[], None]) -> None:
        call()
        self.clock.at(self.clock.now_us + self.setting.interval_us, self._tick, call)

    def _primary_interval(self) -> None:
        if self.primary.alive:
            self.way.interval(self)

    def _primary_sends(self, number: int, item: PaperTuple) -> None:
        begins_us = self._primary_out.send(self.item_bytes, self.downstream.take, number, item)
        self._sent.append((begins_us + self.sending_us, (item.stream, item.seq)))

    def _acknowledge(self) -> None:
        self._from_downstream.send(self.setting.id_bytes, self._confirm, self.downstream.next)

    def _confirm(self, number: int) -> None:
        if not self.primary.alive:
            return
        out = self.primary.queue.at(number - 1)
        if out is not None:
            self.confirmed = out
        self.primary.queue.trim(number)

    # Failure ----------------------------------------------------------------------------------------------------------

    def fail(self) -> None:
        """N stops for good, in the middle of whatever it does or sends."""
        self._failed = True
        self.primary.alive = False
        for link in (self.from_primary, self.to_secondary, self._primary_out):
            link.cut()
        now_us = self.clock.now_us
        self._before = {key for sent_us, key in self._sent if sent_us <= now_us}
        self._reached = list(self.primary.done)
        self.detected_us = now_us + self.setting.detect_us
        self.clock.at(self.detected_us, self.way.take_over, self)

    def redirect(self) -> None:
        """N' asks Nu for its streams, which begin with what is in Nu's output queues."""

        def redirected() -> None:
            for item in self.upstream.wanted():
                self._feed(self._feeds_secondary, self.secondary, item)
            self.upstream.targets = [self._feed_secondary]

        self.clock.at(self.clock.now_us + self.setting.redirect_us, redirected)

    def speak(self) -> None:
        """N' sends what is in its output queue, and from now on what it produces."""
        self._speaks = True
        queue = self.secondary.queue
        for number, item in enumerate(queue, queue.end - len(queue)):
            self._secondary_sends(number, item)
        if self.way.feeds_both and self.state_us is None:
            self.state_us = self.clock.now_us

    def _secondary_sends(self, number: int, item: PaperTuple) -> None:
        key = item.stream, item.seq
        if not self._speaks or (self.way.precise and key in self._before):
            return
        begins_us = self._secondary_out.send(self.item_bytes, self.downstream.take, number, item)
        if key in self._before:
            if self.way.feeds_both:
                self.state_us = begins_us + self.sending_us
        elif self.recovered_us is None:
            self.recovered_us = begins_us

    def _secondary_processed(self, item: PaperTuple) -> None:
        if self._failed and not self.way.feeds_both and self.state_us is None:
            self.replayed += 1
            if all(done >= reached for done, reached in zip(self.secondary.done, self._reached, strict=True)):
                self.state_us = self.clock.now_us

    def run_until_recovered(self) -> None:
        """Go on until Nd has the first output that N had not sent. `fail` has been put on the clock.

        Raises:
            NotRecovered: there is none, or N' does not reach N's state.
        """

        def there() -> bool:
            return self.recovered_us is not None and self.state_us is not None and self.downstream.got > self._before

        self.clock.run(LONGEST_US, there)
        if not there():
            raise NotRecovered(f"{self.way.name}: not recovered after {LONGEST_US // SECOND} s")
        self.clock.run(self.clock.now_us + SETTLES_US)
