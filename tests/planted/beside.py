"""Planted in what is read of control and settings: when they expire, are compacted, made again, or hold garbage; and in
what becomes of a kernel that fails."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any
from unittest import mock

import msgspec

from borealis_py.app import state
from borealis_py.engine.operators import poison_rows
from borealis_py.log import messages
from borealis_py.log.base import LogError, OffsetGone, Record
from borealis_py.log.description import APP_KEY
from borealis_py.log.messages import decode
from borealis_py.node import dynamic_settings, input_reader
from borealis_py.node.input_reader import InputReader, PolledInputs
from borealis_py.node.replica import Replica
from borealis_py.protocol.incarnation import Heartbeat
from borealis_py.protocol.settings import Delays
from borealis_py.simulation.scenario import SECOND, Fault, Scenario
from borealis_py.simulation.toy_query import KernelFailed
from sunion.errors import RetentionLost
from tests.planted.bug import Bug, Script
from tests.planted.worlds import SOURCES, Worlds


def _heartbeats_are_needed_for_ever() -> Any:
    def skip(self: InputReader, gone: OffsetGone) -> None:
        raise RetentionLost(str(gone))

    return mock.patch.object(InputReader, "_skip", skip)


def _heartbeats_alone_tell_of_incarnations() -> Any:
    before = InputReader.read_control

    def read_control(self: InputReader) -> int:
        before(self)
        return max([0, *(beat.inc for _, beat in self._first_beats if beat.replica == self._spec.replica)])

    return mock.patch.object(InputReader, "read_control", read_control)


def _beyond_the_end_nothing_comes() -> Any:
    before = InputReader.poll

    def poll(self: InputReader) -> PolledInputs:
        with suppress(LogError):
            return before(self)
        return PolledInputs()

    return mock.patch.object(InputReader, "poll", poll)


def _settings_end_at_the_first_hole() -> Any:
    def read_settings(self: InputReader) -> None:
        feed = self._spec.settings_feed
        first, end = self._lookup.bounds(feed)
        at = first
        for record in self._lookup.read(feed, first, end):
            if record.offset != at:
                break
            self._settings.read(record)
            at += 1
        self._reader.open(feed, end)

    # The end of its own stream would tell its number, too.
    return mock.patch.multiple(InputReader, read_settings=read_settings, _spoken=lambda self: ())


def _any_key_will_do() -> Any:
    def read_beat(key: bytes | None, value: bytes | None, node: str) -> Heartbeat:
        return decode(value or b"", Heartbeat)

    return mock.patch.object(input_reader, "read_beat", read_beat)


def _decoded(raw: bytes, kind: Any) -> Any:
    return msgspec.json.decode(raw, type=kind)


def _heartbeats_are_not_too_deep() -> Any:
    return mock.patch.object(input_reader, "read_beat", lambda key, value, node: _decoded(value or b"", Heartbeat))


def _settings_are_not_too_deep() -> Any:
    return mock.patch.object(dynamic_settings, "decode", _decoded)


def _what_json_raises_ends_its_reader() -> Any:
    """Deep nesting and invalid UTF-8 raise other errors than what is no JSON."""
    return mock.patch.object(messages, "total", lambda decode, raw: decode(raw))


def _garbage_hides_the_description() -> Any:
    kept = state._described

    def described(name: str, records: Iterable[Record]) -> Any:
        newest = [record for record in records if record.key == APP_KEY.encode()][-1:]
        return kept(name, newest)

    return mock.patch.object(state, "_described", described)


def _a_failed_step_is_left_out() -> Any:
    before = Replica.turn

    def turn(self: Replica) -> None:
        with suppress(KernelFailed):
            before(self)

    return mock.patch.object(Replica, "turn", turn)


def _at(kind: str, since: float, until: float, detail: str = "", index: int = 0) -> Fault:
    return Fault(kind, index, int(since * SECOND), int(until * SECOND), detail)


def _one_replica(scenario: Scenario, *faults: Fault) -> Scenario:
    """Of each node one replica, that does what it can; a source is gone from 8 s on."""
    nodes = tuple(replace(node, replicas=1) for node in scenario.nodes)
    delays, timing = Delays(4_000_000), replace(scenario.timing, buffer_rows_max=2_000_000)
    gone = tuple(_at("source_cut", 8, 14, index=i) for i in range(scenario.sources))[:-1]
    cut = replace(scenario, nodes=nodes, lost=(), delays=delays, timing=timing, heal_us=16 * SECOND)
    return replace(cut, faults=(*faults, *gone), sources=scenario.sources)


def _started_without_heartbeats(scenario: Scenario) -> Scenario:
    """The replica has a high number when all heartbeats expire."""
    crashes = tuple(_at("crash", at, at + 0.3) for at in (2, 3, 4))
    return _one_replica(scenario, *crashes, *(_at("expired", at, at + 0.1, "starting") for at in (5, 5.7, 6.4)))


def _and_compacted(scenario: Scenario) -> Scenario:
    """Its number is told by the settings alone, of which the older records have gone."""
    without = _started_without_heartbeats(scenario)
    faults = (_at("compacted", 4.4, 7), *without.faults)
    return replace(without, faults=tuple(sorted(faults, key=lambda fault: fault.at_us)))


def _whoever_is_there_is_to_blame() -> Any:
    def isolate_bad_rows(runs: poison_rows.Runs, batch: Any) -> poison_rows.Isolated:
        return poison_rows.Isolated(None, dict.fromkeys(range(batch.num_rows), "poison"))

    return mock.patch.object(poison_rows, "isolate_bad_rows", isolate_bad_rows)


LATE = (
    "convergence",
    "availability",
    "content",
    "exception",
    "client",
    "end",
    "stagger",
    "needless",
    "avoidable",
    "overdue",
)
BUGS = (
    Bug(
        "R9 behind expired heartbeats one goes on",
        "liveness",
        _heartbeats_are_needed_for_ever,
        Worlds(("expired",), ("convergence",), found=2, seeds=30),
    ),
    Bug(
        "R11 incarnations outlive the heartbeats",
        "liveness",
        _heartbeats_alone_tell_of_incarnations,
        Worlds((), LATE, found=1, seeds=12, change=_started_without_heartbeats),
    ),
    Bug(
        "A0 a cursor beyond the end ends the replica",
        "liveness",
        _beyond_the_end_nothing_comes,
        Worlds(("made_again",), LATE, found=1),
    ),
    Bug(
        "A5 settings are read over the holes of compaction",
        "liveness",
        _settings_end_at_the_first_hole,
        Worlds((), LATE, found=1, seeds=12, change=_and_compacted),
    ),
    Bug(
        "A5 a heartbeat is the replica's that its key names",
        "liveness",
        _any_key_will_do,
        Worlds(
            ("bad_control", "crash", *SOURCES),
            ("superseded", "exception", "stagger", "diverged"),
            found=2,
            seeds=60,
            nodes=2,
        ),
    ),
    Bug(
        "B46 deep nesting is garbage in control",
        "liveness",
        _heartbeats_are_not_too_deep,
        Worlds(("bad_control",), ("exception",), found=1),
    ),
    Bug(
        "B46 deep nesting is garbage in settings",
        "liveness",
        _settings_are_not_too_deep,
        Worlds(("bad_settings",), ("exception",), found=1),
    ),
    Bug(
        "B59 bytes that none of us wrote end no reader",
        "liveness",
        _what_json_raises_ends_its_reader,
        Worlds(("bad_settings", "bad_control", "bad_progress"), ("exception",), found=1),
    ),
    Bug(
        "B59 what garbage displaced counts as long as the log has it",
        "liveness",
        _garbage_hides_the_description,
        script=Script(
            "tests/log/test_garbage.py::"
            "test_a_description_that_was_displaced_by_garbage_counts_as_long_as_the_log_has_it"
        ),
    ),
    Bug(
        "B47 of the rows beside a poisoned one none is to blame",
        "safety",
        _whoever_is_there_is_to_blame,
        Worlds(("poison",), ("stable", "dead letters", "client"), found=1),
    ),
    Bug(
        "B47 a replica whose kernel fails ends, and starts again",
        "safety",
        _a_failed_step_is_left_out,
        Worlds(
            ("kernel", *SOURCES),
            (
                "stable",
                "hole",
                "convergence",
                "client",
                "frontiers",
                "state",
                "exception",
                "availability",
                "overdue",
                "retention",
            ),
            found=3,
            seeds=30,
        ),
    ),
)
