"""Two apps that differ in their names only, on one Kafka and one Spark cluster: neither sees the other."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runtime.spark.driven import driven, union_app
from tests.runtime.spark.redone import engines, redo_of
from tests.runtime.spark.standalone import standalone
from tests.support.without_b import send

pytestmark = [pytest.mark.spark, pytest.mark.broker]
CORES = 4
"""Two applications of two slots."""


def test_an_app_fails_and_corrects_beside_another_that_does_not_notice(bootstrap: str, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    with (
        standalone(tmp_path, CORES) as cluster,
        driven(bootstrap, union_app("one"), tmp_path / "one") as one,
        driven(bootstrap, union_app("two"), tmp_path / "two") as two,
    ):
        for app in (one, two):
            app.drive(0, **cluster.told)
        for app in (one, two):
            app.ready(0)
        with one.publisher("a") as a, one.publisher("b") as b, two.publisher("a") as c, two.publisher("b") as d:
            send((c, d), 1000, 1100)
            sent = redo_of(one, a, b)
            one.published(sent)
            two.published(100)
            one.kill_driver(0)
            send((c, d), 1100, 1200)
            two.published(200)
            one.drive(0, **cluster.told)
            one.ready(0, times=2)
            send((a, b), sent, sent + 100)
            one.published(sent + 100)
        assert "spark" in engines(one)
        assert sorted(one.values()) == list(range(sent + 100))
        assert sorted(two.values()) == list(range(1000, 1200))
        assert set(two.incarnations(0)) == {1}
        assert all(i.reachable for s in two.statuses() for i in s.inputs)  # the other's source was cut off
        assert (one.end(0), two.end(0)) == (0, 0)
