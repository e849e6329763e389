"""The meaning of the acknowledgements in the log, record by record (R16.10). Pure.

Liveness is local (R8.1): a replica is silent once this reader has read back an acknowledgement of its own that it sent
`silence_us` after it last heard that replica. All lie in one log, so whatever the other one said until then has been
read, however long the reader itself was away.
"""

from __future__ import annotations

from collections.abc import Mapping

from borealis_py.protocol.incarnation import why_shared
from borealis_py.protocol.trimming.need import Need, Needs, ReplicaName
from sunion.units import MonotonicUs, Offset

SILENCE_US = 3_600_000_000
"""After an hour without a word, live peers may stand for a replica. An outage that is shorter costs no detour."""


SENT_MAX = 64
"""How many acknowledgements that have not been read back are remembered: ten minutes of them."""


class AckFold:
    """What the replicas of an app have said, as far as one of them has read. `own`: that one.

    Attributes:
        number_shared: why that one must start again with a number of its own: what it says by the one it has is not
            believed (B30). None: it need not.
    """

    def __init__(self, own: ReplicaName, silence_us: int = SILENCE_US) -> None:
        self.number_shared: str | None = None
        self._own = own
        self._silence_us = silence_us
        self._said: dict[ReplicaName, Need] = {}
        self._doubts: dict[ReplicaName, str] = {}
        self._forgotten: set[ReplicaName] = set()
        self._audits: dict[str, Mapping[str, Offset] | None] = {}
        self._heard_us: dict[ReplicaName, MonotonicUs] = {}
        self._sent_us: dict[tuple[int, str, int], MonotonicUs] = {}
        self._read_back_us: MonotonicUs | None = None

    def sent(self, need: Need, now: MonotonicUs) -> None:
        """Note that this acknowledgement of the own replica is about to be appended."""
        self._sent_us[need.inc, need.uid, need.number] = now
        while len(self._sent_us) > SENT_MAX:  # none of these has come back: silence is only found later
            del self._sent_us[next(iter(self._sent_us))]

    def read(self, name: ReplicaName, need: Need, now: MonotonicUs) -> None:
        """Take an acknowledgement, in the log's order. Of the incarnation that counts (B30) the last one does."""
        at = self._sent_us.pop((need.inc, need.uid, need.number), None) if name == self._own else None
        self._read_back_us = at if at is not None else self._read_back_us
        before = self._said.get(name)
        if before is not None:
            if at is not None and need.inc == before.inc and need.uid != before.uid:
                self.number_shared = why_shared(name.index, before.inc, before.uid)
            again = need.inc == before.inc and need.number <= before.number
            if again or not need.counts_after(before):
                return
        self._said[name] = need
        self._heard_us[name] = now
        self._doubts.pop(name, None)
        self._forgotten.discard(name)

    def doubt(self, name: ReplicaName, why: str) -> None:
        """A record under a replica's key cannot be used, for the reason `why`, in words: nothing that it may need goes
        until it has said it anew."""
        self._doubts[name] = why
        self._forgotten.discard(name)

    def forget(self, name: ReplicaName) -> None:
        """A user has given a replica up: it holds nothing while a peer lives, until it says something again."""
        self._forgotten.add(name)

    def audited(self, query: str, offsets: Mapping[str, Offset] | None) -> None:
        """The next audit of a query reads each source from these offsets on. None: what it says cannot be used."""
        self._audits[query] = offsets

    def needs(self) -> Needs:
        """What is known now."""
        back = self._read_back_us
        silent = {n for n, at in self._heard_us.items() if back is not None and back - at >= self._silence_us}
        out = frozenset(silent), frozenset(self._forgotten)
        return Needs(dict(self._said), dict(self._doubts), *out, dict(self._audits))
