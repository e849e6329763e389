"""Everything the pure data path raises.

SUnionError
|-- IllegalTransition   a caller broke a rule of the protocol; state is unchanged
|-- EngineOutOfMemory   a fragment needs more memory than its engine may use; the replica must end
`-- RetentionLost       the log no longer holds what is still needed; the query must stop
"""

from __future__ import annotations

from collections.abc import Sequence


class SUnionError(Exception):
    """Base of this package's errors."""


class IllegalTransition(SUnionError):
    """The event is not allowed in the present state. State is unchanged.

    `history`: what led to it, a line a turn, the latest last; empty where nobody keeps one.
    """

    history: tuple[str, ...] = ()

    def after(self, history: Sequence[str]) -> IllegalTransition:
        """The same error with what led to it, in its message too."""
        told = IllegalTransition("\n".join([str(self), "the last turns:", *history]))
        told.history = tuple(history)
        return told


class EngineOutOfMemory(SUnionError):
    """Buckets need more memory than the engine may use. No row is to blame: other machines may have more."""


class RetentionLost(SUnionError):
    """A reader needs records that retention has deleted: stop before anything false is called stable."""
