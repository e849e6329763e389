"""Whether an owner must fall silent, so that another ingress takes over."""

from __future__ import annotations

import structlog

log = structlog.get_logger(__package__)

SILENT_US = 2_000_000
"""An owner that has not learned the topic's ends for this long, or not read back a record of its own, is silent."""


class Silence:
    """An owner falls silent while it cannot learn the topic's ends (B50), or does not hear what it writes itself (B58),
    for another may. That there is no such topic is something learned, too.

    Who hears nothing of its own hears nothing of its users, either, nor that another has taken over: what it promises
    by its clock may be wrong.

    Args:
        name: of the topic, in messages.
        since_us: when this began to own the inputs.
    """

    def __init__(self, name: str, since_us: int) -> None:
        self._name = name
        self._since_us = since_us
        self.why = ""
        """Why nothing may be written; empty: it may."""

    def look(self, learned_us: int | None, unheard_us: int | None, now_us: int) -> bool:
        """Whether it must be silent now.

        Args:
            learned_us: when the last question was asked that was answered.
            unheard_us: when the first of its records was made that it has not read back; None: it has read all.
        """
        self._since_us = max(self._since_us, learned_us or 0)
        why = ""
        if unheard_us is not None and now_us - unheard_us > SILENT_US:
            why = "what it writes itself cannot be read back"
        elif now_us - self._since_us > SILENT_US:
            why = "the topic's ends cannot be learned"
        if why != self.why:
            self.why = why
            if why:
                log.warning(f"{self._name}: {why}, for {SILENT_US // 1_000_000} s: another may take over")
            else:
                log.info(f"{self._name}: its ends can be learned again, and what it writes itself be read back")
        return bool(why)
