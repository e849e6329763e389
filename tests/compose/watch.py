"""What a cluster says of itself, seen from outside through mapped ports: statuses on Kafka, pages of the drivers."""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from borealis_py.app.state import AppState, read_app
from borealis_py.kafka.log import KafkaLog
from borealis_py.log.base import LogError
from borealis_py.log.messages import Status
from sunion.bucket import Buckets
from tests.harness.statuses import Statuses
from tests.harness.waiting import until, wall_us

Key = tuple[str, int]


@dataclass
class Watch:
    """The statuses of one app since it was opened."""

    bootstrap: str
    app: str
    state: AppState = field(init=False)
    statuses: Statuses = field(init=False)

    def __post_init__(self) -> None:
        log = KafkaLog(self.bootstrap)
        self.state = read_app(log, self.app)
        self.statuses = Statuses(log, self.app)

    @property
    def replicas(self) -> list[Key]:
        """(query, index) of each."""
        return self.state.replicas()

    @property
    def origin_us(self) -> int:
        """Start of the app's first bucket."""
        return Buckets(self.state.spec.bucket_us).start(self.state.origin)

    def until(self, condition: Callable[[], bool], what: str, timeout_s: float) -> float:
        """Wait for a condition, looking again and again. Returns the seconds it took; AssertionError names it."""
        begin = time.monotonic()

        def met() -> bool:
            with suppress(LogError):  # a busy machine's broker may be late
                self.statuses.poll()
            return condition()

        try:
            until(met, what, timeout_s)
        except AssertionError as exc:
            raise AssertionError(f"{exc}\n{self.last_words()}") from None
        return time.monotonic() - begin

    def newest(self, key: Key) -> Status | None:
        """What a replica said last."""
        return self.statuses.newest(*key)

    def since(self, key: Key, at_us: int, event: str = "") -> list[Status]:
        """What it said since then; only that event, if one is named."""
        return [s for s in self.statuses.of(*key, at_us) if not event or s.event == event]

    def all_stable(self, at_us: int, index: int | None = None) -> bool:
        """Every replica (of one index) has spoken since then and says now that it is STABLE."""
        keys = [key for key in self.replicas if index is None or key[1] == index]
        newest = [self.newest(key) for key in keys]
        return all(s is not None and s.at_wall_us >= at_us and s.state == "STABLE" for s in newest)

    def published(self) -> dict[str, int]:
        """Until which stime each query's corrected stream is complete, microseconds."""
        buckets = Buckets(self.state.spec.bucket_us)
        last: dict[str, int] = {}
        for s in self.statuses.all:
            last[s.node] = max(last.get(s.node, 0), s.progress)
        return {query: buckets.start(bucket) for query, bucket in last.items()}

    def until_published(self, at_us: int, timeout_s: float) -> float:
        """Wait until the corrected streams of all queries are complete up to that stime."""
        queries = set(self.state.spec.queries)

        def there() -> bool:
            found = self.published()
            return queries <= set(found) and min(found.values()) > at_us

        return self.until(there, f"corrected streams are complete up to {at_us}", timeout_s)

    def last_words(self) -> str:
        """What each replica said last: for who has to find out why."""
        lines = []
        for key in self.replicas:
            s = self.newest(key)
            events = self.statuses.events(*key)[-8:]
            said = "nothing" if s is None else f"{s.state}, {(wall_us() - s.at_wall_us) / 1e6:.1f} s ago"
            lines.append(f"{key[0]}.r{key[1]}: {said}; {' '.join(events)}")
        return "\n".join(lines)

    def close(self) -> None:
        """Let go of the client."""
        self.statuses.close()


def open_watch(bootstrap: str, app: str, timeout_s: float) -> Watch:
    """A watch once the broker answers from outside and the app is described. AssertionError after `timeout_s`."""
    found: list[Watch] = []

    def opened() -> bool:
        with suppress(LogError):
            found.append(Watch(bootstrap, app))
        return bool(found)

    until(opened, f"app {app} is found at {bootstrap}", timeout_s)
    return found[0]


def page(port: int, path: str) -> int:
    """HTTP code of a driver's page; 0 when nobody answers."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as exc:
        return exc.code
    except OSError:
        return 0
