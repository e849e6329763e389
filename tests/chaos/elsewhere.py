"""A reset elsewhere while a replica runs: an app of its own beside the one under chaos, in two lives.

The old life's replica and publisher are cut off, by SIGSTOP or on their link. Meanwhile somebody, on what counts as
another machine, begins the app anew under the same name. Then the old ones wake up beside the new life: each ends by
name, nothing of theirs is committed, and the new life's results are right.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from borealis_py.app import launch
from borealis_py.app.replicas import ReplicaProcesses
from borealis_py.app.supervisor.exit_codes import OTHER_LIFE
from borealis_py.kafka.log import KafkaLog
from borealis_py.verify import Verdict
from borealis_py.verify.kafka_reader import TopicReader
from tests.chaos.arena import ELSEWHERE, Arena, Steps
from tests.chaos.faults import Fault
from tests.harness import family
from tests.harness.cluster import Cluster
from tests.harness.network import BUCKET_US, QUERY, SOURCES
from tests.harness.plan import Member, Plan
from tests.harness.waiting import wall_us

REPLICA, FEEDER = Member(QUERY, 0), f"feeder-{''.join(SOURCES)}"
WORKS_US = 1_000_000
"""So much the new life publishes before the old one is there again."""


@dataclass
class Life:
    """One life of the app, on a machine of its own: a replica, a publisher of all sources, perhaps a subscriber."""

    cluster: Cluster

    @classmethod
    def begin(cls, bootstrap: str, name: str, directory: Path, address: str = "") -> Life:
        """Describe the app and start it. `address`: where its processes find the broker, if not at `bootstrap`."""
        directory.mkdir(parents=True)
        addresses = {str(REPLICA): address, FEEDER: address} if address else {}
        cluster = Cluster(bootstrap, Plan(name, False, replicas=1), directory, addresses, bounded=False)
        cluster.start(REPLICA)
        cluster.feed(SOURCES)
        return cls(cluster)

    @property
    def uid(self) -> str:
        return self.cluster.state.app_uid

    def works(self) -> None:
        """Wait until its replica is ready and publishes."""
        began = wall_us()
        self.cluster.until_event(REPLICA, "READY", 0, self.cluster.plan.ready_s)

        def publishes() -> bool:
            said = self.cluster.newest(REPLICA)
            return said is not None and said.publishing and said.f_s * BUCKET_US > began + WORKS_US

        self.cluster.until(publishes, "it publishes")

    def may_end(self) -> None:
        """Its processes are to: by name."""
        for process in self.cluster.all_started:
            process.may_end = True


def reset_elsewhere(it: Arena, fault: Fault) -> Steps:
    """Both lives, one after the other and then beside each other; the new one's verdict goes to the arena."""
    where = it.cluster.directory / f"{ELSEWHERE}-{len(it.verdicts)}"
    name = where.name
    lives: list[Life] = []
    try:
        address = it.kafka.address(ELSEWHERE)
        yield it.doing(lambda: lives.append(Life.begin(it.cluster.bootstrap, name, where / "old", address)))
        old = lives[0]
        yield it.doing(old.works)
        old.may_end()
        trees = [tree for process in old.cluster.all_started for tree in family.tree(process)]
        stopped = it.pause(trees) if fault.more == "paused" else []
        if fault.more == "cut off":
            it.links.cut(ELSEWHERE, "both")
        yield it.doing(lambda: begin_anew(old, lives, where / "new"))
        new = lives[-1]
        yield it.after(fault.s)
        it.resume(stopped)
        it.links.heal(ELSEWHERE)
        yield lambda: ended(old)
        yield it.doing(lambda: it.verdicts.append(judged(old, new)))
        yield it.doing(lambda: forget(it.cluster.bootstrap, new, where))
    finally:
        for life in lives:
            life.cluster.close()


def begin_anew(old: Life, lives: list[Life], directory: Path) -> None:
    """`borealis up --reset --take-over` on another machine, and what it starts there; until that works."""
    bootstrap, name = old.cluster.bootstrap, old.cluster.plan.name
    launch.reset(KafkaLog(bootstrap), old.cluster.state.spec, ReplicaProcesses(directory, name), take_over=True)
    new = Life.begin(bootstrap, name, directory)
    lives.append(new)
    assert new.uid != old.uid
    new.cluster.watch()
    new.works()


def ended(life: Life) -> bool:
    """All its processes are gone."""
    return all(process.popen.poll() is not None for process in life.cluster.all_started)


def judged(old: Life, new: Life) -> Verdict:
    """How the old life ended, and what the new one said, to its end."""
    replica, feeder = old.cluster.replicas[REPLICA], old.cluster.feeders[SOURCES[0]]
    assert replica.popen.returncode == OTHER_LIFE.code, f"code {replica.popen.returncode}: {replica.said[-2000:]}"
    assert "BegunAnew" in feeder.said, feeder.said[-2000:]
    new.cluster.until_well()
    new.cluster.finish()
    committed = strangers(new)
    assert not committed, f"the old life's progress in the new one's topic: {committed[:3]}"
    return new.cluster.judge()


def strangers(new: Life) -> Sequence[bytes]:
    """Committed progress of another life. Its rows and dead letters would lie in the same transaction."""
    topics = TopicReader(new.cluster.bootstrap)
    try:
        raw = [r.value for r in topics.read(f"{new.cluster.plan.name}.{QUERY}.progress") if r.value is not None]
    finally:
        topics.close()
    return [value for value in raw if json.loads(value)["app_uid"] != new.uid]


def forget(bootstrap: str, new: Life, directory: Path) -> None:
    """Delete its topics: the broker has others to serve."""
    processes = ReplicaProcesses(directory, new.cluster.plan.name)
    launch.reset(KafkaLog(bootstrap), new.cluster.state.spec, processes, take_over=True)


DOING = {"reset elsewhere": reset_elsewhere}
