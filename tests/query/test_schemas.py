"""Classes as schemas: each field is a column, or is refused with what to write."""

from __future__ import annotations

import dataclasses
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Any, ClassVar, Optional, TypedDict
from uuid import UUID

import pytest
from pydantic import AwareDatetime, BaseModel, Field, NaiveDatetime, condecimal

from borealis_py import App, QueryError
from borealis_py.query.schemas import columns_of


class Line(BaseModel):
    item: str


class Order(BaseModel):
    number: int
    shop: str = "berlin"
    weight: float | None = None
    paid: bool
    euros: Annotated[Decimal, Field(max_digits=12, decimal_places=2)]
    tax: Decimal = Field(max_digits=5, decimal_places=1)
    fee: Annotated[Decimal, "numeric(4, 1)"] | None = None
    tip: Optional[Annotated[Decimal, Field(max_digits=3, decimal_places=1)]] = None  # noqa: UP045
    rate: condecimal(max_digits=4, decimal_places=3)  # type: ignore[valid-type]
    ordered_at: datetime
    sent_at: AwareDatetime | None = None
    day: date = Field(alias="due")
    receipt: bytes
    lines: list[Line]
    first: Line
    more: dict[str, Any]
    anything: Any = None
    code: Annotated[int, "string"]
    remark: Annotated[str, "what the customer wrote"]


COLUMNS = {
    "number": "int64", "shop": "string", "weight": "double", "paid": "bool", "euros": "decimal(12,2)",
    "tax": "decimal(5,1)", "fee": "decimal(4,1)", "tip": "decimal(3,1)", "rate": "decimal(4,3)",
    "ordered_at": "timestamp", "sent_at": "timestamp", "due": "date", "receipt": "binary", "lines": "json",
    "first": "json", "more": "json", "anything": "json", "code": "string", "remark": "string",
}  # fmt: skip


@dataclasses.dataclass
class Sale:
    euros: Annotated[Decimal, "decimal(12,2)"]
    at: datetime
    item: str | None = None
    kinds: ClassVar[int] = 3


class Reading(TypedDict):
    at: datetime
    value: float


def test_a_pydantic_model_is_a_schema() -> None:
    app = App("a")
    app.source("orders", schema=Order)
    assert app.describe().sources["orders"] == COLUMNS


def test_dataclasses_and_typed_dicts_are_schemas() -> None:
    app = App("a")
    app.source("sales", schema=Sale)
    app.source("readings", schema=Reading)
    assert app.describe().sources == {
        "sales": {"euros": "decimal(12,2)", "at": "timestamp", "item": "string"},
        "readings": {"at": "timestamp", "value": "double"},
    }


@pytest.mark.parametrize(
    ("annotation", "reason"),
    [
        (
            Decimal,
            "is Decimal; say how many digits it has: Annotated[Decimal, 'decimal(12,2)'], or Field(max_digits=12",
        ),
        (Decimal | None, "say how many digits it has"),
        (Annotated[Decimal, Field(max_digits=3)], "say how many digits it has"),
        (UUID, "field 'x' of Made, the schema of source 's', is UUID; no column has that type: name one, as in"),
        (complex, "as in Annotated[complex, 'string']"),
        (NaiveDatetime, "no column has that type"),
        (int | str, "is int | str; no column has that type"),
        (None, "no column has that type"),
    ],
)
def test_a_field_that_no_column_has_is_named(annotation: Any, reason: str) -> None:
    made = dataclasses.make_dataclass("Made", [("x", annotation)])
    with pytest.raises(QueryError) as told:
        App("a").source("s", schema=made)
    assert reason in str(told.value)


def test_digits_that_no_decimal_has_are_refused_as_in_any_schema() -> None:
    made = dataclasses.make_dataclass("Made", [("x", Annotated[Decimal, "decimal(40,2)"])])
    with pytest.raises(QueryError, match="a decimal has 1 to 38 digits"):
        App("a").source("s", schema=made)


@pytest.mark.parametrize("schema", [int, "int64", None, Sale(Decimal(1), datetime.max), [("a", "int")]])
def test_what_is_no_schema_is_refused(schema: Any) -> None:
    with pytest.raises(QueryError, match="give a dict of columns and types, a pydantic model, a dataclass or"):
        columns_of(schema, "source 's'")


def test_a_name_that_cannot_be_resolved_is_told() -> None:
    @dataclasses.dataclass
    class Made:
        x: "Nowhere"  # type: ignore[name-defined]  # noqa: F821, UP037

    with pytest.raises(QueryError, match="the annotations of Made cannot be read: name 'Nowhere' is not defined"):
        App("a").source("s", schema=Made)
