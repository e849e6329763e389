"""The paper's four ways to survive a crash: what N and N' send at each interval, and what N' does once N has failed."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.recovery.nodes import OutputQueue
from benchmarks.recovery.operators import Marks, NodeOperators, PaperTuple
from benchmarks.recovery.world import PaperWorld, Way


class Amnesia(Way):
    """Starts from nothing with what comes then (H 83). Recreates no state, so that its recovery time is the delay that
    its first tuple has beyond the usual one.
    """

    name = "amnesia"
    logs = False

    def take_over(self, world: PaperWorld) -> None:
        def first(item: PaperTuple) -> None:
            if world.state_us is None:
                cost_us, _ = world.network.build(world.setting, world.reading).step(item)
                way_us = world.sending_us + world.setting.delay_us
                usual_us = world.emitted_us(item) + way_us + world.receiving_us + cost_us
                world.recovered_us = world.state_us = world.detected_us + world.clock.now_us - usual_us

        world.secondary.processed = first
        world.speak()
        world.redirect()


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What N' has of N: operators, output queue, and the last tuple processed of each input stream."""

    fragment: NodeOperators
    queue: OutputQueue
    done: tuple[int, ...]


class PassiveStandby(Way):
    """N sends what has changed in its state; N' acknowledges to Nu what is safe by that (H 115-117)."""

    name = "passive standby"

    def __init__(self, precise: bool = False) -> None:
        super().__init__(precise)
        self._told = 0
        self._last: Checkpoint | None = None

    def interval(self, world: PaperWorld) -> None:
        # The sweep line lets operators run on (H 115): between two tuples nothing is in its way.
        world.primary.between(lambda: self._send(world))

    def size_bytes(self, world: PaperWorld) -> int:
        """Of the next checkpoint: new tuples of states and output queue, a position for each queue and state, a number.

        Queues inside the node are empty between two tuples, and what waits at its entrance Nu still has.
        """
        worker, setting = world.primary, world.setting
        tuples = worker.fragment.news() + worker.queue.end - self._told
        self._told = worker.queue.end
        ids = worker.fragment.positions() + 1 + world.reading.numbered
        return tuples * setting.tuple_bytes + ids * setting.id_bytes

    def _send(self, world: PaperWorld) -> None:
        worker = world.primary
        size = self.size_bytes(world)
        # A delta; that the whole state travels here is how the simulation applies it.
        found = Checkpoint(worker.fragment.twin(), worker.queue.twin(), tuple(worker.done))
        world.tell(world.to_secondary, size, self._store, world, found)

    def _store(self, world: PaperWorld, found: Checkpoint) -> None:
        self._last = found
        for stream, seq in enumerate(found.done):
            world.tell(world.from_secondary, world.setting.id_bytes, world.upstream.trim, stream, seq + 1)

    def take_over(self, world: PaperWorld) -> None:
        worker = world.secondary
        if self._last is not None:
            worker.fragment, worker.queue = self._last.fragment, self._last.queue
            worker.done, worker.received = list(self._last.done), list(self._last.done)
        world.speak()
        world.redirect()


class UpstreamBackup(Way):
    """Nu keeps what N's state stands on; N' replays it. Two levels of acknowledgements trim what it keeps (H 191)."""

    name = "upstream backup"

    @property
    def marked(self) -> bool:
        return self.precise

    def oldest(self, out: PaperTuple) -> Marks:
        """Level 1: what Nu must keep once `out` has reached Nd: cause(), of each input stream (H 191)."""
        return out.low

    def interval(self, world: PaperWorld) -> None:
        size = world.setting.id_bytes
        for stream, seq in enumerate(world.primary.received):
            world.tell(world.from_primary, size, world.hear_level_0, 0, stream, seq)
        if world.confirmed is not None:
            for stream, seq in enumerate(self.oldest(world.confirmed)):
                world.tell(world.from_primary, size, world.upstream.trim, stream, seq)

    def take_over(self, world: PaperWorld) -> None:
        world.speak()
        world.redirect()


class ActiveStandby(Way):
    """N' processes everything too, and keeps its output until Nd has the same from N (H 209)."""

    name = "active standby"
    feeds_both = True

    def duplicate(self, out: PaperTuple) -> Marks:
        """What makes an output of N' a duplicate once `out` has reached Nd: high watermarks."""
        return out.high

    def interval(self, world: PaperWorld) -> None:
        self._acknowledge(world, 0)
        if world.confirmed is not None:
            high = self.duplicate(world.confirmed)
            world.tell(world.to_secondary, len(high) * world.setting.id_bytes, world.secondary.queue.trim_high, high)

    def interval_of_secondary(self, world: PaperWorld) -> None:
        self._acknowledge(world, 1)

    def _acknowledge(self, world: PaperWorld, who: int) -> None:
        worker, link = ((world.primary, world.from_primary), (world.secondary, world.from_secondary))[who]
        for stream, seq in enumerate(worker.received):
            world.tell(link, world.setting.id_bytes, self._heard, world, who, stream, seq)

    def _heard(self, world: PaperWorld, who: int, stream: int, seq: int) -> None:
        world.hear_level_0(who, stream, seq)
        world.upstream.trim(stream, min(heard[stream] for heard in world.level_0) + 1)

    def take_over(self, world: PaperWorld) -> None:
        # Which tuples Nd has is asked first, and nothing else can be done meanwhile (H 227).
        wait_us = world.setting.redirect_us if self.precise else 0
        world.clock.at(world.clock.now_us + wait_us, world.speak)
