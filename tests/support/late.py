"""What a busy machine does to right data."""

from __future__ import annotations

from borealis_py.verify import AnomalyKind

LATE = frozenset((AnomalyKind.BOUND_BROKEN,))
"""Results came later than X allows: a test that finds it is run again, alone."""
