"""Unknown fields of our own JSON records are errors in tests. The product ignores them, since a later version may have
written them; here they are fields that were renamed and whose builders were not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import msgspec
import pytest

from borealis_py.log import messages, unreadable

T = TypeVar("T")


def unknown(raw: object, read: object, at: str = "") -> Iterator[str]:
    """The fields of `raw`, by their paths, that `read` lacks; both as builtins."""
    if isinstance(raw, dict) and isinstance(read, dict):
        for name, value in raw.items():
            if name in read:
                yield from unknown(value, read[name], f"{at}.{name}")
            else:
                yield f"{at}.{name}"
    elif isinstance(raw, list) and isinstance(read, list | tuple):
        for number, (value, other) in enumerate(zip(raw, read, strict=False)):
            yield from unknown(value, other, f"{at}[{number}]")


def _total(decode: Callable[[bytes], T], raw: bytes) -> T:
    found = unreadable.total(decode, raw)
    kind = type(found).__name__
    part = kind.startswith("_")  # a private record reads a part of a public one on purpose, such as its version
    lost = [] if part else list(unknown(msgspec.json.decode(raw), msgspec.to_builtins(found)))
    assert not lost, f"{kind} has no {', '.join(lost)}: {raw[:500]!r}"
    return found


def refuse_unknown(patch: pytest.MonkeyPatch) -> None:
    """Have `messages.decode` raise an AssertionError, which no reader catches, for a field that its record lacks."""
    patch.setattr(messages, "total", _total)
