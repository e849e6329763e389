"""Bad input on a real broker: a clear reason in the dead-letter topic, nothing lost, and the query lives."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from borealis_py.app.errors import LaunchError
from borealis_py.app.state import AppState
from borealis_py.client.target import StreamTaken
from borealis_py.kafka.log import KafkaLog
from borealis_py.log import topics
from borealis_py.log.base import Feed, LogError, NewRecord, TopicSpec
from borealis_py.log.records import BatchHeader, ClaimHeader, pack, pack_stimes
from borealis_py.query import App
from tests.harness.launching import described
from tests.harness.running import RunningApp, running
from tests.harness.waiting import PATIENCE_S, until

pytestmark = pytest.mark.broker


@pytest.fixture
def app(bootstrap: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[RunningApp]:
    it = App("bad-" + request.node.name.replace("[", "-").replace("]", "").replace("_", "-")[:60], bucket="50ms")
    source = it.source("src", schema={"name": "string", "value": "int64"})
    it.query("all", source.filter("value >= 0"), delay_threshold="1s", replicas=1)
    with running(bootstrap, it, tmp_path) as app:
        app.start(0)
        app.wait_ready(0)
        yield app


def corrected_values(app: RunningApp) -> list[int]:
    return [json.loads(r.value or b"")["value"] for r in app.corrected("all")]


def append(app: RunningApp, value: bytes) -> None:
    appender = app.log.appender(lambda: None)
    appender.append(NewRecord(Feed(topics.stream(app.name, "src")), value), 1)
    assert appender.flush(PATIENCE_S)
    appender.close()


def batch(app: RunningApp, epoch: int, rows: bytes, seq: int, stimes: list[int], boundary: int | None) -> bytes:
    return pack(BatchHeader(app.state.app_uid, epoch, "me", seq, pack_stimes(stimes), boundary, "json"), rows)


def test_records_that_no_publisher_wrote_go_to_the_dead_letters(app: RunningApp) -> None:
    with app.publisher("src") as publisher:
        publisher.send({"name": "a", "value": 1})
        append(app, b"{broken json")
        append(app, b"\x00" * 2_000_000)
        publisher.send({"name": "b", "value": 2})
        until(lambda: corrected_values(app) == [1, 2], "both rows in the corrected stream")
        until(lambda: len(app.dead_letters()) == 2, "two dead letters")
    first, second = app.dead_letters()
    assert (first["source"], first["query"], first["raw"]) == ("src", "all", "{broken json")
    assert "not a publisher's record" in first["reason"]
    assert "not a publisher's record" in second["reason"]
    assert len(second["raw"]) < 100_000  # what is kept of it; the header `offset` says where the rest lies
    assert not app.errors


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (b'{"name": "x"}', "value"),
        (b'{"name": "x", "value": "many"}', "value"),
        (b'{"name": "x", "value": 1.5}', "value"),
        (b'{"name": 5, "value": 1}', "name"),
        (b"{", "malformed"),
    ],
    ids=["missing", "mistyped", "fraction", "number-for-text", "malformed"],
)
def test_one_bad_row_of_a_batch_is_blamed_alone(app: RunningApp, row: bytes, says: str) -> None:
    width = app.state.spec.bucket_us
    stime = (app.state.origin + 5) * width
    append(app, pack(ClaimHeader(app.state.app_uid, 1, "me")))
    rows = b'[{"name":"a","value":1},' + row + b',{"name":"b","value":2}]'
    append(app, batch(app, 1, rows, 0, [stime, stime, stime], stime + 10 * width))
    until(lambda: len(app.dead_letters()) >= 1, "the dead letter")
    until(lambda: app.last(0).f_s > app.state.origin + 5, "the batch is done with")
    good = [] if row == b"{" else [1, 2]  # a batch that is no JSON at all cannot be taken apart
    until(lambda: corrected_values(app) == good, "the good rows")
    (letter,) = app.dead_letters()
    assert letter["offset"] == "1"
    assert says in letter["reason"]
    assert not app.errors


def test_late_and_future_tuples_in_the_log_are_rejected_by_every_replica_alike(app: RunningApp) -> None:
    width = app.state.spec.bucket_us
    stime = (app.state.origin + 100) * width
    append(app, pack(ClaimHeader(app.state.app_uid, 1, "me")))
    append(app, batch(app, 1, b'[{"name":"a","value":1}]', 0, [stime], stime + width))
    append(app, batch(app, 1, b'[{"name":"late","value":7}]', 1, [stime - 5 * width], None))
    append(app, batch(app, 1, b'[{"name":"future","value":8}]', 2, [stime + 10**13], None))
    append(app, batch(app, 1, b'[{"name":"b","value":2}]', 3, [stime + width], stime + 3 * width))
    until(lambda: corrected_values(app) == [1, 2], "the rows in time")
    until(lambda: len(app.dead_letters()) == 2, "both dead letters")
    assert [letter["reason"].split(":")[0] for letter in app.dead_letters()] == ["late", "future"]


def test_a_publishers_own_bad_rows_never_enter_the_stream(app: RunningApp) -> None:
    with app.publisher("src") as publisher:
        assert not publisher.send({"name": "a"})
        assert not publisher.send({"name": "a", "value": "x"})
        assert not publisher.send({"name": "a", "value": 1}, stime=1)
        assert not publisher.send({"name": "a", "value": 1}, stime=2**60)
        publisher.send({"name": "good", "value": 5})
        until(lambda: corrected_values(app) == [5], "the good row")
        until(lambda: len(app.dead_letters()) == 4, "four dead letters")
    reasons = " | ".join(letter["reason"] for letter in app.dead_letters())
    for word in ("value", "late", "ahead"):
        assert word in reasons, reasons


def test_a_row_of_nearly_row_max_passes_and_one_beyond_it_is_a_dead_letter(app: RunningApp) -> None:
    name = "x" * 990_000
    with app.publisher("src") as publisher:
        assert publisher.send({"name": name, "value": 3})
        assert not publisher.send({"name": 2 * name, "value": 4})
        until(lambda: corrected_values(app) == [3], "the large row")
        until(lambda: len(app.dead_letters()) == 1, "the larger row's dead letter")
    assert json.loads(app.corrected("all")[0].value or b"")["name"] == name
    assert "row_max" in app.dead_letters()[0]["reason"]


def test_a_second_publisher_is_refused_while_the_first_is_at_work(app: RunningApp) -> None:
    with app.publisher("src") as first:
        first.send({"name": "a", "value": 1})
        with pytest.raises(StreamTaken, match=r"src.*--take-over"):
            app.publisher("src").start()
        first.send({"name": "b", "value": 2})
        until(lambda: corrected_values(app) == [1, 2], "the first goes on")


def test_checkpoints_that_cannot_be_written_while_it_runs_are_told_and_cost_no_result(
    app: RunningApp, tmp_path: Path
) -> None:
    directory, aside = tmp_path / app.name / "checkpoints" / "all.r0", tmp_path / "aside"

    def there() -> set[Path]:
        return set(directory.glob("*.ckpt"))

    with app.publisher("src") as publisher:
        publisher.send({"name": "a", "value": 1})
        until(lambda: bool(there()), "the first checkpoint")
        with capture_logs() as lines:
            directory.rename(aside)
            directory.write_text("in the way")
            publisher.send({"name": "b", "value": 2})
            until(lambda: corrected_values(app) == [1, 2], "the row while nothing can be written")
            until(lambda: any("checkpoint not written" in line["event"] for line in lines), "the reason")
        directory.unlink()
        aside.rename(directory)
        before = there()
        until(lambda: bool(there() - before), "a checkpoint again")
        publisher.send({"name": "c", "value": 3})
        until(lambda: corrected_values(app) == [1, 2, 3], "the row afterwards")
    told = [line for line in lines if line["log_level"] == "error"]
    assert all(line["file"].startswith(str(directory)) and "Not a directory" in line["why"] for line in told)
    assert not app.errors


@pytest.fixture
def parted(bootstrap: str, tmp_path: Path) -> Iterator[RunningApp]:
    """Three partitions by name behind a node, which reads a source in two partitions."""
    it = App("bad-parted", bucket="50ms")
    source = it.source("src", schema={"name": "string", "value": "int64"}, partitions=2)
    clean = source.filter("value >= 0").node("clean")
    counts = clean.window("50ms").group_by("name").agg(n="count(*)", total="sum(value)")
    it.query("all", counts, delay_threshold="2s", replicas=1, partitions=3, by="name")
    with running(bootstrap, it, tmp_path) as app:
        app.start(0)
        until(lambda: app.events(0).count("READY") == 4 or bool(app.errors), "the node and each partition ready")
        yield app


def totals(app: RunningApp) -> dict[str | None, int]:
    found: dict[str | None, int] = {}
    for record in app.corrected("all"):
        row = json.loads(record.value or b"")
        found[row["name"]] = found.get(row["name"], 0) + row["total"]
    return found


def test_a_key_that_is_null_or_empty_falls_to_a_partition_and_one_that_is_absent_to_the_dead_letters(
    parted: RunningApp,
) -> None:
    with parted.publisher("src.0") as first, parted.publisher("src.1") as second:
        for value in range(1, 5):
            assert first.send({"name": None, "value": value})
            assert second.send({"name": None, "value": 10 * value})
            assert second.send({"name": "", "value": 1})
            assert first.send({"name": "a", "value": 1})
        assert not first.send({"value": 7})  # no key at all: which row is it of?
        until(lambda: totals(parted) == {None: 110, "": 4, "a": 4}, "every row of every key")
        until(lambda: len(parted.dead_letters()) == 1, "the dead letter")
    (letter,) = parted.dead_letters()
    assert (letter["source"], json.loads(letter["raw"])) == ("src.0", {"value": 7})
    assert "name" in letter["reason"]
    homes = {(json.loads(r.value or b"")["name"], r.feed.partition) for r in parted.corrected("all")}
    assert len(homes) == 3, "each key has one partition"
    assert not parted.errors


def test_a_topic_that_has_too_few_partitions_already_is_named_before_anything_is_made(bootstrap: str) -> None:
    log, app = KafkaLog(bootstrap), App("bad-topic")
    admin = log.admin()
    admin.create([TopicSpec("bad-topic.src", 2)])
    source = app.source("src", schema={"name": "string"}, partitions=3)
    app.query("all", source, delay_threshold="1s", replicas=1)
    with pytest.raises(LogError, match=r"topic bad-topic\.src has 2 partitions at .*, 3 are needed: .*another name"):
        described(log, app, now_us=1_700_000_000_000_000)
    assert [topic for topic in admin.topics() if topic.startswith("bad-topic")] == ["bad-topic.src"]
    admin.close()


def test_a_source_with_other_partitions_than_at_the_first_start_is_refused_and_nothing_is_changed(
    bootstrap: str,
) -> None:
    log = KafkaLog(bootstrap)

    def describe(partitions: int | None) -> AppState:
        app = App("bad-again")
        source = app.source("src", schema={"name": "string"}, partitions=partitions)
        app.query("all", source, delay_threshold="1s", replicas=1)
        return described(log, app)

    first = describe(2)
    for partitions, told in ((4, "4 partitions"), (1, "1 partition"), (None, "not partitioned")):
        with pytest.raises(LaunchError, match=f"source 'src': 2 partitions on the broker, {told} in the file"):
            describe(partitions)
    with closing(log.lookup()) as lookup, pytest.raises(LogError):
        lookup.bounds(Feed("bad-again.src", 2))
    assert describe(2) == first
