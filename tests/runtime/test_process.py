"""The replica process refuses what it must not run with, by name."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from borealis_py.app import launch
from borealis_py.app.process_spec import VARIABLE, ProcessSpec
from borealis_py.app.supervisor.exit_codes import REFUSED
from borealis_py.demo.flights import app
from borealis_py.engine.keyed.table_file import known
from borealis_py.protocol.settings import DelayPolicy, Delays, Timing
from borealis_py.query import App
from borealis_py.runtime.ends import KernelDiffers
from borealis_py.runtime.kernel_check import check_fingerprint
from borealis_py.runtime.process import index_in_use
from borealis_py.runtime.process.__main__ import main
from borealis_py.runtime.process.index_in_use import IndexTaken, ensure_free
from borealis_py.runtime.specs import replica_spec, work_of
from sunion.model import Input
from tests.harness.running import RunningApp, running
from tests.harness.waiting import PATIENCE_S


def small(name: str) -> App:
    it = App(name, bucket="50ms")
    it.query("all", it.source("src", schema={"n": "int64"}), delay_threshold="1s", replicas=1)
    return it


@pytest.mark.broker
def test_another_kernel_than_the_one_that_described_the_app_is_refused(bootstrap: str, tmp_path: Path) -> None:
    with running(bootstrap, small("other-kernel"), tmp_path) as it:
        spec = replica_spec(it.state, "all", 0, it.log, tmp_path)
        check_fingerprint(spec, it.state)
        other = replace(it.state, description=_with_fingerprint(it, "0123"))
        with pytest.raises(KernelDiffers, match=r"query 'all': .* the app was described with 0123"):
            check_fingerprint(spec, other)


def _with_fingerprint(it: RunningApp, fingerprint: str):  # type: ignore[no-untyped-def]
    return msgspec.structs.replace(it.state.description, fingerprint=fingerprint)


@pytest.mark.broker
def test_a_taken_replica_index_is_refused_and_a_free_one_is_not(
    bootstrap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(bootstrap, small("taken"), tmp_path) as it:
        spec = replica_spec(it.state, "all", 0, it.log, tmp_path)
        ensure_free(it.log, [spec])
        it.start(0)
        it.wait_ready(0)
        with monkeypatch.context() as patch:
            patch.setattr(index_in_use, "WATCH_S", PATIENCE_S)
            with pytest.raises(IndexTaken, match=r"replica 0 of query all is already running .*--take-over"):
                ensure_free(it.log, [spec])
        it.stop(0)
        ensure_free(it.log, [spec])


@pytest.mark.broker
def test_each_node_of_a_chain_is_told_where_it_stands(bootstrap: str, tmp_path: Path) -> None:
    it = App("chain-specs", bucket="100ms")
    s, t = (it.source(n, schema={"n": "int64"}) for n in ("s", "t"))
    cut = s.filter("n > 0").node("cut", replicas=2)
    it.query("fast", it.union(cut, t), delay_threshold="1s", replicas=1)
    it.query("slow", cut.filter("n > 9").node("mid"), delay_threshold="9s", on_failure="delay", replicas=3)
    with running(bootstrap, it, tmp_path) as app:
        cut_spec, mid, fast, slow = (
            replica_spec(app.state, node, 0, app.log, tmp_path) for node in app.state.spec.all_nodes
        )
    assert [s.partition for s in (cut_spec, mid, fast, slow)] == [0, 1, 2, 3]
    assert [s.position for s in (cut_spec, mid, fast, slow)] == [1, 2, 2, 3]
    assert [s.corrected for s in (cut_spec, mid, fast, slow)] == [False, False, True, True]
    assert fast.inputs == (Input("cut", 2, ("s",)), Input.source("t"))
    assert [f.topic for f in fast.feeds(0)] == ["chain-specs.cut.r0", "chain-specs.cut.r1"]
    assert [(s.query, s.hops, s.depth) for s in cut_spec.serves] == [("fast", 1, 2), ("slow", 2, 3)]
    assert cut_spec.delays == {"fast": Delays(1_000_000), "slow": Delays(9_000_000, DelayPolicy.DELAY)}
    assert list(slow.delays) == ["slow"]
    assert len({s.query_hash for s in (cut_spec, mid, fast, slow)}) == 4
    assert work_of(mid).inputs == (Input("cut", 2, ("s",)),)


@pytest.mark.broker
def test_a_process_of_an_unknown_node_or_index_is_told(
    bootstrap: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, ProcessSpec(bootstrap, tmp_path).environment()[VARIABLE])
    with running(bootstrap, small("no-such"), tmp_path):
        assert main(["--app", "no-such", "--replica", "0", "--node", "al"]) == REFUSED.code
        assert "did you mean 'all'" in capsys.readouterr().err
        assert main(["--app", "no-such", "--replica", "1"]) == REFUSED.code
        assert "none of all has a replica 1" in capsys.readouterr().err


def test_no_broker_at_start_is_told_with_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, ProcessSpec("localhost:1", tmp_path).environment()[VARIABLE])
    assert main(["--app", "x", "--replica", "0"]) == 1
    said = capsys.readouterr()
    assert "borealis broker up" in said.out + said.err


@pytest.mark.broker
def test_an_unknown_app_is_told(
    bootstrap: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, ProcessSpec(bootstrap, tmp_path).environment()[VARIABLE])
    assert main(["--app", "nobody", "--replica", "0"]) == 1
    said = capsys.readouterr()
    assert "nobody" in said.out + said.err


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "BOREALIS_PROCESS is not set: start replica processes with `borealis replica`"),
        ("{", "BOREALIS_PROCESS cannot be read: Input data was truncated."),
        ('{"bootstrap": "h:1", "data_dir": "d", "hosts": "spark"}', "Object contains unknown field `hosts`."),
        ('{"bootstrap": "h:1", "data_dir": "d", "host": "yarn"}', "host 'yarn' is neither process nor spark."),
        ('{"bootstrap": "h:1"}', "Object missing required field `data_dir`."),
        ('{"bootstrap": "h:1", "data_dir": 5}', "not a path - at `$.data_dir`."),
    ],
)
def test_a_process_that_is_told_nonsense_says_so_in_one_line(
    text: str | None, why: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    if text is not None:
        monkeypatch.setenv(VARIABLE, text)
    assert main(["--app", "x", "--replica", "0"]) == REFUSED.code
    (line,) = "".join(capsys.readouterr()).splitlines()
    assert VARIABLE in line
    assert why in line


def test_the_demos_app_is_what_the_checker_expects() -> None:
    reports = launch.check(app.describe().with_files(known), Timing())
    assert [r.name for r in reports] == ["carrier_delays", "very_late"]


@pytest.mark.parametrize("module", ["borealis_py.runtime.process.__main__", "borealis_py.runtime.spark.driver"])
def test_a_driver_loads_no_engine_and_who_needs_no_spark_none(module: str) -> None:
    """They weigh more than all else that it loads."""
    heavy = ("duckdb", "pyarrow", "numpy", "pandas", "pyspark.sql")
    code = f"import sys, {module}; print([m for m in {heavy} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_the_parent_of_workers_has_loaded_all_of_them_and_no_thread() -> None:
    code = (
        "import os, sys; from borealis_py.runtime.spark import daemon; daemon.load(); "
        "print(len(os.listdir('/proc/self/task')), *(m in sys.modules for m in ('pandas', 'borealis_py.engine'))); "
        "import duckdb; print(duckdb.execute('SELECT ?', [2]).fetchall(), 'pandas' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said == "1 False True\n[(2,)] False\n"
