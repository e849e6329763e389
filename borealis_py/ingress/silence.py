"""Whether an owner must fall silent, so that another ingress takes over."""

from __future__ import annotations

import structlog

log = structlog.get_logger("borealis.ingress")

SILENT_US = 2_000_000
"""An owner that has not learned the topic's ends for this long writes nothing."""


class Silence:
    """An owner falls silent while it cannot learn the topic's ends, for another may (B50). That there is no such topic
    is something learned, too.

    Args:
        name: of the topic, in messages.
        since_us: when this began to own the inputs.
    """

    def __init__(self, name: str, since_us: int) -> None:
        self.silent = False
        """Nothing may be written."""
        self._name, self._since_us = name, since_us

    def look(self, learned_us: int | None, now_us: int) -> bool:
        """Whether it must be silent now. `learned_us`: when the last question was asked that was answered."""
        self._since_us = max(self._since_us, learned_us or 0)
        silent = now_us - self._since_us > SILENT_US
        if silent != self.silent:
            self.silent = silent
            if silent:
                log.warning(
                    f"{self._name}: its ends could not be learned for {SILENT_US // 1_000_000} s: another may take over"
                )
            else:
                log.info(f"{self._name}: its ends can be learned again")
        return silent
