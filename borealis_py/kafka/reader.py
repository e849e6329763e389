"""Reading feeds forward: one thread with one consumer, and a bounded buffer that `poll` empties.

It avoids these traps (all measured): a consumer waits a second at the first assign of a topic it has never queried;
`consume(n, t)` waits the whole t unless n records come; the end of a partition is signalled by an event and commit
markers are not records, so only that event shows that everything was read.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from borealis_py.kafka.access.refusals import listen
from borealis_py.kafka.client import (
    NO_SUCH_TOPIC,
    READ_WAIT_MS,
    REST_BYTES,
    REST_WAIT_MS,
    UNREACHABLE,
    consumer_config,
    error_of,
    log,
    record_of,
    translated,
    translating,
)
from borealis_py.kafka.reading.cursor import FeedCursor, FeedRun
from borealis_py.log.base import GATHERED_US, NOTHING, Feed, LogError, Record, Wake
from sunion.model import FOREVER

RECORDS_MAX = 10_000
BYTES_MAX = 16 << 20
"""The buffer is full beyond either limit; the consumer is then left alone until `poll` is called."""
POLL_BYTES = 2 << 20
"""Limit of one `poll`, apart from the run that exceeds it: the caller has other things to do in between."""
_RUN_BYTES = 1 << 20
_WAIT_S, _WAIT_SOON_S = 0.1, 0.02
"""How long to wait for records before looking for orders: there are seldom any, and more often soon after others."""
_SOON_S = 1.0
_SMALL_BYTES = 32 << 10
"""Records of gathered feeds wait for others only if there are not more bytes of them: decoding these takes time, which
the others' way here covers."""
_NAP_S = 0.02
"""How long the thread lets records collect once some have come, where all may wait for others at least so long."""
_RETRY_S = 0.5
"""How long a feed that cannot be read waits until it is tried again, and how long all questions wait after one that no
broker has answered."""
_FIRST_S = 0.25
"""How long feeds that are opened before the first `poll` wait for others, to be assigned together: one that is opened
beside a feed that is read waits for fetches."""
_BATCH = 5000
_NOT_ASKED = "no broker answers"
_REFUSED = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED})


class KafkaReader:
    """Implements `log.base.Reader`. At the end of a feed, `position` also moves past transaction markers. `seldom`:
    see `log.base.Log.reader`."""

    def __init__(self, bootstrap: str, properties: Mapping[str, str], wake: Wake, seldom: bool = False) -> None:
        self._bootstrap = bootstrap
        self._properties = properties
        self._wake = wake
        self._rests = False
        self._resting = False
        with translating(bootstrap, "open a reader"):
            self._consumer = self._opened(REST_WAIT_MS if seldom else READ_WAIT_MS)
        self._changed = threading.Condition()
        # Guarded by _changed:
        self._cursors: dict[Feed, FeedCursor] = {}
        self._orders: list[tuple[Feed, FeedCursor | None]] = []
        self._arrived: deque[FeedRun] = deque()
        self._arrived_records = 0
        self._arrived_bytes = 0
        self._hushed: frozenset[Feed] = frozenset()
        self._gathered: frozenset[Feed] = frozenset()
        self._awaited: dict[Feed, int] = {}
        self._gather_s = GATHERED_US / 1e6
        self._wake_at: float | None = None
        self._calm = False
        """What came last roused nobody."""
        self._failed = False
        self._polled = False
        self._closed = False
        self.more = False
        self.ripe = True
        """See `log.base.Reader`."""
        # Used by the thread only:
        self._assigned: dict[Feed, FeedCursor] = {}
        self._feeds: dict[tuple[str, int], Feed] = {}
        self._later: dict[Feed, tuple[float, FeedCursor]] = {}
        self._known_topics: set[str] = set()
        self._warned: set[Feed] = set()
        self._soon_until = 0.0
        self._silent_until = 0.0
        self._unanswered_times = 0
        self._thread = threading.Thread(target=self._run, name="kafka-reader", daemon=True)
        self._thread.start()

    def open(self, feed: Feed, offset: int) -> None:
        self._order(feed, FeedCursor(offset))

    def stop(self, feed: Feed) -> None:
        self._order(feed, None)

    def poll(self) -> list[Record]:
        """See `log.base.Reader.poll`.

        Raises:
            OffsetGone: a cursor is below the first offset the log still has. Raised again until `open` or `stop`.
            OffsetBeyond: a cursor is beyond the end (the topic was deleted and created again).
            LogError: reading is not allowed.
        """
        with self._changed:
            self._polled = True
            if self._failed:
                self._raise_failure()
            records, size = list[Record](), 0
            while self._arrived and size < POLL_BYTES:
                run = self._arrived.popleft()
                self._arrived_records -= len(run.records)
                self._arrived_bytes -= run.size
                if self._cursors.get(run.feed) is run.cursor:
                    records += run.records
                    run.cursor.position = run.after
                    size += run.size
            self._changed.notify()
            self.more = bool(self._arrived)
            self._wake_at = None
            self.ripe = self.more or self._failed
            ripe = self.ripe
        if ripe:
            self._wake()
        return records

    def hush(
        self,
        feeds: frozenset[Feed],
        gathered: frozenset[Feed] = frozenset(),
        awaited: Mapping[Feed, int] = NOTHING,
        within_us: int = GATHERED_US,
    ) -> None:
        with self._changed:
            self._hushed, self._gathered, self._awaited, self._wake_at = feeds, gathered, dict(awaited), None
            self._gather_s = within_us / 1e6
            waiting = self._rousing(self._arrived)
            self.ripe = self.ripe or waiting
            self._changed.notify()
        if waiting:
            self._wake()

    def rest(self) -> None:
        self._rests = True  # the thread sees it with the next records

    def position(self, feed: Feed) -> int:
        with self._changed:
            return self._cursors[feed].position

    def close(self) -> None:
        with self._changed:
            if self._closed:
                return
            self._closed = True
            self._changed.notify()
        self._thread.join()
        self._consumer.close()

    def _order(self, feed: Feed, cursor: FeedCursor | None) -> None:
        with self._changed:
            if cursor is None:
                self._cursors.pop(feed, None)
            else:
                self._cursors[feed] = cursor
            self._orders.append((feed, cursor))
            self._changed.notify()

    @property
    def _full(self) -> bool:
        return self._arrived_records > RECORDS_MAX or self._arrived_bytes > BYTES_MAX

    def _rousing(self, runs: Iterable[FeedRun]) -> bool:
        """Whether these, which have just arrived, wake the caller now; else `_wake_at` says whether they do later. A
        full buffer always does: nothing more would come."""
        gathered, awaited = False, bool(self._awaited)
        if self._full:
            return True
        for run in runs:
            if run.feed in self._hushed:
                continue
            if run.feed not in self._gathered or run.size > _SMALL_BYTES:
                return True
            if run.after >= self._awaited.get(run.feed, FOREVER):
                del self._awaited[run.feed]
            gathered = True
        if awaited and not self._awaited:
            return True
        if gathered and self._wake_at is None:
            self._wake_at = time.monotonic() + self._gather_s
        return False

    def _raise_failure(self) -> None:
        """Raise the failure of a cursor whose records have all been handed out: it says where nothing more follows."""
        waiting = {id(run.cursor) for run in self._arrived}
        failed = [cursor for cursor in self._cursors.values() if cursor.failure is not None]
        for cursor in failed:
            if cursor.failure is not None and id(cursor) not in waiting:
                raise cursor.failure
        self._failed = bool(failed)

    # From here on: the thread.

    def _run(self) -> None:
        while (orders := self._next_orders()) is not None:
            try:
                if orders:
                    self._soon_until = time.monotonic() + _SOON_S
                    self._obey(dict(orders))
                self._retry_due()
                if self._rests and not self._resting:
                    self._begin_to_rest()
                if self._assigned:
                    self._read()
                self._wake_late()
            except Exception:  # a reader that stops silently would look like a silent source
                log.exception("reader: unexpected error, continuing")
                time.sleep(_RETRY_S)

    def _next_orders(self) -> list[tuple[Feed, FeedCursor | None]] | None:
        """Wait until there is something to do; None: close."""
        with self._changed:
            while not self._closed and not self._orders:
                if self._full:
                    self._changed.wait()
                elif self._assigned:
                    break
                elif self._later:
                    self._changed.wait(_RETRY_S)
                    break
                else:
                    self._changed.wait()
            self._changed.wait_for(lambda: self._polled or self._closed, _FIRST_S)
            self._polled = True
            orders, self._orders = self._orders, []
            return None if self._closed else orders

    def _obey(self, orders: Mapping[Feed, FeedCursor | None]) -> None:
        opened = {feed: cursor for feed, cursor in orders.items() if cursor is not None}
        for feed in orders:
            self._later.pop(feed, None)
            self._unassign(feed)
        self._assign(opened)

    def _unassign(self, feed: Feed) -> None:
        if self._assigned.pop(feed, None) is not None:
            self._consumer.incremental_unassign([TopicPartition(feed.topic, feed.partition)])

    def _assign(self, cursors: Mapping[Feed, FeedCursor]) -> None:
        """All at once, and their topics queried before: beside a feed that is read both wait behind its fetches."""
        why_not = {topic: self._why_not(topic) for topic in dict.fromkeys(feed.topic for feed in cursors)}
        for feed, cursor in cursors.items():
            if why_not[feed.topic]:
                self._again_later(feed, cursor, why_not[feed.topic])
        there = {feed: cursor for feed, cursor in cursors.items() if not why_not[feed.topic]}
        if not there:
            return
        try:
            self._feeds |= {(feed.topic, feed.partition): feed for feed in there}
            self._consumer.incremental_assign([TopicPartition(*feed, cursor.next) for feed, cursor in there.items()])
            self._assigned |= there
        except KafkaException as exc:
            for feed, cursor in there.items():
                if len(there) > 1:
                    self._assign({feed: cursor})
                else:
                    self._again_later(feed, cursor, str(error_of(exc)))

    def _why_not(self, topic: str) -> str:
        """Why its feeds cannot be assigned now; "": they can. Asking saves the first assign a second."""
        if topic in self._known_topics:
            return ""
        if not self._may_ask:
            return _NOT_ASKED
        try:
            found = self._consumer.list_topics(topic, timeout=1.0).topics[topic]
        except KafkaException as exc:
            if not self._assigned:
                listen(self._consumer)
            return self._unanswered(exc)
        self._unanswered_times = 0
        if found.error is not None:
            return "no such topic yet"
        self._known_topics.add(topic)
        return ""

    @property
    def _may_ask(self) -> bool:
        """Whether to ask the brokers now. A question that none answers takes a second or two, and `close` waits for it:
        so the next one waits a while, and none comes after `close`."""
        return not self._closed and time.monotonic() >= self._silent_until

    def _unanswered(self, exc: KafkaException) -> str:
        """Ask nothing for a while if no broker answers. Returns the reason."""
        error = error_of(exc)
        if error.code() in UNREACHABLE:
            self._silent_until = time.monotonic() + _RETRY_S
            self._unanswered_times += 1
        return str(error)

    def _again_later(self, feed: Feed, cursor: FeedCursor, why: str) -> None:
        self._later[feed] = (time.monotonic() + _RETRY_S, cursor)
        if feed not in self._warned and not self._closed and self._unanswered_times != 1:  # busy: it answers the next
            self._warned.add(feed)
            log.warning("reader: %s[%d] cannot be read at present, retrying: %s", feed.topic, feed.partition, why)

    def _retry_due(self) -> None:
        now = time.monotonic()
        due = {feed: cursor for feed, (at, cursor) in self._later.items() if at <= now}
        for feed in due:
            del self._later[feed]
        self._assign(due)

    def _opened(self, *waits: int) -> Consumer:
        return Consumer(consumer_config(self._bootstrap, self._properties, *waits))

    def _begin_to_rest(self) -> None:
        """Go on with another consumer: how long one lets the broker wait cannot be changed."""
        self._resting = True
        before = self._consumer
        self._consumer = self._opened(REST_WAIT_MS, REST_BYTES)
        assigned, self._assigned = self._assigned, {}
        self._known_topics.clear()
        self._assign(assigned)
        before.close()

    def _read(self) -> None:
        if self._calm:
            self._nap()
        now, wake_at = time.monotonic(), self._wake_at
        wait_s = _WAIT_SOON_S if now < self._soon_until else _WAIT_S
        messages = self._consumer.consume(1, wait_s if wake_at is None else max(0.0, wake_at - now))
        if messages:
            self._take(messages + self._consumer.consume(_BATCH, 0))

    def _take(self, messages: list[Message]) -> None:
        runs: list[FeedRun] = []
        open_runs: dict[Feed, FeedRun] = {}
        for message in messages:
            feed = self._feeds.get((message.topic() or "", message.partition() or 0))
            cursor = None if feed is None else self._assigned.get(feed)
            if feed is None or cursor is None:
                continue
            error = message.error()
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                self._take_error(feed, cursor, error)
                continue
            offset = message.offset() or 0
            if offset < cursor.next or (error is not None and offset == cursor.next):
                continue  # an end at the cursor's position says nothing new, and would only wake the caller
            run = open_runs.get(feed)
            if run is None or run.size >= _RUN_BYTES:
                run = open_runs[feed] = FeedRun(feed, cursor, [], offset)
                runs.append(run)
            if error is None:
                run.records.append(record_of(feed, message))
                run.size += len(message)
                offset += 1
            run.after = cursor.next = offset
        if runs:
            with self._changed:
                self._arrived += runs
                self._arrived_records += sum(len(run.records) for run in runs)
                self._arrived_bytes += sum(run.size for run in runs)
                rousing = self._rousing(runs)
                self._calm = not rousing
                if rousing:
                    self.ripe, self._wake_at = True, None  # else the thread would stop then for nothing
            if rousing:
                self._wake()

    def _nap(self) -> None:
        """Let more records come, each of which would cost a look, unless one may be waited for."""
        self._calm = False
        with self._changed:
            quiet = self._gather_s > _NAP_S and self._assigned.keys() <= self._gathered | self._hushed
            if quiet:
                self._changed.wait_for(lambda: bool(self._awaited or self._orders or self._closed), _NAP_S)

    def _wake_late(self) -> None:
        """Wake the caller for gathered records that have waited long enough, unless it has taken them."""
        if self._wake_at is None:
            return
        with self._changed:
            late = self._wake_at is not None and time.monotonic() >= self._wake_at
            if late:
                self.ripe, self._wake_at = True, None
        if late:
            self._wake()

    def _take_error(self, feed: Feed, cursor: FeedCursor, error: KafkaError) -> None:
        code = error.code()
        if code in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            self._check_offset(feed, cursor)
        elif code in NO_SUCH_TOPIC:
            self._known_topics.discard(feed.topic)
            self._unassign(feed)
            self._again_later(feed, cursor, str(error))
        elif code in _REFUSED:
            self._fail(feed, cursor, translated(self._bootstrap, f"read {feed.topic}[{feed.partition}]", error))
        else:
            log.debug("reader: %s[%d]: %s", feed.topic, feed.partition, error)

    def _check_offset(self, feed: Feed, cursor: FeedCursor) -> None:
        """The consumer lost the position. Verify that first: a restarting broker can look the same."""
        self._unassign(feed)
        if not self._may_ask:
            self._again_later(feed, cursor, _NOT_ASKED)
            return
        try:
            first, end = self._consumer.get_watermark_offsets(TopicPartition(feed.topic, feed.partition), timeout=2.0)
        except KafkaException as exc:
            self._again_later(feed, cursor, self._unanswered(exc))
            return
        failure = cursor.out_of(feed, first, end)
        if failure is None:
            self._again_later(feed, cursor, "the broker lost track of the position")
        else:
            self._fail(feed, cursor, failure)

    def _fail(self, feed: Feed, cursor: FeedCursor, failure: LogError) -> None:
        self._unassign(feed)
        with self._changed:
            cursor.failure = failure
            self._failed = self.ripe = True
        self._wake()
