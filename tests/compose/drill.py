"""What is done to the cluster, step by step. Each step waits for conditions, and tells what it saw in figures."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from borealis_py.demo.content import content_of
from borealis_py.verify.report import show
from tests.compose.compose import Compose
from tests.compose.verdict import PRINTED, judge_queries
from tests.compose.watch import Watch, open_watch, page
from tests.harness.waiting import until, wall_us

APP = "flights"
LOST = "lga"
DAY_US = 1_000_000
"""At the speed of the test, which is the demo's: a day in a second."""
SILENT_US = 3_000_000
"""A status comes every second."""
FIRST_S, STEP_S = 300.0, 180.0
MARGIN_S = 20.0
ONCE = ("prepare", "app")
PUBLISHERS = ("publisher-ewr", "publisher-jfk", "publisher-lga")
BROKER = "kafka-2"
"""Of three."""
FINITE = (*PUBLISHERS, "subscriber")


@dataclass
class Drill:
    """A cluster under test. `ports`: of this machine, by what they lead to; `days`: of flights."""

    compose: Compose
    ports: dict[str, int]
    days: int
    rows: list[tuple[str, str, str]] = field(default_factory=list)
    """Of the table: what was done, how long it took, what was seen."""
    outputs: list[tuple[str, str]] = field(default_factory=list)
    """Commands as a user gives them, and what they printed."""
    peak_mb: dict[str, float] = field(default_factory=dict)
    _watch: Watch | None = None

    @property
    def watch(self) -> Watch:
        """Once the app is described."""
        if self._watch is None:
            self._watch = open_watch(self.bootstrap, APP, STEP_S)
        return self._watch

    @property
    def bootstrap(self) -> str:
        """The brokers from outside."""
        return ",".join(f"127.0.0.1:{port}" for name, port in self.ports.items() if name.startswith("kafka"))

    def run(self) -> None:
        """All steps. AssertionError, ComposeError: what is wrong."""
        steps: list[tuple[str, Callable[[], str]]] = [
            ("up", self.starts),
            ("up once more", self.starts_again),
            (f"pause publisher-{LOST}, unpause", self.loses_a_source),
            ("kill replica-0, up", self.kills_a_replica),
            ("kill spark-worker-0, up", self.kills_a_worker),
            *([(f"kill {BROKER}, up", self.kills_a_broker)] if BROKER in self.ports else []),
            ("the sources end", self.ends),
            ("judge", self.judges),
            ("up after the end", self.starts_after_the_end),
        ]
        for what, step in steps:
            begin = time.monotonic()
            seen = step()
            self.rows.append((what, f"{time.monotonic() - begin:.1f} s", seen))
            print(f"{self.rows[-1]}", flush=True)

    # Steps ------------------------------------------------------------------------------------------------------------

    def starts(self) -> str:
        """`up` and nothing else, until both replicas serve and the subscriber prints."""
        self.compose.up()
        watch = self.watch
        ready_s = watch.until(lambda: watch.all_stable(0), "all replicas are STABLE", FIRST_S)
        for k in (0, 1):
            port = self.ports[f"replica-{k}"]
            until(lambda port=port: page(port, "/readyz") == 200, f"replica-{k} is ready", STEP_S)  # type: ignore[misc]
            assert [page(port, p) for p in ("/healthz", "/metrics", "/api/v1/status", "/nonsense")] == [200] * 3 + [404]
        watch.until_published(watch.origin_us, STEP_S)
        until(lambda: self.compose.printed("subscriber") != "", "the subscriber prints", STEP_S)
        self._healthy()
        return f"replicas STABLE {ready_s:.1f} s after `up` returned; {self._memory()}"

    def starts_again(self) -> str:
        """The same file started twice: nothing that runs is touched, what runs once runs again and changes nothing."""
        before, origin = self.compose.containers(), self.watch.origin_us
        incarnations = {key: s.inc for key in self.watch.replicas if (s := self.watch.newest(key))}
        self.compose.up()
        now = wall_us()
        self.watch.until(lambda: self.watch.all_stable(now), "all replicas are STABLE still", STEP_S)
        assert self.compose.containers() == before, "a container was made anew"
        assert open_watch(self.bootstrap, APP, STEP_S).origin_us == origin, "the app has another origin"
        after = {key: s.inc for key in self.watch.replicas if (s := self.watch.newest(key))}
        assert after == incarnations, f"replicas started again: {incarnations}, {after}"
        return "same containers, same incarnations, same origin"

    def loses_a_source(self) -> str:
        """Tentative results while a publisher is frozen, and their corrections when it goes on."""
        watch = self.watch
        self._time_left()
        begin = wall_us()
        tentative = self._tentative()
        self._command("pause", f"publisher-{LOST}")
        paused = wall_us()
        watch.until(
            lambda: all(watch.since(key, begin, "FIRST_TENTATIVE") for key in watch.replicas),
            f"every replica goes on without {LOST}",
            STEP_S,
        )
        first_s = [(watch.since(key, begin, "FIRST_TENTATIVE")[0].at_wall_us - paused) / 1e6 for key in watch.replicas]
        more = {query: n + 10 for query, n in tentative.items()}
        watch.until(lambda: all(self._tentative()[q] >= n for q, n in more.items()), "10 tentative buckets", STEP_S)
        self._status("replica-1", "during the loss")
        healed = wall_us()
        self._command("unpause", f"publisher-{LOST}")
        watch.until(lambda: watch.all_stable(healed), "all replicas are STABLE again", STEP_S)
        watch.until_published(healed, STEP_S)
        buckets = sum(self._tentative().values()) - sum(tentative.values())
        return (
            f"first tentative {min(first_s):.1f} to {max(first_s):.1f} s after `pause` returned, {buckets} tentative "
            f"buckets in {(healed - begin) / 1e6:.1f} s; corrected {(wall_us() - healed) / 1e6:.1f} s after"
        )

    def kills_a_replica(self) -> str:
        """A driver is killed: the other index goes on, the corrected stream too; it comes back and catches up."""
        watch = self.watch
        self._time_left()
        begin = wall_us()
        tentative = self._tentative(1)
        self._command("kill", "replica-0")
        alone_s = watch.until_published(begin + 5 * DAY_US, STEP_S)
        watch.until(lambda: self._silent() == {0}, "index 0 is silent", STEP_S)
        other = [s for key in watch.replicas if key[1] == 1 for s in watch.since(key, begin)]
        assert {s.state for s in other} == {"STABLE"}, "the other replica noticed"
        assert self._tentative(1) == tentative, "the other replica said something tentative"
        self._status("replica-1", "with replica-0 killed")
        back = wall_us()
        self._command("up", "-d")
        ready_s = watch.until(lambda: watch.all_stable(back), "replica 0 is STABLE again", STEP_S)
        self._healthy()
        return (
            f"corrected streams 5 s further after {alone_s:.1f} s without index 0, index 1 STABLE all the time; "
            f"index 0 STABLE {ready_s:.1f} s after `up` returned"
        )

    def kills_a_worker(self) -> str:
        """A worker of Spark is killed: that is one replica, whose tasks start again when there is a worker."""
        watch = self.watch
        self._time_left()
        incarnations = {key: s.inc for key in watch.replicas if (s := watch.newest(key))}
        begin = wall_us()
        self._command("kill", "spark-worker-0")
        published_s = watch.until_published(begin + 5 * DAY_US, STEP_S)
        watch.until(lambda: len(self._silent()) == 1, "one replica index is silent", STEP_S)
        (lost,) = self._silent()
        other = [s for key in watch.replicas if key[1] != lost for s in watch.since(key, begin)]
        assert {s.state for s in other} == {"STABLE"}, "the other replica noticed"
        back = wall_us()
        self._command("up", "-d")
        ready_s = watch.until(lambda: watch.all_stable(back), "all are STABLE", STEP_S)
        moved = [key for key, inc in incarnations.items() if (s := watch.newest(key)) and s.inc > inc]
        assert {k for _, k in moved} == {lost}, f"started again: {moved}"
        self._healthy()
        return (
            f"{len(moved)} of {len(incarnations)} tasks died, all of index {lost}; index {1 - lost} STABLE all along, "
            f"corrected streams 5 s further after {published_s:.1f} s; all STABLE {ready_s:.1f} s after `up` returned; "
            f"{self._memory()}"
        )

    def kills_a_broker(self) -> str:
        """One of three: results stand until others lead what it led, go on with two, and it comes back."""
        watch = self.watch
        self._time_left()
        self._command("kill", BROKER)
        killed = wall_us()
        published_s = watch.until_published(killed + 5 * DAY_US, STEP_S)
        self._status("replica-1", f"with {BROKER} killed")
        back = wall_us()
        self._command("up", "-d")
        ready_s = watch.until(lambda: watch.all_stable(back), "all are STABLE", STEP_S)
        self._healthy()
        watch.until_published(wall_us(), STEP_S)
        return (
            f"corrected streams 5 s further after {published_s:.1f} s with two brokers; all STABLE {ready_s:.1f} s "
            f"after `up` returned; {self._memory()}"
        )

    def _silent(self) -> set[int]:
        """Replica indexes that have said nothing for a while."""
        indexes = {k for _, k in self.watch.replicas}
        return indexes - {key[1] for key in self.watch.replicas if self.watch.since(key, wall_us() - SILENT_US)}

    def ends(self) -> str:
        """Publishers say END, the subscriber has printed everything and ends by itself."""
        left_s = self._left_s() + STEP_S
        until(lambda: all(self._exit_code(name) == 0 for name in FINITE), "publishers and subscriber end", left_s)
        states = self.compose.states()
        killed = [name for name, state in states.items() if state["OOMKilled"]]
        assert not killed, f"out of memory: {killed}"
        restarted = [name for name, state in states.items() if state["RestartCount"] and name not in ONCE]
        return (
            f"exit code 0 of {', '.join(FINITE)}; nothing out of memory; restarted by the engine: {restarted or 'none'}"
        )

    def judges(self) -> str:
        """The corrected streams, and what every replica said, recomputed."""
        printed = self.compose.printed("subscriber")
        verdicts = judge_queries(self.bootstrap, APP, self.watch.origin_us, self.days, printed)
        seen = []
        for query, verdict in verdicts.items():
            show(verdict, f"{APP}.{query}")
            assert verdict.kinds == set(), f"{query}: {verdict.kinds}"
            assert verdict.looked_at["corrected rows"] > 0
            seen.append(f"{query} {verdict.looked_at['corrected rows']} rows")
        assert len(printed.splitlines()) > 0
        report = content_of(verdicts.values())
        assert report.ok, report
        assert report.tentative_results, "no tentative result was seen: nothing was lost"
        return (
            f"{', '.join(seen)}: 0 lost, 0 duplicated, 0 different, as are {len(printed.splitlines())} printed rows of "
            f"{PRINTED}; {report.tuples_published} tuples, {report.stable_results} stable and "
            f"{report.tentative_results} tentative results of the replicas recomputed"
        )

    def starts_after_the_end(self) -> str:
        """Publishers that are started again find their rows and END in the log, and that is all."""
        self._command("up", "-d", *PUBLISHERS)
        said = "END are there already"
        until(lambda: self.compose("logs", "--no-color", *PUBLISHERS).count(said) >= len(PUBLISHERS), said, STEP_S)
        until(lambda: all(self._exit_code(name) == 0 for name in PUBLISHERS), "publishers end again", STEP_S)
        return f"exit code 0 of {', '.join(PUBLISHERS)}: nothing left to publish"

    # Looking ----------------------------------------------------------------------------------------------------------

    def _command(self, *arguments: str) -> None:
        """One of Compose's, as a user gives it."""
        self.outputs.append((f"docker-compose {' '.join(arguments)}", self.compose(*arguments)))

    def _status(self, service: str, when: str) -> None:
        said = self.compose.shown(service, "sh", "-c", "COLUMNS=200 borealis status")
        self.outputs.append((f"docker-compose exec {service} borealis status     # {when}", said))

    def _tentative(self, index: int | None = None) -> dict[str, int]:
        """Tentative buckets that replicas (of one index) have said, by query and index."""
        newest = [self.watch.newest(key) for key in self.watch.replicas if index is None or key[1] == index]
        return {f"{s.node}.r{s.replica}": s.tentative_buckets for s in newest if s is not None}

    def _left_s(self) -> float:
        """Seconds until the flights end."""
        return (self.watch.origin_us + self.days * DAY_US - wall_us()) / 1e6

    def _time_left(self) -> None:
        assert self._left_s() > MARGIN_S, "the flights end before all is tried: this machine is slow, give more --days"

    def _exit_code(self, service: str) -> int | None:
        state = self.compose.states()[service]
        return int(str(state["ExitCode"])) if state["Status"] == "exited" else None

    def _unhealthy(self) -> list[str]:
        """Services that should be healthy and are not."""
        found = []
        for service, state in self.compose.states().items():
            health = state.get("Health")
            well = state["Status"] == "exited" or (isinstance(health, dict) and health.get("Status") == "healthy")
            if not well:
                found.append(service)
        return found

    def _healthy(self) -> None:
        until(lambda: not self._unhealthy(), "all health checks are green", STEP_S)

    def _memory(self) -> str:
        used = self.compose.memory_mb()
        for service, mb in used.items():
            self.peak_mb[service] = max(self.peak_mb.get(service, 0.0), mb)
        return f"{sum(used.values()):.0f} MB in use"
