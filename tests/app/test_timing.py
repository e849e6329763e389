"""The timing in an app's description: written by `up`, in force for all who read it, and when it may change. On the
simulated log.
"""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from borealis_py.app.errors import LaunchError
from borealis_py.app.state import AppState, read_settings
from borealis_py.app.timing import differences, ignored
from borealis_py.cli.shared.context import Context
from borealis_py.config.config import load
from borealis_py.kafka.log import KafkaLog
from borealis_py.log import topics
from borealis_py.log.description import APP_KEY
from borealis_py.protocol.settings import Timing
from borealis_py.query import App
from borealis_py.runtime.specs import kernel_of, replica_spec, work_of
from tests.harness.launching import described
from tests.support.app_log import NAME, AppLog

SLOW = Timing(slack_us=1_500_000, redo_rows=20)


class UpLog(AppLog):
    """A log with nothing in it until `up`."""

    def up(self, timing: Timing) -> AppState:
        app = App(NAME, bucket="100ms")
        app.query("q", app.source("s", schema={"x": "int64"}), "3s")
        return described(self, app, timing)

    def state(self) -> AppState:
        state = read_settings(self, NAME)
        assert state is not None
        return state

    def described(self) -> dict[str, Any]:
        """The newest description as it is written."""
        return msgspec.json.decode(self.values(topics.settings(NAME))[-1])

    def without_timing(self) -> None:
        """The description as earlier versions wrote it."""
        old = self.described()
        del old["timing"]
        self.put_value(topics.settings(NAME), APP_KEY, msgspec.json.encode(old))

    def runs(self, age_s: float = 0.0, event: str = "") -> None:
        self.say(at_wall_us=time.time_ns() // 1000 - int(age_s * 1e6), event=event)


@pytest.fixture
def log() -> UpLog:
    return UpLog()


def test_what_up_is_told_is_what_replicas_redos_and_subscribers_find(log: UpLog, tmp_path: Path) -> None:
    log.up(SLOW)
    state = log.state()
    assert state.timing == SLOW
    spec = replica_spec(state, "q", 0, KafkaLog("nowhere:1"), tmp_path)
    assert spec.timing == SLOW
    assert work_of(spec).ahead_max_us == SLOW.ahead_max_us


def test_replicas_and_redos_take_the_same_rows(log: UpLog, tmp_path: Path) -> None:
    log.up(replace(SLOW, row_max_bytes=2_000))
    spec = replica_spec(log.state(), "q", 0, KafkaLog("nowhere:1"), tmp_path)
    rows = b'[{"x":1},{"x":2,"y":"' + b"y" * 2_000 + b'"},{"x":3}]'
    for make in (kernel_of(spec), work_of(spec).make_kernel):
        with closing(make()) as kernel:
            taken, ((at, reason, _),) = kernel.source_codec("s").decode(rows, "json", [1, 2, 3])
            (taken,) = kernel.settle([[taken]])
        assert taken.column("x").to_pylist() == [1, 3]
        assert at == 1
        assert reason.endswith(", row_max is 2000: send less in it, or raise `timing: row_max`")


def test_all_of_it_is_written_so_that_a_version_with_other_defaults_reads_the_same(log: UpLog) -> None:
    log.up(Timing())
    written = log.described()
    assert written["timing"] == {name: getattr(Timing(), name) for name in Timing.__slots__}


@pytest.mark.later_version
def test_a_setting_that_this_version_has_not_and_one_that_it_alone_has(log: UpLog) -> None:
    log.up(SLOW)
    other = log.described()
    other["timing"] |= {"of_tomorrow_us": 1}
    del other["timing"]["gap_us"]
    log.put_value(topics.settings(NAME), APP_KEY, msgspec.json.encode(other))
    assert log.state().timing == SLOW


def test_the_same_timing_again_writes_nothing_and_asks_nobody(log: UpLog) -> None:
    log.up(SLOW)
    log.runs()
    told = list(log.told)
    assert log.up(SLOW).timing == SLOW
    assert log.told == told


def test_another_one_is_refused_while_a_replica_runs_and_nothing_is_written(log: UpLog) -> None:
    log.up(SLOW)
    log.runs()
    told = list(log.told)
    with pytest.raises(LaunchError, match=r"runs \(q\.r0\) .* slack 1500ms -> 250ms, redo_rows 20 -> 8000") as refused:
        log.up(Timing())
    assert "`borealis down`" in str(refused.value)
    assert (log.told, log.state().timing) == (told, SLOW)


@pytest.mark.parametrize(("age_s", "event"), [(0.0, "STOPPED"), (60.0, "")])
def test_another_one_is_in_force_from_the_next_run(log: UpLog, age_s: float, event: str) -> None:
    before = log.up(SLOW)
    log.runs(age_s, event)
    after = log.up(Timing())
    assert log.state().timing == after.timing == Timing()
    assert msgspec.structs.replace(after.description, timing=SLOW) == before.description


def test_what_decides_about_results_never_changes(log: UpLog) -> None:
    """Which tuples count is part of a source's fold: replicas, redos and audits of other times would not agree."""
    log.up(SLOW)
    with pytest.raises(LaunchError, match=r"takes tuples up to 1m ahead .*`ahead_max: 1m`.*--reset"):
        log.up(replace(SLOW, ahead_max_us=120_000_000))
    with pytest.raises(LaunchError, match=r"takes rows of up to 1000000 bytes.*`row_max: 1000000`.*--reset"):
        log.up(replace(SLOW, row_max_bytes=2_000_000))
    assert log.state().timing == SLOW


def test_a_description_without_one_has_the_defaults_until_up_says_otherwise(log: UpLog) -> None:
    log.up(SLOW)
    log.without_timing()
    assert log.state().timing == Timing()
    log.runs()
    wanted = replace(SLOW, ahead_max_us=120_000_000)
    assert log.up(wanted).timing == log.state().timing == wanted


def test_differences_have_units() -> None:
    assert differences(SLOW, SLOW) == []
    assert differences(Timing(), SLOW) == ["slack 250ms -> 1500ms", "redo_rows 8000 -> 20"]


def test_a_configuration_that_asks_for_what_does_not_run_is_named() -> None:
    configured = dict(load(timing={"slack": "2s", "delta": "125ms", "redo_rows": 7}).timing_overrides())
    assert ignored(configured, SLOW) == ["slack 2s (1500ms)", "redo_rows 7 (20)"]
    assert ignored({}, SLOW) == []


def test_a_command_says_that_the_timing_of_its_configuration_does_not_count(
    log: UpLog, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Context, "check_broker", lambda _: None)
    log.up(SLOW)
    here = Context(load(timing={"slack": "2s"}), cast(KafkaLog, log))
    assert here.app(NAME).timing == SLOW
    said = " ".join(capsys.readouterr().err.split())
    assert said == "`timing:` here is not that of app a: slack 2s (1500ms). Only `up` sets it"
    assert replace(here, config=load(timing={"slack": "1500ms"})).app(None).timing == SLOW
    assert capsys.readouterr().err == ""
