"""What a broker forgets of producers that have sent nothing for long; `id_expired` of the worlds does the same."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from borealis_py.kafka import broker as broker_module
from borealis_py.kafka.broker_config import server_properties
from borealis_py.kafka.log import KafkaLog
from borealis_py.log.base import Committed, Feed, NewRecord, TookOver, TopicSpec, Unknown
from tests.harness.broker import started
from tests.harness.waiting import PATIENCE_S
from tests.kafka.waiter import Waiter
from tests.support.resume import last_number

pytestmark = pytest.mark.broker
FORGETS_S = 1
FORGETFUL = {
    "transactional.id.expiration.ms": 1000 * FORGETS_S,
    "transaction.remove.expired.transaction.cleanup.interval.ms": 100,
    "producer.id.expiration.ms": 1000 * FORGETS_S,
    "producer.id.expiration.check.interval.ms": 100,
}
ROWS, PROGRESS = Feed("a"), Feed("p")


@pytest.fixture
def forgetful(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[KafkaLog]:
    def properties(*where: Path | int) -> str:
        return server_properties(*where) + "".join(f"{key}={value}\n" for key, value in FORGETFUL.items())  # type: ignore[arg-type]

    monkeypatch.setattr(broker_module, "server_properties", properties)
    with started(tmp_path, PATIENCE_S) as local:
        log = KafkaLog(local.bootstrap)
        log.admin().create([TopicSpec(ROWS.topic), TopicSpec(PROGRESS.topic)])
        yield log


def test_a_writer_that_was_idle_for_too_long_takes_over_again_and_an_appender_notices_nothing(
    forgetful: KafkaLog,
) -> None:
    waiter = Waiter()
    transactor = forgetful.transactor("q", PROGRESS, waiter.wake, last_number(PROGRESS))
    appender = forgetful.appender(waiter.wake)
    transactor.take_over(1)
    assert waiter.until(transactor.events) == [TookOver(1, None)]
    committed, answer = 0, None
    deadline = time.monotonic() + PATIENCE_S
    while not isinstance(answer, Unknown) and time.monotonic() < deadline:
        time.sleep(committed * FORGETS_S)  # nothing can be asked about what is forgotten
        records = [NewRecord(ROWS, b"row"), NewRecord(PROGRESS, b"%d" % (committed + 1))]
        transactor.commit(1, lambda records=records: records)  # type: ignore[misc]
        (answer,) = waiter.until(transactor.events)
        committed += isinstance(answer, Committed)
        appender.append(NewRecord(ROWS, b"plain"), committed)
        assert [d.error for d in waiter.until(appender.deliveries)] == [None]
    assert isinstance(answer, Unknown)
    assert "INVALID_PRODUCER_ID_MAPPING" in answer.reason
    transactor.take_over(2)
    assert waiter.until(transactor.events) == [TookOver(2, committed)]
    transactor.commit(2, lambda: [NewRecord(ROWS, b"row")])
    assert waiter.until(transactor.events) == [Committed(2)]
    transactor.close()
    appender.close()
