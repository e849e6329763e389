"""`World`: a user's app in simulated time, with failures. Replicas, publishers and subscribers are those of production.

No real time passes, and the same calls give the same history.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType

from borealis_py.app import settings
from borealis_py.app.origin import show
from borealis_py.client.subscriber import Row, corrected_rows
from borealis_py.log import topics
from borealis_py.log.base import Feed, Record
from borealis_py.log.description import Life
from borealis_py.log.messages import SourceFailure, Status, Threshold, decode
from borealis_py.log.progress import Published
from borealis_py.query import App
from borealis_py.query.errors import did_you_mean
from borealis_py.query.names import base_name
from borealis_py.query.partitions import parts_of
from borealis_py.query.times import time_form
from borealis_py.query.units import parse_duration
from borealis_py.simulation.cluster.processes import Machine
from borealis_py.simulation.quiet import quiet
from borealis_py.testing.loading import check_source, loaded, lost_input
from borealis_py.testing.results import RefusedRow, refused_in
from borealis_py.testing.rows import TimedRow, given
from borealis_py.testing.simulated_app import SimulatedApp
from borealis_py.testing.times import START_US
from borealis_py.testing.topic_records import TopicRow, given_records
from borealis_py.testing.views import ShownChange

WARM_UP_US = 2_000_000
"""How long before a world's beginning its processes start: all are ready then."""
STEP_US = 100_000
NEVER_US = 2**52
"""The end of a loss that lasts until `heal`: a wall time in the year 2112."""


class WorldError(Exception):
    """A world was asked for something that it cannot do. The message names it and what to do."""


class World:
    """An app that runs in simulated time, from 2026-01-01T00:00:00Z on, when everything is ready.

    Each replica of each node is a process, and so are the publisher of each source, the producers of each topic of
    other programs, the two ingresses that copy topics, and one live subscriber of each query. Messages, turns and
    take-overs take as long as on one machine with a local broker; the rows themselves take
    no time. Use it as a context manager, or call `close`.

    Args:
        seed: of how long each message and turn takes. Another seed is another history of the same app.
        lateness: how long after its time a row may be sent to a publisher; rows that come later are dead letters.
            Results wait for it. Topics go by their own.

    Raises:
        QueryError: what `borealis check` says of the app; or a lateness that is no duration.
        SettingsError: a threshold that cannot hold.
    """

    def __init__(self, app: App, *, seed: int = 0, lateness: str = "0s") -> None:
        self._closed = False
        lateness_us = parse_duration(lateness, "lateness", zero=True)
        self._app = SimulatedApp(loaded(app), seed, START_US - WARM_UP_US, lateness_us)
        self._state = self._app.state
        self._scheduler = self._app.scheduler
        self._ongoing: dict[int, Callable[[], None]] = {}
        self._begun = 0
        self._lost: dict[str, int] = {}
        with quiet():
            self._app.start()
            self._scheduler.run_until(START_US)
        if self._app.unready:
            self.close()
            raise WorldError(f"not ready after {WARM_UP_US / 1e6:g} s of the world: {', '.join(self._app.unready)}")

    @property
    def now(self) -> int:
        """The world's time, in microseconds since 1970."""
        return self._scheduler.now_us

    # What happens -----------------------------------------------------------------------------------------------------

    def send(
        self,
        source: str,
        *rows: TimedRow | TopicRow,
        stime: str | None = None,
        stime_unit: str | None = None,
        stime_format: str | None = None,
    ) -> None:
        """Give rows to the publisher of a source, or to the producers of a topic. They arrive as time passes: see
        `advance`.

        Args:
            source: its name; of a source with partitions, one of them ("clicks.0"); of a topic, its own ("orders").
            rows: dicts of columns, or pairs `(time, row)`, as for `run`. A row with a time is sent at that time, or at
                once if it has passed: it is late then, unless the lateness allows it. A row without a time happens now.
                Records of a topic are written at the time of their pair, else at the time that their column `stime=`
                has, if that is less than a day ahead.
            stime, stime_unit, stime_format: a column with the times, and how they are read, as for `run`. A topic has
                its own.

        Raises:
            NoSuchApp: no such source; the message has the nearest names.
            WorldError: the sources have ended.
            TypeError, ValueError: something that is no row, or no time.
        """
        self._open()
        check_source(self._state, source)
        if self._app.ended(source):
            raise WorldError(f"source {source!r} has ended: send its rows before end()")
        form = time_form(stime_unit, stime_format, "stime_unit", "stime_format")
        foreign = self._state.spec.ingresses.get(source)
        if foreign is None:
            self._app.inputs[source].add(given(rows, source, stime, self.now, form=form), self.now)
            for process in self._app.sources[source].processes:
                process.wake()
            return
        if stime is not None:
            raise ValueError(f"stime={stime!r}: topic {source!r} says in app.topic() what the time of its rows is")
        self._app.topics.send(source, given_records(rows, source, foreign), self.now)

    def advance(self, duration: str) -> None:
        """Let time pass: "3s", "250ms".

        Raises:
            QueryError: not a duration.
        """
        self._open()
        self._run_until(self.now + parse_duration(duration, "advance"))

    def lose(self, source: str, for_: str | None = None) -> None:
        """Keep all replicas from reading a source, as `borealis fail source` does. Its publisher continues.

        A topic ("orders") cannot be read by its ingresses meanwhile; its producers continue. Of one of its inputs
        ("orders.0"; with `by=` "orders.berlin", as labels name it) replicas read nothing.

        Args:
            for_: how long, from now on, like "8s"; None: until `heal`.

        Raises:
            NoSuchApp: no such source.
            QueryError: not a duration.
        """
        self._open()
        foreign = source in self._state.spec.ingresses
        if not foreign:
            source = lost_input(self._state, source)
        until_us = NEVER_US if for_ is None else self.now + parse_duration(for_, "lose")
        self._lost[source] = max(until_us, self._lost.get(source, 0))
        if foreign:
            self._app.topics.lose(source)
            self._scheduler.at(until_us, lambda: self._find(source))
        else:
            self._app.put_setting(f"fail/{source}", SourceFailure(self._lost[source], self._state.app_uid))

    def kill(self, name: str, for_: str | None = None) -> None:
        """Kill processes: what they had in memory is lost. Replicas start again from their checkpoints; standbys take
        over, as `recovery=` of their node says.

        Args:
            name: "sales.r0" for a replica, "sales" for all replicas of a node or query, a source for its publisher, a
                topic for its producers, or "ingress-0"; rows that are given meanwhile wait.
            for_: until they are started again; None: until `heal`.

        Raises:
            WorldError: no process has this name.
            QueryError: not a duration.
        """
        self._strike(name, for_, "kill", Machine.crash, Machine.restart)

    def pause(self, name: str, for_: str | None = None) -> None:
        """Stop processes without their noticing (SIGSTOP); they go on where they stood. Arguments as for `kill`."""
        self._strike(name, for_, "pause", Machine.pause, Machine.resume)

    def heal(self) -> None:
        """End all failures now: lost sources can be read, killed processes start, paused ones go on."""
        self._open()
        for source, until_us in self._lost.items():
            if source in self._state.spec.ingresses:
                self._app.topics.find(source)
            elif until_us > self.now:
                self._app.put_setting(f"fail/{source}", SourceFailure(self.now, self._state.app_uid))
        self._lost.clear()
        with quiet():
            for end in list(self._ongoing):
                self._finish(end)

    def set_threshold(self, query: str, threshold: str) -> None:
        """Change a query's delay threshold, as `borealis threshold` does. It is in force some milliseconds later.

        Raises:
            QueryError, NoSuchApp: no such query, or no duration.
            SettingsError: a threshold that cannot hold.
        """
        self._open()
        settings.refuse_unknown(self._state, query)
        threshold_us = parse_duration(threshold, f"delay threshold of {query!r}")
        settings.checked(self._state, query, threshold_us)
        self._app.put_setting(f"threshold/{query}", Threshold(threshold_us, self._state.app_uid))

    def end(self, within: str = "60s") -> None:
        """End all sources after their last row, and let time pass until every result is corrected.

        Args:
            within: of the world's time, from the last row on.

        Raises:
            WorldError: something is still missing then, and what.
        """
        self._open()
        within_us = parse_duration(within, "end within")
        for name, machine in self._app.sources.items():
            self._app.inputs[name].ended = True
            for process in machine.processes:
                process.wake()
        self._app.topics.end()
        last_us = max(self.now, self._app.last_us)
        while unfinished := self._unfinished():
            if self.now >= last_us + within_us:
                raise WorldError(f"{within} after the last row {'; '.join([*unfinished, *self._failures()])}")
            self._run_until(self.now + STEP_US)
        self._run_until(self.now + STEP_US)  # what was written last is on its way to subscribers

    # What can be seen -------------------------------------------------------------------------------------------------

    def live(self, query: str) -> list[ShownChange]:
        """All that a live subscriber has been shown so far, in order.

        Raises:
            QueryError: no such query.
        """
        self._open()
        self._state.spec.query(query)
        return self._app.live[query].shown()

    def corrected(self, query: str) -> list[Row]:
        """The corrected stream so far. Of a partitioned query, one partition after the other.

        Raises:
            QueryError: no such query.
        """
        self._open()
        parts = parts_of(self._state.spec, query)
        found = (self._app.log.committed(topics.corrected(self._state.name, part)) for part in parts)
        return [row for records in found for row in corrected_rows(records)]

    def dead_letters(self) -> list[RefusedRow]:
        """The dead letters so far, in the order in which they were written."""
        self._open()
        return [refused_in(r) for r in self._records(topics.deadletter(self._state.name))]

    def status(self) -> Mapping[str, Status | None]:
        """The newest status of each replica by name ("sales.r0"), as `borealis status` has it; None: it does not run.

        A replica reports each change of its `state` at once, and everything else once a second.
        """
        self._open()
        newest: dict[str, Status] = {}
        for record in self._records(topics.status(self._state.name)):
            status = decode(record.value or b"", Status)
            newest[f"{status.node}.r{status.replica}"] = status
        return {name: newest.get(name) if of.processes else None for name, of in self._app.replicas.items()}

    def close(self) -> None:
        """Release the memory of the query engines. The world is over."""
        if not self._closed:
            self._closed = True
            self._app.close()

    def __enter__(self) -> World:
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<World of {self._state.name} at {show(self.now)}>"

    # ------------------------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        if self._closed:
            raise WorldError("this world is closed; make another one")

    def _run_until(self, time_us: int) -> None:
        with quiet():
            self._scheduler.run_until(time_us)

    def _records(self, topic: str) -> list[Record]:
        return self._app.log.committed(Feed(topic))

    def _strike(
        self, name: str, for_: str | None, what: str, begin: Callable[[Machine], None], end: Callable[[Machine], None]
    ) -> None:
        self._open()
        machines = self._named(name)
        for_us = None if for_ is None else parse_duration(for_, what)

        def over() -> None:
            for machine in machines:
                end(machine)

        with quiet():
            for machine in machines:
                begin(machine)
        self._begun += 1
        number = self._begun
        self._ongoing[number] = over
        if for_us is not None:
            self._scheduler.after(for_us, lambda: self._finish(number))

    def _finish(self, number: int) -> None:
        """End a failure, unless `heal` has."""
        over = self._ongoing.pop(number, None)
        if over is not None:
            over()

    def _find(self, source: str) -> None:
        """A topic that was lost can be read again, unless it is to be lost for longer."""
        if self._lost.get(source, 0) <= self.now:
            self._app.topics.find(source)

    def _named(self, name: str) -> list[Machine]:
        replicas, sources = self._app.replicas, {**self._app.sources, **self._app.topics.machines}
        of_node = [machine for one, machine in replicas.items() if name in _nodes(one)]
        found = of_node or [machine for one, machine in {**replicas, **sources}.items() if one == name]
        if not found:
            known = [*replicas, *self._state.spec.all_nodes, *sources]
            hint = did_you_mean(name, known) or ";"
            raise WorldError(f"no process is called {name!r}{hint} names: {', '.join(known)}")
        return found

    def _unfinished(self) -> list[str]:
        """The nodes whose rows or dead letters are not all written, for people."""
        state, buckets = self._state, self._app.buckets
        lookup, life, found = self._app.log.client("end").lookup(), Life(state.app_uid), []
        for node in state.runs.all_nodes:
            upto = Published(state.name, node, node in state.runs.queries, life, state.origin).said(lookup)
            if upto is None or upto < buckets.last:
                found.append(f"{node} is corrected only up to {show(buckets.start(upto or state.origin))}")
        return found

    def _failures(self) -> list[str]:
        """What still fails, for people."""
        called = self._state.runs.shown
        lost = [f"{called(source)} is lost" for source, until_us in self._lost.items() if until_us > self.now]
        machines = {**self._app.replicas, **self._app.sources, **self._app.topics.machines}
        return lost + [f"{name} does not run" for name, machine in machines.items() if machine.troubled]


def _nodes(replica: str) -> set[str]:
    """The names by which a replica's node goes: as it runs, and as its app's file has it."""
    node, _, _ = replica.rpartition(".r")
    return {node, base_name(node)}
