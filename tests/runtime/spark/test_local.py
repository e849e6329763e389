"""Replicas as tasks of a local Spark: they answer, redo on Spark, survive their workers, drivers and JVM, and leave
nothing behind."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import psutil
import pytest

from tests.harness.broker import started
from tests.harness.waiting import until
from tests.runtime.spark.driven import all_gone, driven, has_java, union_app
from tests.runtime.spark.redone import redo_of
from tests.support.without_b import lose_b, rows_without_b, send

pytestmark = [pytest.mark.spark, pytest.mark.broker]


def test_a_replica_as_a_task_redoes_on_spark_and_ends_in_order(bootstrap: str, tmp_path: Path) -> None:
    """At a SIGTERM to all of its processes at once."""
    with driven(bootstrap, union_app("task-redo"), tmp_path) as app:
        app.drive(0)
        app.ready(0)
        assert app.last(0).pid == app.drivers[0].popen.pid
        assert app.worker(0).pid != app.last(0).pid
        with app.publisher("a") as a, app.publisher("b") as b:
            sent = redo_of(app, a, b)
            app.published(sent)

            stopped_us = time.time_ns() // 1000
            app.drivers[0].signal(signal.SIGSTOP)
            sent = rows_without_b(app, (a, b), sent)
            lose_b(app, 0)
            a.close(end=True)
            b.close(end=True)
            app.published(sent)
            app.drivers[0].signal(signal.SIGCONT)
        assert sorted(app.values()) == list(range(sent))
        failed = {s.detail for s in app.statuses() if s.event == "REDO_FAILED" and s.at_wall_us > stopped_us}
        assert len(failed) == 1
        assert failed.pop().startswith("the driver did not accept the redo within")
        children = app.children(0)
        assert len(children) >= 3  # JVM, daemon, workers
        assert app.end_all(0) == 0, app.drivers[0].said
        assert all_gone(children) == []
        assert app.events(0)[-1] == "STOPPED"


def test_two_replicas_and_every_kind_of_death(bootstrap: str, tmp_path: Path) -> None:
    """The worker, then the driver, then the JVM of replica 0: it comes back; replica 1 never notices."""
    with driven(bootstrap, union_app("task-deaths", replicas=2), tmp_path) as app:
        app.drive(0)
        app.drive(1)
        app.ready(0, 1)
        with app.publisher("a") as a, app.publisher("b") as b:
            send((a, b), 0, 100)
            app.published(100)
            until(lambda: app.last(0).checkpoint_bucket > 0, "a checkpoint")

            app.worker(0).kill()
            app.ready(0, times=2)
            assert "its Spark task died" in app.drivers[0].said
            assert app.incarnations(0)[2].checkpoint_bucket > 0  # it went on from one
            send((a, b), 100, 200)
            app.published(200)

            children = app.children(0)
            app.kill_driver(0)
            send((a, b), 200, 300)
            app.published(300)
            assert all_gone(children) == []
            app.drive(0)
            app.ready(0, times=3)

            _jvm(app.children(0)).kill()
            send((a, b), 300, 400)
            app.published(400)
            app.ready(0, times=4)
            send((a, b), 400, 500)
            a.close(end=True)
            b.close(end=True)
        app.published(500)
        assert sorted(app.values()) == list(range(500))
        assert [list(app.incarnations(k)) for k in (0, 1)] == [[1, 2, 3, 4], [1]]
        left = [*app.children(0), *app.children(1)]
        assert [app.end(k) for k in (0, 1)] == [0, 0]
        assert all_gone(left) == []


def _jvm(children: list[psutil.Process]) -> psutil.Process:
    (found,) = [p for p in children if p.name() == "java"]
    return found


def test_a_driver_ends_in_order_while_it_starts_and_without_a_broker(tmp_path: Path) -> None:
    with started(tmp_path) as broker, driven(broker.bootstrap, union_app("task-stops"), tmp_path) as app:
        driver = app.drive(0)
        until(lambda: has_java(app.children(0)), "Spark begins to start")
        children = app.children(0)
        assert app.end(0) == 0, driver.said
        assert all_gone(children) == []

        app.drive(0)
        app.ready(0)
        children = app.children(0)
        broker.down(timeout_s=0.0)
        assert app.end(0) == 0
        assert all_gone(children) == []
