"""The values of columns as A2.8 has them in JSON, in a reading of its own: decimals, times, bytes, json."""

from __future__ import annotations

import base64
import json
import math
import re
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, NoReturn

import pyarrow as pa

_EPOCH = datetime(1970, 1, 1)
_JSON_DEPTH = 99
_BLANK = re.compile(r'("(?:[^"\\]|\\.)*")|[ \t\r\n]+', re.DOTALL)
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", re.ASCII)
_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)


class JsonText(str):
    """A value of a json column: its text, without white space between its parts."""


def from_form(form: Any, kind: str) -> Any:
    """The value of its form in JSON; a json value's form is its text. Raises ValueError: it has none in this column."""
    if kind == "json":
        return json_text(form)
    if not isinstance(form, str):
        raise ValueError(form)
    if kind == "timestamp" and _MOMENT.fullmatch(form):
        day = datetime.strptime(form[:10], "%Y-%m-%d")
        hours, minutes, seconds, microseconds = (int(n) for n in re.split("[:.]", form[11:-1]))
        return day.replace(hour=hours, minute=minutes, second=seconds, microsecond=microseconds)
    if kind == "date" and _DAY.fullmatch(form):
        return datetime.strptime(form, "%Y-%m-%d").date()
    if kind == "binary" and form.isascii():
        value = base64.b64decode(form.encode(), validate=True)
        if base64.encodebytes(value).replace(b"\n", b"") == form.encode():
            return value
    if kind.startswith("decimal("):
        precision, scale = (int(n) for n in kind[8:-1].split(","))
        after = rf"\.\d{{{scale}}}" if scale else ""
        if re.fullmatch(rf"-?(0|[1-9]\d*){after}", form, re.ASCII):
            digits = form.lstrip("-").replace(".", "").lstrip("0")
            if len(digits) <= precision and (digits or form[0] != "-"):
                return Decimal(form)
    raise ValueError(form)


def json_text(text: str) -> JsonText | None:
    """A json value without white space between its parts; None for null. Raises ValueError: it is no JSON."""
    value = json.loads(text, parse_constant=_refused, object_pairs_hook=_each_once)
    json.dumps(value, ensure_ascii=False).encode()  # raises for what is not Unicode
    if _depth(value) > _JSON_DEPTH or not _finite(value):
        raise ValueError(text)
    return None if value is None else JsonText(_BLANK.sub(lambda found: found[1] or "", text))


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object's fields. Raises ValueError: one is there twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError(f"a field is there twice: {[name for name, _ in pairs]}")
    return found


def in_json(value: Any) -> Any:
    """A value of a result as JSON says it: NaN and infinities are null."""
    if isinstance(value, list):
        return [in_json(one) for one in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, JsonText):
        return json.loads(value)
    if isinstance(value, datetime):
        return f"{value.date().isoformat()}T{value.time().isoformat('microseconds')}Z"
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.standard_b64encode(value).decode()
    return format(value, "f") if isinstance(value, Decimal) else value


def column(values: pa.Array) -> list[Any]:
    """The values of a column of a batch. Raises ValueError: a time is beyond the years 1 to 9999, or JSON is none."""
    kind = values.type
    if isinstance(values, pa.ExtensionArray):
        return [None if text is None else JsonText(text) for text in values.storage.to_pylist()]
    if pa.types.is_timestamp(kind):
        return [_moved(n) for n in values.cast(pa.int64()).to_pylist()]
    if pa.types.is_date32(kind):
        return [None if n is None else _moved(n * 86_400_000_000).date() for n in values.cast(pa.int32()).to_pylist()]
    return values.to_pylist()  # type: ignore[no-any-return]


def ill_formed(values: pa.Array) -> set[int]:
    """Where in a column of a batch texts are not UTF-8, or decimals have more digits than their type.

    Raises pa.ArrowInvalid: it cannot be told where its values lie.
    """
    held = values.storage if isinstance(values, pa.ExtensionArray) else values
    if pa.types.is_string(held.type):
        texts = held.view(pa.binary())
        texts.validate(full=True)
        return {at for at, text in enumerate(texts.to_pylist()) if text is not None and not _is_text(text)}
    if pa.types.is_decimal(held.type):
        held.view(pa.binary(16)).validate(full=True)
        numbers, most = enumerate(held.to_pylist()), held.type.precision
        return {at for at, number in numbers if number is not None and len(number.as_tuple().digits) > most}
    held.validate(full=True)
    return set()


def _is_text(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def _moved(us: int | None) -> Any:
    try:
        return None if us is None else _EPOCH + timedelta(microseconds=us)
    except OverflowError as exc:
        raise ValueError(us) from exc


def _refused(constant: str) -> NoReturn:
    raise ValueError(constant)


def _depth(value: Any) -> int:
    deepest, level = 0, [value]
    while level:
        inside = [one for one in level if isinstance(one, dict | list)]
        deepest += bool(inside)
        level = [v for one in inside for v in (one.values() if isinstance(one, dict) else one)]
    return deepest


def _finite(value: Any) -> bool:
    if isinstance(value, dict | list):
        return all(map(_finite, value.values() if isinstance(value, dict) else value))
    return not isinstance(value, float) or math.isfinite(value)
