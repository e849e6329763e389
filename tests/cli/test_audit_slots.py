"""`borealis audit` on a cluster whose slots are all taken says so, where Spark would wait for ever."""

from __future__ import annotations

import socket
from types import SimpleNamespace
from typing import Any, cast

import pytest

from borealis_py.cli.commands import audit
from borealis_py.runtime.spark import slot_plan
from borealis_py.runtime.spark.session import ReplicaSession, SparkUnavailable


def test_an_audit_does_not_wait_for_ever_for_a_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped: list[bool] = []
    started: list[Any] = []
    session = SimpleNamespace(context=None, stop=lambda: stopped.append(True))
    monkeypatch.setattr(ReplicaSession, "start_spark", lambda name, settings: (started.append(settings), session)[1])
    monkeypatch.setattr(slot_plan, "SLOTS_S", 0.1)
    monkeypatch.setattr(slot_plan, "slots_there", lambda context: 0)
    todo = [SimpleNamespace(work=SimpleNamespace(node="sales"))]
    with socket.create_server(("127.0.0.1", 0)) as master:
        where = f"spark://127.0.0.1:{master.getsockname()[1]}"
        context = SimpleNamespace(config=SimpleNamespace(spark={"master": where}))
        with pytest.raises(SparkUnavailable, match=r"it was given 0 within 0\.1 s.*`--no-spark`"):
            audit._run(cast(Any, context), cast(Any, todo), True, SimpleNamespace(update=lambda what: None))
    assert stopped == [True]
    assert ("spark.cores.max", "1") in started[0].extra
