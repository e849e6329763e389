"""A record as one column: text where it is UTF-8, any bytes where the column is binary."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from borealis_py.ingress.formats.plain_text import TextFormat


@given(st.lists(st.binary(max_size=8) | st.text(max_size=5).map(str.encode), max_size=6))
def test_what_is_utf_8_is_a_row_and_what_is_not_costs_itself_alone(values: list[bytes]) -> None:
    found = TextFormat({"line": "string"}).rows(values)
    texts: dict[int, str] = {}
    for i, value in enumerate(values):
        try:
            texts[i] = value.decode()
        except UnicodeDecodeError:
            continue
    assert dict(zip(found.at, found.rows.column("line").to_pylist(), strict=True)) == texts
    assert [at for at, _ in found.bad] == [i for i in range(len(values)) if i not in texts]


def test_the_reason_names_the_byte() -> None:
    told = "not UTF-8: invalid start byte at byte 2; let the producer write UTF-8"
    assert TextFormat({"line": "string"}).rows([b"ab\xff"]).bad == [(0, told)]


@given(st.lists(st.binary(max_size=8), max_size=6))
def test_binary_takes_everything(values: list[bytes]) -> None:
    found = TextFormat({"value": "binary"}).rows(values)
    assert found.rows.column("value").to_pylist() == values
    assert (list(found.at), found.bad) == (list(range(len(values))), [])
