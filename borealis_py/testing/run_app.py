"""`run`: what an app's corrected streams hold in the end, computed at once.

Production publishers write the rows into the simulated log, those of foreign topics are copied into it, and each query
is computed from it as the audit does: same fold, order and kernel, over the whole of its nodes as one. So the rows are
those that replicas publish, bit for bit.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing

from borealis_py.app.state import AppState
from borealis_py.client.rows import raw_json
from borealis_py.client.session import PublisherSession
from borealis_py.client.stimes import Boundaries
from borealis_py.client.subscriber import Row
from borealis_py.engine import compile_query
from borealis_py.engine.applied.code_in_place import CodeInPlace
from borealis_py.log import topics
from borealis_py.log.kernel import Kernel
from borealis_py.query import App
from borealis_py.query.names import base_name
from borealis_py.query.partitions import flattened, parts_of
from borealis_py.query.spec import AppSpec
from borealis_py.query.times import time_form
from borealis_py.query.units import parse_duration
from borealis_py.simulation.clock import Scheduler
from borealis_py.simulation.latency import Latencies
from borealis_py.simulation.log.client import MemoryLog
from borealis_py.simulation.quiet import quiet
from borealis_py.testing.given_topics import decoded_topics
from borealis_py.testing.loading import check_source, described, loaded, target_of
from borealis_py.testing.results import RefusedRow, Results, refused
from borealis_py.testing.rows import GivenRow, TimedRow, given
from borealis_py.testing.times import START_US
from borealis_py.testing.topic_records import TopicRow
from reconcile.audit import whole_ranges
from reconcile.replay import Replay
from reconcile.replay_context import ReplayContext
from sunion.bucket import Buckets
from sunion.model import Output, TupleId

STIME_MAX = 2**53
"""Times from here on, or before 1970, are no app's beginning: such rows become dead letters."""


def run(
    app: App,
    rows: Mapping[str, Iterable[TimedRow | TopicRow]],
    *,
    stime: str | None = None,
    stime_unit: str | None = None,
    stime_format: str | None = None,
    every: str = "1ms",
    lateness: str | None = None,
) -> Results:
    """Compute all queries of an app over these rows: what is in the corrected streams once every source has ended.

    Args:
        rows: for each source its rows, as dicts of columns. A source that is left out has none; a source with
            partitions is given by partition ("clicks.0"). A row's time is, in this order: that of a pair
            `(time, row)`, written in any way that `to_stime` takes; that in the column `stime`; or by `every`. A topic
            of other programs is given by its name ("orders"): what its producers write, in order, as dicts (they become
            JSON objects), as bytes in its format, or as `TopicRecord`; the time of a pair is the record's in Kafka.
        stime: a column with the times: numbers, ISO 8601 or `datetime`. It need not be in the source's schema. Topics
            go by their own `stime=`.
        stime_unit: what a number in that column counts since 1970: "s", "ms", "us" or "ns". None: microseconds, and a
            number that looks like another unit is a dead letter.
        stime_format: how text in that column is written, like "%d.%m.%Y %H:%M:%S" (`datetime.strptime`); UTC without
            a zone.
        every: rows without a time follow each other at this distance, from 2026-01-01 on ("0s": all at once).
        lateness: None: no row is late, whatever the order. Otherwise rows arrive in the given order, and one whose time
            lies more than this behind the largest before it in its source is a dead letter. Topics go by their own
            `lateness=`, in each partition. There is no clock: nothing is in the future.

    Returns:
        The rows of each query, and the dead letters.

    Raises:
        QueryError: what `borealis check` says of the app; or something that is no duration.
        SettingsError: a threshold that cannot hold.
        NoSuchApp: no such source; the message has the nearest names.
        TypeError, ValueError: something that is no row or record, or no time.
    """
    spec = loaded(app)
    form = time_form(stime_unit, stime_format, "stime_unit", "stime_format")
    every_us = parse_duration(every, "every", zero=True)
    lateness_us = None if lateness is None else parse_duration(lateness, "lateness", zero=True)
    own = {source: some for source, some in rows.items() if source not in spec.ingresses}
    foreign = decoded_topics(spec, rows, every_us)
    timed = {source: given(some, source, stime, START_US, every_us, form) for source, some in own.items()}
    stimes = [row.stime for some in timed.values() for row in some if row.stime is not None]
    stimes += [stime for topic in foreign for stime in topic.stimes]
    buckets = Buckets(spec.bucket_us)
    origin = buckets.of(min((at for at in stimes if 0 < at < STIME_MAX), default=START_US))
    log = MemoryLog(Scheduler(START_US), delays=_AT_ONCE)
    state = described(spec, log, origin)
    for source in timed:
        check_source(state, source)
    with quiet():
        for source in state.runs.sources:
            if base_name(source) not in spec.ingresses:
                _publish(log, state, source, timed.get(source, []), lateness_us)
        for topic in foreign:
            topic.copy(log, state)
        return _computed(log, state)


def _none(_: random.Random) -> int:
    return 0


_AT_ONCE = Latencies(_none, _none, _none, _none, _none, _none, _none)


def _publish(log: MemoryLog, state: AppState, source: str, rows: Sequence[GivenRow], lateness_us: int | None) -> None:
    """Send all rows of a source, then END. Raises NoSuchApp for an unknown source."""
    target = target_of(state, source)
    now_us = max((row.stime for row in rows if row.stime is not None), default=START_US)
    session = PublisherSession(
        log.client(source), target, state.schema(source), source, _awake, False, Boundaries.DATA, lateness_us or 0
    )

    def settle() -> None:
        log.scheduler.run_until(log.scheduler.now_us)
        session.turn(now_us)

    while not session.ready:
        settle()
    for seq, row in enumerate(_in_time(rows) if lateness_us is None else rows):
        if row.stime is None:
            session.reject(raw_json(row.values), row.reason, seq, now_us)
        else:
            session.send(row.values, row.stime, seq, now_us)
        while session.full:
            settle()
    session.close(end=True)
    while not session.settled:
        settle()
    session.release()


def _awake() -> None:
    """Nothing sleeps here."""


def _in_time(rows: Sequence[GivenRow]) -> list[GivenRow]:
    """By time; rows of one time, and those that have none, stay where they are among those before them."""
    times: list[int] = []
    for row in rows:
        before = times[-1] if times else -STIME_MAX
        times.append(before if row.stime is None else row.stime)
    return [rows[n] for n in sorted(range(len(rows)), key=times.__getitem__)]


def _computed(log: MemoryLog, state: AppState) -> Results:
    streams: dict[str, tuple[Row, ...]] = {}
    letters: list[RefusedRow] = []
    told: set[str] = set()
    for query in state.spec.queries:
        rows: list[Row] = []
        mine = {*state.spec.upstream_of(query), *state.runs.sources} - told
        for number, (part, flat) in enumerate(
            zip(parts_of(state.spec, query), flattened(state.spec, query), strict=True)
        ):
            for bucket, output, kernel in _outputs(log, state, part, flat):
                rows += _rows(bucket, output, kernel, number)
                if not number:  # each partition computes the whole query and takes its rows only at the end
                    letters += [refused(bucket, one) for one in output.rejects if one.source in mine]
        told |= {*state.spec.upstream_of(query), *(s for p in parts_of(state.spec, query) for s in _read(state, p))}
        streams[query] = tuple(rows)
    return Results(streams, tuple(sorted(letters, key=lambda letter: letter.bucket)))


def _read(state: AppState, part: str) -> tuple[str, ...]:
    """The sources that a partition's rows come from: the first query that reads one tells its dead letters."""
    return state.runs.sources_of(part)


def _outputs(log: MemoryLog, state: AppState, part: str, flat: AppSpec) -> Iterator[tuple[int, Output, Kernel]]:
    """What one partition of a query computes, bucket by bucket."""
    inputs, timing = flat.inputs_of(part), state.timing
    work = ReplayContext(
        node=part,
        make_kernel=lambda: compile_query(flat, part, timing.row_max_bytes, code=CodeInPlace()),
        log=log.client("run"),
        inputs=inputs,
        feeds=tuple(topics.input_feeds(flat.name, of) for of in inputs),
        width_us=flat.bucket_us,
        ahead_max_us=timing.ahead_max_us,
        app_uid=state.app_uid,
    )
    with closing(work.open()) as on:
        replay = Replay(on, state.origin, on.kernel.initial(), whole_ranges(on, state.origin))
        for chunk in replay.run():
            for bucket, output in chunk.outputs.items():
                yield bucket, output, on.kernel


def _rows(bucket: int, output: Output, kernel: Kernel, partition: int) -> Iterator[Row]:
    if output.rows is not None:
        for index, (value, stime) in enumerate(kernel.published(output.rows)):
            yield Row(str(TupleId(bucket, index)), stime, json.loads(value), partition)
