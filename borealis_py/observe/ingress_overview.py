"""What the statuses of an app's ingresses mean, for `status`, `top` and probes. Pure, like `overview`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from borealis_py.app import origin
from borealis_py.app.state import GONE_S, AppState, IngressStatuses, Statuses
from borealis_py.log.clock import apart, noticed
from borealis_py.log.ingress_status import AbsentField, IngressInput, IngressRole, IngressStatus
from borealis_py.query import format_duration
from sunion.model import FOREVER

IngressKey = tuple[str, int]
"""(source, ingress index)."""


def gone(status: IngressStatus, now_us: int) -> bool:
    """Whether it copies no more, or said nothing for a while. `now_us`: wall time."""
    return status.role in (IngressRole.STOPPED, IngressRole.ENDED) or (now_us - status.at_wall_us) / 1e6 > GONE_S


def not_before(now_us: int, statuses: Statuses, ingresses: IngressStatuses) -> int:
    """This machine's wall time, or the newest of any reporter, whose clock may be ahead."""
    told = [status.at_wall_us for status in statuses.values()] + [status.at_wall_us for status in ingresses.values()]
    return max([now_us, *told])


def ingress_keys(state: AppState, statuses: IngressStatuses) -> list[IngressKey]:
    """The ingresses that should run, and others that reported, in the order of the app."""
    expected = state.ingresses()
    return expected + [key for key in statuses if key not in set(expected)]


def ingress_overview(
    state: AppState, statuses: IngressStatuses, now_us: int, only: Sequence[IngressKey] | None = None
) -> list[dict[str, Any]]:
    """Each ingress as JSON values. `now_us`: wall time. `only`: these; None: all of the app."""
    shown = ingress_keys(state, statuses) if only is None else only
    return [_one(key, statuses.get(key), now_us) for key in shown]


def _one(key: IngressKey, status: IngressStatus | None, now_us: int) -> dict[str, Any]:
    if status is None:
        return {"source": key[0], "ingress": key[1], "running": False, "role": None}
    age_s = (now_us - status.at_wall_us) / 1e6
    return {"running": not gone(status, now_us), "age_s": age_s, **msgspec.to_builtins(status)}


def behind_s(status: IngressStatus, one: IngressInput) -> float | None:
    """How far an input's boundary lies behind its ingress's clock; None: it has sent none, or has ended."""
    return (status.at_wall_us - one.boundary_us) / 1e6 if 0 < one.boundary_us < FOREVER else None


def boundary_text(one: IngressInput) -> str:
    """An input's boundary as ISO 8601; "" before the first, "END" after the last."""
    if one.boundary_us <= 0:
        return ""
    return "END" if one.boundary_us >= FOREVER else origin.show(one.boundary_us)


def ingress_remarks(state: AppState, statuses: IngressStatuses, now_us: int) -> list[str]:
    """What people should know: sources that nobody copies, inputs that are missing, and rows that came too late."""
    found = []
    for source in state.spec.ingresses:
        running = [s for s in statuses.values() if s.source == source and not gone(s, now_us)]
        owners = [s for s in running if s.role is IngressRole.OWNER]
        settings = state.source_settings(source)
        if any(s.source == source and s.role is IngressRole.ENDED for s in statuses.values()):
            found.append(f"source {source} has ended: nothing of its topic is copied any more")
            continue
        if settings.ending:
            found.append(f"source {source} is to end, once all that its topic holds has been copied")
        if not running:
            found.append(f"source {source}: no ingress runs, so nothing of it arrives. `borealis up` starts them")
        elif not owners:
            why = "; ".join(dict.fromkeys(s.detail for s in running if s.detail))
            found.append(f"source {source}: no ingress copies it now{f': {why}' if why else ''}")
        if settings.skipped:
            names = ", ".join(map(str, sorted(settings.skipped)))
            found.append(
                f"source {source}: nothing waits for partition {names} of its topic (`borealis source skip`); what "
                "comes from there may be late. With --undo it is waited for again"
            )
        if settings.expect_us != state.spec.ingresses[source].expect_us:
            found.append(f"source {source}: {_expects(settings.expect_us)}, as set by `borealis source expect`")
        for owner in owners:
            missing = [f"{i.name} ({i.feeds}): {i.missing}" for i in owner.inputs if i.missing]
            found += [f"missing: {text}" for text in missing]
            misread = next((i.misread for i in owner.inputs if i.misread), "")
            if misread:
                found.append(
                    f"source {source}: times of topic {owner.topic} seem to be read wrong, and their rows are dead "
                    f"letters: {misread} in app.topic({source!r}, ...), and begin the app anew: `borealis up --reset`"
                )
            found += [absent_text(source, owner.topic, one) for one in owner.absent]
            late = sum(i.late for i in owner.inputs)
            if late:
                found.append(
                    f"source {source}: {late} row{'s' if late > 1 else ''} came later than its lateness allows: dead "
                    "letters. `borealis inspect` shows how late rows come"
                )
    return found + _clocks(statuses, now_us)


def _clocks(statuses: IngressStatuses, now_us: int) -> list[str]:
    """Whose machines' clocks differ from the broker's, and what that does."""
    ahead = {
        f"the clock of ingress {s.ingress}" + (f" on {s.host}" if s.host else ""): us
        for s in statuses.values()
        if not gone(s, now_us) and (us := noticed(s.clock_ahead_us))
    }
    does = {True: "rows come late, and are dead letters", False: "its sources wait"}
    return [f"{apart(us, whose)}: {does[us > 0]}" for whose, us in ahead.items()]


def absent_text(source: str, topic: str, one: AbsentField) -> str:
    """What people should know of a column that no record of a topic has had."""
    many = f"in none of {one.records:,} records".replace(",", " ") if one.records != 1 else "not in the only record"
    instead = f"they have `{one.near}`" if one.near else "`borealis inspect` shows what they have"
    column = f"column `{one.name}`{f' (field `{one.field}`)' if one.field else ''}"
    return f"source {source}: {column} was {many} of topic {topic}, so it is null in all rows; {instead}"


def _expects(expect_us: int | None) -> str:
    if expect_us is None:
        return "silence means that nothing happened"
    return f"an input that is silent for {format_duration(expect_us)} is missing"
