"""Writes a replica's stream into one log partition for each partition of its readers (order-preserving exchange).

Every record goes to every partition, each with its share of the rows. So each reader learns of every bucket, and a
bucket is in the log once all partitions have it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from borealis_py.log.base import Appender, Delivery, LogError
from borealis_py.log.kernel import Kernel
from borealis_py.log.record_size import RecordTooLarge
from borealis_py.log.stream import StreamEncoder
from borealis_py.node.spec import ReplicaSpec
from sunion.bucket import Buckets
from sunion.model import Output, StableBucket, StreamRecord, TentativeBucket


class OutputWriter:
    """Appends the records of the own stream. Others may use `appender` for records without a token."""

    def __init__(self, spec: ReplicaSpec, appender: Appender, kernel: Kernel, buckets: Buckets) -> None:
        self._appender = appender
        self._kernel = kernel
        self._by = () if spec.exchange is None else spec.exchange.by
        self._encoders = [
            StreamEncoder(feed, spec.app_uid, buckets, kernel, kernel.schema_id) for feed in spec.own_feeds
        ]
        self._acked = [0] * len(self._encoders)
        self._topic = spec.own_feeds[0].topic

    def append(self, token: int, record: StreamRecord) -> None:
        """Append one record; `acked` reaches `token` once the log holds all of it. Tokens grow from 1."""
        for partition, (encoder, part) in enumerate(zip(self._encoders, self._divided(record), strict=True)):
            *head, last = encoder.encode(part)
            for piece in head:
                self._appender.append(piece, (partition, 0))  # a token, so that its failure is noticed
            self._appender.append(last, (partition, token))

    def acked(self) -> int:
        """The highest token up to which the log holds every record.

        Raises:
            LogError: the log refused a record. RecordTooLarge: for its size.
        """
        deliveries = self._appender.deliveries()
        large = max(deliveries, key=lambda delivery: delivery.too_large, default=None)
        if large is not None and large.too_large:
            raise RecordTooLarge(large.error)
        for delivery in deliveries:
            self._check(delivery)
            assert isinstance(delivery.token, tuple)
            partition, token = delivery.token
            self._acked[partition] = max(self._acked[partition], token)
        return min(self._acked)

    def _divided(self, record: StreamRecord) -> Sequence[StreamRecord]:
        count = len(self._encoders)
        if count == 1:
            return [record]
        if not isinstance(record, StableBucket | TentativeBucket):
            return [record] * count
        output = record.output
        rows = [None] * count if output.rows is None else self._kernel.divide(output.rows, self._by, count)
        letters = [output.rejects, *[()] * (count - 1)]  # only in the first partition
        return [replace(record, output=Output(r, told)) for r, told in zip(rows, letters, strict=True)]

    def _check(self, delivery: Delivery) -> None:
        if delivery.error is not None:
            raise LogError(
                f"{self._topic}: the log refused a record ({delivery.error}); "
                "the replica starts again from its last checkpoint"
            )
