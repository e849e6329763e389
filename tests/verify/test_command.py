"""`borealis verify` on a real app: clean while it runs and after; what is planted in its topics afterwards is named."""

from __future__ import annotations

import json
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from borealis_py.query import App
from borealis_py.verify import survey
from tests.cli.commands import Borealis
from tests.harness.launching import cut_off
from tests.harness.running import RunningApp, running
from tests.harness.waiting import PATIENCE_S, until

pytestmark = pytest.mark.broker
NAME, SOURCES = "verified", ("left", "right")
ROWS_S = 0.02


def chain() -> App:
    """A partitioned chain of two nodes, and a query beside it."""
    app = App(NAME, bucket="100ms")
    left, right = (app.source(s, schema={"key": "string", "value": "double"}) for s in SOURCES)
    both = app.union(left, right)
    cleaned = both.filter("value >= 0").node("cleaned", replicas=2, partitions=2, by="key")
    sums = cleaned.window("500ms").group_by("key").agg(n="count(*)", mean="avg(value)", seen="list(value)")
    app.query("sums", sums, "1s", replicas=2, partitions=2, by="key")
    app.query("big", both.filter("value > 7"), "1s", replicas=2)
    return app


class Feeding:
    """Publishers of both sources in a thread; every tenth row cannot be used."""

    def __init__(self, app: RunningApp) -> None:
        self._app, self._stop = app, threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        with ExitStack() as stack:
            publishers = [stack.enter_context(self._app.publisher(s)) for s in SOURCES]
            n = 0
            while not self._stop.wait(ROWS_S):
                for publisher in publishers:
                    publisher.send({"key": f"k{n % 5}", "value": n / 3 % 10 if n % 10 else "none"})
                n += 1

    def __enter__(self) -> Feeding:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


@pytest.fixture(scope="module")
def app(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningApp]:
    with running(bootstrap, chain(), tmp_path_factory.mktemp(NAME)) as it:
        for replica in (0, 1):
            it.start(replica)
        it.wait_ready(0, 1)
        yield it


@contextmanager
def unreachable(app: RunningApp, source: str) -> Iterator[None]:
    """For all replicas."""
    cut_off(app.log, app.name, [source], time.time_ns() // 1000 + 60_000_000)
    yield
    cut_off(app.log, app.name, [source], 0)


@pytest.fixture(autouse=True)
def _here(bootstrap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BOREALIS_BOOTSTRAP", bootstrap)


def verified(borealis: Borealis, code: int, *arguments: str) -> dict[str, Any]:
    """The verdict that `verify --out` writes."""
    said = borealis("verify", *arguments, "--app", NAME, "--out", "verdict.json")
    assert said.code == code, said.err + said.out
    found: dict[str, Any] = json.loads(Path("verdict.json").read_text())
    return found


def kinds(document: dict[str, Any]) -> dict[str, list[str]]:
    """Of the anomalies: where and what, by kind."""
    return {
        kind: [f"{one['where']}: {one['what']}" for one in of["examples"]]
        for kind, of in document["anomalies"].items()
        if of["count"]
    }


def tentative(app: RunningApp) -> int:
    return sum(s.tentative_buckets for s in (app.newest(0), app.newest(1)) if s is not None)


def test_a_running_app_is_clean_and_so_it_is_afterwards(
    borealis: Borealis, app: RunningApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(survey, "GRACE_S", PATIENCE_S)  # the replicas share this process with who judges them
    with Feeding(app):
        until(lambda: len(app.corrected("sums")) > 20, "rows are published")
        with unreachable(app, "right"):
            until(lambda: tentative(app) > 10, "tentative buckets")
            assert kinds(verified(borealis, 0)) == {}
        for _ in range(3):  # while it is corrected, and behind that
            assert kinds(verified(borealis, 0)) == {}
    found = verified(borealis, 0)
    looked = found["looked_at"]
    assert (found["ok"], found["queries"], found["not_checked"]) == (True, ["sums", "big"], [])
    assert all(looked[what] > 10 for what in ("corrected rows", "stable statements", "tentative statements"))
    assert looked["source tuples"] > 100
    assert looked["dead letters"] > 10
    said = borealis("verify", "big", "--app", NAME)
    assert said.code == 0
    assert "stable-changed" in said.out
    assert f"{NAME}: big: nothing is wrong" in said.err
    assert json.loads(borealis("verify", "big", "--app", NAME, "--json").out.splitlines()[-1])["queries"] == ["big"]


def envelope(app: RunningApp, *header: object) -> bytes:
    """By the table of A3.1."""
    body = msgspec.msgpack.encode([header[0], app.state.app_uid, *header[1:]])
    return struct.pack(">2sBI", b"BZ", 2, len(body)) + body


def test_what_is_planted_is_named(borealis: Borealis, app: RunningApp) -> None:
    with Feeding(app):
        until(lambda: len(app.corrected("big")) > 20, "rows are published")
    for replica in (0, 1):
        app.stop(replica)
    assert kinds(verified(borealis, 0)) == {}
    assert "no replica of big runs" in borealis("subscribe", "big", "--app", NAME, "--count", "1").err
    rows = app.corrected("big")
    row, row_id = rows[0], dict(rows[0].headers)["id"].decode()
    bucket, end = int(row_id.split(":")[0]), int(dict(rows[-1].headers)["id"].decode().split(":")[0])
    producer = Producer({"bootstrap.servers": app.log.bootstrap})
    producer.produce(f"{NAME}.big", row.value, headers=list(row.headers))
    producer.produce(f"{NAME}.big.r0", envelope(app, "BOUNDARY", 9, bucket, bucket + 1, 0))
    producer.produce(f"{NAME}.big.r1", envelope(app, "STABLE", 9, end + 5_000, 0, 0, 1, "h"))
    for topic in ("big.r0", "big.progress", "deadletter", "big"):
        producer.produce(f"{NAME}.{topic}", b"\x00garbage", b"0")
    producer.produce(f"{NAME}.left", b"\x00garbage")  # a dead letter, once a replica runs
    assert producer.flush(PATIENCE_S) == 0
    found = kinds(verified(borealis, 1, "big"))
    assert found["duplicate"] == [f"corrected big: offset {_offset(found['duplicate'][0])}: id {row_id} again"]
    assert [text.split(" was ")[0] for text in found["stable-changed"]] == [f"big.r0: bucket {bucket}"]
    assert found["stable-changed"][0].endswith("now empty")
    holes = [text for text in found["inconsistent-offsets"] if "big.r1: never says buckets " in text]
    assert [text.endswith(f" to {end + 4_999}") for text in holes] == [True]
    named = {text.split(": ")[0] for text in found["inconsistent-offsets"]} - {"big.r1"}
    assert named == {"big.r0", "big.progress", "deadletter", "corrected big"}
    assert any("is closed below" in text for text in found["unlabelled-partial"])  # no source has closed that bucket
    assert found.keys() == {"duplicate", "stable-changed", "inconsistent-offsets", "unlabelled-partial"}
    said = borealis("verify", "big", "--app", NAME)
    assert said.code == 1
    assert f"id {row_id} again" in said.out
    assert f"{NAME}: big: anomalies were found: duplicate 1, inconsistent-offsets" in said.err


def _offset(text: str) -> int:
    return int(text.split("offset ")[1].split(":")[0])


def test_what_cannot_be_checked_is_told_with_code_2(
    borealis: Borealis,
    app: RunningApp,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = borealis("verify", "nobody", "--app", NAME)
    assert (said.code, "no query 'nobody'" in said.err) == (2, True)
    said = borealis("verify", "--app", "elsewhere")
    assert (said.code, "no app 'elsewhere'" in said.err) == (2, True)
    Path("borealis.yaml").write_text("kafka: {sasl.oauthbearer.config: x}\n")
    said = borealis("verify", "--app", NAME)
    assert (said.code, "sasl.oauthbearer.config" in said.err) == (2, True)
    Path("borealis.yaml").unlink()
    admin = AdminClient({"bootstrap.servers": app.log.bootstrap})
    admin.delete_topics([f"{NAME}.sums.0.r1"])[f"{NAME}.sums.0.r1"].result(30)
    until(lambda: f"{NAME}.sums.0.r1" not in admin.list_topics(timeout=10).topics, "the topic is gone")
    said = borealis("verify", "sums", "--app", NAME)
    assert (said.code, f"{NAME}.sums.0.r1 does not exist" in said.err, "borealis up" in said.err) == (2, True, True)
    monkeypatch.setenv("BOREALIS_BOOTSTRAP", "localhost:1")
    said = borealis("verify", "--app", NAME)
    assert (said.code, "borealis broker up" in said.err) == (2, True)
