"""Everything the pure data path raises.

SUnionError
|-- IllegalTransition   a caller broke a rule of the protocol; state is unchanged
`-- RetentionLost       the log no longer holds what is still needed; the query must stop
"""


class SUnionError(Exception):
    """Base of this package's errors."""


class IllegalTransition(SUnionError):
    """The event is not allowed in the present state. State is unchanged."""


class RetentionLost(SUnionError):
    """A reader needs records that retention has deleted: stop before anything false is called stable."""
