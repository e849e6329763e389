"""Opens the live view of a query: subscriptions that wait as long as the app's description says. Works on any log."""

from __future__ import annotations

from contextlib import ExitStack, closing
from functools import partial

from borealis_py.app.state import AppState
from borealis_py.client.subscriber import LiveSubscription, published
from borealis_py.engine import OperatorClass, compile_query
from borealis_py.log.base import Log, Wake
from borealis_py.log.clock import Clock, SystemClock
from borealis_py.node.delays import reader_wait_us
from borealis_py.protocol.settings import SettingsError
from borealis_py.query.partitions import parts_of
from borealis_py.query.spec import AppSpec
from sunion.bucket import Buckets
from sunion.model import Kind
from sunion.view import Change


def open_live(log: Log, state: AppState, query: str, from_beginning: bool, wake: Wake) -> list[LiveSubscription]:
    """Open one live subscription per partition of a query, on this machine's clocks. Otherwise as `open_partition`."""
    parts, clock = parts_of(state.spec, query), SystemClock()
    with ExitStack() as opened:  # if one fails to begin, none may stay open
        subscriptions = [
            opened.enter_context(closing(open_partition(log, state, query, part, from_beginning, wake, clock)))
            for part in parts
        ]
        opened.pop_all()
    return subscriptions


def open_partition(
    log: Log, state: AppState, query: str, part: str, from_beginning: bool, wake: Wake, clock: Clock
) -> LiveSubscription:
    """Open a live subscription to one partition of a query.

    The app's timing determines how long it waits and which thresholds are valid, as at the replicas.

    Args:
        part: the partition; the query's name again if it is not partitioned.
        from_beginning: start at the app's first bucket; False: at the first that is not in the corrected stream.
        wake: called when something arrives.

    Raises:
        QueryError: unknown query.
        SettingsError: the app's timing does not allow its threshold.
    """
    spec = state.spec
    q = spec.query(query)
    wait_of = partial(reader_wait_us, spec, query, state.timing)
    try:
        wait_us = wait_of(q.threshold_us)  # until a valid setting changes it
    except SettingsError as exc:
        raise SettingsError(
            f"{query}: {exc}. The timing in the app's description does not allow it: `borealis up` writes a new one"
        ) from exc
    with closing(log.lookup()) as lookup:
        start = state.origin if from_beginning else published(lookup, spec.name, state.app_uid, part, state.origin)
    return LiveSubscription(
        log=log,
        clock=clock,
        app=spec.name,
        app_uid=state.app_uid,
        query=part,
        replicas=q.replicas,
        buckets=Buckets(spec.bucket_us),
        start=start,
        wait_us=wait_us,
        schema=None,
        wake=wake,
        wait_of=wait_of,
    )


def forgets(spec: AppSpec, query: str) -> bool:
    """Whether every node that a query's rows come through is repeatable or convergent-capable.

    If so, a result without missing sources is already final, whatever its state lacked before (A3.6).
    """
    with closing(compile_query(spec.flattened(query), query)) as whole:
        return whole.operator_class in (OperatorClass.REPEATABLE, OperatorClass.CONVERGENT)


def worth_showing(change: Change) -> bool:
    """Whether a change tells a subscriber anything: all do but those of buckets without rows."""
    return change.output.rows is not None or change.kind not in (Kind.BOUNDARY, Kind.TENTATIVE)
