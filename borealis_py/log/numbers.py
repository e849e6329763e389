"""Numbers in our records, bounded by what there can be: a record with another one is none of ours."""

from __future__ import annotations

from typing import Annotated

import msgspec

from borealis_py.query.units import DURATION_MAX_US

NUMBER_MAX = 2**53
"""Every reader of JSON represents integers up to here exactly, and no bucket, offset or time in microseconds is beyond
for some centuries. A greater one is garbage: it cannot be counted up."""
Number = Annotated[int, msgspec.Meta(ge=0, le=NUMBER_MAX)]
Place = Annotated[int, msgspec.Meta(ge=-1, le=NUMBER_MAX)]
"""An offset, position or bucket; -1: none."""
Duration = Annotated[int, msgspec.Meta(ge=0, le=DURATION_MAX_US)]
"""Microseconds of a setting: what commands refuse is garbage in the log."""
