"""Fragments that compare rows by key or call Python functions, redone on a real Spark, by the way that a task asks:
each job goes on from the state that the one before has brought back, and the bits are those of the inline run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from borealis_py import App
from borealis_py.engine.applied.described import described
from borealis_py.log import topics
from borealis_py.log.clock import SystemClock
from borealis_py.log.kernel import Kernel
from borealis_py.node.code_storage import StoredCode
from borealis_py.protocol.redo import RedoDone, RedoFailed, RedoJob
from borealis_py.query import Stream
from borealis_py.runtime.spark.session import ReplicaSession
from reconcile.redo_client import RemoteRedo, TaskAddress
from reconcile.redo_server import RedoServer, TaskChannel
from reconcile.replay_context import ReplayContext, node_context
from reconcile.spark_executor import SparkExecutor
from tests.engine.applied.modules import imported
from tests.harness.waiting import until
from tests.reconcile.flights_world import AHEAD_US, ORIGIN, WIDTH_US, bits, log
from tests.reconcile.list_world import StubLog
from tests.reconcile.replica import Replica
from tests.reconcile.rpc_log import RpcLog

pytestmark = pytest.mark.spark

FUNCTIONS = Path(__file__).with_name("redone_functions.py")
LOGS = {"s": log(5, 12, ended=True), "t": log(6, 12, ended=True)}
CUTS = [ORIGIN + 7, ORIGIN + 50, ORIGIN + 93]
REQUESTS, RESPONSES = topics.redo_feeds("redone", "q", 0)
Build = Callable[[App, Stream, Stream], Stream]


def _functions() -> object:
    return imported(FUNCTIONS)


FRAGMENTS: dict[str, Build] = {
    "lookup": lambda app, s, t: (  # its table changes seldom, so that much of it is as the job before left it
        s.lookup(t.filter("abs(x) > 1e11").map(key="key", y="x").table("key", deleted="y < -5e11"), on="key")
    ),
    "count windows": lambda app, s, t: (
        app.union(s, t).window(rows=7).group_by("key").agg(n="count(*)", total="sum(x / 3.0)")
    ),
    "sessions": lambda app, s, t: (
        app.union(s, t).window(gap="20ms", most="2s").group_by("key").agg(n="count(*)", total="sum(x / 3.0)")
    ),
    "rows applied": lambda app, s, t: app.union(s, t).apply(
        _functions().shifted, columns={"y": "double"}, keep=("key",)  # type: ignore[attr-defined]
    ),
    "groups applied": lambda app, s, t: (
        app.union(s, t).window("1s").group_by("key")
        .apply(_functions().folded, columns={"total": "double", "first": "int64"})  # type: ignore[attr-defined]
    ),
}  # fmt: skip


@pytest.fixture(params=FRAGMENTS)
def work(request: pytest.FixtureRequest, tmp_path: Path) -> ReplayContext:
    """The fragment over its logs, which travel with it; its code lies where `up` puts it."""
    app = App("redone", bucket="100ms", modules=[FUNCTIONS])
    s, t = (app.source(name, schema={"key": "string", "x": "double"}) for name in LOGS)
    app.query("q", FRAGMENTS[request.param](app, s, t), delay_threshold="3s")
    spec, code = app.describe().with_functions(described), StoredCode("redone", tmp_path)
    code.store(spec)
    stub = StubLog({topics.stream("redone", name): values for name, values in LOGS.items()})
    return node_context(spec, "q", stub, AHEAD_US, "a1", code=code)  # type: ignore[arg-type]


@pytest.fixture
def kernel(work: ReplayContext) -> Iterator[Kernel]:
    made = work.make_kernel()
    yield made
    made.close()


class Asking:
    """A task that asks its driver for redos on this session, and waits for each."""

    def __init__(self, session: ReplicaSession, work: ReplayContext, kernel: Kernel) -> None:
        rpc, clock = RpcLog(REQUESTS), SystemClock()
        self.executor = SparkExecutor(session.context, {"q": work.pack()}, lambda: None, lambda: None)
        channels = [TaskChannel("q", REQUESTS, RESPONSES)]
        self.server = RedoServer(rpc, channels, "s", self.executor, 1, lambda: None, clock)
        self.task = RemoteRedo(rpc, TaskAddress("s", "u", REQUESTS, RESPONSES), kernel, lambda: None, clock, 60)

    def answer(self, job: RedoJob) -> RedoDone | RedoFailed:
        self.task.submit_job(job)
        found: list[RedoDone | RedoFailed] = []

        def look() -> bool:
            self.server.turn()
            found.extend(self.task.poll_results())
            return bool(found)

        until(look, "the driver has answered")
        return found[0]


def test_spark_goes_on_from_its_own_states_with_the_bits_of_the_inline_run(
    session: ReplicaSession, work: ReplayContext, kernel: Kernel
) -> None:
    session.warm(work.pack())
    inline = Replica(kernel, LOGS, ORIGIN, WIDTH_US, AHEAD_US)
    asking, redone, state = Asking(session, work, kernel), {}, kernel.initial()
    for job in inline.jobs(CUTS):
        done = asking.answer(replace(job, state=state))
        assert isinstance(done, RedoDone), done
        assert done.engine == "spark"
        redone |= bits(done.outputs)
        state = done.state
    assert redone == bits(inline.outputs)
    assert sum(o.rows is not None for o in inline.outputs.values()) > 10, "the fragment says something"
