"""Loads an app for a test, with the errors of `borealis check`, and lays it on a simulated log."""

from __future__ import annotations

from borealis_py.app.check import check_query_threshold
from borealis_py.app.state import AppState
from borealis_py.app.topics import topics_of
from borealis_py.client.target import Target
from borealis_py.engine.applied.described import described as functions_described
from borealis_py.engine.keyed.table_file import known
from borealis_py.log import topics
from borealis_py.log.base import Feed, NewRecord
from borealis_py.log.description import APP_KEY
from borealis_py.log.messages import Description, encode
from borealis_py.protocol.settings import Timing
from borealis_py.query import App, QueryError
from borealis_py.query.spec import AppSpec
from borealis_py.simulation.log.client import MemoryLog

APP_UID = "test"
"""The only life of an app in a test."""


def loaded(app: App) -> AppSpec:
    """The app as a value, as far as it can be checked without compiling its queries.

    Raises:
        TypeError: no App. QueryError: it has no query, or a node that no query reads.
        SettingsError: a threshold that cannot hold.
    """
    if not isinstance(app, App):
        raise TypeError(f"a test needs the App itself, not {app!r}: from shop import app")
    spec = app.describe().with_files(known).with_functions(functions_described)
    if not spec.queries:
        raise QueryError(f"app {spec.name!r} has no query. Add one with app.query(name, stream)")
    for name, query in spec.queries.items():
        check_query_threshold(Timing(), name, query.threshold_us, spec.position(name))
    return spec


def described(spec: AppSpec, log: MemoryLog, origin: int) -> AppState:
    """Create the app's topics and its description, as `up` does. `origin`: its first bucket."""
    description = Description(spec.to_json(), spec.hash, origin, "", APP_UID, Timing())
    log.client("up").admin().create(topics_of(spec))
    log.broker.append(NewRecord(Feed(topics.settings(spec.name)), encode(description), APP_KEY.encode()))
    return AppState(spec.name, spec, description)


def target_of(state: AppState, source: str) -> Target:
    """What the publisher of a source writes to. Raises NoSuchApp for a name that is no source, with the nearest."""
    state.schema(source)
    timing = state.timing
    return Target(
        state.name,
        state.app_uid,
        source,
        state.spec.bucket_us,
        state.origin,
        ahead_max_us=timing.ahead_max_us,
        row_max_bytes=timing.row_max_bytes,
    )
