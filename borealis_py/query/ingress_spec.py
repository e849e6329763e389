"""How a topic that other programs write becomes a source, as a value of the app's description.

An ingress copies such a foreign topic into the app's source topic: input i of it is partition i of the source
(`orders.0`, `orders.1`, ...), with a boundary of its own, so that one can be missing while the others go on. Where an
input is what a value of a column says, people read that value (`orders.berlin`) instead of the number.
"""

from __future__ import annotations

import re
from typing import Literal, Self, get_args
from urllib.parse import quote

from pydantic import Field, field_validator, model_validator

from borealis_py.query.errors import QueryError
from borealis_py.query.field_paths import FieldPath, parsed_path
from borealis_py.query.plan import Value

INPUTS_MAX = 64
"""Inputs of one ingress. Each is a topic partition of ours and an input of every node that reads the source."""

INPUT_NAME_MOST = 64
"""Characters of what an input's name has after the dot; longer ones are cut, and numbered."""
OTHERS = "other"
"""What the input of all values that are not named is called after the dot."""

INGRESSES = 2
"""Ingresses of an app that reads foreign topics: one copies a topic, the other stands by."""

FormatName = Literal["json", "csv", "text", "avro", "protobuf", "json-schema", "debezium"]
KeyFormatName = Literal["json", "text", "int", "avro", "protobuf", "json-schema"]
StimeUnit = Literal["s", "ms", "us", "ns"]
DecimalsName = Literal["text", "base64"]
BoundaryName = Literal["clock", "data"]
StartName = Literal["latest", "earliest"]

FORMATS, KEY_FORMATS, STIME_UNITS, BOUNDARIES, STARTS, DECIMALS = (
    get_args(choices) for choices in (FormatName, KeyFormatName, StimeUnit, BoundaryName, StartName, DecimalsName)
)


class IngressSpec(Value):
    """One foreign topic, and how its records become rows of the source that it feeds.

    `topic`: its full name in Kafka. `cluster`: the name of its cluster in `clusters:` of borealis.yaml; None: the app's
    own. `format`: of its records. The source's schema is in `AppSpec.sources`.

    `fields`: of csv, what the values of a line are, in order; empty: the columns. `delimiter`: of csv, between values.
    `nulls`: of csv, values that are null, as an empty one is.
    `op`: of debezium, the column that takes the operation; None: deletes are no rows. `decimals`: of debezium, what
    text in decimal columns is where no schema in the record tells; None: text that may be two things is none.
    `writer_schema`: of avro, by which all records were written, as JSON text; None: a registry has it.

    `paths`: of columns that are not the field of their name, the names that lead to their field.

    `key`: the columns that records' keys hold; a record without a value is then a row with nulls in all others; empty:
    keys are not read. `key_format`: of keys; None: JSON, or UTF-8 text.

    `stime`: the column with a row's time, or the path to its field ("$.meta.at"); None: the record's Kafka timestamp.
    `stime_unit`: what a number there counts since 1970. `stime_format`: how text there is written; None: ISO 8601 and
    what `types.times` reads. `stime_sql`: SQL expression over the source's columns that gives it instead.

    `lateness_us`: how long after its stime a row may come (microseconds). `boundary`: "clock": an input whose end has
    been read goes on with the wall clock; "data": only its rows move it. `expect_us`: an input that has been silent for
    this long is missing (microseconds); None: silence means that nothing happened. `heartbeat`: SQL predicate over the
    source's columns; records for which it is true only prove that an input lives, and are no rows.

    `by`, `values`: one input for each of these values of a column, and a last one for all others, unless `other` is
    False: then a row of another value is a dead letter; None and empty: one for each partition of the topic.
    `inputs`: how many there are; 0: not found out yet (the topic has not been asked).

    `start`: where an app without any row of the topic begins to read it.
    """

    topic: str
    cluster: str | None = None
    format: FormatName = "json"
    fields: tuple[str, ...] = ()
    delimiter: str = ","
    nulls: tuple[str, ...] = ()
    writer_schema: str | None = None
    op: str | None = None
    decimals: DecimalsName | None = None
    paths: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    key: tuple[str, ...] = ()
    key_format: KeyFormatName | None = None
    stime: str | None = None
    stime_unit: StimeUnit = "us"
    stime_format: str | None = None
    stime_sql: str | None = None
    lateness_us: int = Field(ge=0)
    boundary: BoundaryName = "clock"
    expect_us: int | None = Field(default=None, gt=0)
    heartbeat: str | None = None
    by: str | None = None
    values: tuple[bool | int | str, ...] = ()
    other: bool = True
    inputs: int = Field(default=0, ge=0, le=INPUTS_MAX)
    start: StartName = "latest"

    @field_validator("key", mode="before")
    @classmethod
    def _columns(cls, key: object) -> object:
        """Descriptions of 0.x before have one column, or none."""
        return (key,) if isinstance(key, str) else () if key is None else key

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.by is None) != (not self.values):
            raise ValueError("an ingress has `by` and `values` together or neither")
        if self.by is not None and self.inputs != len(self.values) + self.other:
            raise ValueError(f"an ingress by {self.by!r} has one input for each value, and one for the others if any")
        return self

    @property
    def stime_path(self) -> FieldPath:
        """The names that lead to the field with a row's time; empty: it is in no field of its own."""
        return parsed_path(self.stime) if self.stime is not None and self.stime.startswith("$") else ()

    @property
    def needs_registry(self) -> bool:
        """Whether a schema registry must say what its records are."""
        return self.values_need_registry or self.keys_need_registry

    @property
    def values_need_registry(self) -> bool:
        """The same of their values."""
        return self.format == "protobuf" or (self.format == "avro" and self.writer_schema is None)

    @property
    def keys_need_registry(self) -> bool:
        """The same of their keys."""
        return self.key_format in ("avro", "protobuf")

    def with_partitions(self, partitions: int) -> IngressSpec:
        """The same with its number of inputs, from the topic's number of partitions. `by` decides it alone."""
        if partitions < 1:
            raise QueryError(f"topic {self.topic!r} has {partitions} partitions")
        return self if self.by is not None else self.model_copy(update={"inputs": min(partitions, INPUTS_MAX)})

    def input_of_partition(self, partition: int) -> int:
        """The input that a partition of the topic feeds, unless `by` decides. Later partitions join the first ones."""
        return partition % self.inputs

    def input_of_value(self, value: bool | int | str | None) -> int:
        """The input of a row with this value in the column `by`; the last one takes all values that are not named."""
        named = (i for i, v in enumerate(self.values) if type(v) is type(value) and v == value)
        return next(named, len(self.values))

    def input_names(self) -> tuple[str, ...]:
        """What people call each input, after the source's name and a dot: its number, or its value of the column `by`.

        They are one word each, of letters, digits and ``_ . - / : @ +``: any other character is percent-encoded, so
        that different values have different names. Where that is not enough (an empty value, a name that is too long,
        a value that is called like the input of all others), the number follows, after a `~`.
        """
        if self.by is None:
            return tuple(map(str, range(self.inputs)))
        words = [_word(value) for value in self.values] + [OTHERS] * self.other
        return tuple(
            word if word and len(word) <= INPUT_NAME_MOST and word not in words[:i] else f"{_cut(word)}~{i}"
            for i, word in enumerate(words)
        )

    def label(self, index: int) -> str:
        """What feeds an input, for people: `partition 0`, `shop = 'berlin'`, `other shop`."""
        if self.by is None:
            return f"partition {index}"
        return f"{self.by} = {self.values[index]!r}" if index < len(self.values) else f"other {self.by}"

    def determining(self) -> list[object]:
        """What a description may not change while the app lives: it decides which rows the source's partitions hold,
        and the offsets in them count in this very topic."""
        layouts: dict[str, list[object]] = {
            "csv": [list(self.fields), self.delimiter, *([list(self.nulls)] if self.nulls else [])],
            "avro": [self.writer_schema],
            "debezium": [self.op, *([self.decimals] if self.decimals else [])],
        }
        key = list(self.key) if len(self.key) > 1 else next(iter(self.key), None)
        read = [self.format, key, self.stime, self.stime_unit, self.by, list(self.values)]
        where = [self.cluster, self.topic, *read]
        forms = {} if self.stime_format is None else {"stime_format": self.stime_format}
        paths = {name: list(p) for name, p in sorted(self.paths.items())}
        apart = "" if self.other else "no others"
        sql = {} if self.stime_sql is None else {"stime_sql": self.stime_sql}
        later = [one for one in (apart, self.key_format, paths, forms, sql) if one]
        return [*where, *layouts.get(self.format, ()), *later]


def _word(value: bool | int | str) -> str:
    """A value as one word; different values of a type give different words."""
    if isinstance(value, bool):
        return str(value).lower()
    return _ODD.sub(lambda found: quote(found[0], safe="", errors="surrogatepass"), str(value))


def _cut(word: str) -> str:
    """The beginning of a word that is too long; no half of a percent-encoded character."""
    return re.sub(r"%.?$", "", word[:INPUT_NAME_MOST])


_ODD = re.compile(r"[^\w.\-/:@+]")
