"""What warming a Python worker of Spark needs, and what it does without."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from pickle import UnpicklingError

import pytest

from borealis_py.log.base import LogError
from borealis_py.runtime.spark.session import _warm_worker
from reconcile.redo_job import evict, get_cached
from tests.reconcile.list_world import StubLog, StubLookup, batch, claim, list_work

LOGS = {"s": [claim(1, "u"), batch(1, "u", 0, [(1_000, 1)], 2_000)]}


class LogThatIsAway(StubLog):
    """As long as there is a file where its logs' only key says. No simulated log, since it is pickled."""

    def lookup(self) -> StubLookup:
        (place,) = self.logs
        if Path(place).exists():
            raise LogError("all broker connections are down")
        return StubLookup(LOGS)


def test_a_broker_that_is_away_does_not_keep_an_application_from_starting(tmp_path: Path) -> None:
    """The session would be thrown away, JVM and all, and its replicas be gone for as long as another one starts."""
    away = tmp_path / "away"
    away.touch()
    work = replace(list_work(LOGS), log=LogThatIsAway({str(away): []})).pack()
    assert list(_warm_worker((work,), [7])) == [7]
    with pytest.raises(LogError, match="connections are down"):
        get_cached(work)
    away.unlink()
    assert list(_warm_worker((work,), [7])) == [7]
    warm = get_cached(work)
    assert get_cached(work) is warm
    evict(work)


def test_what_is_no_work_is_an_error_still() -> None:
    with pytest.raises(UnpicklingError, match="load key"):
        list(_warm_worker((b"no work",), [7]))
