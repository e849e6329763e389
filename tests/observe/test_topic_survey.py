"""What a sample of a foreign topic shows, and the call that reads it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from email.utils import format_datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from borealis_py import App
from borealis_py.ingress.decoders import decoder_for
from borealis_py.log.base import Feed, Record
from borealis_py.observe.topic_survey import TopicSurvey, source_name, survey
from borealis_py.query.ingress_spec import IngressSpec
from borealis_py.query.units import parse_duration
from borealis_py.testing import TopicRecord, run

T_MS = 1_700_000_000_000


def record(value: object, ms: int = T_MS, partition: int = 0, offset: int = 0) -> Record:
    raw = value if isinstance(value, bytes) or value is None else json.dumps(value).encode()
    return Record(Feed("prod.orders", partition), offset, ms, None, raw)


def surveyed(values: Sequence[object], every_ms: int = 100) -> TopicSurvey:
    return survey("prod.orders", 3, [record(v, T_MS + i * every_ms) for i, v in enumerate(values)])


def kinds(seen: TopicSurvey) -> Mapping[str, str | None]:
    return {one.name: one.type for one in seen.fields}


def test_fields_get_the_type_that_holds_all_their_values() -> None:
    seen = surveyed([{"a": 1, "b": 1, "c": True, "d": "x", "e": None}, {"a": -3, "b": 0.5, "c": None, "d": ""}])
    assert kinds(seen) == {"a": "int64", "b": "double", "c": "bool", "d": "string", "e": None}
    assert [(one.present, one.null) for one in seen.fields] == [(2, 0), (2, 0), (2, 1), (2, 0), (1, 1)]


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({"a": 2**63}, "large integers"),
        ({"a": None}, "it is null in all records"),
        ({'a"b': 1}, "a quotation mark, a backslash or a control character is in its name"),
    ],
)
def test_a_field_that_cannot_be_a_column_is_left_out_with_the_reason(value: dict[str, Any], why: str) -> None:
    seen = surveyed([value])
    assert all(one.type is None and why in one.why for one in seen.fields)
    assert seen.call() == ""


def test_a_field_that_no_column_can_be_called_after_gets_another_name() -> None:
    value = {"a": 1, "A": 2, "stime": 3, "@at": "x", "__b": 4, "b": 5, "user-id": 6, "$c": 7, "größe": 8}
    app = App("p")
    stream = eval(surveyed([value]).call().partition(" = ")[2], {"app": app})
    app.query("q", stream)
    results = run(app, {"orders": [value]})
    assert [{name: row[name] for name in stream.columns} for row in results["q"]] == [
        {"a": 1, "A_2": 2, "stime_2": 3, "at": "x", "b_2": 4, "b": 5, "user_id": 6, "c": 7, "grosse": 8}
    ]


def test_a_field_of_several_types_is_left_out() -> None:
    (one,) = surveyed([{"a": 1}, {"a": "x"}]).fields
    assert (one.type, one.why) == (None, "its values are of several types: int64, string")


def iso(ms: int, zone: str = "Z") -> str:
    return datetime.fromtimestamp(ms / 1_000, UTC).isoformat(timespec="milliseconds").replace("+00:00", zone)


RICH = [
    {
        "id": "007",
        "at": iso(T_MS),
        "day": "2026-11-21",
        "to": {"city": "Oslo"},
        "tags": ["a"],
        "euros": "1.25",
        "any": 1,
    },
    {"id": "8", "at": iso(T_MS + 90), "day": None, "to": None, "tags": [], "euros": 1000.5, "any": {"b": 1}},
    {"id": "9", "at": iso(T_MS + 210, ""), "day": "2026-11-22", "to": {}, "tags": None, "euros": 3, "any": "x"},
]


def test_times_dates_money_and_what_is_nested_get_types_of_their_own_and_are_read_by_them() -> None:
    seen = surveyed(RICH)
    assert kinds(seen) == {
        "id": "string", "at": "timestamp", "day": "date", "to": "json", "tags": "json", "euros": "decimal(18,2)",
        "any": "json",
    }  # fmt: skip
    assert (seen.stime, seen.unit) == ("at", "us")
    assert seen.lateness is not None
    assert seen.lateness.most_us == 10_000
    spec, schema = pasted(seen)
    read = decoder_for("orders", spec, schema, 10_000).decode([record(one, T_MS) for one in RICH])
    assert read.bad == ()
    assert read.stimes.tolist() == [T_MS * 1_000, T_MS * 1_000 + 90_000, T_MS * 1_000 + 210_000]
    assert read.rows.column("euros").to_pylist() == [Decimal("1.25"), Decimal("1000.50"), Decimal("3.00")]


@pytest.mark.parametrize("text", ["2026-13-01T10:00:00Z", "2026-11-21T10:00 soon", "20261121", "2026-W47-6"])
def test_what_only_looks_like_a_time_is_text(text: str) -> None:
    assert kinds(surveyed([{"a": text}, {"a": iso(T_MS)}])) == {"a": "string"}


def test_lines_with_quotes_are_csv_too() -> None:
    seen = surveyed([f'{i},"Oslo, ""north""",{i}.5'.encode() for i in range(30)])
    assert (seen.format, seen.unusable) == ("csv", 0)
    spec, schema = pasted(seen)
    assert schema == {"c1": "int64", "c2": "string", "c3": "double"}
    read = decoder_for("orders", spec, schema, 10_000).decode([record(b'1,"Oslo, ""north""",1.5')])
    assert read.rows.to_pylist() == [{"c1": 1, "c2": 'Oslo, "north"', "c3": 1.5}]


@pytest.mark.parametrize(("unit", "factor"), [("s", 0.001), ("ms", 1), ("us", 1_000), ("ns", 1_000_000)])
def test_the_time_and_its_unit_are_found(unit: str, factor: float) -> None:
    values = [{"id": i, "at": math.floor((T_MS + i * 1_000 - 2_000) * factor)} for i in range(5)]
    seen = surveyed(values, every_ms=1_000)
    assert (seen.stime, seen.unit) == ("at", unit)
    assert seen.lateness is not None
    assert seen.lateness.most_us == 2_000_000


def test_of_two_times_the_one_nearest_to_the_records_own_is_taken() -> None:
    seen = surveyed([{"ordered": T_MS - 86_400_000 + i, "sent": T_MS + i, "born": 946_684_801_000} for i in range(3)])
    assert (seen.stime, seen.unit) == ("sent", "ms")


def test_a_time_that_is_missing_now_and_then_is_none() -> None:
    for other in ({"at": None}, {}, {"at": 7}):
        assert surveyed([{"at": T_MS, "x": 1}, {"x": 1, **other}]).stime is None


def test_lateness_is_counted_from_the_latest_arrival_of_the_partition() -> None:
    ms = (0, 1_000, 400, 1_100)
    records = [record({"x": 1}, T_MS + m) for m in ms] + [record({"x": 1}, T_MS, partition=1)]
    seen = survey("t", 2, records)
    assert seen.lateness is not None
    assert (seen.lateness.p50_us, seen.lateness.most_us) == (0, 600_000)
    assert seen.lateness_us == 1_000_000


def test_rate_and_gap_are_of_each_partition() -> None:
    records = [record({"x": 1}, T_MS + m, p) for p, all_ms in ((0, (0, 500, 1_000)), (1, (0, 10_000))) for m in all_ms]
    seen = survey("t", 2, records)
    assert seen.rate == pytest.approx(2.0 + 0.1)
    assert seen.gap_us == 10_000_000
    assert survey("t", 2, records[:1]).rate is None
    assert survey("t", 2, records[:1]).gap_us is None


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ([], "nothing: no records"),
        ([None], "nothing: no values"),
        ([b"\x00\x00\x00\x00\x07abc"], "avro or protobuf, by schema 7 of a registry"),
        ([b"\xff\xfe"], "binary"),
    ],
)
def test_what_is_not_json_is_named(values: list[object], told: str) -> None:
    seen = surveyed(values)
    assert (seen.format, seen.unusable, seen.call()) == (told, len(values), "")


def pasted(seen: TopicSurvey) -> tuple[IngressSpec, dict[str, str]]:
    """The topic and schema that the call makes."""
    app = App("shop")
    scope: dict[str, Any] = {"app": app}
    exec(seen.call(), scope)
    app.query("q", scope["orders"].filter("true"))
    return app.describe().ingresses["orders"], app.describe().sources["orders"]


@pytest.mark.parametrize(("delimiter", "said"), [(",", ""), (";", ', delimiter=";"'), ("\t", ', delimiter="\\t"')])
def test_lines_with_the_same_number_of_values_are_csv(delimiter: str, said: str) -> None:
    rows = [["a", f"{i}.5", str(T_MS + i * 100), "", "TRUE"] for i in range(30)] + [["x"]]
    seen = surveyed([delimiter.join(row).encode() for row in rows])
    assert (seen.format, seen.unusable, seen.stime, seen.unit) == ("csv", 1, "c3", "ms")
    assert f'format=CSV(fields=["c1", "c2", "c3", "c4", "c5"]{said})' in seen.call()
    spec, schema = pasted(seen)
    assert (spec.format, spec.fields, spec.delimiter) == ("csv", ("c1", "c2", "c3", "c4", "c5"), delimiter)
    assert schema == {"c1": "string", "c2": "double", "c3": "int64", "c5": "bool"}


@pytest.mark.parametrize("values", [[b"a,b,1"], [b"one, two", b"three"], [b"a\nb", b"c\nd"]])
def test_any_other_text_is_a_line(values: list[bytes]) -> None:
    seen = surveyed(values)
    spec, schema = pasted(seen)
    assert (seen.format, spec.format, schema) == ("text", "text", {"line": "string"})


def test_objects_behind_the_id_of_a_schema_are_json_schema() -> None:
    seen = surveyed([b"\0\0\0\0\7" + json.dumps({"id": i}).encode() for i in range(3)])
    spec, schema = pasted(seen)
    assert (seen.format, spec.format, schema) == ("json-schema", "json-schema", {"id": "int64"})


@pytest.mark.parametrize("wrapped", [False, True])
def test_changes_of_a_database_are_debezium(wrapped: bool) -> None:
    def change(op: str, state: dict[str, Any]) -> dict[str, Any]:
        before, after = (state, None) if op == "d" else (None, state)
        event = {"op": op, "before": before, "after": after, "source": {}, "ts_ms": T_MS}
        return {"schema": {}, "payload": event} if wrapped else event

    seen = surveyed([change(op, {"id": i, "at": T_MS + i * 100}) for i, op in enumerate("rcud")])
    spec, schema = pasted(seen)
    assert (seen.format, spec.format, spec.stime, spec.stime_unit) == ("debezium", "debezium", "at", "ms")
    assert schema == {"id": "int64", "at": "int64"}


def test_of_changes_that_bring_their_schema_it_says_what_text_and_numbers_are() -> None:
    decimal = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal"}
    fields = [
        {"field": "id", "type": "int64"},
        {**decimal, "field": "euros", "parameters": {"scale": "2", "connect.decimal.precision": "9"}},
        {**decimal, "field": "rate", "parameters": {"scale": "6"}},
        {"field": "day", "type": "int32", "name": "io.debezium.time.Date"},
        {"field": "raw", "type": "bytes"},
    ]
    schema = {"type": "struct", "fields": [{"field": "after", "type": "struct", "fields": fields}]}
    row = {"id": 7, "euros": "1234", "rate": "AJY=", "day": 20_000, "raw": "AP8="}
    change = {"op": "c", "before": None, "after": row, "source": {}, "ts_ms": T_MS}
    _, found = pasted(surveyed([{"schema": schema, "payload": change}] * 3))
    assert found == {"euros": "decimal(9,2)", "rate": "decimal(38,6)", "day": "date", "raw": "binary", "id": "int64"}


def test_the_call_can_be_pasted() -> None:
    seen = surveyed([{"shop": "berlin", "euros": 2.5, "at": T_MS + i * 100 - 1_500} for i in range(9)])
    app = App("shop")
    scope: dict[str, Any] = {"app": app}
    exec(seen.call(cluster="eu"), scope)
    app.query("q", scope["orders"].filter("euros > 0"))
    spec = app.describe().ingresses["orders"]
    assert (spec.topic, spec.stime, spec.stime_unit, spec.cluster) == ("prod.orders", "at", "ms", "eu")
    assert (spec.lateness_us, spec.inputs) == (5_000_000, 3)
    assert app.describe().sources["orders"] == {"shop": "string", "euros": "double", "at": "int64"}


@pytest.mark.parametrize(
    ("topic", "name"), [("prod.orders", "orders"), ("orders", "orders"), ("a.1", "a"), ("1", "topic"), ("a-b", "a-b")]
)
def test_the_source_is_named_after_the_topic(topic: str, name: str) -> None:
    assert source_name(topic) == name


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(
    st.lists(
        st.tuples(JSON | st.binary(max_size=9), st.integers(0, 2**42), st.integers(0, 2)).map(lambda t: record(*t)),
        max_size=20,
    )
)
def test_no_sample_is_too_much_for_it(records: list[Record]) -> None:
    seen = survey("prod.orders", 3, records)
    assert seen.unusable <= seen.records == len(records)
    if seen.call():
        app = App("shop")
        exec(seen.call(), {"app": app})


SPELLINGS: dict[str, Callable[[int], object]] = {
    "s": lambda us: us // 1_000_000,
    "ms": lambda us: us // 1_000,
    "us": lambda us: us,
    "ns": lambda us: us * 1_000 + 999,
    "ISO 8601": lambda us: iso(us // 1_000),
    "seconds with a fraction": lambda us: us / 1e6,
    "digits": lambda us: str(us // 1_000),
    "slashes": lambda us: iso(us // 1_000).replace("-", "/").replace("T", " ").replace("Z", " UTC"),
    "mail": lambda us: format_datetime(datetime.fromtimestamp(us // 1_000_000, UTC), usegmt=True),
    "none": lambda us: None,
}
LATE = tuple(
    parse_duration(text, zero=True)
    for text in ("0s", "1ms", "400ms", "90s", "59m", "90m", "2h", "23h", "25h", "36h", "7d", "100d", "300d", "366d")
)


@st.composite
def topics(draw: st.DrawFn) -> list[Record]:
    """Topics of all latenesses, of which producers' clocks are up to half a minute ahead."""
    spell = SPELLINGS[draw(st.sampled_from(sorted(SPELLINGS)))]
    latest = draw(st.sampled_from(LATE))
    records, now_ms = [], T_MS
    for n in range(draw(st.integers(2, 9))):
        now_ms += draw(st.integers(0, 120_000))
        late_us = draw(st.sampled_from((0, latest)) | st.integers(-30_000_000, latest))
        value = {"id": n, "at": spell(now_ms * 1_000 - late_us), "note": draw(st.sampled_from(("", "x", "12")))}
        records.append(record(value, now_ms, draw(st.integers(0, 2)), n))
    return records


@settings(max_examples=25)
@given(topics())
def test_what_inspect_prints_check_takes_and_the_app_loses_no_row(records: list[Record]) -> None:
    call = survey("prod.orders", 3, records).call()
    app = App("shop")
    scope: dict[str, Any] = {"app": app}
    exec(call, scope)
    app.query("q", scope["orders"].map(id="id"))
    given = [TopicRecord(one.value, one.feed.partition, one.timestamp_ms * 1_000) for one in records]
    results = run(app, {"orders": given})
    assert sorted(row["id"] for row in results["q"]) == list(range(len(records))), (call, results.dead_letters)


@pytest.mark.parametrize(("days", "suggested"), [(30, "90d"), (365, "366d"), (500, "366d")])
def test_a_lateness_that_no_app_can_have_is_not_suggested_but_told(days: int, suggested: str) -> None:
    ms = [T_MS, T_MS - days * 86_400_000]
    seen = survey("prod.orders", 1, [record({"a": n}, at) for n, at in enumerate(ms)])
    assert f'lateness="{suggested}"' in seen.call()
    assert bool(seen.too_late) == (days > 366)
    assert pasted(seen)


@pytest.mark.parametrize("spelling", sorted(set(SPELLINGS) - {"none"}))
def test_times_of_all_forms_are_found(spelling: str) -> None:
    values = [{"id": i, "at": SPELLINGS[spelling]((T_MS + i * 1_000) * 1_000)} for i in range(5)]
    seen = surveyed(values, every_ms=1_000)
    assert (seen.stime, seen.passed_over) == ("at", ())
    assert seen.lateness is not None
    assert seen.lateness.most_us == 0


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ([{"at": T_MS}, {"at": None}], "at, in ms: 1 of 2 records have none, and would be dead letters"),
        ([{"at": T_MS}, {"id": 1}], "at, in ms: 1 of 2 records have none, and would be dead letters"),
        ([{"born": T_MS - 400 * 86_400_000}], "born, in ms: some lie over a year from when their records were written"),
        ([{"sold_at": "14.11.2023 22:13"}], "sold_at, like '14.11.2023 22:13': name its form, stime_format=\"...\""),
        ([{"time": 5}], "time, like 5: it is no time that stime= could name"),
    ],
)
def test_a_field_that_looks_like_the_time_is_named_where_it_cannot_be(values: list[dict[str, Any]], told: str) -> None:
    seen = surveyed(values)
    assert seen.stime is None
    assert seen.passed_over == (told,)


def test_what_does_not_look_like_a_time_is_not_named() -> None:
    assert surveyed([{"id": 7, "name": "x", "price": 2.5}]).passed_over == ()
