"""An app that reads topics of other programs, from the command line: what `up`, `inspect` and the others say and do."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from borealis_py.app.source_ended import ended_sources
from borealis_py.app.state import read_app
from borealis_py.app.supervisor.exit_codes import REFUSED
from borealis_py.kafka.log import KafkaLog
from borealis_py.log import topics
from borealis_py.log.base import Feed
from tests.cli.commands import Borealis, status
from tests.cli.foreign_topic import Topic, app_text
from tests.harness.waiting import PATIENCE_S, awaited, until, until_equal

pytestmark = pytest.mark.broker


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def row(shop: str = "berlin", euros: object = 1.5, **changes: object) -> dict[str, object]:
    return {"shop": shop, "euros": euros, "at": now_ms(), **changes}


def owned(borealis: Borealis, app: str) -> list[dict[str, Any]]:
    """The inputs of the ingress that copies; none: no one does."""
    found = (one for one in status(borealis, app)["ingresses"] if one["running"] and one["role"] == "owner")
    return next((one["inputs"] for one in found), [])


def copied(borealis: Borealis, app: str, rows: list[int]) -> list[dict[str, Any]] | None:
    """The same, where so many rows of each have been copied."""
    found = owned(borealis, app)
    return found if [one["rows"] for one in found] == rows else None


def refused_to_skip(borealis: Borealis, wait: tuple[str, ...]) -> bool:
    """Whether `skip` is refused. It may be given up while its ingress stands still, as on a busy machine: undone."""
    said = borealis("source", "skip", "orders", "--partition", "1", *wait)
    if said.code == 0:
        assert borealis("source", "skip", "orders", "--partition", "1", "--undo", *wait).code == 0
        return False
    assert "can be read, and nothing waits for it" in said.err, said.err
    return True


def test_a_topic_that_does_not_exist_is_named_and_nothing_is_made(borealis: Borealis, here: Path, topic: Topic) -> None:
    (here / "app.py").write_text(app_text("absent", f"{topic.name}.absent"))
    said = borealis("up", "app.py", "--host", "process")
    assert said.code == 1
    assert (
        f"source 'orders' reads topic '{topic.name}.absent', which does not exist in the app's own cluster" in said.err
    )
    assert borealis("status", "--app", "absent").code == 2


def test_inspect_shows_what_an_app_must_know_of_it(borealis: Borealis, topic: Topic) -> None:
    topic.send(row(), row("paris", None, extra=[1]), b"garbage")
    said = borealis("inspect", topic.name)
    assert said.code == 0
    assert 'schema={"shop": "string", "euros": "double", "at": "int64", "extra": "json"}' in said.out
    assert 'stime="at", stime_unit="ms", lateness="500ms", partitions=2)' in said.out
    found = json.loads(borealis("inspect", topic.name, "--json").out)
    assert (found["format"], found["records"], found["unusable"], found["partitions"]) == ("json", 3, 1, 2)
    said = borealis("inspect", f"{topic.name}s")
    assert (said.code, f"there is no topic '{topic.name}s'; did you mean '{topic.name}'" in said.err) == (2, True)


def test_check_reads_a_sample_and_names_a_column_that_no_record_has(
    borealis: Borealis, here: Path, topic: Topic
) -> None:
    topic.send(*(json.dumps({"Shop": "berlin", "euros": 1.5, "at": 1}).encode() for _ in range(3)))
    (here / "app.py").write_text(app_text("sampled", topic.name))
    told = (
        f"source orders: column `shop` was in none of 3 records of topic {topic.name}, so it is null in all rows; they"
    )
    said = borealis("check", "app.py", "--broker")
    assert said.code == 0
    assert f"{told} have `Shop`" in " ".join(said.err.split())
    assert "column `euros`" not in said.err
    assert "column `shop`" not in borealis("check", "app.py").err, "no topic is read unless it is asked for"


def test_its_inputs_stay_when_it_grows_and_check_needs_no_number(
    borealis: Borealis, here: Path, topic: Topic, bootstrap: str
) -> None:
    (here / "app.py").write_text(app_text("grown", topic.name))
    assert "orders" in borealis("check", "app.py").out
    assert borealis("up", "app.py", "--describe-only").code == 0
    before = read_app(KafkaLog(bootstrap), "grown")
    assert before.spec.source_partitions == {"orders": 2}
    topic.grow(5)
    until(lambda: KafkaLog(bootstrap).admin().partitions(topic.name) == 5, "the topic has grown")
    said = borealis("up", "app.py", "--describe-only")
    assert said.code == 0, said.err
    assert read_app(KafkaLog(bootstrap), "grown").hash == before.hash
    (here / "app.py").write_text(app_text("grown", topic.name, "partitions=5"))
    said = borealis("up", "app.py", "--describe-only")
    assert said.code == 1
    assert "source 'orders': 2 partitions on the broker, 5 partitions in the file" in said.err


def test_bad_records_cost_only_themselves_and_are_told(
    borealis: Borealis, here: Path, topic: Topic, bootstrap: str
) -> None:
    (here / "app.py").write_text(app_text("bad", topic.name, "heartbeat=\"shop = 'ping'\"", "10s"))
    said = borealis("up", "app.py", "--host", "process", "--no-restart")
    try:
        assert said.code == 0, said.err
        assert "ingress 1 started" in said.err
        until(lambda: len(owned(borealis, "bad")) == 2, "an ingress copies both partitions")
        topic.send(
            row(), b"not json", b"[1]", row(euros="much"), row(at=None), row(at=now_ms() - 60_000),
            row(at=now_ms() + 3_600_000), row("ping"), row("rome"),
        )  # fmt: skip
        first, _ = awaited(lambda: copied(borealis, "bad", [2, 0]), "the good rows are copied")
        assert (first["late"], first["dead"]) == (1, 5)
        assert "source orders: 1 row came later than its lateness allows" in borealis("status", "--app", "bad").err
        letters = KafkaLog(bootstrap).lookup()
        feed = Feed(topics.deadletter("bad"))
        until(lambda: letters.bounds(feed)[1] > 0, "dead letters are published")
        until(lambda: len(reasons(bootstrap, feed)) == 6, "all dead letters are published")
        found = reasons(bootstrap, feed)
        for told in ("not JSON", "Expected `object`", "column 'euros'", "stime missing", "late:", "future:"):
            assert sum(told in reason for reason in found) == 1, found
        letters.close()
        (here / "rows.csv").write_text("shop,euros,at\n")
        said = borealis("publish", "orders.0", "rows.csv", "--app", "bad")
        assert (said.code, "nothing else may" in said.err) == (2, True)
        (here / "app.py").write_text(app_text("bad", topic.name, 'heartbeat="shop = \'ping\'", boundary="data"', "10s"))
        assert "source orders: its ingresses run as they were started" in borealis("up", "app.py", "--no-restart").err
    finally:
        said = borealis("down", "--app", "bad")
    assert said.err.count("ingress") == 2


def test_what_is_set_of_a_source_is_obeyed_by_its_ingresses_told_and_final_where_it_is_end(
    borealis: Borealis, here: Path, topic: Topic, bootstrap: str
) -> None:
    (here / "app.py").write_text(app_text("set", topic.name, "heartbeat=\"shop = 'ping'\""))
    wait = ("--app", "set", "--timeout", "60s")
    try:
        assert borealis("up", "app.py", "--host", "process").code == 0
        until(lambda: len(owned(borealis, "set")) == 2, "an ingress copies both partitions")
        said = borealis("up", "app.py", "--host", "process", "--data-dir", "elsewhere")
        assert (said.code, "runs elsewhere" in said.err) == (1, True), said.err
        assert "no replica of app 'set' runs" in borealis("down", "--app", "set", "--data-dir", "elsewhere").err
        for arguments, code, told in (
            (("skip", "ordres", "--partition", "0"), 2, "did you mean 'orders'"),
            (("skip", "orders", "--partition", "2"), 2, "Partitions: 0, 1"),
            (("expect", "orders", "1h"), 1, "has expect 1h, but the query waits"),
        ):
            said = borealis("source", *arguments, *wait)
            assert (said.code, told in said.err) == (code, True), said.err
        until(lambda: refused_to_skip(borealis, wait), "what can be read is not given up")
        said = borealis("source", "expect", "orders", "700ms", *wait)
        assert (said.code, said.out.count("since")) == (0, 2), said.err
        until(lambda: [i["missing"] for i in owned(borealis, "set")] == ["silent"] * 2, "silence is missing")
        assert "an input that is silent for 700ms is missing" in borealis("status", "--app", "set").err
        assert borealis("source", "skip", "orders", "--partition", "1", *wait).code == 0
        until(lambda: [i["missing"] for i in owned(borealis, "set")] == ["silent", ""], "nothing waits for it")
        found = json.loads(borealis("source", "skip", "orders", "--partition", "1", *wait, "--json").out)
        assert (found["written"], [one["in_force"] for one in found["ingresses"]]) == (False, [True, True])
        topic.send(row(), partition=0)
        topic.send(row(), partition=1)
        said = borealis("source", "end", "orders", *wait)
        assert (said.code, "orders: has ended" in said.err) == (0, True), said.err
        assert ended_sources(KafkaLog(bootstrap), read_app(KafkaLog(bootstrap), "set")) == dict.fromkeys(
            ("orders.0", "orders.1"), True
        )
        until(lambda: [i["role"] for i in status(borealis, "set")["ingresses"]] == ["ended"] * 2, "both have ended")
        assert "source orders has ended" in borealis("status", "--app", "set").err
        said = borealis("up", "app.py", "--host", "process")
        assert (said.code, "every source of app set has ended" in said.err) == (0, True), said.err
    finally:
        borealis("down", "--app", "set")


def reasons(bootstrap: str, feed: Feed) -> list[str]:
    lookup = KafkaLog(bootstrap).lookup()
    found = [dict(r.headers)["reason"].decode() for r in lookup.read(feed, *lookup.bounds(feed))]
    lookup.close()
    return found


def page(url: str) -> str:
    """What a page says, whatever its status is."""
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
            text: str = answer.read().decode()
    except urllib.error.HTTPError as exc:
        with exc:
            text = exc.read().decode()
    return text


def foreground(*arguments: str) -> subprocess.Popen[str]:
    """`borealis ingress` as a process."""
    command = [sys.executable, "-m", "borealis_py.cli.main", "ingress", *arguments]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=dict(os.environ))


def test_an_ingress_runs_alone_in_a_container_and_reads_another_cluster(
    borealis: Borealis, here: Path, topic: Topic, bootstrap: str
) -> None:
    (here / "app.py").write_text(app_text("alone", topic.name, 'cluster="eu", start="earliest"'))
    (here / "borealis.yaml").write_text(f"clusters:\n  eu:\n    bootstrap: {bootstrap}\n")
    topic.send(row(at=now_ms() - 3_600_000), row())
    assert borealis("up", "app.py", "--describe-only").code == 0
    process = foreground("0", "--app", "alone", "--http", "127.0.0.1:0")
    try:
        awaited(lambda: copied(borealis, "alone", [2, 0]), "the rows of an hour ago are copied")
        (one,) = (i for i in status(borealis, "alone")["ingresses"] if i["running"])
        assert (one["pid"], one["ingress"], one["cluster"]) == (process.pid, 0, "eu")
        for path in ("healthz", "readyz"):
            until_equal(lambda path=path: page(f"{one['http']}/{path}"), "ok\n", f"{path} says that it copies")
        line = 'borealis_ingress_rows_total{app="alone",ingress="0",input="orders.0",source="orders"} 2.0'
        until(lambda: line in page(f"{one['http']}/metrics").splitlines(), "the metrics say so, too")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0, process.stderr and process.stderr.read()
        until_equal(lambda: owned(borealis, "alone"), [], "it is said to have ended")
    finally:
        process.kill()
        process.communicate()
    (here / "borealis.yaml").write_text("clusters: {}\n")
    refused = foreground("0", "--app", "alone")
    _, err = refused.communicate(timeout=PATIENCE_S)
    assert (refused.returncode, "cluster 'eu' is not under `clusters:`" in err) == (REFUSED.code, True)


def test_an_app_without_topics_has_no_ingress(borealis: Borealis, here: Path, topic: Topic) -> None:
    (here / "app.py").write_text(
        'from borealis_py import App\napp = App("own")\n'
        'app.query("q", app.source("s", schema={"x": "int"}).filter("x > 0"), replicas=1)\n'
    )
    assert borealis("up", "app.py", "--describe-only").code == 0
    said = borealis("ingress", "0", "--app", "own")
    assert (said.code, "reads no topics of other programs" in said.err) == (1, True)
