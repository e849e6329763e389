"""The readers of bytes that others may have written, and for each a record as it should be: `tests/log/test_garbage.py`
gives them others, and `tests/guards/test_readers.py` looks that none is missing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from borealis_py.app import liveness
from borealis_py.app.audited import MAGIC as MAGIC_OF_AUDITS
from borealis_py.app.audited import _Body, _loaded
from borealis_py.app.log_lines import parsed
from borealis_py.app.replicas import readable as readable_line
from borealis_py.app.state import StatusReader, read_settings
from borealis_py.app.supervisor import run_notes
from borealis_py.client.subscriber import corrected_row, raw_records
from borealis_py.engine.codec import ArrowSourceCodec
from borealis_py.ingress.source_settings import SourceSettings
from borealis_py.log import topics
from borealis_py.log.acks import AuditEnd, ack_record, read_ack, read_audit
from borealis_py.log.base import Feed, NewRecord, Record, TopicSpec
from borealis_py.log.corrected import LostRange, Progress, letter_id, read_gap, read_progress, row_headers
from borealis_py.log.description import Life, OtherVersion, app_uid_now
from borealis_py.log.messages import (
    Description,
    DisagreementSetting,
    ExpectedSilence,
    Incarnation,
    PartitionSkip,
    Policy,
    RecoverySetting,
    RetainSetting,
    SourceFailure,
    Threshold,
    encode,
    read_beat,
)
from borealis_py.log.records import (
    BatchHeader,
    ClaimHeader,
    EnvelopeError,
    RangeHeader,
    StableHeader,
    pack,
    pack_stimes,
    unpack_source,
)
from borealis_py.log.source_records import decode_source
from borealis_py.log.source_tail import entry_of, resumable
from borealis_py.log.stream import StreamDecoder, readable
from borealis_py.node.checkpoint_files import MAGIC, CheckpointBody, Position
from borealis_py.node.checkpoint_storage import LocalLocation, sealed
from borealis_py.node.checkpoint_topic import Part, TopicLocation
from borealis_py.node.checkpoints import CheckpointStore
from borealis_py.node.dynamic_settings import DynamicSettings
from borealis_py.protocol.incarnation import Disagreement
from borealis_py.protocol.settings import Delays, Timing
from borealis_py.protocol.trimming import Need, ReplicaName
from borealis_py.query import App
from borealis_py.query.recovery import RecoveryWay
from borealis_py.query.spec import Serves
from borealis_py.runtime.spark.cluster import _free
from borealis_py.runtime.spark.replica_task import pack_snapshot, unpack_snapshot
from reconcile import rpc
from reconcile.compare import parse_row
from reconcile.dead_letters import parse_letter
from sunion.units import Bucket, Offset
from tests.node.texts import Numbers
from tests.support.heartbeats import heartbeat
from tests.support.ingress_statuses import ingress_status
from tests.support.instant_log import InstantLog
from tests.support.statuses import snapshot, status

APP, LIFE = "garbage", "a1"
NEED = Need(inc=1, uid="u", number=1, bucket=Bucket(5), offsets={"s": Offset(3)}, published=Bucket(4), place="p")
SOURCE = ArrowSourceCodec("s", {"n": "int64"})


@dataclass(frozen=True, slots=True)
class Reader:
    """`read`: takes the bytes, and must end in none but these `errors`. `valid`: bytes that it takes. `packed`: they
    are msgpack, else JSON or none of both."""

    read: Callable[[bytes], object]
    valid: bytes
    packed: bool = False
    errors: tuple[type[Exception], ...] = ()
    head: int = 0
    """So many bytes lie before what is JSON or msgpack."""


def record(
    value: bytes, topic: str = "t", key: bytes | None = None, headers: tuple[tuple[str, bytes], ...] = ()
) -> Record:
    return Record(Feed(topic), 7, 0, key, value, headers)


def put(log: InstantLog, *records: NewRecord) -> None:
    """What anybody writes."""
    with closing(log.admin()) as admin:
        admin.create([TopicSpec(name) for name in sorted({one.feed.topic for one in records} - {*admin.topics()})])
    with closing(log.appender(lambda: None)) as appender:
        for one in records:
            appender.append(one)
        appender.flush(1.0)


def _log_line(value: bytes) -> object:
    text = value.decode(errors="replace")
    return parsed("p", text), readable_line(text)


def _in_log(
    topic: str, key: bytes, read: Callable[[InstantLog], object], *before: NewRecord
) -> Callable[[bytes], object]:
    """Reads a topic of the log in which the bytes lie, behind others."""

    def look(value: bytes) -> object:
        log = InstantLog()
        put(log, *before, NewRecord(Feed(topic), value, key))
        return read(log)

    return look


def _described() -> Description:
    app = App(APP, bucket="100ms")
    app.query("q", app.source("s", schema={"n": "int64"}).filter("n > 0"), "3s")
    spec = app.describe()
    return Description(spec.to_json(), spec.hash, 1, "f", LIFE)


DESCRIPTION = encode(_described())
SETTINGS = topics.settings(APP)
IS_DESCRIBED = NewRecord(Feed(SETTINGS), DESCRIPTION, b"app")


def _state(log: InstantLog) -> object:
    found = read_settings(log, APP)
    assert found is not None, "what described the app before still does"
    return found


def _statuses(log: InstantLog) -> object:
    with closing(StatusReader(log, APP)) as reader:
        return reader.poll()


def _setting(key: str) -> Callable[[bytes], object]:
    def read(value: bytes) -> object:
        said = record(value, SETTINGS, key.encode())
        settings = DynamicSettings(Life(LIFE), "q", 0, (Serves(query="q"),), {"q": Delays(3_000_000)}, Timing())
        settings.read(said)
        SourceSettings().after("orders", LIFE, said)
        return _in_log(SETTINGS, key.encode(), _state, IS_DESCRIBED)(value)

    return read


def _source(value: bytes) -> object:
    said = record(value)
    decoded = decode_source(said, SOURCE, "s", Life(LIFE))
    if not decoded.foreign:
        decoded.opened()
    entry = entry_of(said, Life(LIFE))
    return None if entry is None else resumable([entry], 0)


def _stream(value: bytes) -> object:
    list(raw_records([record(value)]))
    return readable(record(value), StreamDecoder(Life(LIFE), "s1"))


def _files(value: bytes) -> object:
    def read(log: InstantLog) -> object:
        place = TopicLocation(log, APP, "q.r0")
        return place.names(), place.read_all(["a", "x"]), place.remove_temporaries()

    topic = topics.kept_files(APP, "q.r0")
    whole = msgspec.msgpack.encode(Part("w", 1, b"whole"))
    found = _in_log(topic, b"x/0", read, NewRecord(Feed(topic), whole, b"a/0"))(value)
    _in_log(topic, value[:40], read)(whole)
    return found


def _checkpoint(value: bytes) -> object:
    with TemporaryDirectory() as folder:
        place = LocalLocation(Path(folder) / "q.r0")
        place.prepare()
        place.write(f"{5:020d}.ckpt", sealed(MAGIC, value))
        with closing(CheckpointStore(place, "q1", Numbers(), threaded=False)) as store:
            return store.newest()


def _audit(value: bytes) -> object:
    with TemporaryDirectory() as folder:
        place = LocalLocation(Path(folder) / "q.audit")
        place.prepare()
        place.write("1", sealed(MAGIC_OF_AUDITS, value))
        return _loaded(place, "1", "what")


def _rpc(value: bytes) -> object:
    found = rpc.decode_all([record(value)], "s")
    return [rpc.Reassembler().add(one) for _, one in found if isinstance(one, rpc.MessageChunk)]


def _note(value: bytes) -> object:
    with TemporaryDirectory() as folder:
        (path := Path(folder) / "note").write_bytes(value)
        return run_notes.read(str(path))


def _page_of_master(value: bytes) -> object:
    try:
        page = json.loads(value)
    except (ValueError, RecursionError):
        return None
    return _free(page, 100, ())


def _settings() -> Iterator[tuple[str, bytes]]:
    yield "threshold/q", encode(Threshold(3_000_000, LIFE))
    yield "policy/q", encode(Policy("delay", "process", LIFE))
    yield "fail/s", encode(SourceFailure(5, LIFE))
    yield "skip/orders/3", encode(PartitionSkip(LIFE, True))
    yield "expect/orders", encode(ExpectedSilence(LIFE, 5))
    yield "retain/s", encode(RetainSetting(5, False, LIFE))
    yield "recovery/q", encode(RecoverySetting(LIFE, RecoveryWay.ACTIVE))
    yield "diverged/q", encode(DisagreementSetting(LIFE, Disagreement(1, 0, "a", 1, "b")))
    yield "incarnation/q/0", encode(Incarnation(LIFE, 3, "u"))
    yield "app", DESCRIPTION


POSITION = Position(7, 1_000, 2, "u", 41)
STABLE = StableHeader(LIFE, 1, 17, 0, 0, 1, "s1")
BATCH = pack(BatchHeader(LIFE, 1, "u", 10, pack_stimes([5, 6]), 9, "json"), b'[{"n":1},{"n":2}]')
ID = row_headers(17, 2, 1_799)
LETTER = tuple((name, b"3") for name in ("query", "source", "offset", "reason", "node", "bucket", "index"))


def _as_header(names: tuple[str, ...]) -> Callable[[bytes], object]:
    """Reads the bytes as each of these headers of a corrected row or dead letter."""

    def read(value: bytes) -> object:
        found: list[object] = []
        for name in names:
            row = tuple((of, value if of == name else said) for of, said in ID)
            letter = tuple((of, value if of == name else said) for of, said in LETTER)
            found += [corrected_row(record(b"{}", headers=row)), parse_row(record(b"{}", headers=row))]
            found += [parse_letter(record(b"{}", headers=letter)), letter_id(record(b"{}", headers=letter), "3")]
        return found

    return read


READERS: dict[str, Reader] = {
    **{f"setting {key}": Reader(_setting(key), value, errors=(OtherVersion,)) for key, value in _settings()},
    "heartbeat": Reader(
        lambda value: read_beat(b"q/1", value, "q"), encode(heartbeat(1, 7)), errors=(msgspec.DecodeError,)
    ),
    "heartbeat of any life": Reader(lambda value: liveness._beat(record(value, key=b"q/1")), encode(heartbeat(1, 7))),
    "status": Reader(_in_log(topics.status(APP), b"q/0", _statuses), encode(status())),
    "status of an ingress": Reader(
        _in_log(topics.status(APP), b"ingress/orders/0", _statuses), encode(ingress_status())
    ),
    "life": Reader(
        _in_log(SETTINGS, b"app", lambda log: app_uid_now(log.lookup(), APP)), DESCRIPTION, errors=(OtherVersion,)
    ),
    "acknowledgement": Reader(
        lambda value: read_ack(record(value, key=b"q/0"), Life(LIFE)),
        ack_record(APP, LIFE, ReplicaName("q", 0), NEED).value or b"",
    ),
    "end of an audit": Reader(
        lambda value: read_audit(record(value, key=b"q/audit"), Life(LIFE)), encode(AuditEnd(LIFE, 5, {"s": 3}))
    ),
    "progress": Reader(
        lambda value: read_progress(record(value, key=b"0"), Life(LIFE), 0), encode(Progress(LIFE, 5, 0, 1))
    ),
    "gap": Reader(lambda value: read_gap(record(value, key=b"gap/5"), Life(LIFE)), encode(LostRange(LIFE, 5, 7))),
    "row of a corrected stream": Reader(lambda value: corrected_row(record(value, headers=ID)), b'{"n": 1}'),
    "headers": Reader(_as_header(("id", "stime", "bucket", "index", "offset", "seq", "node", "source")), b"17:2"),
    "claim": Reader(_source, pack(ClaimHeader(LIFE, 1, "u", 5)), packed=True, head=7),
    "batch": Reader(_source, BATCH, packed=True, head=7),
    "envelope": Reader(unpack_source, pack(ClaimHeader(LIFE, 1, "u", 5)), True, (EnvelopeError,), 7),
    "stable bucket": Reader(_stream, pack(STABLE, b"rows"), packed=True, errors=(OtherVersion,), head=7),
    "range": Reader(_stream, pack(RangeHeader(LIFE, 1, 5, 7, 0)), packed=True, errors=(OtherVersion,), head=7),
    "part of a file": Reader(_files, msgspec.msgpack.encode(Part("w", 1, b"content")), packed=True),
    "checkpoint": Reader(
        _checkpoint, msgspec.msgpack.encode(CheckpointBody("q1", 5, (POSITION,), b"[1,2]")), packed=True
    ),
    "file of an audit": Reader(_audit, msgspec.msgpack.encode(_Body("what", 5, (POSITION,), b"", 3, 4)), packed=True),
    "chunk": Reader(_rpc, rpc.encode(rpc.SubmitJob("s", "u", 1, 0, 2, b"body")), packed=True),
    "order": Reader(_rpc, rpc.encode(rpc.StandbysOrder("s", {"q.r0": rpc.IncarnationOrder(3)})), packed=True),
    "report": Reader(_rpc, rpc.encode(rpc.StandbysReport("s", 3, "here", {"q": 1}, {})), packed=True),
    "snapshot": Reader(unpack_snapshot, pack_snapshot(snapshot()), packed=True),
    "log line": Reader(_log_line, b'{"event": "x", "timestamp": "2026-01-01T00:00:00Z", "bucket_us": 5}'),
    "note of a process": Reader(_note, b'{"run": 1, "code": 0}'),
    "page of a Spark master": Reader(
        _page_of_master, b'{"status":"ALIVE","workers":[{"state":"ALIVE","coresfree":1,"memoryfree":900,"host":"a"}]}'
    ),
}
