"""Patches of the product as one context."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any


@contextmanager
def together(*patches: AbstractContextManager[Any]) -> Iterator[None]:
    """All of them, as long as the context lasts."""
    with ExitStack() as stack:
        for patch in patches:
            stack.enter_context(patch)
        yield
