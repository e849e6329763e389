"""Replicas as tasks of a cluster: they run in its executors, survive them, and a cluster too small is told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.harness.waiting import until
from tests.runtime.spark.driven import READY_S, Driven, all_gone, driven, union_app
from tests.runtime.spark.redone import engines, redo_of
from tests.runtime.spark.standalone import Cluster, standalone
from tests.support.without_b import send

pytestmark = [pytest.mark.spark, pytest.mark.broker]
SOON_US = 5_000_000
CORES = 2
STARTED_AGAIN = "restarting replicas in another Spark application"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with standalone(tmp_path_factory.mktemp("spark"), CORES) as it:
        yield it


def test_a_replica_in_an_executor_redoes(cluster: Cluster, bootstrap: str, tmp_path: Path) -> None:
    with driven(bootstrap, union_app("executor"), tmp_path) as app:
        app.drive(0, **cluster.told)
        app.ready(0)
        with app.publisher("a") as a, app.publisher("b") as b:
            app.published(redo_of(app, a, b))
        assert "spark" in engines(app)
        assert app.end(0) == 0


def test_a_replica_in_an_executor_survives_and_ends(cluster: Cluster, bootstrap: str, tmp_path: Path) -> None:
    """It comes back without its executor, its driver, its worker, and when its master has forgotten it."""
    with driven(bootstrap, union_app("cluster"), tmp_path) as app:
        app.drive(0, **cluster.told)
        app.ready(0)
        with app.publisher("a") as a, app.publisher("b") as b:
            sent = redo_of(app, a, b)
            app.published(sent)
            assert "spark" in engines(app)

            (executor,) = cluster.executors()
            executor.kill()
            app.ready(0, times=2)

            left = [*app.children(0), *_all_of(cluster)]
            app.kill_driver(0)
            assert all_gone(left) == []
            app.drive(0, slot_wait_us=SOON_US, **cluster.told)
            app.ready(0, times=3)

            its_worker_is_killed(app, cluster)
            send((a, b), sent, sent + 100)
            app.published(sent + 100)

            its_master_forgets_it(app, cluster)
            send((a, b), sent + 100, sent + 200)
            a.close(end=True)
            b.close(end=True)
            app.published(sent + 200)
        assert sorted(app.values()) == list(range(sent + 200))
        left = [*app.children(0), *_all_of(cluster)]
        assert app.end(0) == 0
        assert all_gone(left) == []
        assert app.events(0)[-1] == "STOPPED"
        assert list(app.incarnations(0)) == [1, 2, 3, 4, 5]
        assert app.drivers[0].said.count(STARTED_AGAIN) == 1, "only when the master had forgotten it"


def its_worker_is_killed(app: Driven, cluster: Cluster) -> None:
    """The cluster has nothing left: that is told, and what comes later is used without starting again."""
    cluster.worker.kill()
    until(lambda: told_of_slots(app) != [], "status says that slots are missing", READY_S)
    (why,) = told_of_slots(app)
    assert "all.r0 cannot run for want of slots: the application asked for 2 slots" in why
    assert "it has 0, and the cluster has none free. Add a worker" in why
    cluster.add_worker()
    app.ready(0, times=4)


def its_master_forgets_it(app: Driven, cluster: Cluster) -> None:
    """A master that starts anew without its memory ends the executors of applications that it does not know."""
    before = len(told_of_slots(app))

    def again() -> list[str]:
        return [why for why in told_of_slots(app)[before:] if why.endswith(": restarting it")]

    cluster.replace_master()
    until(lambda: again() != [], "status says that the application is started again", READY_S)
    (why,) = again()
    assert "it has 0, and the cluster has 2 more that it could have: restarting it" in why
    app.ready(0, times=5)


def told_of_slots(app: Driven) -> list[str]:
    """Why replica 0 was stopped for want of slots, as its status and its driver's log tell."""
    found = [s.detail for s in app.statuses() if s.event == "STOPPED" and "for want of slots" in s.detail]
    assert all(why in app.drivers[0].said for why in found)
    return found


def _all_of(cluster: Cluster) -> list[psutil.Process]:
    """The executor and what runs below it."""
    (executor,) = cluster.executors()
    return [executor, *executor.children(recursive=True)]


def test_a_cluster_too_small_is_told_with_numbers(cluster: Cluster, bootstrap: str, tmp_path: Path) -> None:
    with driven(bootstrap, union_app("small-cluster"), tmp_path) as app:
        driver = app.drive(0, hasty=CORES, redo_slots=3, **cluster.told)
        assert driver.popen.wait(READY_S) == 1
        why = "this application needs 4 slots: 1 for all.r0 and 3 for redos; it was given 2 within"
        assert why in driver.said, driver.said


def test_a_master_that_is_not_there_is_told(bootstrap: str, tmp_path: Path) -> None:
    with driven(bootstrap, union_app("no-cluster"), tmp_path) as app:
        driver = app.drive(0, master="spark://127.0.0.1:1")
        assert driver.popen.wait(READY_S) == 1
        assert "no Spark master answers at spark://127.0.0.1:1" in driver.said
