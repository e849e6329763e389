"""Loads an app for a test, with the errors of `borealis check`, and lays it on a simulated log."""

from __future__ import annotations

from borealis_py.app.foreign import check_foreign
from borealis_py.app.recovery_allowed import check_recovery
from borealis_py.app.state import AppState, NoSuchApp
from borealis_py.app.topics import topics_of
from borealis_py.app.waits import check_query_threshold
from borealis_py.client.target import Target
from borealis_py.engine.applied.described import described as functions_described
from borealis_py.engine.keyed.table_file import known
from borealis_py.ingress.decoder import TopicDecoder
from borealis_py.ingress.decoders import decoder_for
from borealis_py.log import topics
from borealis_py.log.base import Feed, NewRecord
from borealis_py.log.description import APP_KEY
from borealis_py.log.messages import Description, encode
from borealis_py.protocol.settings import Timing
from borealis_py.query import App, QueryError
from borealis_py.query.errors import did_you_mean
from borealis_py.query.names import base_name
from borealis_py.query.spec import AppSpec
from borealis_py.simulation.log.client import MemoryLog
from borealis_py.testing.topic_records import read_as

APP_UID = "test"
"""The only life of an app in a test."""
PARTITIONS = 1
"""Of a foreign topic of which the app does not say how many it has: no test has a broker to ask."""


def loaded(app: App) -> AppSpec:
    """The app as a value, as far as it can be checked without compiling queries whose way of recovery depends on
    nothing that they compute.

    Raises:
        TypeError: no App. QueryError: it has no query, a node that no query reads, a foreign topic that its queries
            cannot use, or a way of recovery that a node cannot have.
        SettingsError: a threshold that cannot hold.
    """
    if not isinstance(app, App):
        raise TypeError(f"a test needs the App itself, not {app!r}: from shop import app")
    spec = app.describe().with_files(known).with_functions(functions_described)
    if not spec.queries:
        raise QueryError(f"app {spec.name!r} has no query. Add one with app.query(name, stream)")
    for name, query in spec.queries.items():
        check_query_threshold(Timing(), name, query.threshold_us, spec.position(name))
    spec = spec.with_partitions({name: PARTITIONS for name, one in spec.ingresses.items() if not one.inputs})
    check_foreign(spec, Timing())
    for name, node in spec.all_nodes.items():
        check_recovery(spec, name, node.recovery)
    return spec


def described(spec: AppSpec, log: MemoryLog, origin: int) -> AppState:
    """Create the app's topics and its description, as `up` does. `origin`: its first bucket."""
    description = Description(spec.to_json(), spec.hash, origin, "", APP_UID, Timing())
    log.client("up").admin().create(topics_of(spec))
    log.broker.append(NewRecord(Feed(topics.settings(spec.name)), encode(description), APP_KEY.encode()))
    return AppState(spec.name, spec, description)


def lost_input(state: AppState, name: str) -> str:
    """The source of the app as it runs that a test wants to lose: a source, or an input of a topic as labels name it.
    Raises NoSuchApp.
    """
    if base_name(name) in state.spec.ingresses:
        (found,) = state.inputs_of(name)
        return found
    if name not in state.runs.sources:
        check_source(state, name)
    return name


def check_source(state: AppState, name: str) -> None:
    """Raises NoSuchApp for a name that is no source to which a test gives rows, with the nearest."""
    ingresses = state.spec.ingresses
    if name in ingresses:
        return
    topic = base_name(name)
    if topic in ingresses and name in (*state.runs.sources, *state.runs.input_names.values()):
        raise NoSuchApp(
            f"app {state.name!r}: {name!r} is an input of topic {topic!r}: give its rows as {topic!r}; "
            "TopicRecord(row, partition=1) says in which partition one lies"
        )
    if ingresses and name not in state.runs.sources and name not in state.spec.all_nodes:
        names = [one for one in state.runs.sources if base_name(one) not in ingresses] + [*ingresses]
        hint = did_you_mean(name, names) or ";"
        raise NoSuchApp(f"app {state.name!r} has no source {name!r}{hint} sources: {', '.join(names)}")
    state.schema(name)


def decoder_of(spec: AppSpec, source: str, heartbeats: bool = True) -> TopicDecoder:
    """Decodes the foreign topic of a source. `heartbeats`: it tells them from rows; False: they are rows, too."""
    ingress = read_as(spec.ingresses[source])
    if not heartbeats:
        ingress = ingress.model_copy(update={"heartbeat": None})
    return decoder_for(source, ingress, spec.sources[source], Timing().row_max_bytes)


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
