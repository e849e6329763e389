"""JSON behind the id of a schema: read by the columns alone; dead letters name the schema."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from borealis_py.ingress.formats.json_schema import JsonSchemaFormat
from tests.support.schema_registry import framed

read = JsonSchemaFormat({"id": "int64"}).rows


def test_objects_behind_the_id_of_a_schema_are_rows_and_others_name_it() -> None:
    found = read([framed(7, b'{"id":1,"more":2}'), framed(8, b'{"id":"x"}'), b'{"id":1}', b"", framed(9, b'{"id":2}')])
    assert (list(found.at), found.rows.to_pylist()) == ([0, 4], [{"id": 1}, {"id": 2}])
    assert [at for at, _ in found.bad] == [1, 2, 3]
    assert found.bad[0][1] == "schema 8: column 'id': Expected `int | null`, got `str` ('x'); make the column string"
    assert found.bad[1][1].startswith("it begins with 7b 22 69 64 22, not with a zero byte and the id of a schema")
    assert found.bad[2][1].startswith("it begins with nothing")


@given(st.lists(st.binary(max_size=8) | st.integers(0, 9).map(lambda n: framed(n, b'{"id":%d}' % n)), max_size=5))
def test_every_value_is_a_row_or_told(values: list[bytes]) -> None:
    found = read(values)
    assert sorted([*found.at, *(at for at, _ in found.bad)]) == list(range(len(values)))
    assert list(found.at) == sorted(found.at)
