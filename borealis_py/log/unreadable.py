"""What lies in the app's own topics and is none of our records: whatever the bytes are, it counts as nothing.

Anybody may write there, by mistake or with a wrong configuration, and a compacted topic keeps a record for ever. So no
reader may end because of one: decoders raise one kind of error (`total`), and whoever meets it calls `ignored`.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from borealis_py.log.base import Record

T = TypeVar("T")

REMEMBERED = 4_096
"""Of so many records is remembered that they were logged; an older one, read again, is logged and counted again."""
_NUMBER = re.compile("0|[1-9][0-9]{0,8}")

_lock = threading.Lock()
_met: dict[tuple[str, int, int], None] = {}
_counts: Counter[str] = Counter()


def total(decode: Callable[[Any], T], raw: bytes | memoryview) -> T:
    """What a decoder of msgspec returns. Raises only msgspec.DecodeError or msgspec.ValidationError, whatever the bytes
    are."""
    try:
        return decode(raw)
    except (RecursionError, UnicodeDecodeError) as exc:  # what msgspec raises for deep nesting and invalid UTF-8
        raise msgspec.DecodeError(str(exc)) from None


def small_number(text: str) -> int | None:
    """A number in a key, like that of a replica, part or partition; None: it is none, or larger than there can be."""
    return int(text) if _NUMBER.fullmatch(text) else None


def ignored(log: Any, event: str, record: Record, why: object, **more: object) -> None:
    """Count a record that counts as nothing, and log where it lies and why: once in this process, however often and by
    however many readers it is read.

    Args:
        log: the logger of whoever reads it. event: what is ignored. more: further fields of the log line.
    """
    where = record.feed.topic, record.feed.partition, record.offset
    with _lock:
        if where in _met:
            return
        _met[where] = None
        _counts[record.feed.topic] += 1
        if len(_met) > REMEMBERED:
            del _met[next(iter(_met))]
    topic, partition, offset = where
    log.warning(event, topic=topic, partition=partition, offset=offset, **more, why=str(why))


def counts() -> dict[str, int]:
    """How many records this process has ignored, by topic."""
    with _lock:
        return dict(_counts)


def forget() -> None:
    """Forget all that was met, for tests."""
    with _lock:
        _met.clear()
        _counts.clear()
