"""What is known of a running app from its topics alone: description, settings, newest status of each replica."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from borealis_py.log import topics
from borealis_py.log.base import Feed, Log, LogError, Lookup
from borealis_py.log.messages import Description, Policy, SourceFailure, Status, Threshold, decode
from borealis_py.query.spec import AppSpec


class NoSuchApp(LogError):
    """The broker serves no app of that name, or several and none was named."""


@dataclass(slots=True)
class AppState:
    """An app as its settings topic describes it. `origin`: its first bucket."""

    spec: AppSpec
    hash: str
    origin: int
    fingerprint: str
    thresholds: dict[str, int] = field(default_factory=dict)
    policies: dict[str, Policy] = field(default_factory=dict)
    failed_until: dict[str, int] = field(default_factory=dict)

    def threshold_us(self, query: str) -> int:
        """The delay threshold in force."""
        return self.thresholds.get(query, self.spec.query(query).threshold_us)


def app_names(log: Log) -> list[str]:
    """The apps that a broker serves. Raises LogUnreachable."""
    admin = log.admin()
    try:
        suffix = ".settings"
        return sorted(t.removesuffix(suffix) for t in admin.topics() if t.endswith(suffix))
    finally:
        admin.close()


def read_app(log: Log, name: str) -> AppState:
    """Fold the settings topic.

    Raises:
        NoSuchApp: nothing there; LogUnreachable.
    """
    names = app_names(log)
    if name not in names:
        known = f"apps here: {', '.join(names)}" if names else "start one with `borealis up app.py`"
        raise NoSuchApp(f"the broker serves no app {name!r}; {known}")
    lookup = log.lookup()
    try:
        return _fold(lookup, name)
    finally:
        lookup.close()


def _fold(lookup: Lookup, name: str) -> AppState:
    feed = Feed(topics.settings(name))
    state: AppState | None = None
    thresholds: dict[str, int] = {}
    policies: dict[str, Policy] = {}
    failed: dict[str, int] = {}
    for record in lookup.read(feed, *lookup.bounds(feed)):
        kind, _, of = (record.key or b"").decode(errors="replace").partition("/")
        value = record.value or b""
        try:
            if kind == "app":
                d = decode(value, Description)
                state = AppState(AppSpec.from_json(d.app), d.hash, d.origin, d.fingerprint)
            elif kind == "threshold":
                thresholds[of] = decode(value, Threshold).threshold_us
            elif kind == "policy":
                policies[of] = decode(value, Policy)
            elif kind == "fail":
                failed[of] = decode(value, SourceFailure).until_wall_us
        except (msgspec.DecodeError, msgspec.ValidationError):
            continue  # the replicas warn of it (`node.knobs`)
    if state is None:
        raise NoSuchApp(f"app {name!r} has topics but no description yet; run `borealis up` with its file")
    state.thresholds, state.policies, state.failed_until = thresholds, policies, failed
    return state


def newest_status(lookup: Lookup, app: str, tail: int = 500) -> dict[tuple[str, int], Status]:
    """The last status of each (query, replica) among the newest `tail` records."""
    feed = Feed(topics.status(app))
    first, end = lookup.bounds(feed)
    newest: dict[tuple[str, int], Status] = {}
    for record in lookup.read(feed, max(first, end - tail), end):
        if record.value is not None:
            status = decode(record.value, Status)
            newest[status.query, status.replica] = status
    return newest
