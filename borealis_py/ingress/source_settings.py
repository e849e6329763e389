"""What users have set of a source while its app runs, as its ingresses and commands read the settings topic. Pure.

Every ingress reads it, so that who takes over goes on as its predecessor did. They need not read a setting at the same
time: what was promised holds on, whatever is set later, and END in a log is final by itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import msgspec
import structlog

from borealis_py.log.base import Record
from borealis_py.log.messages import EndOfSource, ExpectedSilence, PartitionSkip, decode
from borealis_py.log.unreadable import ignored, small_number
from borealis_py.types.values import short

log = structlog.get_logger(__package__)


@dataclass(frozen=True, slots=True)
class SourceSettings:
    """The settings of one source that an ingress writes.

    `expect_us`: an input that has been silent for this long is missing (microseconds); None: silence means that nothing
    happened. `skipped`: partitions of the foreign topic that no input waits for. `ending`: the source is to end.
    """

    expect_us: int | None = None
    skipped: frozenset[int] = frozenset()
    ending: bool = False

    def after(self, source: str, app_uid: str, record: Record) -> SourceSettings:
        """The settings after one more record; one of another source, kind or life changes nothing.

        Args:
            source: the source's name. app_uid: the app's life.
            record: of the settings topic.
        """
        key = (record.key or b"").decode(errors="replace")
        kind, _, name = key.partition("/")
        try:
            return self._after(source, app_uid, kind, name, record.value or b"")
        except (msgspec.MsgspecError, ValueError) as exc:
            ignored(log, "setting ignored", record, exc, key=key)
            return self

    def _after(self, source: str, app_uid: str, kind: str, name: str, value: bytes) -> SourceSettings:
        of, _, partition = name.partition("/")
        if of != source:
            return self
        if kind == "skip":
            skip, which = decode(value, PartitionSkip), frozenset((_number(partition),))
            skipped = self.skipped | which if skip.skipped else self.skipped - which
            return replace(self, skipped=skipped) if skip.app_uid == app_uid else self
        if kind == "end" and not partition:
            return replace(self, ending=True) if decode(value, EndOfSource).app_uid == app_uid else self
        if kind == "expect" and not partition:
            expected = decode(value, ExpectedSilence)
            return replace(self, expect_us=expected.expect_us) if expected.app_uid == app_uid else self
        return self


NOTHING_SET = SourceSettings()
"""Of a source whose settings have not been read."""


def _number(text: str) -> int:
    number = small_number(text)
    if number is None:
        raise ValueError(f"{short(text)!r} is not the number of a partition")
    return number
