"""Where an app begins to read its foreign topics: asked by its first `up`, and kept in its description.

A topic that is read from its end has rows before that; what belongs together with them would not be whole. Every
ingress begins at the same records, so that rows written since `up` are copied, however late an ingress starts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress

from borealis_py.app.errors import LaunchError
from borealis_py.app.foreign import ClusterLog, partitions_of
from borealis_py.ingress.decoder import TopicDecoder
from borealis_py.ingress.decoders import decoder_for
from borealis_py.ingress.topic_stimes import TimesMisread, first_stime, last_stime
from borealis_py.log.base import Feed, LogError, Lookup
from borealis_py.log.schema_registry import SchemaRegistry
from borealis_py.protocol.settings import Timing
from borealis_py.query.spec import AppSpec, Beginning

ClusterRegistry = Callable[[str | None], SchemaRegistry]
"""The schema registry of a cluster by its name in the configuration; None: the app's own."""


def earliest_foreign_us(spec: AppSpec, log_of: ClusterLog, timing: Timing, registry_of: ClusterRegistry) -> int | None:
    """The time of the first row in those topics that are read from their beginning; None: there is none.

    Raises:
        LogError: one of them cannot be read.
        LaunchError: the times of one are in another unit than it is said to have.
    """
    firsts = []
    for name, ingress in spec.ingresses.items():
        if ingress.start == "earliest":
            log = log_of(ingress.cluster)
            with decoder_of(spec, name, timing, registry_of) as decoder, closing(log.lookup()) as lookup:
                partitions = partitions_of(log, ingress.topic)
                try:
                    firsts.append(first_stime(lookup, ingress.topic, partitions, decoder))
                except TimesMisread as exc:
                    raise LaunchError(
                        f"app {spec.name!r}: source {name!r}: {exc}, or begin at start='latest'"
                    ) from None
    return min((first for first in firsts if first is not None), default=None)


def beginnings(
    spec: AppSpec, log_of: ClusterLog, timing: Timing, registry_of: ClusterRegistry, wall_us: Callable[[], int]
) -> Mapping[str, Beginning]:
    """Where each topic begins that is read from its end, by source.

    Where a clock moves the boundary, rows that were read so far are of before now; where only rows do, they are of
    before the last of them.

    Args:
        wall_us: asks for the wall time in microseconds.

    Raises:
        LogError: one of them cannot be read.
    """
    found = {}
    for name, ingress in spec.ingresses.items():
        if ingress.start == "latest":
            log = log_of(ingress.cluster)
            with closing(log.lookup()) as lookup:
                ends = [lookup.bounds(Feed(ingress.topic, p)) for p in range(partitions_of(log, ingress.topic))]
                whole_us = 0
                if any(end > first for first, end in ends):
                    now_us = wall_us()  # after the ends: no row that has been read so far is later
                    last = _last(spec, name, lookup, ends, now_us, timing, registry_of)
                    whole_us = max(now_us if ingress.boundary == "clock" else 0, last + 1)
                found[name] = Beginning(offsets=tuple(end for _, end in ends), whole_us=whole_us)
    return found


def _last(
    spec: AppSpec,
    name: str,
    lookup: Lookup,
    ends: list[tuple[int, int]],
    now_us: int,
    timing: Timing,
    registry_of: ClusterRegistry,
) -> int:
    """The stime of the last row before these ends, -1: there is none. Where a clock is the measure anyway, it does not
    matter that records cannot be decoded now."""
    ingress, most_us = spec.ingresses[name], now_us + timing.ahead_max_us
    last = None
    ignored = (LogError,) if ingress.boundary == "clock" else ()
    with suppress(*ignored), decoder_of(spec, name, timing, registry_of) as decoder:
        last = last_stime(lookup, ingress.topic, ends, decoder, most_us)
    return -1 if last is None else last


@contextmanager
def decoder_of(spec: AppSpec, name: str, timing: Timing, registry_of: ClusterRegistry) -> Iterator[TopicDecoder]:
    """Decodes the records of the topic that feeds a source; new, and until the end of the block."""
    ingress = spec.ingresses[name]
    with ExitStack() as stack:
        registry = None
        if ingress.needs_registry:
            registry = stack.enter_context(closing(registry_of(ingress.cluster)))
        yield decoder_for(name, ingress, spec.sources[name], timing.row_max_bytes, registry=registry)
