"""The simplest program with the same result: consume JSON events, count and sum per second and customer, produce the
results.

Topics of one partition, one event per record (with --arrays a JSON array of events, with --avro SCHEMA in Avro's binary
encoding), nothing survives a crash. It uses nothing of borealis; `borealis bench quick` and `throughput` compare
replicas with it, `ingress` ingresses.

    python -m borealis_py.bench.raw_loop --bootstrap localhost:9092 --events 1000000 raw.events... raw.results

Prints one JSON object: events, seconds from before the consumer is created until every result is acknowledged, seconds
of processor time in that, results.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import orjson
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

SECOND_US = 1_000_000
BATCH = 10_000
WAIT_S = 0.1
SILENCE_S = 15.0


def aggregate(
    bootstrap: str, topics: list[str], events: int, arrays: bool = False, loads: Callable[[bytes], Any] = orjson.loads
) -> dict[tuple[int, str], list[float]]:
    """Count and sum of `amount` by (second, customer) over `events` events. `loads`: decodes a record."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "raw-loop",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "fetch.queue.backoff.ms": 5,  # at the default of 1000 a catch-up is three times as slow
        }
    )
    for topic in topics:
        consumer.list_topics(topic, timeout=5)  # else the first assign waits a second
    consumer.assign([TopicPartition(topic, 0, 0) for topic in topics])
    totals: dict[tuple[int, str], list[float]] = {}
    seen, heard = 0, time.monotonic()
    while seen < events:
        messages = consumer.consume(min(BATCH, events - seen), WAIT_S)
        for message in messages:
            if message.error() is not None:
                raise KafkaException(message.error())
            value = loads(message.value() or b"")
            some = value if arrays else (value,)
            for event in some:
                key = event["at"] // SECOND_US, event["customer"]
                total = totals.get(key)
                if total is None:
                    totals[key] = [1, event["amount"]]
                else:
                    total[0] += 1
                    total[1] += event["amount"]
            seen += len(some)
        if messages:
            heard = time.monotonic()
        elif time.monotonic() - heard > SILENCE_S:
            raise SystemExit(f"{', '.join(topics)}: {seen} of {events} events came, then nothing for {SILENCE_S:g} s")
    consumer.close()
    return totals


def avro_decoder(schema: str) -> Callable[[bytes], Any]:
    """Decodes records of this schema, without a header."""
    from fastavro import parse_schema, schemaless_reader

    parsed = parse_schema(json.loads(schema))
    return lambda record: schemaless_reader(io.BytesIO(record), parsed, None)


def produce(bootstrap: str, topic: str, totals: dict[tuple[int, str], list[float]]) -> None:
    """One JSON object a result, all acknowledged."""
    refused: list[object] = []

    def on_delivery(error: object, _message: object) -> None:
        if error:
            refused.append(error)

    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5})
    for (second, customer), (count, amount) in sorted(totals.items()):
        result = {"window_start": second * SECOND_US, "customer": customer, "n": count, "total": amount}
        value = orjson.dumps(result)
        while True:
            try:
                producer.produce(topic, value, on_delivery=on_delivery)
                break
            except BufferError:
                producer.poll(0.05)
    if producer.flush(SILENCE_S) or refused:
        raise SystemExit(f"{topic}: results were not taken: {refused[:1] or 'no answer'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--events", type=int, required=True)
    parser.add_argument("--arrays", action="store_true", help="a record is a JSON array of events")
    parser.add_argument("--avro", metavar="SCHEMA", help="a record is one event in Avro, by this schema")
    parser.add_argument("events_topics", nargs="+")
    parser.add_argument("results_topic")
    args = parser.parse_args()
    loads = avro_decoder(args.avro) if args.avro else orjson.loads
    started, used = time.monotonic(), time.process_time()
    totals = aggregate(args.bootstrap, args.events_topics, args.events, args.arrays, loads)
    produce(args.bootstrap, args.results_topic, totals)
    seconds, cpu_s = time.monotonic() - started, time.process_time() - used
    json.dump({"events": args.events, "seconds": seconds, "cpu_s": cpu_s, "results": len(totals)}, sys.stdout)
    print()


if __name__ == "__main__":
    main()
