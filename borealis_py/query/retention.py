"""How much of a stream is kept beyond what is needed: `retain=`, and its words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from borealis_py.query.errors import QueryError, WrongValue, did_you_mean
from borealis_py.query.units import CENTURY_US, format_duration, parse_duration

Audited = Literal["audited"]
AUDITED: Audited = "audited"
Keep = int | Audited | None
"""Microseconds of stime that are kept behind the stable frontier; 0: "needed"; None: "all". Of a source also "audited":
what audits have not verified yet, and "needed"."""
WORDS = ("needed", "all")


def parse_retain(text: object, what: str) -> int | None:
    """What is kept of a stream of replicas: "24h", "needed" or "all", as `Keep` has it.

    Raises:
        QueryError: neither a duration nor one of these words. `what` names the stream in the message.
    """
    if text == AUDITED:
        raise QueryError(
            f'{what}: retain="audited" is for sources, since audits read nothing else. Choose "needed", "all" or a '
            'duration such as "24h"'
        )
    kept = _parsed(text, what, WORDS)
    assert kept != AUDITED
    return kept


def parse_source_retain(text: object, what: str) -> Keep:
    """The same of a source, of which "audited" makes sense, too."""
    return _parsed(text, what, (*WORDS, AUDITED))


def _parsed(text: object, what: str, words: tuple[str, ...]) -> Keep:
    if text == "all":
        return None
    if text == "needed":
        return 0
    if text == AUDITED:
        return AUDITED
    if not isinstance(text, str) or not text[:1].isdigit():
        hint = did_you_mean(str(text), words) or ";"
        named = ", ".join(f'"{word}"' for word in words)
        raise WrongValue(f'{what}: retain={text!r}{hint} choose {named} or a duration such as "24h"')
    return parse_duration(text, f"retain of {what}", most_us=CENTURY_US)


def format_retain(kept: Keep) -> str:
    """What `parse_source_retain` reads as this."""
    if kept is None:
        return "all"
    if kept == AUDITED:
        return AUDITED
    return format_duration(kept) if kept else "needed"


def kept_too_short(query: str, kept: Keep, threshold_us: int) -> str:
    """That live readers of a query may wait longer than its streams are kept, for people; "": they do not."""
    if not isinstance(kept, int) or not 0 < kept < threshold_us:
        return ""
    return (
        f"{query}: retain={format_retain(kept)!r} is shorter than its delay threshold, {format_duration(threshold_us)}"
        ": live readers wait that long"
    )


def checked_retain(retain: str, threshold_us: int, where: str) -> int | None:
    """What is kept of a query's streams. Raises QueryError also if it is shorter than the query's delay threshold."""
    lag_us = parse_retain(retain, where)
    if why := kept_too_short(where, lag_us, threshold_us):
        raise QueryError(f'{why}. Choose a longer retain=, or "needed"')
    return lag_us


def all_kept(
    nodes: Iterable[str], thresholds_us: Mapping[str, int], lag_us: int | None, said: Mapping[str, Keep]
) -> dict[str, Keep]:
    """What is kept of each stream of an app.

    Args:
        nodes: those that are no queries. thresholds_us: of each query, its delay threshold.
        lag_us: what the app says of streams that say nothing themselves. Of a query not less than its threshold is
            kept, since live readers wait that long.
        said: what single streams say.
    """
    found: dict[str, Keep] = dict.fromkeys(nodes, lag_us)
    for query, threshold_us in thresholds_us.items():
        found[query] = max(lag_us, threshold_us) if lag_us else lag_us
    return found | dict(said)
