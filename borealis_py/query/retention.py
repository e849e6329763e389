"""How much of a stream is kept beyond what is needed: `retain=`, and its words."""

from __future__ import annotations

from borealis_py.query.errors import QueryError, did_you_mean
from borealis_py.query.units import format_duration, parse_duration

WORDS = ("needed", "all")


def parse_retain(text: object, what: str) -> int | None:
    """Microseconds of stime that are kept behind the stable frontier: "24h"; "needed" is 0; None: "all".

    Raises:
        QueryError: neither a duration nor one of these words. `what` names the stream in the message.
    """
    if text == "all":
        return None
    if text == "needed":
        return 0
    if not isinstance(text, str) or not text[:1].isdigit():
        hint = did_you_mean(str(text), WORDS) or ";"
        raise QueryError(f'{what}: retain={text!r}{hint} choose "needed", "all" or a duration such as "24h"')
    return parse_duration(text, f"retain of {what}")


def format_retain(lag_us: int | None) -> str:
    """What `parse_retain` reads as this."""
    if lag_us is None:
        return "all"
    return format_duration(lag_us) if lag_us else "needed"


def checked_retain(retain: str, threshold_us: int, where: str) -> int | None:
    """The same of a query's streams. Raises QueryError also if it is shorter than the query's delay threshold."""
    lag_us = parse_retain(retain, where)
    if lag_us is not None and 0 < lag_us < threshold_us:
        raise QueryError(
            f"{where}: retain={retain!r} is shorter than its delay threshold, {format_duration(threshold_us)}: live "
            'readers wait that long. Choose a longer one, or "needed"'
        )
    return lag_us
