"""An ingress process without a supervisor: copies one foreign topic until it is killed. For tests.

python -m tests.support.ingress_process BOOTSTRAP APP SOURCE TOPIC INPUTS ORIGIN_US INDEX
"""

from __future__ import annotations

import sys
import threading
import time
import uuid

from borealis_py.client.target import Target
from borealis_py.ingress.decoder import TopicDecoder
from borealis_py.ingress.formats.json_objects import JsonFormat
from borealis_py.ingress.plan import IngressPlan
from borealis_py.ingress.session import IngressSession
from borealis_py.kafka.log import KafkaLog
from borealis_py.query.ingress_spec import IngressSpec

COLUMNS = {"n": "int64", "at": "int64"}
WIDTH_US = 100_000
AHEAD_US = 60_000_000
LOOK_S = 1.0


def plan_of(app: str, source: str, topic: str, inputs: int, origin_us: int) -> IngressPlan:
    """What it copies: JSON rows with a number and a time in microseconds."""
    spec = IngressSpec(topic=topic, stime="at", lateness_us=20_000_000, inputs=inputs, start="earliest")
    targets = tuple(
        Target(app, "a1", f"{source}.{i}", WIDTH_US, origin_us // WIDTH_US, ahead_max_us=AHEAD_US)
        for i in range(inputs)
    )
    return IngressPlan(spec, COLUMNS, targets)


def main() -> None:
    bootstrap, app, source, topic, inputs, origin_us, index = sys.argv[1:]
    plan = plan_of(app, source, topic, int(inputs), int(origin_us))
    kafka, woken = KafkaLog(bootstrap), threading.Event()
    decoder = TopicDecoder(JsonFormat(COLUMNS), "at", "us", plan.targets[0].row_max_bytes)
    session = IngressSession(kafka, kafka, plan, decoder, uuid.uuid4().hex, int(index), woken.set)
    owner = False
    while True:
        woken.clear()
        session.turn(time.time_ns() // 1_000)
        if session.owner is not owner:
            owner = session.owner
            print("owner" if owner else "standby", flush=True)
        woken.wait(min(LOOK_S, max(0.0, session.next_wakeup() / 1e6 - time.time())))


if __name__ == "__main__":
    main()
