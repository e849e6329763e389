"""Protobuf messages as the registry's serializers write them: after the schema's id, which message of its file."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any

import pyarrow as pa

from borealis_py.engine.arrow.rows import segment_schema
from borealis_py.ingress.formats.avro_fits import avro_fit
from borealis_py.ingress.formats.avro_schema import AvroType
from borealis_py.ingress.formats.base import NO_PATHS, FormatRows, ImmediateFormat, Paths, decoded, together
from borealis_py.ingress.formats.fits import rows_of
from borealis_py.ingress.formats.protobuf_files import file_of
from borealis_py.types.spelling import parse_type

TIMESTAMP = "google.protobuf.Timestamp"
WRAPPERS = frozenset(
    f"google.protobuf.{kind}Value"
    for kind in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
"""Messages with one field, `value`, that may be null."""
PATH_MAX = 100
"""How deeply the message may be declared within others."""
Values = Callable[[Sequence[Any]], list[Any]]
"""Takes a field's value out of each message."""


class ProtobufFormat(ImmediateFormat):
    """Args:
        text: descriptor of a file with messages, in base64.
        references: (name, text) of the files that it imports, each after its own imports.
        skip: bytes of each value before the index of its message.
        paths: of columns that are not the field of their name.

    Raises:
        UnusableSchema: these are no descriptors.
        ImportError: protobuf is not installed.
    """

    def __init__(
        self,
        columns: Mapping[str, str],
        text: str,
        references: Iterable[tuple[str, str]] = (),
        skip: int = 0,
        paths: Paths = NO_PATHS,
    ) -> None:
        self.schema: pa.Schema = segment_schema(columns).remove(len(columns))
        self._columns = dict(columns)
        self._skip = skip
        self._paths = paths
        self._file = file_of(text, references)
        self._readers: dict[tuple[int, ...], _MessageReader | str] = {}

    def rows(self, values: Sequence[bytes]) -> FormatRows:
        """See `RecordFormat.rows`."""
        groups: dict[tuple[int, ...], tuple[list[int], list[bytes]]] = {}
        bad: list[tuple[int, str]] = []
        for i, value in enumerate(values):
            found = _path(value, self._skip)
            if found is None:
                bad.append((i, "not Protobuf: it does not say which message it is"))
                continue
            own = groups.setdefault(found[0], ([], []))
            own[0].append(i)
            own[1].append(value[found[1] :])
        parts: list[tuple[Sequence[int], FormatRows]] = []
        for path, (at, messages) in groups.items():
            reader = self._reader(path)
            if isinstance(reader, str):
                bad += [(i, reader) for i in at]
            else:
                parts.append((at, reader.rows(messages)))
        made = together(parts, self.schema)
        return made._replace(bad=sorted([*made.bad, *bad]))

    def fields(self, value: bytes, within: Sequence[str] = ()) -> Collection[str] | None:
        """See `RecordFormat.fields`."""
        found = _path(value, self._skip)
        message = None if found is None else _message(self._file, found[0])
        for name in within:
            field = None if message is None else message.fields_by_name.get(name)
            message = None if field is None or field.is_repeated else field.message_type
        return () if message is None else [one.name for one in message.fields]

    def has(self, values: Sequence[bytes], columns: Paths) -> set[str]:
        """See `RecordFormat.has`. Messages of one type have the same fields."""
        return super().has(list({_path(value, self._skip): value for value in values}.values()), columns)

    def _reader(self, path: tuple[int, ...]) -> _MessageReader | str:
        if path not in self._readers:
            message = _message(self._file, path)
            if message is None:
                return f"not Protobuf by its schema: it has no message {list(path)}"
            self._readers[path] = _MessageReader(self._columns, self.schema, message, self._paths)
        return self._readers[path]


def fields_of(
    text: str, references: Iterable[tuple[str, str]], values: Iterable[bytes], skip: int
) -> dict[str, tuple[AvroType, ...]]:
    """What the fields of these values may be, in Avro's words. Raises UnusableSchema, ImportError.

    Args:
        text, references, skip: as of `ProtobufFormat`.
    """
    file = file_of(text, references)
    found: dict[str, dict[AvroType, None]] = {}
    for path in {at[0] for value in values if (at := _path(value, skip)) is not None}:
        message = _message(file, path)
        for field in message.fields if message is not None else ():
            found.setdefault(field.name, {})[_type(field)] = None
    return {name: tuple(types) for name, types in found.items()}


class _MessageReader:
    """Reads the messages of one type."""

    def __init__(self, columns: Mapping[str, str], schema: pa.Schema, message: Any, paths: Paths) -> None:
        from google.protobuf.message_factory import GetMessageClass

        self._schema = schema
        self._parse = GetMessageClass(message).FromString
        found = {name: _field_at(message, tuple(paths.get(name, (name,)))) for name in columns}
        own = {name: chain for name, chain in found.items() if chain is not None}
        self._values = [_values_at(chain, parse_type(columns[name]).kind == "json") for name, chain in own.items()]
        self._fits = {name: avro_fit(columns[name], (_type(chain[-1]),)) for name, chain in own.items()}

    def rows(self, values: Sequence[bytes]) -> FormatRows:
        messages, at, bad = decoded(self._parse, _reason, values)
        try:
            columns = [take(messages) for take in self._values]
        except Exception:  # Protobuf's JSON refuses some messages
            kept = []
            for i, message in zip(at, messages, strict=True):
                try:
                    kept.append((i, [take([message])[0] for take in self._values]))
                except Exception as exc:
                    bad[i] = f"it cannot be written as JSON: {exc}"
            at, messages = [i for i, _ in kept], [row for _, row in kept]
            columns = [[row[k] for row in messages] for k in range(len(self._values))]
        return rows_of(self._schema, self._fits, columns, at, bad)


def _reason(exc: Exception) -> str:
    """Of what Protobuf raises: DecodeError, and for text that is no UTF-8 others."""
    return f"not Protobuf by its schema: {exc}"


def _path(value: bytes, at: int) -> tuple[tuple[int, ...], int] | None:
    """(index of the message, where it begins); None: it cannot be read."""
    if value[at : at + 1] == b"\0":
        return (0,), at + 1  # the first message, in short
    count = _zigzag(value, at)
    if count is None or not 0 < count[0] <= PATH_MAX:
        return None
    path, at = [], count[1]
    for _ in range(count[0]):
        found = _zigzag(value, at)
        if found is None or found[0] < 0:
            return None
        path.append(found[0])
        at = found[1]
    return tuple(path), at


def _zigzag(value: bytes, at: int) -> tuple[int, int] | None:
    number = shift = 0
    while at < len(value) and shift < 35:
        byte = value[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            return (number >> 1) ^ -(number & 1), at
    return None


def _message(file: Any, path: Sequence[int]) -> Any:
    """The message at this index; None: there is none."""
    inner, found = list(file.message_types_by_name.values()), None
    for i in path:
        if i >= len(inner):
            return None
        found = inner[i]
        inner = list(found.nested_types)
    return found


def _type(field: Any) -> AvroType:
    """What a field's values are once they are taken out, in Avro's words."""
    if field.is_repeated:
        return AvroType("array")
    if field.type == field.TYPE_MESSAGE or field.type == field.TYPE_GROUP:
        name = field.message_type.full_name
        if name == TIMESTAMP:
            return AvroType("long", "timestamp-micros")
        return _type(field.message_type.fields_by_name["value"]) if name in WRAPPERS else AvroType("record")
    if field.type == field.TYPE_ENUM:
        return AvroType("enum")
    return AvroType(
        {
            field.CPPTYPE_DOUBLE: "double",
            field.CPPTYPE_FLOAT: "float",
            field.CPPTYPE_BOOL: "boolean",
            field.CPPTYPE_STRING: "bytes" if field.type == field.TYPE_BYTES else "string",
        }.get(field.cpp_type, "long")
    )


def _field_at(message: Any, path: Sequence[str]) -> list[Any] | None:
    """The fields at these names, each in the message that the one before it holds; None: there is no such way."""
    chain: list[Any] = []
    for name in path:
        if chain:
            message = None if chain[-1].is_repeated else chain[-1].message_type
        field = None if message is None else message.fields_by_name.get(name)
        if field is None:
            return None
        chain.append(field)
    return chain


def _values_at(chain: Sequence[Any], as_json: bool) -> Values:
    """Takes the values of the last field out of messages; null where a message on the way is missing."""
    take = _values(chain[-1], as_json)
    if len(chain) == 1:
        return take
    outer = [field.name for field in chain[:-1]]

    def within(messages: Sequence[Any]) -> list[Any]:
        found = [_inner(message, outer) for message in messages]
        values = iter(take([message for message in found if message is not None]))
        return [None if message is None else next(values) for message in found]

    return within


def _inner(message: Any, names: Sequence[str]) -> Any:
    for name in names:
        if not message.HasField(name):
            return None
        message = getattr(message, name)
    return message


def _values(field: Any, as_json: bool) -> Values:
    """Takes a field's values out of messages; null where it may be missing, and is."""
    name, kind = field.name, field.message_type.full_name if field.message_type is not None else ""
    if field.is_repeated or (as_json and kind):
        return lambda messages: [_json(message, field) for message in messages]
    if kind == TIMESTAMP:
        return lambda messages: [_micros(getattr(m, name)) if m.HasField(name) else None for m in messages]
    if kind in WRAPPERS:
        return lambda messages: [getattr(m, name).value if m.HasField(name) else None for m in messages]
    get: Callable[[Any], Any] = attrgetter(name)
    if field.enum_type is not None:
        names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
        get = lambda message: names.get(number := getattr(message, name), number)  # noqa: E731
    if field.has_presence:
        return lambda messages: [get(m) if m.HasField(name) else None for m in messages]
    return lambda messages: list(map(get, messages))


def _micros(moment: Any) -> int:
    micros: int = moment.seconds * 1_000_000 + moment.nanos // 1_000
    return micros


def _json(message: Any, field: Any) -> Any:
    """A field as Protobuf's JSON has it; None: it is missing or empty."""
    from google.protobuf.json_format import MessageToDict

    alone, name = type(message)(), field.name  # the other fields may be ones that JSON cannot have
    if field.is_repeated:
        getattr(alone, name).MergeFrom(getattr(message, name))
    elif message.HasField(name):
        getattr(alone, name).SetInParent()
        getattr(alone, name).MergeFrom(getattr(message, name))
    pool = field.file.pool  # not the process's: what an Any may hold does not depend on what else is loaded
    return _sorted(MessageToDict(alone, preserving_proto_field_name=True, descriptor_pool=pool).get(name))


def _sorted(value: Any) -> Any:
    """With its objects in the order of their keys: Protobuf's maps have another order in each process."""
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(one) for one in value] if isinstance(value, list) else value
