"""When records are gone: another start where it may help, the end where it cannot."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from borealis_py.node import run
from borealis_py.node.places import LocalPlace
from borealis_py.node.run import LostWhileRunning, run_replica
from borealis_py.protocol.states import ReplicaState
from sunion.errors import RetentionLost


class Losing:
    """Stands for a replica in a state whose next turn finds its records gone. `closed`: why it said that it ended."""

    def __init__(self, state: ReplicaState) -> None:
        self.manager = SimpleNamespace(state=state)
        self.closed = ""

    def turn(self) -> None:
        raise RetentionLost("bucket 7 is gone")

    def close(self, why: str) -> None:
        self.closed = why


def start(replica: Losing, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nothing: Any = SimpleNamespace(close=lambda: None, why_inline=lambda: "")
    spec: Any = SimpleNamespace(checkpoints=LocalPlace(directory), query_hash="", log=None, bucket_us=100_000)
    monkeypatch.setattr(run, "Replica", lambda *args: replica)
    run_replica(spec, lambda: nothing, lambda kernel, wake: nothing, threading.Event(), "uid")


@pytest.mark.parametrize("state", [s for s in ReplicaState if s is not ReplicaState.RECOVERING])
def test_a_replica_that_was_ready_may_start_again(
    state: ReplicaState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replica = Losing(state)
    with pytest.raises(LostWhileRunning, match="bucket 7 is gone"):
        start(replica, tmp_path, monkeypatch)
    assert replica.closed == "bucket 7 is gone"


def test_one_that_never_became_ready_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replica = Losing(ReplicaState.RECOVERING)
    with pytest.raises(RetentionLost, match="bucket 7 is gone"):
        start(replica, tmp_path, monkeypatch)
    assert replica.closed == "bucket 7 is gone"
