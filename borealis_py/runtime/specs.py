"""Builds the specification of each replica of an app, the same for every host. Loads no engine: drivers have none."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path

from borealis_py.app.state import AppState
from borealis_py.log.base import Log
from borealis_py.log.kernel import Kernel
from borealis_py.node.delays import declared
from borealis_py.node.dynamic_settings import retain_of
from borealis_py.node.spec import ReplicaSpec
from borealis_py.protocol.trimming import Graph, NodeReads, Trimming
from borealis_py.query.names import base_name
from borealis_py.query.recovery import Guarantee
from borealis_py.query.spec import AppSpec
from reconcile.replay_context import ReplayContext, make_kernel, node_context


def replica_spec(
    state: AppState,
    node: str,
    replica: int,
    log: Log,
    data_dir: Path,
    checkpoint_uri: str = "",
    memory_bytes: int = 0,
) -> ReplicaSpec:
    """The specification of replica `replica` of a node as it runs. Raises QueryError for an unknown node."""
    spec = state.runs
    serves = spec.serves(node)
    return ReplicaSpec(
        app=spec.name,
        app_uid=state.app_uid,
        node=node,
        replica=replica,
        inputs=spec.inputs_of(node),
        bucket_us=spec.bucket_us,
        origin=state.origin,
        partition=list(spec.all_nodes).index(node),
        query_hash=f"{spec.query_hash(node)}@{state.app_uid}",
        app_json=spec.to_json(),
        delays={s.query: declared(state.spec.query(s.query)) for s in serves},
        log=log,
        data_dir=data_dir / spec.name,
        timing=state.timing,
        serves=serves,
        position=spec.position(node),
        corrected=node in spec.queries,
        exchange=spec.node(node).exchange,
        checkpoint_uri=checkpoint_uri,
        engine_memory_bytes=memory_bytes,
        replicas=spec.node(node).replicas,
        made_of=tuple(state.description.made_of.items()),
        trimming=trimming_of(spec),
        recovery=spec.node(node).recovery,
        gap=spec.node(node).guarantee is Guarantee.GAP and not spec.readers_of(node),
    )


def trimming_of(runs: AppSpec) -> Trimming:
    """What its replicas are told of trimming (R16). `runs`: the app as it runs."""
    nodes = {}
    for name, node in runs.all_nodes.items():
        inputs = runs.inputs_of(name)
        sources, streams = ([of.name for of in inputs if bool(of.replicas) is stream] for stream in (False, True))
        nodes[name] = NodeReads(node.replicas, tuple(sources), tuple(streams))
    queries = {base_name(query): runs.sources_of(query) for query in runs.queries}
    audits = {source: tuple(q for q, sources in queries.items() if source in sources) for source in runs.sources}
    retain = {name: retain_of(runs.keeps(name)) for name in (*runs.sources, *nodes)}
    return Trimming(Graph(nodes), retain, audits=audits)


def work_of(spec: ReplicaSpec) -> ReplayContext:
    """The replay context for redo tasks."""
    timing, app = spec.timing, AppSpec.from_json(spec.app_json)
    how = timing.ahead_max_us, spec.app_uid, timing.row_max_bytes, spec.engine_memory_bytes
    return node_context(app, spec.node, spec.log, *how, made_of=spec.made_of, code=spec.code)


def kernel_of(spec: ReplicaSpec) -> Callable[[], Kernel]:
    """A function that compiles the replica's query, as its redos and audits do."""
    bounds = spec.timing.row_max_bytes, spec.engine_memory_bytes
    return partial(make_kernel, spec.app_json, spec.node, (), *bounds, spec.code)


def new_uid(spec: ReplicaSpec) -> str:
    """The uid of a new incarnation: random; `of_run` recognises the process it belongs to."""
    return f"{spec.run}-{uuid.uuid4().hex[:6]}" if spec.run else uuid.uuid4().hex[:8]


def of_run(uid: str, run: str) -> bool:
    """Whether the incarnation with this uid ran in the process of that run."""
    return bool(run) and uid.startswith(f"{run}-")
