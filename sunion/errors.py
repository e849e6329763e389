"""Everything the pure data path raises.

SUnionError
|-- IllegalTransition   a caller broke a rule of the protocol; state is unchanged
|-- EngineOutOfMemory   a fragment needs more memory than its engine may use; the replica must end
`-- RetentionLost       the log no longer holds what is still needed; the query must stop
"""

from __future__ import annotations

from collections.abc import Sequence


class SUnionError(Exception):
    """Base class of this package's errors."""


class IllegalTransition(SUnionError):
    """The event is not allowed in the present state. State is unchanged.

    `history`: the turns that led to it, one line each, the latest last; empty where no history is kept.
    """

    history: tuple[str, ...] = ()

    def after(self, history: Sequence[str]) -> IllegalTransition:
        """The same error with `history` attached and appended to its message."""
        told = IllegalTransition("\n".join([str(self), "the last turns:", *history]))
        told.history = tuple(history)
        return told


class EngineOutOfMemory(SUnionError):
    """The buckets need more memory than the engine may use. No row is to blame: another machine may have more."""


class RetentionLost(SUnionError):
    """A reader needs records that retention has deleted. It must stop before it marks wrong results as stable."""
