"""The engine's limit of memory, from the configuration to a replica's kernel and its redos'. Who ran out of it
goes on from its checkpoint with more.
"""

from __future__ import annotations

from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, cast

import pytest

from borealis_py.app.process_spec import ProcessSpec
from borealis_py.app.replicas import ProcessName, first_arguments
from borealis_py.cli.shared.context import Context
from borealis_py.config.config import load
from borealis_py.engine import DuckKernel
from borealis_py.kafka.log import KafkaLog
from borealis_py.node.checkpoints import CheckpointStore
from borealis_py.node.spec import ReplicaSpec
from borealis_py.protocol.turn import SaveCheckpoint
from borealis_py.query import App
from borealis_py.runtime.process import __main__ as process
from borealis_py.runtime.process.threads import ThreadHost
from borealis_py.runtime.process_notes import ProcessNotes
from borealis_py.runtime.specs import kernel_of, work_of
from sunion.errors import EngineOutOfMemory
from sunion.source import SourceFold
from sunion.union import Mark
from tests.harness.launching import described
from tests.support.app_log import NAME
from tests.support.instant_log import InstantLog

PARTS = 3_000_000
SPLIT = f"CASE WHEN i > 5 THEN len(list_sort(string_split(repeat(CAST(i AS VARCHAR), {PARTS}), '9'))) ELSE i END"
"""Needs some 200 MB for a row with an i above 5, and next to nothing to compile."""


class Up:
    """An app, and the replica of it that `up` would start here."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        app = App(NAME, bucket="100ms")
        app.query("q", app.source("s", schema={"i": "int64"}).map(n=SPLIT).window("1s").agg(n="sum(n)"), "3s")
        state = described(InstantLog(), app)
        monkeypatch.setattr(process, "read_app", lambda *_: state)
        self._directory, self._patch = directory, monkeypatch

    def replica(self, memory: str) -> ReplicaSpec:
        context = Context(load(engine_memory=memory, data_dir=self._directory), KafkaLog("nowhere:1"))
        spec = ProcessSpec.from_environment(ProcessSpec.of(context.config, context.log, "process").environment())
        arguments = process.parse([*ProcessName(0).arguments(NAME), *first_arguments(take_over=True)])
        with ExitStack() as opened:
            started = process._open(arguments, spec, ProcessNotes(self._directory / "replica-0", ""), opened)
            assert isinstance(started, ThreadHost)
            return started._specs[0]


def limit(kernel: Any) -> str:
    """What the kernel's engine says that it may use."""
    asked = "SELECT value FROM duckdb_settings() WHERE name = 'memory_limit'"
    return str(cast(DuckKernel, kernel)._duck.connection.execute(asked).fetchone()[0])


def test_one_that_ran_out_of_memory_goes_on_from_its_checkpoint_with_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    up = Up(tmp_path, monkeypatch)
    before = up.replica("64MiB")
    with closing(kernel_of(before)()) as kernel, closing(work_of(before).make_kernel()) as redos:
        assert [limit(one) for one in (kernel, redos)] == ["64.0 MiB"] * 2
        state, _ = kernel.step(kernel.initial(), 0, 1, {0: [row(kernel, 3)]})
        store = CheckpointStore(before.checkpoints, before.query_hash, kernel, threaded=False)
        store.save(SaveCheckpoint(1, state, (Mark(1, SourceFold(100_000)),)))
        with pytest.raises(EngineOutOfMemory):
            kernel.step(state, 1, 10, {1: [row(kernel, 9, 100_001)]})
    after = up.replica("512MiB")
    with closing(kernel_of(after)()) as kernel:
        found = CheckpointStore(after.checkpoints, after.query_hash, kernel, threaded=False).newest()
        assert found is not None
        _, outputs = kernel.step(found.state, found.bucket, 10, {1: [row(kernel, 9, 100_001)]})
        (result,) = cast(DuckKernel, kernel).to_dicts(outputs[9].rows)
    assert result["n"] == 3 + PARTS + 1


def row(kernel: Any, i: int, stime: int = 1) -> Any:
    rows, _ = kernel.source_codec("s").decode(b'[{"i":%d}]' % i, "json", [stime])
    return kernel.settle([[rows]])[0]
