"""Kafka, Spark and the real kernel together: redo jobs read the log in the workers, the audit reads all of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from borealis_py.bench.redo import ExecutorRedo
from borealis_py.kafka.log import KafkaLog
from borealis_py.log import topics
from borealis_py.log.base import Committed, Feed, NewRecord, TookOver
from borealis_py.log.corrected import Progress, transaction
from borealis_py.log.kernel import Kernel
from borealis_py.protocol.redo import RedoDone, RedoFailed
from reconcile.audit import audit, audit_on_spark, audit_specs
from reconcile.replay_context import node_context
from sunion.bucket import Buckets
from sunion.model import Output
from tests.harness.waiting import PATIENCE_S
from tests.reconcile.flights_world import AHEAD_US, ORIGIN, WIDTH_US, app, bits, log
from tests.reconcile.replica import Replica

pytestmark = [pytest.mark.spark, pytest.mark.broker]

LOGS = {"s": log(1, 12, ended=True), "t": log(2, 12, ended=True)}
APP = app("redo-from-kafka")
QUERIES = list(APP.queries)


@pytest.fixture(scope="module")
def kafka(bootstrap: str) -> KafkaLog:
    """The app's topics, the sources filled."""
    opened = KafkaLog(bootstrap)
    admin = opened.admin()
    admin.create(topics.of_app(APP.name, list(APP.sources), dict.fromkeys(QUERIES, 1)))
    admin.close()
    appender = opened.appender(lambda: None)
    for name, values in LOGS.items():
        for value in values:
            appender.append(NewRecord(Feed(topics.stream(APP.name, name)), value, None, 1_000))
    assert appender.flush(PATIENCE_S)
    appender.close()
    return opened


@pytest.fixture(params=QUERIES)
def query(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def kernel(query: str, kafka: KafkaLog) -> Iterator[Kernel]:
    made = node_context(APP, query, kafka, AHEAD_US, "a1").make_kernel()
    yield made
    made.close()


def lived(query: str, kernel: Kernel) -> Replica:
    """A replica that has read it all; of a source that several read, the first tells the dead letters."""
    return Replica(kernel, LOGS, ORIGIN, WIDTH_US, AHEAD_US, letters=query == QUERIES[0])


def test_spark_redoes_from_kafka_with_the_replicas_bits(session, bell, kafka, query, kernel):
    work = node_context(APP, query, kafka, AHEAD_US, "a1")
    session.warm(work.pack())
    replica = lived(query, kernel)
    redo = ExecutorRedo(session.context, work, kernel, bell, 60)
    redone: dict[int, object] = {}
    for job in replica.jobs([1_015, 1_061, 1_120]):
        redo.submit_job(job)
        bell.wait()
        (done,) = redo.poll_results()
        assert isinstance(done, RedoDone), done
        redone |= bits(done.outputs)
        assert kernel.encode_state(done.state) == kernel.encode_state(replica.states[job.end])
    assert replica.end == ORIGIN + 200  # the sources have ended: empty buckets up to where the helper stops
    assert redone == bits(replica.outputs)
    redo.close()


def test_a_broker_that_is_not_there_is_a_sentence(session, bell, kafka):
    work = node_context(APP, "big", KafkaLog("127.0.0.1:1"), AHEAD_US, "a1")
    kernel = work.make_kernel()
    replica = Replica(kernel, LOGS, ORIGIN, WIDTH_US, AHEAD_US)
    redo = ExecutorRedo(session.context, work, kernel, bell, 60)
    redo.submit_job(replica.job(ORIGIN, ORIGIN + 5))
    bell.wait()
    (failed,) = redo.poll_results()
    assert isinstance(failed, RedoFailed)
    assert "127.0.0.1:1" in failed.reason
    kernel.close()


def publish(kafka: KafkaLog, query: str, kernel: Kernel, outputs: dict[int, Output], upto: int) -> None:
    """Write a corrected stream as the publishing replica does, some buckets a transaction."""
    rung = threading.Semaphore(0)
    progress_feed = Feed(topics.progress(APP.name, query))
    transactor = kafka.transactor(f"{APP.name}.{query}", progress_feed, rung.release, lambda lookup: None)
    transactor.take_over(1)
    assert isinstance(_next(transactor.events, rung), TookOver)
    for first in range(ORIGIN, upto, 40):
        end = min(first + 40, upto)
        part = {b: o for b, o in outputs.items() if first <= b < end}
        records = transaction(APP.name, query, part, Progress("a1", end, 0, 1), Buckets(WIDTH_US), kernel)
        transactor.commit(1, lambda records=records: records)
        assert isinstance(_next(transactor.events, rung), Committed)
    transactor.close()


def _next(events: Callable[[], list], rung: threading.Semaphore) -> object:
    assert rung.acquire(timeout=PATIENCE_S)
    (event,) = events()
    return event


def test_the_audit_finds_what_is_planted(session, kafka, query, kernel):
    replica = lived(query, kernel)
    specs = audit_specs(APP, query, kafka, ORIGIN, AHEAD_US, "a1")
    rows = {b: o.rows for b, o in replica.outputs.items() if o.rows is not None}
    planted = sorted(rows)[2]

    publish(kafka, query, kernel, replica.outputs, replica.end)
    (clean,) = audit_on_spark(session.context, specs)
    assert clean.clean, clean
    assert (clean.upto, clean.rows) == (replica.end, sum(map(kernel.count, rows.values())))
    assert audit(specs[0]).rows == clean.rows  # here as there

    fewer = (
        kernel.take(rows[planted], range(kernel.count(rows[planted]) - 1)) if kernel.count(rows[planted]) > 1 else None
    )
    for outputs, kind in (
        ({**replica.outputs, planted: Output(fewer)}, "missing"),
        ({**replica.outputs, planted: Output(rows[sorted(rows)[3]])}, "different"),
        ({**replica.outputs, planted: Output(kernel.concat([rows[planted], rows[planted]]))}, "extra"),
    ):
        _empty(kafka, query)
        publish(kafka, query, kernel, outputs, replica.end)
        (spoilt,) = audit_on_spark(session.context, specs)
        assert not spoilt.clean
        assert spoilt.error is None
        assert spoilt.first.kind == kind
        assert spoilt.first.id.startswith(f"{planted}:")


def _empty(kafka: KafkaLog, query: str) -> None:
    admin = kafka.admin()
    names = [topics.stream(APP.name, query), topics.progress(APP.name, query)]
    admin.delete(names)
    admin.create([s for s in topics.of_app(APP.name, list(APP.sources), {query: 1}) if s.name in names])
    admin.close()
