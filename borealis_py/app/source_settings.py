"""Changes what holds for a source that an ingress writes, while it runs: validation, writing, and waiting until its
ingresses report that they obey. Blocking; for commands. Works on any log, knows no terminal.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass

import msgspec

from borealis_py.app.state import GONE_S, RECENT_MS, AppState, StatusReader, UnknownName, put_settings
from borealis_py.app.waits import check_waits
from borealis_py.ingress.source_settings import SourceSettings
from borealis_py.log import topics
from borealis_py.log.base import Feed, Log, Lookup
from borealis_py.log.ingress_status import IngressRole, IngressStatus
from borealis_py.log.records import BatchHeader, EnvelopeError, unpack_source
from borealis_py.protocol.settings import SettingsError
from borealis_py.query.errors import did_you_mean
from borealis_py.query.ingress_spec import INGRESSES
from borealis_py.query.names import base_name, part_name

LOOK_S = 0.1
TAIL = 50
"""Records of an input's log that are looked at first: each batch of an ingress names all partitions of the input."""

Obeys = Callable[[SourceSettings], bool]
"""Whether settings that an ingress reports are as they should be, as far as they were changed."""


@dataclass(frozen=True, slots=True)
class IngressObeys:
    """Ingress `index`. `running`: a status of it came within the last 5 s. `since_wall_us`: when it first reported that
    it obeys (microseconds since 1970); None: not yet. `status`: its newest; None: there is none."""

    index: int
    running: bool
    since_wall_us: int | None
    status: IngressStatus | None

    @property
    def pending(self) -> bool:
        """Whether it runs, and has not reported that it obeys."""
        return self.running and self.since_wall_us is None

    @property
    def ended(self) -> bool:
        """Whether it reports that the source has ended."""
        return self.status is not None and self.status.role is IngressRole.ENDED


@dataclass(frozen=True, slots=True)
class SourceChanged:
    """The outcome of a change to `source`. `written`: False if it was so already. `ingresses`: those of the source."""

    source: str
    written: bool
    ingresses: tuple[IngressObeys, ...]

    @property
    def pending(self) -> tuple[IngressObeys, ...]:
        """Ingresses that run and do not obey yet."""
        return tuple(one for one in self.ingresses if one.pending)

    @property
    def ended(self) -> bool:
        """Whether an ingress reports that the source has ended."""
        return any(one.ended for one in self.ingresses)

    @property
    def owner(self) -> IngressStatus | None:
        """The newest status of the ingress that copies; None: none does."""
        running = [one.status for one in self.ingresses if one.running and one.status is not None]
        return next((status for status in running if status.role is IngressRole.OWNER), None)


def refuse_other(state: AppState, source: str) -> None:
    """Raises NoSuchApp, with what exists, for anything but a source that an ingress writes."""
    if source in state.spec.ingresses:
        return
    spec, name, ours = state.spec, base_name(source), ", ".join(state.spec.ingresses) or "none"
    if name in spec.ingresses:
        raise UnknownName(f"{source!r} is an input of source {name!r}: settings are the source's. Name {name!r}")
    if name in spec.sources:
        why = f"source {source!r} has publishers, and reads no topic of other programs; sources that do:"
    elif source in spec.all_nodes:
        why = f"{source!r} is a {spec.label(source).split()[0]}, not a source; sources that read topics of others:"
    else:
        hint = did_you_mean(source, spec.sources) or ";"
        why = f"there is no source {source!r}{hint} sources that read topics of others:"
    raise UnknownName(f"app {state.name!r}: {why} {ours}")


def check_skip(log: Log, state: AppState, source: str, partition: int) -> None:
    """Check that a partition can be given up.

    Raises:
        NoSuchApp: the topic has no such partition, as far as it was copied.
        SettingsError: its ingress reads it, or nothing would be left to go by.
        LogError: the app's topics cannot be read.
    """
    spec, known = state.spec.ingresses[source], copied_partitions(log, state, source)
    if partition not in known:
        there = ", ".join(map(str, sorted(known))) or "none yet: its ingress has not begun to copy it"
        raise UnknownName(
            f"source {source!r}: topic {spec.topic!r} has no partition {partition} that was ever copied. Partitions: "
            f"{there}"
        )
    left = known - state.source_settings(source).skipped - {partition}
    if spec.boundary == "data" and not left:
        raise SettingsError(
            f"source {source!r} goes by the data, and partition {partition} is the last that it goes by: without it "
            f"nothing tells how far it is. If nothing more comes, `borealis source end {source}`"
        )
    with closing(StatusReader(log, state.name, time.time_ns() // 1_000_000 - RECENT_MS)) as reader:
        reader.poll()
        owner = next((s for s in _of(reader, source) if s.role is IngressRole.OWNER and not _old(s)), None)
    if owner is None:
        return
    names = spec.input_names()
    fed = {part_name(source, names[i]) for i in _fed_by(state, source, partition)}
    waits = [one for one in owner.inputs if one.name in fed and one.missing]
    others = all(one.unreadable and partition not in one.unreadable for one in waits)
    if not waits or others:
        raise SettingsError(
            f"source {source!r}: partition {partition} of topic {spec.topic!r} can be read, and nothing waits for it. "
            "Given up, its rows could be late"
        )


def check_expect(state: AppState, source: str, expect_us: int | None) -> None:
    """Check that every query which reads the source could still be in time.

    Raises:
        SettingsError: the source goes by the data.
        QueryError: it names the silence and how long the query waits.
    """
    if state.spec.ingresses[source].boundary == "data":
        raise SettingsError(
            f"source {source!r} goes by the data (boundary='data'): an input of it is missing as soon as it is silent"
        )
    spec = state.in_force()
    changed = spec.ingresses[source].model_copy(update={"expect_us": expect_us})
    spec = spec.model_copy(update={"ingresses": {**spec.ingresses, source: changed}})
    check_waits(spec, state.timing, [query for query in spec.queries if source in spec.sources_of(query)])


def copied_partitions(log: Log, state: AppState, source: str) -> frozenset[int]:
    """The partitions of its topic that the logs of a source's inputs name. Raises LogError."""
    with closing(log.lookup()) as lookup:
        found = [
            _named_in(lookup, topics.source(state.name, part_name(source, i)), state.app_uid)
            for i in range(state.spec.ingresses[source].inputs)
        ]
    return frozenset().union(*found)


def change_source(
    log: Log,
    state: AppState,
    source: str,
    values: Mapping[str, msgspec.Struct],
    obeys: Obeys,
    timeout_s: float,
    done: Callable[[SourceChanged], bool] = lambda found: not found.pending,
) -> SourceChanged:
    """Write settings, unless they are in force, and wait until every running ingress reports that it obeys.

    Args:
        timeout_s: limit of the wait; what was written stays.
        done: when to stop waiting before that.

    Raises:
        LogError: the settings could not be written.
    """
    written = not obeys(state.source_settings(source))
    heard: dict[int, float] = {}
    since: dict[int, int] = {}
    with closing(StatusReader(log, state.name, time.time_ns() // 1_000_000 - RECENT_MS)) as reader:
        reader.poll()
        known = {status.ingress: status for status in _of(reader, source)}
        for k, status in known.items():  # its age is known by its own clock only; later ones are as old as our polls
            heard[k] = time.monotonic() - max(0.0, time.time() - status.at_wall_us / 1e6)
        if written:
            put_settings(log, state.name, values)
        deadline = time.monotonic() + timeout_s
        while True:
            for status in _of(reader, source):
                if known.get(status.ingress) != status:
                    known[status.ingress], heard[status.ingress] = status, time.monotonic()
                if status.role is IngressRole.ENDED or obeys(_settings_of(status)):
                    since.setdefault(status.ingress, status.at_wall_us)
            found = SourceChanged(source, written, tuple(_obeys(k, known, heard, since) for k in _indices(known)))
            if done(found) or time.monotonic() > deadline:
                return found
            time.sleep(LOOK_S)
            reader.poll()


def _indices(known: Mapping[int, IngressStatus]) -> list[int]:
    return sorted({*range(INGRESSES), *known})


def _obeys(
    index: int, known: Mapping[int, IngressStatus], heard: Mapping[int, float], since: Mapping[int, int]
) -> IngressObeys:
    status = known.get(index)
    if status is None or status.role is IngressRole.STOPPED:
        return IngressObeys(index, False, None, status)
    running = status.role is IngressRole.ENDED or time.monotonic() - heard[index] < GONE_S
    return IngressObeys(index, running, since.get(index), status)


def _of(reader: StatusReader, source: str) -> list[IngressStatus]:
    return [status for (name, _), status in reader.ingresses.items() if name == source]


def _old(status: IngressStatus) -> bool:
    return time.time() - status.at_wall_us / 1e6 > GONE_S


def _settings_of(status: IngressStatus) -> SourceSettings:
    return SourceSettings(status.expect_us, frozenset(status.skipped), status.ending)


def _fed_by(state: AppState, source: str, partition: int) -> range:
    spec = state.spec.ingresses[source]
    only = spec.input_of_partition(partition)
    return range(spec.inputs) if spec.by is not None else range(only, only + 1)


def _named_in(lookup: Lookup, feed: Feed, app_uid: str) -> frozenset[int]:
    """The partitions that the last batch which names any names; none: there is no such batch."""
    first, end = lookup.bounds(feed)
    back = TAIL
    while True:
        begin = max(first, end - back)
        named: frozenset[int] = frozenset()
        for record in lookup.read(feed, begin, end):
            try:
                header, _ = unpack_source(record.value)
            except EnvelopeError:
                continue
            if isinstance(header, BatchHeader) and header.app_uid == app_uid and header.at:
                named = frozenset(p for p, _ in header.at)
        if named or begin == first:
            return named
        back *= 8
