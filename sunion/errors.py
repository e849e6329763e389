"""Everything the pure data path raises.

SUnionError
|-- IllegalTransition   a caller broke a rule of the protocol; state is unchanged
|-- EngineOutOfMemory   a fragment needs more memory than its engine may use; the replica must end
`-- RetentionLost       the log no longer holds what is still needed; the query must stop
"""


class SUnionError(Exception):
    """Base of this package's errors."""


class IllegalTransition(SUnionError):
    """The event is not allowed in the present state. State is unchanged."""


class EngineOutOfMemory(SUnionError):
    """Buckets need more memory than the engine may use. No row is to blame: other machines may have more."""


class RetentionLost(SUnionError):
    """A reader needs records that retention has deleted: stop before anything false is called stable."""
