"""Lines of the logs of an app's processes, as people read them: when, how grave, which process, what, and with which
fields; times instead of numbers of buckets. Pure: whoever reads the files gives the lines.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LEVELS = ("debug", "info", "warning", "error", "critical")
_TAKEN = ("event", "level", "timestamp", "logger", "exception", "detail", "node", "replica")
"""Fields with a place of their own in a line, or of no use to people."""
_BUCKETS = frozenset({"bucket", "f_s", "f_l", "first", "end"})
"""Fields that number a bucket."""
_NUMBERED = re.compile(r"\b(buckets?|F_s|F_l) (\d{6,})")


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of a process's log. `at`: when it was written, in UTC; None: what was printed there, by a library or a
    crash, has no time. `level`: of `LEVELS`, "" likewise. `where`: a replica ("sales.r0"), else the `process`.
    `message`: what happened, with its detail; `fields`: what else the line has, by name. `trace`: of an exception;
    several lines, or empty. `bucket_us`: the width of a bucket, if this line gives it."""

    process: str
    at: datetime | None
    level: str
    where: str
    message: str
    fields: dict[str, Any] = field(default_factory=dict)
    trace: str = ""
    bucket_us: int | None = None


def parsed(process: str, text: str) -> LogLine:
    """A line as it lies in a file of `process` ("replica-0"). One that is no JSON object is its own message."""
    try:
        entry = json.loads(text)
        event = str(entry["event"])
        at = datetime.fromisoformat(entry["timestamp"]).astimezone(UTC)
    except (ValueError, TypeError, KeyError, RecursionError):
        return LogLine(process, None, "", _name(process), text.rstrip("\n"))
    node, replica, width = entry.get("node"), entry.get("replica"), entry.get("bucket_us")
    detail = entry.get("detail")
    return LogLine(
        process,
        at,
        str(entry.get("level", "")),
        f"{node}.r{replica}" if node is not None and replica is not None else _name(process),
        f"{event}: {detail}" if detail else event,
        {name: value for name, value in entry.items() if name not in _TAKEN},
        str(entry.get("exception") or ""),
        width if isinstance(width, int) and width > 0 else None,
    )


def shown(line: LogLine, bucket_us: int | None) -> str:
    """The line for people.

    Args:
        bucket_us: the width of the app's buckets, in microseconds; None: not known, so their numbers stay.
    """
    if line.at is None:
        return f"{'':23}  {'':7}  {line.where}  {line.message}".rstrip()
    when = f"{line.at:%Y-%m-%d %H:%M:%S}.{line.at.microsecond // 1000:03}"
    message = _with_times(line.message, bucket_us)
    told = {name: _value(name, value, bucket_us) for name, value in line.fields.items() if name != "bucket_us"}
    # frontiers stand in many messages already
    fields = [f"{name}={said}" for name, said in told.items() if name not in _BUCKETS or said not in message]
    head = "  ".join([when, f"{line.level:7}", line.where, " ".join([message, *fields])])
    return "\n".join([head, *(f"    {one}" for one in line.trace.splitlines())])


def ordered(lines: Iterable[LogLine]) -> list[LogLine]:
    """Lines of several processes by time; each one's stay in order, and what has no time follows its line before."""
    last: dict[str, datetime] = {}
    keyed = []
    for line in lines:
        at = last[line.process] = max(line.at or EPOCH, last.get(line.process, EPOCH))
        keyed.append((at, line))
    return [line for _, line in sorted(keyed, key=lambda one: one[0])]


def grave(lines: Iterable[LogLine], least: str) -> Iterator[LogLine]:
    """Those of this level or graver, and what has none."""
    wanted = LEVELS[LEVELS.index(least) :]
    return (line for line in lines if not line.level or line.level in wanted)


def _name(process: str) -> str:
    return process.replace("-", " ") if process.startswith(("replica-", "ingress-")) else process


def _value(name: str, value: object, bucket_us: int | None) -> str:
    if name in _BUCKETS and isinstance(value, int) and bucket_us is not None:
        return _time(value, bucket_us)
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return f'"{text}"' if " " in text else text


def _with_times(text: str, bucket_us: int | None) -> str:
    if bucket_us is None:
        return text
    return _NUMBERED.sub(lambda found: f"{found[1]} {_time(int(found[2]), bucket_us)}", text)


def _time(bucket: int, bucket_us: int) -> str:
    """The start of a bucket, to as many digits as its width has: at least a tenth of a second."""
    us = bucket * bucket_us
    try:
        at = datetime.fromtimestamp(us // 1_000_000, UTC)
    except (ValueError, OverflowError, OSError):  # END
        return "END" if us > 0 else str(bucket)
    part = f"{us % 1_000_000:06}"
    return f"{at:%Y-%m-%d %H:%M:%S}.{part[:1] if bucket_us % 100_000 == 0 else part[:3]}"
