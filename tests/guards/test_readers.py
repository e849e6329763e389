"""Every place where the product turns bytes into values, and what shows that no bytes end it but by its own error."""

from __future__ import annotations

from tests.guards.decoding import decoding
from tests.guards.tree import ROOT

GARBAGE = "tests/log/test_garbage.py"
"""Gives the readers of `tests/support/readers.py` any bytes."""
FORMATS = "tests/ingress/test_formats.py"
ROWS = "tests/engine/test_codec.py"
FUZZ = "tests/log/test_fuzz.py"
"""Gives those and the readers of `tests/support/file_readers.py` bytes that come close to what they take."""
OURS = "between processes of ours that one started the other for: "
USERS = "a file or text of the user's, named in the error: "
HEADED = "rows behind a header that only a replica of this life writes, decoded where they are used: "
VALUES = "values that were decoded and checked before: "
READ = {
    GARBAGE: """
        borealis_py.app.audited: borealis_py.app.log_lines:parsed borealis_py.app.replicas:readable
        borealis_py.app.supervisor.run_notes:read borealis_py.client.subscriber:corrected_row
        borealis_py.log.messages:decode
        borealis_py.log.records: borealis_py.log.records:_unpack borealis_py.log.records:unpack_stimes
        borealis_py.node.checkpoint_topic: borealis_py.node.checkpoint_files:
        borealis_py.runtime.spark.cluster:_page borealis_py.runtime.spark.replica_task: reconcile.rpc:
    """,
    FORMATS: """
        borealis_py.ingress.formats.avro_fits:_decimal.one borealis_py.ingress.formats.avro_fits:_decimals.column
        borealis_py.ingress.formats.avro_json:_duration borealis_py.ingress.formats.avro_json:_scaled
        borealis_py.ingress.formats.avro_schema:_parse borealis_py.ingress.formats.avro_schema:as_record
        borealis_py.ingress.formats.base: borealis_py.ingress.formats.connect_schema:
        borealis_py.ingress.formats.connect_schema:_inside borealis_py.ingress.formats.connect_schema:_scaled
        borealis_py.ingress.formats.debezium: borealis_py.ingress.formats.record_keys:JsonKeys._of_json
        borealis_py.ingress.formats.record_keys:JsonKeys._of_object borealis_py.ingress.formats.record_keys:_int
        borealis_py.ingress.formats.registered:id_of borealis_py.types.plain_json:
        borealis_py.types.plain_json:PlainDecoder.__init__ borealis_py.types.plain_json:_Object._within
        borealis_py.types.plain_json:_value borealis_py.types.plain_json:object_decoder borealis_py.types.repeated:
        borealis_py.types.repeated:_pairs borealis_py.types.repeated:repeated_within borealis_py.types.values:
    """,
    FUZZ: """
        borealis_py.app.functions.samples: borealis_py.client.ingest:_open borealis_py.engine.keyed.table_file:_csv
        borealis_py.engine.keyed.table_file:_parquet borealis_py.ingress.formats.protobuf_files:file_of
        borealis_py.kafka.broker:
    """,
    "tests/observe/test_topic_survey.py": """
        borealis_py.observe.json_schema_fields:_parsed borealis_py.observe.registered_sample:_left_open
        borealis_py.observe.topic_formats:_object borealis_py.observe.topic_formats:recognised
    """,
    "tests/observe/test_source_rows.py": "borealis_py.observe.source_rows:_objects",
    ROWS: """
        borealis_py.engine.codec: borealis_py.engine.codec:ArrowSourceCodec.__init__
        borealis_py.engine.codec:ArrowSourceCodec._arrow borealis_py.engine.codec:_batch_of
        borealis_py.engine.codec:_state_of borealis_py.engine.arrow.ipc:_Table.__init__
        borealis_py.engine.arrow.ipc:_Table._field borealis_py.engine.arrow.ipc:_Table.pairs
        borealis_py.engine.arrow.ipc:_Table.root borealis_py.engine.arrow.ipc:_Table.scalar
        borealis_py.engine.arrow.ipc:_Table.table borealis_py.engine.arrow.ipc:_size borealis_py.engine.arrow.ipc:claims
    """,
    "tests/reconcile/test_redo_job.py": "reconcile.redo_job:unpack_result",  # any error of it fails the job, by name
    "tests/client/test_ingest.py": """
        borealis_py.client.csvlines:_together borealis_py.client.csvlines:split_line borealis_py.client.ingest:read_csv
    """,
}
NOT_READ = {
    OURS: """
        borealis_py.app.functions.second_process:main borealis_py.app.functions.second_process:told_elsewhere
        borealis_py.app.process_spec:ProcessSpec.from_environment borealis_py.app.supervisor.__main__:main
        borealis_py.config.probe:_asked borealis_py.config.probe:main
        borealis_py.runtime.spark.application:Application._submit borealis_py.runtime.spark.replica_task:run_tasks
        reconcile.redo_job:get_cached reconcile.redo_job:pack_failure reconcile.redo_job:run_on
    """,
    HEADED: "borealis_py.engine.codec:ArrowRowCodec.decode",
    USERS: """
        borealis_py.engine.applied.described:_editable
        borealis_py.kafka.broker_config:_utf16 borealis_py.query.field_paths:parsed_path
        borealis_py.query.formats:_schema_text
    """,
    VALUES: """
        borealis_py.ingress.formats.protobuf_files:_standard
        borealis_py.engine.sql.expressions:_empty_select borealis_py.engine.sql.expressions:_in_quotes
        borealis_py.engine.sql.expressions:_needs_quotes borealis_py.engine.sql.expressions:_parsed
        borealis_py.engine.sql.expressions:_read borealis_py.engine.sql.expressions:bound
        borealis_py.engine.fingerprint:_as_json borealis_py.engine.keyed.kept_rows:sizes_at
        borealis_py.engine.arrow.partitioner:_hash borealis_py.types.arrow:shown borealis_py.types.digests:_add_texts
        borealis_py.ingress.column_times:_of_json borealis_py.types.digests:_bits borealis_py.types.digests:add_column
    """,
}


def test_every_reader_of_bytes_is_given_any() -> None:
    """A new one belongs into `tests/support/readers.py`, or another test that gives it any bytes, and into the list."""
    listed = [place for places in (*READ.values(), *NOT_READ.values()) for place in places.split()]
    assert sorted(set(decoding()) - set(listed)) == []
    assert sorted(set(listed) - set(decoding())) == []
    assert len(listed) == len(set(listed))


def test_what_gives_them_any_is_there() -> None:
    assert [path for path in READ if not (ROOT / path).is_file()] == []
