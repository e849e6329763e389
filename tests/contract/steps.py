"""What tests of a log do with it again and again."""

from __future__ import annotations

from borealis_py.log.base import (
    Appender,
    Feed,
    NewRecord,
    Reader,
    Record,
    TookOver,
    Transactor,
    TransactorEvent,
)
from tests.contract.worlds import LogWorld
from tests.support.resume import last_number


def append_all(world: LogWorld, appender: Appender, records: list[NewRecord]) -> list[int]:
    """Append and wait for the deliveries; the offsets, in the order of the records."""
    for i, record in enumerate(records):
        appender.append(record, token=i)
    done: dict[object, int] = {}

    def all_delivered() -> bool:
        for delivery in appender.deliveries():
            assert delivery.error is None
            done[delivery.token] = delivery.offset
        return len(done) == len(records)

    world.until(all_delivered)
    return [done[i] for i in range(len(records))]


def fill(world: LogWorld, feed: Feed, values: list[str], first_ms: int = 1_000, step_ms: int = 100) -> list[int]:
    appender = world.log("writer").appender(world.wake)
    records = [NewRecord(feed, v.encode(), timestamp_ms=first_ms + i * step_ms) for i, v in enumerate(values)]
    offsets = append_all(world, appender, records)
    appender.close()
    return offsets


def read_until(world: LogWorld, reader: Reader, count: int) -> list[Record]:
    """Poll until at least `count` records came."""
    records: list[Record] = []

    def enough() -> bool:
        records.extend(reader.poll())
        return len(records) >= count

    world.until(enough)
    return records


def values(records: list[Record]) -> list[str]:
    return [(r.value or b"").decode() for r in records]


def event(world: LogWorld, transactor: Transactor) -> TransactorEvent:
    """The next event; exactly one must come."""
    events: list[TransactorEvent] = []

    def came() -> bool:
        events.extend(transactor.events())
        return bool(events)

    world.until(came)
    assert len(events) == 1
    return events[0]


def opened(world: LogWorld, client: str, name: str, progress: Feed) -> Transactor:
    return world.log(client).transactor(name, progress, world.wake, last_number(progress))


def take_over(world: LogWorld, transactor: Transactor, attempt: int) -> int | None:
    transactor.take_over(attempt)
    answer = event(world, transactor)
    assert isinstance(answer, TookOver)
    assert answer.attempt == attempt
    return answer.progress


def commit(world: LogWorld, transactor: Transactor, attempt: int, records: list[NewRecord]) -> TransactorEvent:
    transactor.commit(attempt, lambda: records)
    return event(world, transactor)
