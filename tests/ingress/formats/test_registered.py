"""Values whose schema is in a registry: what it says of an id decides, once it is known; until then they wait."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from borealis_py.ingress.formats.base import FormatRows
from borealis_py.ingress.formats.registered import HEAD, RegisteredFormat
from borealis_py.log.schema_registry import RegisteredSchema
from tests.support.schema_registry import ToldRegistry, avro_record, avro_schema, framed

pytest.importorskip("fastavro", reason="fastavro is not installed: pip install 'borealis-py[avro]'")

from borealis_py.ingress.formats.avro import AvroFormat

COLUMNS = {"n": "int64", "s": "string"}
OLD, NEW = avro_schema(n="long"), avro_schema(n="int", s=["null", "string"], more="double")
LOOP = avro_schema(next=["null", "R"])
SCHEMAS = {7: RegisteredSchema("AVRO", OLD), 8: RegisteredSchema("AVRO", NEW), 9: RegisteredSchema("JSON", "{}"),
           10: RegisteredSchema("AVRO", LOOP)}  # fmt: skip


def form_of(registry: ToldRegistry) -> RegisteredFormat:
    def by(schema: RegisteredSchema) -> AvroFormat:
        return AvroFormat(COLUMNS, schema.text, [text for _, text in schema.references], HEAD)

    return RegisteredFormat(COLUMNS, registry, "AVRO", by)


def old(n: int) -> bytes:
    return framed(7, avro_record(OLD, {"n": n}))


def new(n: int, s: str | None) -> bytes:
    return framed(8, avro_record(NEW, {"n": n, "s": s, "more": 1.0}))


def said(found: FormatRows) -> list[Any]:
    what: dict[int, Any] = dict(zip(found.at, found.rows.to_pylist(), strict=True)) | dict(found.bad)
    return [what[i] for i in sorted(what)]


def test_each_record_is_read_by_its_own_schema_and_rows_keep_their_order() -> None:
    form = form_of(ToldRegistry(SCHEMAS))
    values = [old(1), new(2, "x"), old(3), new(4, None), old(5)]
    assert form.ready(values) == 5
    assert [row["n"] for row in said(form.rows(values))] == [1, 2, 3, 4, 5]
    assert [row["s"] for row in said(form.rows(values))] == [None, "x", None, None, None]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (framed(7, b""), "schema 7: not Avro by its schema: the record ends too early"),
        (framed(8, avro_record(NEW, {"n": 1, "s": "x", "more": 1.0})[:-1]), "schema 8: not Avro by its schema"),
        (framed(9, b"{}"), "schema 9: it is of JSON, the topic's are of AVRO"),
        (framed(10, b"\0"), r"schema 10: no record can be read by it: it refers to itself (R)"),
        (framed(11, b"x"), "schema 11: the registry does not know it: Schema not found"),
        (b'{"n":1}', "it begins with 7b 22 6e 22 3a, not with a zero byte and the id of a schema"),
        (b"\0\0\0", "it begins with 00 00 00, not with"),
        (b"", "it begins with nothing, not with"),
    ],
)
def test_what_cannot_be_read_is_a_dead_letter_that_names_the_schema(value: bytes, reason: str) -> None:
    form = form_of(ToldRegistry(SCHEMAS, complete=True))
    assert form.ready([old(1), value, old(2)]) == 3
    found = form.rows([old(1), value, old(2)])
    assert list(found.at) == [0, 2]
    ((at, why),) = found.bad
    assert at == 1
    assert why.startswith(reason)


def test_values_wait_from_the_first_one_on_whose_schema_is_not_known_yet() -> None:
    registry = ToldRegistry({7: SCHEMAS[7]})
    form = form_of(registry)
    values = [old(1), None, b"", new(2, "x"), old(3), framed(11, b"")]
    assert form.ready(values) == 3
    assert {8, 11} <= set(registry.asked)
    assert form.waits_for() == "schema 8: the registry has not said anything of it yet"
    registry.trouble = "the registry at http://r:1 does not answer: refused"
    assert form.ready(values[3:]) == 0
    assert form.waits_for() == "schema 8: the registry at http://r:1 does not answer: refused"
    registry.schemas, registry.complete = SCHEMAS, True
    assert form.ready(values) == 6
    assert form.waits_for() == ""


def test_what_the_registry_has_said_of_an_id_is_not_asked_again() -> None:
    registry = ToldRegistry(SCHEMAS)
    form = form_of(registry)
    for _ in range(3):
        form.ready([old(1), framed(9, b""), framed(10, b"")])
    assert sorted(registry.asked) == [7, 9, 10]


@pytest.mark.parametrize("trouble", [RecursionError("too deep"), ArithmeticError(), AttributeError("x")])
def test_whatever_a_schema_raises_its_records_are_dead_letters(trouble: Exception) -> None:
    def by(schema: RegisteredSchema) -> AvroFormat:
        raise trouble

    form = RegisteredFormat(COLUMNS, ToldRegistry(SCHEMAS), "AVRO", by)
    assert form.ready([old(1)]) == 1
    ((_, why),) = form.rows([old(1)]).bad
    assert why == f"schema 7: no record can be read by it: {str(trouble) or 'ArithmeticError'}"


def test_a_package_that_is_not_installed_makes_no_dead_letters() -> None:
    def by(schema: RegisteredSchema) -> AvroFormat:
        raise ImportError("fastavro")

    with pytest.raises(ImportError):
        RegisteredFormat(COLUMNS, ToldRegistry(SCHEMAS), "AVRO", by).ready([old(1)])


def test_a_registry_is_not_asked_for_an_id_that_none_has() -> None:
    registry = ToldRegistry(SCHEMAS)
    form = form_of(registry)
    values = [framed(2**31, b""), old(1), framed(2**32 - 1, b"")]
    assert form.ready(values) == 3
    assert registry.asked == [7]
    assert form.rows(values).bad == [
        (0, "schema 2147483648: no registry has it: ids end at 2147483647"),
        (2, "schema 4294967295: no registry has it: ids end at 2147483647"),
    ]


def test_an_id_that_was_unknown_may_be_known_later() -> None:
    registry = ToldRegistry(complete=True)
    form = form_of(registry)
    form.ready([old(1)])
    assert list(form.rows([old(1)]).at) == []
    registry.schemas = SCHEMAS
    form.ready([old(1)])
    assert said(form.rows([old(1)])) == [{"n": 1, "s": None}]


VALUES = st.one_of(
    st.integers(0, 99).map(old),
    st.builds(new, st.integers(0, 99), st.none() | st.text(max_size=3)),
    st.builds(framed, st.integers(7, 12), st.binary(max_size=6)),
    st.binary(max_size=8),
)


@given(st.lists(VALUES, max_size=8))
def test_values_are_decoded_together_as_they_are_one_by_one(values: list[bytes]) -> None:
    form = form_of(ToldRegistry(SCHEMAS, complete=True))
    assert form.ready(values) == len(values)
    found = form.rows(values)
    assert sorted([*found.at, *(at for at, _ in found.bad)]) == list(range(len(values)))
    alone = []
    for value in values:
        form.ready([value])
        alone.append(said(form.rows([value]))[0])
    assert said(found) == alone
