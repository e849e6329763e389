"""Appending to the simulated log: in order per feed; records may be late, refused, or never acknowledged."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from functools import partial

import msgspec

from borealis_py.log.base import Delivery, Feed, LogError, NewRecord, Record, Wake
from borealis_py.simulation.log.broker import NotTaken
from borealis_py.simulation.log.connection import Connection

UNKNOWN_US = 30_000_000
"""How long a client waits for a topic unknown to the broker to be created, or recreated."""


class _Lane:
    """Appends of one feed in flight, in order."""

    __slots__ = ("acked_at_us", "acks", "broken", "feed", "landing_at_us", "queue", "unheard", "waiting")

    def __init__(self, feed: Feed) -> None:
        self.feed = feed
        self.queue: deque[tuple[NewRecord, object, int]] = deque()
        self.waiting = 0  # how many of them wait at a cut
        self.acks: deque[Delivery] = deque()
        self.unheard = 0  # how many of them wait: the writer can hear nothing, or their records are not replicated
        self.broken: str | None = None  # a record was refused: none may follow it, or there would be a gap
        self.landing_at_us = 0
        self.acked_at_us = 0


class MemoryAppender:
    """Implements `log.base.Appender`."""

    def __init__(self, client: Connection, wake: Wake) -> None:
        self._client = client
        self._wake = wake
        self._lanes: dict[Feed, _Lane] = {}
        self._delivered: list[Delivery] = []
        self._outstanding = 0
        self._open = True

    def append(self, record: NewRecord, token: object = None) -> None:
        if not self._open:
            raise LogError(f"{record.feed.topic}: append after close")
        lane = self._lanes.get(record.feed)
        if lane is None:
            lane = self._lanes[record.feed] = _Lane(record.feed)
        lane.queue.append((record, token, self._client.log.scheduler.now_us))
        self._outstanding += 1
        self._send(lane)

    def deliveries(self) -> list[Delivery]:
        delivered, self._delivered = self._delivered, []
        return delivered

    @property
    def clock_ahead_us(self) -> int | None:
        """Not simulated."""
        return None

    @property
    def log_us(self) -> int | None:
        """Not simulated."""
        return None

    def flush(self, timeout_s: float) -> bool:
        """Whether everything is delivered: no simulated time passes here."""
        return self._outstanding == 0

    def close(self) -> None:
        self._open = False

    def die(self, later_us: int = 0) -> None:
        """The process is gone: of each feed, a prefix of what is in flight still arrives, up to `later_us` late.

        Nothing behind a record that was refused: an idempotent producer numbers them, and the broker misses that one.
        """
        log = self._client.log
        for lane in self._lanes.values():
            if lane.broken is not None:
                lane.queue.clear()
            for _ in range(len(lane.queue) - log.rng.randint(0, len(lane.queue))):
                lane.queue.pop()
            if later_us and lane.queue:
                records = [record for record, _, _ in lane.queue]
                lane.queue.clear()
                log.scheduler.after(log.rng.randrange(later_us), partial(log.land_late, records))
        self._open = False

    def healed(self) -> None:
        for lane in self._lanes.values():
            again, lane.waiting = lane.waiting, 0
            for _ in range(again):
                self._send(lane)
            unheard, lane.unheard = lane.unheard, 0
            for _ in range(unheard):
                self._send_ack(lane)

    def _send(self, lane: _Lane) -> None:
        client = self._client
        scheduler = client.log.scheduler
        at = max(scheduler.now_us + client.link.delays.append(client.log.rng), lane.landing_at_us)
        lane.landing_at_us = at
        scheduler.at(at, lambda: self._land(lane))

    def _land(self, lane: _Lane) -> None:
        if not lane.queue:
            return
        record, token, asked_us = lane.queue[0]
        log = self._client.log
        there = log.broker.exists(record.feed.topic)
        if not there or not self._client.sends(record.feed.topic):
            lane.waiting += 1
            patience_us = log.append_timeout_us if there else min(log.append_timeout_us, UNKNOWN_US)
            log.scheduler.at(asked_us + patience_us, lambda: self._expire(lane, asked_us))
            return
        lane.queue.popleft()
        told = log.refusal(self._client.name, record)
        try:
            if lane.broken is not None:
                raise LogError(f"after a record that was refused: {lane.broken}")
            if (refused := self._client.refusal(record)) is not None:
                self._end_producer(lane, token, refused)
                return
            if told is not None:
                lane.broken = told.reason
            if told is not None and not told.landed:
                raise LogError(told.reason)
            delivery = Delivery(token, log.broker.append(log.altered(record)), told.reason if told else None)
        except LogError as exc:
            delivery = Delivery(token, -1, str(exc))
        self._ack(lane, delivery)

    def _end_producer(self, lane: _Lane, token: object, refused: NotTaken) -> None:
        """The broker has refused a record for what it is. The idempotent producer ends with it, and with all that it
        has under way; a new one goes on, but for feeds of which a record with a token is lost."""
        for other in self._lanes.values():
            lost = list(other.queue)
            other.queue.clear()
            other.waiting = 0
            if other is lane:
                self._ack(lane, Delivery(token, -1, refused.reason, refused.too_large))
            if any(one is not None for one in (*(t for _, t, _ in lost), token if other is lane else None)):
                other.broken = refused.reason
            for _, one, _ in lost:
                self._ack(other, Delivery(one, -1, f"with a record that was refused: {refused.reason}"))

    def _expire(self, lane: _Lane, asked_us: int) -> None:
        while lane.waiting and lane.queue and lane.queue[0][2] <= asked_us:
            record, token, _ = lane.queue.popleft()
            lane.waiting -= 1
            lane.broken = "the log was unreachable for too long"
            self._deliver(Delivery(token, -1, f"{record.feed.topic}: the log was unreachable for too long"))

    def _ack(self, lane: _Lane, delivery: Delivery) -> None:
        lane.acks.append(delivery)
        self._send_ack(lane)

    def _send_ack(self, lane: _Lane) -> None:
        client = self._client
        scheduler = client.log.scheduler
        lane.acked_at_us = max(scheduler.now_us + client.link.delays.ack(client.log.rng), lane.acked_at_us)
        scheduler.at(lane.acked_at_us, lambda: self._acked(lane))

    def _acked(self, lane: _Lane) -> None:
        """One acknowledgement has arrived: the oldest, since a feed's come in the order of its records."""
        if not self._client.alive:
            return
        if self._client.hears(lane.feed.topic) and self._replicated(lane):
            self._deliver(lane.acks.popleft())
        else:
            lane.unheard += 1

    def _replicated(self, lane: _Lane) -> bool:
        """Whether the record of the oldest acknowledgement has reached the followers; an error waits for none."""
        partition, ack = self._client.log.broker.existing(lane.feed), lane.acks[0]
        return partition is None or ack.error is not None or ack.offset < partition.high_watermark

    def send_again(self, feed: Feed, gone: Mapping[int, Record]) -> None:
        """See `MemoryClient.send_again`. What was reported as failed is not."""
        lane, broker = self._lanes.get(feed), self._client.log.broker
        if lane is None or not self._client.alive:
            return
        lane.acks = deque(
            ack
            if ack.error is not None or (record := gone.get(ack.offset)) is None
            else msgspec.structs.replace(ack, offset=broker.append(_again(record)))
            for ack in lane.acks
        )

    def _deliver(self, delivery: Delivery) -> None:
        self._outstanding -= 1
        if self._client.alive and delivery.token is not None:
            self._delivered.append(delivery)
            self._wake()


def _again(record: Record) -> NewRecord:
    return NewRecord(record.feed, record.value, record.key, record.timestamp_ms, record.headers)
