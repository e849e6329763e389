"""How far a stream is written, where a test's progress records are plain numbers."""

from __future__ import annotations

from borealis_py.log.base import Feed, Lookup, Resume


def last_number(progress: Feed) -> Resume:
    """The number in the last record; None: there is none."""

    def resume(lookup: Lookup) -> int | None:
        found = [int(record.value or b"") for record in lookup.read(progress, *lookup.bounds(progress))]
        return found[-1] if found else None

    return resume
