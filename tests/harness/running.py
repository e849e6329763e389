"""A small running app for tests on a real broker: replicas in threads of this process, no Spark unless given."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from borealis_py.api import publisher
from borealis_py.app.state import AppState
from borealis_py.client.publisher import Publisher
from borealis_py.kafka.log import KafkaLog
from borealis_py.log import topics
from borealis_py.log.base import Feed, Record, Wake
from borealis_py.log.kernel import Kernel
from borealis_py.log.messages import Status
from borealis_py.node.run import run_replica
from borealis_py.node.spec import ReplicaSpec
from borealis_py.protocol.settings import Timing
from borealis_py.query import App
from borealis_py.query.partitions import parts_of
from borealis_py.runtime.process.threads import make_redos
from borealis_py.runtime.specs import replica_spec
from reconcile.redo_client import RedoRouter, RedoRunner
from reconcile.replay_context import make_kernel
from tests.harness.launching import described
from tests.harness.statuses import Statuses
from tests.harness.waiting import PATIENCE_S, until

MakeRedos = Callable[[ReplicaSpec, Kernel, Wake, RedoRunner], RedoRouter]


class RunningApp:
    """An app on a broker. A replica index can be started and stopped repeatedly."""

    def __init__(self, bootstrap: str, app: App, directory: Path, timing: Timing | None = None) -> None:
        self.log = KafkaLog(bootstrap)
        self.directory = directory
        self.state: AppState = described(self.log, app, timing)
        self.lookup = self.log.lookup()
        self.errors: list[BaseException] = []
        self._statuses = Statuses(self.log, self.name)
        self._running: dict[int, tuple[threading.Event, list[threading.Thread]]] = {}

    @property
    def name(self) -> str:
        return self.state.name

    def start(self, replica: int, redos: MakeRedos = make_redos) -> None:
        stop = threading.Event()
        threads = []
        for name, node in self.state.runs.all_nodes.items():
            if replica >= node.replicas:
                continue
            spec = replica_spec(self.state, name, replica, self.log, self.directory)
            threads.append(threading.Thread(target=self._run, args=(spec, redos, stop), daemon=True))
        for thread in threads:
            thread.start()
        self._running[replica] = stop, threads

    def _run(self, spec: ReplicaSpec, redos: MakeRedos, stop: threading.Event) -> None:
        try:
            kernel = partial(make_kernel, spec.app_json, spec.node)
            run_replica(spec, kernel, partial(redos, spec), stop, uuid.uuid4().hex[:8])
        except BaseException as exc:
            self.errors.append(exc)

    def stop(self, replica: int) -> None:
        stop, threads = self._running.pop(replica)
        stop.set()
        for thread in threads:
            thread.join(PATIENCE_S)

    def publisher(self, source: str) -> Publisher:
        return publisher(source, "0s", app=self.name, bootstrap=self.log.bootstrap)

    def read(self, topic: str) -> list[Record]:
        feed = Feed(topic)
        return list(self.lookup.read(feed, *self.lookup.bounds(feed)))

    def corrected(self, query: str) -> list[Record]:
        """All partitions, one after the other."""
        feeds = [topics.corrected(self.name, part) for part in parts_of(self.state.spec, query)]
        return [record for feed in feeds for record in self.lookup.read(feed, *self.lookup.bounds(feed))]

    def dead_letters(self) -> list[dict[str, str]]:
        found = self.read(topics.deadletter(self.name))
        return [
            {**{k: v.decode() for k, v in r.headers}, "raw": (r.value or b"").decode(errors="replace")} for r in found
        ]

    def statuses(self) -> list[Status]:
        """All so far, in order; reads what is new only."""
        self._statuses.poll()
        return self._statuses.all

    def events(self, replica: int | None = None) -> list[str]:
        return [s.event for s in self.statuses() if s.event and replica in (None, s.replica)]

    def newest(self, replica: int) -> Status | None:
        found = [s for s in self.statuses() if s.replica == replica]
        return found[-1] if found else None

    def last(self, replica: int) -> Status:
        found = self.newest(replica)
        assert found is not None, f"replica {replica} has said nothing yet"
        return found

    def _ready_or_failed(self, replica: int) -> bool:
        return "READY" in self.events(replica) or bool(self.errors)

    def wait_ready(self, *replicas: int) -> None:
        for k in replicas:
            until(partial(self._ready_or_failed, k), f"replica {k} ready")
        assert not self.errors, self.errors

    def close(self) -> None:
        for replica in list(self._running):
            self.stop(replica)
        self._statuses.close()
        self.lookup.close()


@contextmanager
def running(bootstrap: str, app: App, directory: Path, timing: Timing | None = None) -> Iterator[RunningApp]:
    it = RunningApp(bootstrap, app, directory, timing)
    try:
        yield it
    finally:
        it.close()
