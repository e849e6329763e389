"""Deletes what a replica decides that nobody may still read, in a thread of its own (R16).

Clients belong to one thread (ARCHITECTURE: "one thread opens, uses and closes a client"), so this one opens its own.
Nothing that fails here stops a replica: nothing is deleted then, and its status says why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

import structlog

from borealis_py.log.base import Deleter, Feed, Log, LogError, Lookup
from borealis_py.log.description import check_life
from borealis_py.node.pulse import repeating
from borealis_py.node.replica import Replica
from borealis_py.node.trimmer import Trims

log = structlog.get_logger(__package__)

END_S = 2.0
"""How long the end of a replica waits for a request that is on its way."""


class TrimLoop:
    """One replica's deletions. Used by one thread. `close` before it ends."""

    def __init__(self, replica: Replica, log_: Log) -> None:
        self._replica = replica
        self._log = log_
        self._opened = ExitStack()
        self._clients: tuple[Lookup, Deleter] | None = None
        self._told: dict[Feed, str] = {}
        self._failed = ""
        self._trims = Trims()
        """What was decided last."""

    def once(self) -> None:
        """Decide and delete. Where everything is to be kept it needs no client.

        A failure is logged once and told in the replica's status, and tried again with new clients the next time.
        """
        if not self._replica.trims_anything:
            self.close()
            self._replica.trimmed(Trims(), {})
            return
        try:
            lookup, deleter = self._clients or self._open()
            self._trims = trims = self._replica.decide_trims(lookup)
            refused = (
                deleter.delete_before(trims.deletions, partial(self._check_life, lookup)) if trims.deletions else {}
            )
        except LogError as exc:
            if str(exc) != self._failed:
                log.warning("nothing is trimmed: the log cannot be used for it", why=str(exc))
            self._cannot(str(exc))
            return
        except Exception as exc:  # a client may be beyond use: the next attempt has others
            self._cannot(f"{type(exc).__name__}: {exc}")
            raise
        self._failed = ""
        self._replica.trimmed(trims, refused)
        for feed, why in refused.items():
            if self._told.get(feed) != why:
                log.warning("not trimmed; everything else goes on", topic=feed.topic, partition=feed.partition, why=why)
        others = {feed: why for feed, why in self._told.items() if feed not in trims.deletions}
        self._told = {**others, **refused}

    def _cannot(self, why: str) -> None:
        self._replica.trimmed(self._trims, {feed: why for of in self._trims.found for feed in of.feeds})
        self._failed = why
        self.close()

    def _check_life(self, lookup: Lookup) -> None:
        """Each deletion may come long after it was decided: while this process was suspended, or brokers did not
        answer, topics may have been made again under the same names. Raises LogError."""
        spec = self._replica.spec
        check_life(lookup, spec.app, spec.app_uid)

    def _open(self) -> tuple[Lookup, Deleter]:
        lookup = self._log.lookup()
        self._opened.callback(lookup.close)
        deleter = self._log.deleter()
        self._opened.callback(deleter.close)
        self._clients = lookup, deleter
        return self._clients

    def close(self) -> None:
        """Close the clients; `once` opens others."""
        self._clients = None
        self._opened.close()


@contextmanager
def trimming(replica: Replica, log_: Log, every_us: int) -> Iterator[None]:
    """Trim every `every_us` microseconds in another thread, until the block ends."""
    loop = TrimLoop(replica, log_)
    with repeating(partial(_guarded, loop.once), every_us, "trimming", loop.close, END_S):
        yield


def _guarded(once: Callable[[], None]) -> None:
    try:
        once()
    except Exception:  # what nobody expected must not end trimming for ever, nor go unseen
        log.exception("trimming failed; it is tried again")
