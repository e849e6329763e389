"""The readers of files, of requests, and of other programs' records, and for each what it takes: `readers.READERS` are
those of the app's own topics. `tests/log/test_fuzz.py` gives both of them others."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, Literal, cast
from unittest import mock

import fastavro
import pyarrow as pa
from prometheus_client import CollectorRegistry
from pyarrow import parquet

from borealis_py.app import supervision
from borealis_py.app.functions.samples import _rows
from borealis_py.app.replicas import ProcessName, ReplicaProcesses
from borealis_py.app.supervisor import run_notes
from borealis_py.client.ingest import IngestError, open_rows
from borealis_py.config import config
from borealis_py.engine import DuckKernel
from borealis_py.engine.arrow.rows import segment_schema
from borealis_py.engine.codec import ArrowSourceCodec
from borealis_py.engine.keyed.table_file import rows_of
from borealis_py.ingress.formats.avro import AvroFormat
from borealis_py.ingress.formats.avro_schema import UnusableSchema
from borealis_py.ingress.formats.base import RecordFormat
from borealis_py.ingress.formats.debezium import DebeziumFormat
from borealis_py.ingress.formats.delimited import CsvFormat
from borealis_py.ingress.formats.json_objects import JsonFormat
from borealis_py.ingress.formats.json_schema import JsonSchemaFormat
from borealis_py.ingress.formats.plain_text import TextFormat
from borealis_py.ingress.formats.protobuf_files import file_of
from borealis_py.ingress.formats.record_keys import JsonKeys
from borealis_py.kafka.broker import BrokerError, LocalBroker
from borealis_py.observe.http_routes import Routes
from borealis_py.observe.http_server import _Handler
from borealis_py.observe.topic_formats import recognised
from borealis_py.protocol.settings import SettingsError
from borealis_py.query.errors import QueryError
from borealis_py.query.plan import TableFile
from tests.ingress.formats import forms
from tests.support.readers import Reader, record

COLUMNS = {
    "n": "int64", "s": "string", "x": "double", "b": "bool", "m": "decimal(12,2)", "t": "timestamp", "d": "date",
    "y": "binary", "j": "json",
}  # fmt: skip
ROW = (
    b'{"n":7,"s":"tea","x":0.5,"b":true,"m":1.25,"t":"2026-11-21T15:25:26+01:00","d":"2026-11-21","y":"AP8=",'
    b'"j":{"a":[1.10,null]}}'
)
SENT = (
    ROW.replace(b'"m":1.25', b'"m":"1.25"')
    .replace(b"26+01:00", b"26.000000Z")
    .replace(b'"j":{"a":[1.10,null]}', b'"j":"{}"')
)
CSV = b'n,s,x,b,m,t,d,y,j\n7,"tea, green",0.5,true,1.25,2026-11-21T15:25:26Z,2026-11-21,AP8=,"{""a"":1}"\n8,,,,,,,,\n'
SCHEMA = segment_schema(COLUMNS).remove(len(COLUMNS))
YAML = b"""\
bootstrap: localhost:9092
http: 127.0.0.1:9400
engine_memory: 1GiB
checkpoints: s3://bucket/path
kafka:
  security.protocol: SSL
clusters:
  eu: {bootstrap: "eu:9092", kafka: {a.b: true}}
timing:
  delta: 125ms
  row_max: 1000000
spark:
  master: local[2]
  redo_slots: 1
  slot_wait: 30s
"""


def _in_file(name: str, read: Callable[[Path], object]) -> Callable[[bytes], object]:
    def look(value: bytes) -> object:
        with TemporaryDirectory() as folder:
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(value)
            return read(path)

    return look


def _configuration(path: Path) -> object:
    with mock.patch.dict(os.environ, {"BOREALIS_CONFIG": str(path)}):
        found = config.load()
        return found.protocol_timing(), found.spark_properties, found.slot_wait_us, found.engine_memory_bytes


def _published(path: Path) -> object:
    with open_rows(str(path), COLUMNS, "t") as rows:
        return list(rows)


def _table(form: Literal["csv", "json", "parquet"]) -> Callable[[Path], object]:
    columns = tuple(COLUMNS.items())

    def read(path: Path) -> object:
        sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
        return rows_of(TableFile(path=str(path), format=form, columns=columns, sha256=sha256, table="t"), SCHEMA)

    return read


def _parquet() -> bytes:
    out = io.BytesIO()
    parquet.write_table(pa.Table.from_batches([JsonFormat(COLUMNS).rows([ROW]).rows]), out, write_page_checksum=True)
    return out.getvalue()


def _samples(path: Path) -> object:
    codec = ArrowSourceCodec("s", COLUMNS)
    kernel = SimpleNamespace(source_codec=lambda source: codec, settle=lambda groups: [one for (one,) in groups])
    return _rows(cast(DuckKernel, kernel), "s", path)


def _notes(path: Path) -> object:
    """As the note of a process, as what it notes of itself, and as that of a supervisor."""
    name, there = ProcessName(0), path.parent
    for other in ("replica-0.pid", "replica-0.ready", "replica-0.end", f"{run_notes.SUPERVISOR}.pid"):
        (there / other).write_bytes(path.read_bytes())
    stem = str(there / name.stem)
    note = run_notes.read(f"{stem}.pid")
    processes = ReplicaProcesses(there.parent, there.name)
    found = run_notes.ready_since(stem, note), run_notes.exit_code(stem, note), run_notes.running(note)
    return *found, supervision.fate_of(there / "replica-0.pid"), processes.told(), processes.ready(), processes.kept


class _Request:
    """A connection on which these bytes have come, and then the end."""

    def __init__(self, value: bytes) -> None:
        self._value = value
        self.sent = b""

    def makefile(self, *_: object) -> io.BytesIO:
        return io.BytesIO(self._value)

    def sendall(self, data: bytes) -> None:
        self.sent += data

    def settimeout(self, _: object) -> None: ...

    def setsockopt(self, *_: object) -> None: ...


def _request(value: bytes) -> object:
    board = SimpleNamespace(
        hung=lambda: [], unready=lambda: [], diverged=lambda: [], overview=lambda now_us: {"now_us": now_us}
    )
    request, pages = _Request(value), Routes(board, CollectorRegistry())
    _Handler(cast(Any, request), ("127.0.0.1", 1), cast(Any, SimpleNamespace(pages=pages)))
    assert not request.sent or b" 50" not in request.sent.split(b"\r\n")[0], request.sent
    return request.sent


AVRO_TYPES: Mapping[str, Any] = {
    "n": "long", "s": ["null", "string"], "x": "double", "b": "boolean", "m": forms.MONEY,
    "t": {"type": "long", "logicalType": "timestamp-micros"}, "d": {"type": "int", "logicalType": "date"}, "y": "bytes",
    "j": {"type": "array", "items": {"type": "map", "values": "string"}},
}  # fmt: skip
AVRO = {"type": "record", "name": "R", "fields": [{"name": name, "type": of} for name, of in AVRO_TYPES.items()]}


def _avro() -> bytes:
    out = io.BytesIO()
    plain = {
        **AVRO,
        "fields": [
            {"name": name, "type": of["type"] if isinstance(of, dict) and "logicalType" in of else of}
            for name, of in AVRO_TYPES.items()
        ],
    }
    row = {
        "n": 7, "s": "tea", "x": 0.5, "b": True, "m": b"\x7d", "t": 5, "d": 20_778, "y": b"\0\xff", "j": [{"a": "b"}]
    }  # fmt: skip
    fastavro.schemaless_writer(out, fastavro.parse_schema(plain), row)
    return out.getvalue()


def _form(form: RecordFormat) -> Callable[[bytes], object]:
    """Each record is a row or told, whatever it is among."""

    def read(value: bytes) -> object:
        found = form.rows([value, value])
        assert sorted([*found.at, *(at for at, _ in found.bad)]) == [0, 1]
        return found.rows.validate(full=True)

    return read


CHANGE = json.dumps(
    {
        "schema": {
            "type": "struct",
            "fields": [
                {
                    "field": "after",
                    "type": "struct",
                    "fields": [forms.DECIMAL | {"field": "m"}, {"field": "n", "type": "int64"}],
                },
                {"field": "op", "type": "string"},
            ],
        },
        "payload": {"after": {"m": "AJY=", "n": 7, "s": "tea"}, "op": "c"},
    }
).encode()


def _arrow() -> bytes:
    codec = ArrowSourceCodec("s", COLUMNS)
    return codec.encode(JsonFormat(COLUMNS).rows([ROW, ROW]).rows)


def _source_rows(encoding: str) -> Callable[[bytes], object]:
    codec = ArrowSourceCodec("s", COLUMNS)
    return lambda value: codec.decode(value, encoding, [5, 6])


def _descriptor() -> bytes:
    from base64 import b64encode

    from google.protobuf import timestamp_pb2

    return b64encode(timestamp_pb2.DESCRIPTOR.serialized_pb)


PROTOBUF, MESSAGE = forms._message("json", "repeated int64", [1, 2])
FILE_READERS: dict[str, Reader] = {
    "configuration": Reader(
        _in_file("borealis.yaml", _configuration), YAML, errors=(config.ConfigError, SettingsError)
    ),
    "CSV to publish": Reader(_in_file("rows.csv", _published), CSV, errors=(IngestError,)),
    "JSON lines to publish": Reader(_in_file("rows.jsonl", _published), ROW + b"\n" + ROW, errors=(IngestError,)),
    "compressed rows": Reader(
        _in_file("rows.csv.gz", _published), gzip.compress(CSV, mtime=0), errors=(IngestError,)
    ),
    "table in CSV": Reader(_in_file("t.csv", _table("csv")), CSV, errors=(QueryError,)),
    "table in JSON": Reader(_in_file("t.jsonl", _table("json")), ROW + b"\n{}\n", errors=(QueryError,)),
    "table in Parquet": Reader(_in_file("t.parquet", _table("parquet")), _parquet(), errors=(QueryError,)),
    "rows for a function": Reader(_in_file("rows.jsonl", _samples), SENT, errors=(QueryError,)),
    "notes of processes": Reader(
        _in_file("garbage/note", _notes),
        b'{"pid": 1, "ticks": 5, "boot": "b", "run": "r", "since_s": 5.5, "code": 3, "restarts": 1,'
        b' "next_wall_us": 7, "ended": {"how": "died", "at_wall_us": 5, "final": false}}',
    ),
    "note of a broker": Reader(
        _in_file("broker.json", lambda path: LocalBroker(path.parent).status()),
        b'{"pid": 1, "port": 9092, "version": "4.0.0"}',
        errors=(BrokerError,),
    ),
    "HTTP request": Reader(
        _request, b"GET /api/v1/status HTTP/1.1\r\nHost: a\r\nAccept: text/plain\r\nContent-Length: 2\r\n\r\nab"
    ),
    "record in JSON": Reader(_form(JsonFormat(COLUMNS)), ROW),
    "record in CSV": Reader(_form(CsvFormat(COLUMNS, tuple(COLUMNS), ",")), CSV.split(b"\n")[1]),
    "record in Avro": Reader(_form(AvroFormat(COLUMNS, json.dumps(AVRO))), _avro()),
    "record in Protobuf": Reader(_form(PROTOBUF), MESSAGE),
    "record by JSON Schema": Reader(_form(JsonSchemaFormat(COLUMNS)), b"\0\0\0\0\1" + ROW),
    "change by Debezium": Reader(_form(DebeziumFormat(COLUMNS, None)), CHANGE),
    "record of text": Reader(_form(TextFormat({"s": "string"})), b"tea"),
    "key of a record": Reader(_form(JsonKeys({"n": "int64", "s": "string"})), b'{"n": 7, "s": "tea"}'),
    "topic that is looked at": Reader(lambda value: recognised([record(value)]), ROW),
    "Avro schema": Reader(
        lambda value: AvroFormat(COLUMNS, value.decode(errors="replace")), json.dumps(AVRO).encode(), False,
        (UnusableSchema, QueryError),
    ),
    "Protobuf schema": Reader(
        lambda value: file_of(value.decode(errors="replace"), ()), _descriptor(), False, (UnusableSchema,)
    ),
    "rows in Arrow": Reader(_source_rows("arrow"), _arrow()),
    "rows in JSON": Reader(_source_rows("json"), b"[" + ROW + b"," + ROW + b"]"),
}  # fmt: skip
"""Of files, requests and other programs' records. Those of `run_notes`, a broker and a request may be anybody's."""
