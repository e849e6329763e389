"""What the process of an ingress index opens: the app, its foreign topics with their clusters, and its HTTP pages."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

from borealis_py.app.clocks import ask_for_time
from borealis_py.app.process_spec import ProcessSpec
from borealis_py.app.source_copying import plan_of
from borealis_py.app.state import AppState, read_app
from borealis_py.ingress.catch_up import BacklogFronts
from borealis_py.ingress.decoder import TopicDecoder
from borealis_py.ingress.decoders import decoder_for
from borealis_py.ingress.session import IngressSession
from borealis_py.kafka.clients import KafkaClients
from borealis_py.kafka.log import KafkaLog
from borealis_py.kafka.schema_registry import ConfluentRegistry
from borealis_py.log.base import Wake
from borealis_py.observe.http_routes import Routes
from borealis_py.observe.http_server import open_http
from borealis_py.observe.ingress_metrics import IngressCollector
from borealis_py.observe.ingress_registry import IngressRegistry
from borealis_py.protocol.settings import SettingsError
from borealis_py.query.ingress_spec import IngressSpec
from borealis_py.runtime.ingress.after_end import stay
from borealis_py.runtime.ingress.host import IngressHost, StatusSender
from borealis_py.runtime.ingress.member import Roused, TopicMember
from borealis_py.runtime.ingress.reporting import ReportedSession
from borealis_py.runtime.process_notes import ProcessNotes


def open_ingress(
    app: str, index: int, run: str, process: ProcessSpec, beside: ProcessNotes, closing: ExitStack
) -> IngressHost:
    """Open an ingress process.

    Args:
        run: name of this run of the process; empty: no supervisor started it.

    Raises:
        LogError: no broker of the app's answers, or there is no such app.
        QueryError: a heartbeat is no condition here.
        SettingsError: the app reads no foreign topics. ProcessSpecError: a cluster or registry is not configured here.
        RegistryUnusable: no client of a schema registry can be made.
        AddressError, HttpUnavailable: see `open_http`.
    """
    kafka = process.log
    state = read_app(kafka, app)
    if not state.spec.ingresses:
        raise SettingsError(f"app {app}: it reads no topics of other programs, so it has no ingress {index}")
    row_max, memory = state.timing.row_max_bytes, process.engine_memory_bytes
    decoders = {
        source: decoder_for(
            source, spec, state.spec.sources[source], row_max, memory, _registry_of(spec, process, closing)
        )
        for source, spec in state.spec.ingresses.items()
    }
    clusters = {
        name: KafkaClients(process.cluster(name)) for name in {s.cluster for s in state.spec.ingresses.values()}
    }
    for cluster in clusters.values():
        closing.callback(cluster.close)
    board = IngressRegistry(state, [(source, index) for source in state.spec.ingresses])
    url = open_http(process.http, Routes(board, IngressCollector(board)), closing)
    appender = kafka.appender(lambda: None)
    ask_for_time(appender, app)  # before any row is judged by it
    sender = StatusSender(app, appender, beside.seen_ingress(board))
    catch_up = BacklogFronts()

    def member(source: str, spec: IngressSpec, roused: Roused) -> TopicMember:
        begin = partial(_begin, state, source, index, kafka, clusters[spec.cluster], decoders[source], roused, catch_up)
        uid = partial(_new_uid, run)
        return TopicMember(source, index, spec.topic, spec.cluster, begin, uid, sender.send, url, roused)

    def members(wake: Wake) -> list[TopicMember]:
        return [member(source, spec, Roused(wake)) for source, spec in state.spec.ingresses.items()]

    # what a supervisor started ends, and is not started again; a container engine starts whatever ends
    after_end = None if run else partial(stay, kafka, app, state.app_uid)
    return IngressHost(members, sender.close, after_end, log_us=lambda: appender.log_us)


def _begin(
    state: AppState,
    source: str,
    index: int,
    kafka: KafkaLog,
    cluster: KafkaClients,
    decoder: TopicDecoder,
    wake: Callable[[], None],
    catch_up: BacklogFronts,
    uid: str,
) -> ReportedSession:
    plan = plan_of(state, source)
    session = IngressSession(kafka, cluster, plan, decoder, uid, index, wake, catch_up)
    return ReportedSession(session, source, plan.spec, state.spec.bucket_us, decoder.absent)


def _registry_of(spec: IngressSpec, process: ProcessSpec, closing: ExitStack) -> ConfluentRegistry | None:
    """Where the schemas of a topic are; None: it needs no registry."""
    if not spec.needs_registry:
        return None
    registry = ConfluentRegistry(process.registry_of(spec.cluster))
    closing.callback(registry.close)
    return registry


def _new_uid(run: str) -> str:
    """Unique for ever; begins with the run of its process."""
    return f"{run}-{uuid.uuid4().hex[:6]}" if run else uuid.uuid4().hex[:8]
