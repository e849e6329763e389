"""Formats of a foreign topic's records, as a user writes them: `app.topic(..., format=CSV(delimiter=";"))`.

Each class has the options of its own format and no others. Their values are checked when the object is made; what they
mean beside a schema is checked in `layout`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import wraps
from typing import Any, ClassVar, ParamSpec, Self, TypeVar

from borealis_py.query.errors import QueryError, did_you_mean
from borealis_py.query.ingress_spec import DECIMALS, FORMATS, DecimalsName, FormatName

P = ParamSpec("P")
T = TypeVar("T")
_SHOWN_MAX = 80
"""Characters of an option's value in advice; a longer one is `...`."""


class TopicFormat:
    """The format of a foreign topic's records. Use one of its subclasses.

    Two formats are equal if they have the same options. `repr` gives the Python that makes the object.
    """

    __slots__ = ()
    name: ClassVar[FormatName]

    def __new__(cls, *_: object, **options: object) -> Self:
        """Refuse an option that the format does not have, with the format that has it, or with the nearest name."""
        known = options_of(cls)
        for option in options:
            if option not in known:
                raise QueryError(f"{cls.__name__}: {_why_unknown(option, known)}")
        return super().__new__(cls)

    def __repr__(self) -> str:
        return _call(type(self).__name__, given_options(self))

    def _replace(self, option: str, value: object) -> None:
        """Give an option its normal form, while the object is made."""
        object.__setattr__(self, option, value)


@dataclass(frozen=True, slots=True, repr=False)
class JSON(TopicFormat):
    """One JSON object in each record. No options."""

    name: ClassVar[FormatName] = "json"


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class CSV(TopicFormat):
    """One line in each record, without a header, in UTF-8. An empty value is null."""

    name: ClassVar[FormatName] = "csv"
    fields: Sequence[str] | None = None
    """Names of the values of a line, in order, like `["id", "note", "euros"]`. Set it where lines have values that are
    no columns, or have them in another order. Names that the schema lacks are ignored. None: the schema's columns."""
    delimiter: str = ","
    """The character between values, like `";"` or `"\\t"`."""
    nulls: Sequence[str] | None = None
    """Further values that mean null, quoted or not, like `["NA", "NULL"]`. Set it where the producer writes a word for
    a missing value. None: only an empty value is null."""

    def __post_init__(self) -> None:
        if self.fields is not None:
            self._replace("fields", _field_names(self.fields))
        one = self.delimiter
        if not isinstance(one, str) or len(one) != 1 or one in '"\r\n\0':
            raise QueryError(f"CSV: delimiter={one!r}; give one character, like ';', other than a quotation mark")
        if self.nulls is not None:
            self._replace("nulls", checked_nulls(self.nulls, "CSV"))


@dataclass(frozen=True, slots=True, repr=False)
class Avro(TopicFormat):
    """One record in Avro's binary encoding."""

    name: ClassVar[FormatName] = "avro"
    writer_schema: str | Mapping[str, Any] | None = None
    """The schema by which all records were written, as JSON text or a dict. Set it where records hold no id of a
    schema. None: each record begins with the id of its schema in a schema registry."""

    def __post_init__(self) -> None:
        if self.writer_schema is not None:
            self._replace("writer_schema", _schema_text(self.writer_schema))


@dataclass(frozen=True, slots=True, repr=False)
class Protobuf(TopicFormat):
    """One Protobuf message behind the id of its schema in a schema registry. No options."""

    name: ClassVar[FormatName] = "protobuf"


@dataclass(frozen=True, slots=True, repr=False)
class JSONSchema(TopicFormat):
    """One JSON object behind the id of its schema. The registry is not asked. No options."""

    name: ClassVar[FormatName] = "json-schema"


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class Debezium(TopicFormat):
    """One change of a database's row in each record, as JSON, with or without Kafka Connect's schema."""

    name: ClassVar[FormatName] = "debezium"
    op: str | None = None
    """The string column that takes the operation: c, u, r, or d for a delete, whose row has the values before it. Set
    it to have deletes as rows. None: deletes are dead letters."""
    decimals: DecimalsName | None = None
    """Text in decimal columns of records without a schema: `"text"`, the number (the connector has
    decimal.handling.mode=string); `"base64"`, the bytes of its digits, of which as many stand after the point as in the
    column. Nobody checks that against the database. None: text that may be base64 is a dead letter. A schema in the
    record always decides."""

    def __post_init__(self) -> None:
        if self.op is not None and not isinstance(self.op, str):
            raise QueryError(f"Debezium: op={self.op!r}; give the name of the string column that takes the operation")
        if self.decimals is not None and self.decimals not in DECIMALS:
            raise QueryError(
                f"Debezium: decimals={self.decimals!r}; choose text, where the connector writes numbers as text, or "
                "base64, where it writes their bytes with as many digits after the point as the columns have"
            )


@dataclass(frozen=True, slots=True, repr=False)
class Text(TopicFormat):
    """The whole record as one column: the schema is one `string` or `binary` column. No options."""

    name: ClassVar[FormatName] = "text"


KINDS: Mapping[str, type[TopicFormat]] = {
    kind.name: kind for kind in (JSON, CSV, Text, Avro, Protobuf, JSONSchema, Debezium)
}
"""The class of each format, by the word that may stand for it without options."""


def format_of(given: object, where: str) -> TopicFormat:
    """The format that `format=` names or is.

    Args:
        where: whose it is, for messages.

    Raises:
        QueryError: an unknown word, or no format.
    """
    if isinstance(given, TopicFormat):
        return given
    if isinstance(given, type) and issubclass(given, TopicFormat):
        raise QueryError(f"{where}: format={given.__name__} is a class: write format={given.__name__}()")
    if not isinstance(given, str) or given not in KINDS:
        hint = did_you_mean(str(given), FORMATS) or ";"
        classes = ", ".join(kind.__name__ for kind in KINDS.values() if options_of(kind))
        raise QueryError(
            f"{where}: format={given!r}{hint} choose {' or '.join(FORMATS)}, or for options an object of {classes}"
        )
    return KINDS[given]()


def options_of(kind: type[TopicFormat]) -> tuple[str, ...]:
    """The names of a format's options."""
    return tuple(field.name for field in fields(kind))  # type: ignore[arg-type]


def given_options(form: TopicFormat) -> dict[str, Any]:
    """The options of a format that differ from their defaults."""
    values = {field.name: (getattr(form, field.name), field.default) for field in fields(form)}  # type: ignore[arg-type]
    return {name: value for name, (value, default) in values.items() if value != default}


def written(form: TopicFormat) -> str:
    """A format as one writes it after `format=`: its word, or the object if it has options."""
    return repr(form) if given_options(form) else _quoted(form.name)


def refusing_flat_options(topic: Callable[P, T]) -> Callable[P, T]:
    """`App.topic` with an error for a format's option among its own arguments; the error says what to write."""

    @wraps(topic)
    def checked(*args: P.args, **arguments: P.kwargs) -> T:
        flat = {name: value for name, value in arguments.items() if _owner(name) is not None}
        if flat:
            source = arguments.get("name", args[1] if len(args) > 1 else None)
            form = arguments.get("format", args[4] if len(args) > 4 else None)
            raise QueryError(f"topic {source!r}: {_instead_of(flat, form)}")
        return topic(*args, **arguments)

    return checked


def checked_nulls(nulls: object, where: str) -> tuple[str, ...]:
    """Values of CSV that are null, sorted, since their order means nothing. Raises QueryError."""
    some = () if isinstance(nulls, str | bytes) or not isinstance(nulls, Sequence) else tuple(nulls)
    if not some or not all(isinstance(one, str) and one for one in some):
        raise QueryError(f'{where}: nulls={nulls!r}; give values of CSV that mean null, like ["NA"]; an empty one does')
    return tuple(sorted(set(some)))


def _field_names(names: object) -> tuple[str, ...]:
    if isinstance(names, str | bytes) or not isinstance(names, Sequence) or not names:
        raise QueryError(f'CSV: fields={names!r}; give the names of the values of a line in order, like ["id", "at"]')
    wrong = next((name for name in names if not isinstance(name, str)), None)
    if wrong is not None:
        raise QueryError(f"CSV: fields has {wrong!r}, which is no name")
    return tuple(names)


def _schema_text(schema: object) -> str:
    """As text in one form. What the schema says is checked where Avro is known (`ingress.formats`)."""
    try:
        told = json.loads(schema) if isinstance(schema, str) else schema
        text = json.dumps(told, separators=(",", ":")) if isinstance(told, Mapping) else ""
    except (ValueError, TypeError, RecursionError):
        text = ""
    if not text:
        raise QueryError(
            "Avro: writer_schema= is not the Avro schema of a record; give it as JSON text or as a dict, like "
            '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'
        )
    return text


def _owner(option: str) -> type[TopicFormat] | None:
    """The format that has this option; no two have one of the same name."""
    return next((kind for kind in KINDS.values() if option in options_of(kind)), None)


def _why_unknown(option: str, known: Sequence[str]) -> str:
    if owner := _owner(option):
        return f"{option}= is an option of {owner.__name__}"
    has = f"; options: {', '.join(known)}" if known else "; it has no options"
    return f"unknown option {option!r}{did_you_mean(option, known) or has}"


def _instead_of(flat: Mapping[str, object], form: object) -> str:
    """What to write instead of options beside `format=`; of several formats' options, those of the first."""
    owner = next(owner for name in flat if (owner := _owner(name)) is not None)
    own = {name: value for name, value in flat.items() if name in options_of(owner) and value is not None}
    beside = given_options(form) if isinstance(form, owner) else {}
    names = ", ".join(f"{name}=" for name in flat if name in options_of(owner))
    what = "is an option" if names.count("=") == 1 else "are options"
    return f"{names} {what} of {owner.__name__}: write format={_call(owner.__name__, {**beside, **own}, _SHOWN_MAX)}"


def _call(kind: str, options: Mapping[str, object], most: int | None = None) -> str:
    """Python that makes a format. `most`: characters of a value, beyond which it is `...`."""
    values = {name: _python(value) for name, value in options.items()}
    shown = (f"{name}={'...' if most and len(text) > most else text}" for name, text in values.items())
    return f"{kind}({', '.join(shown)})"


def _python(value: object) -> str:
    if isinstance(value, str):
        return _quoted(value)
    return f"[{', '.join(map(_python, value))}]" if isinstance(value, list | tuple) else repr(value)


def _quoted(text: str) -> str:
    """A literal of this text, in double quotes where it has none."""
    literal = repr(text)
    return f'"{literal[1:-1]}"' if literal[0] == "'" and '"' not in text else literal
