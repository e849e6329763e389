"""How a topic that other programs write becomes a source, as a value of the app's description.

An ingress copies such a foreign topic into the app's source topic: input i of it is partition i of the source
(`orders.0`, `orders.1`, ...), with a boundary of its own, so that one can be missing while the others go on.
"""

from __future__ import annotations

from typing import Literal, Self, get_args

from pydantic import Field, model_validator

from borealis_py.query.errors import QueryError
from borealis_py.query.plan import Value

INPUTS_MAX = 64
"""Inputs of one ingress. Each is a topic partition of ours and an input of every node that reads the source."""

INGRESSES = 2
"""Ingresses of an app that reads foreign topics: one copies a topic, the other stands by."""

FormatName = Literal["json", "csv", "text", "avro", "protobuf", "json-schema", "debezium"]
StimeUnit = Literal["s", "ms", "us", "ns"]
BoundaryName = Literal["clock", "data"]
StartName = Literal["latest", "earliest"]

FORMATS, STIME_UNITS, BOUNDARIES, STARTS = (
    get_args(choices) for choices in (FormatName, StimeUnit, BoundaryName, StartName)
)


class IngressSpec(Value):
    """One foreign topic, and how its records become rows of the source that it feeds.

    `topic`: its full name in Kafka. `cluster`: the name of its cluster in `clusters:` of borealis.yaml; None: the app's
    own. `format`: of its records. The source's schema is in `AppSpec.sources`.

    `fields`: of csv, what the values of a line are, in order; empty: the columns. `delimiter`: of csv, between values.
    `op`: of debezium, the column that takes the operation; None: deletes are no rows. `writer_schema`: of avro, by
    which all records were written, as JSON text; None: a registry has it.

    `key`: the column that a record's key says where it has no value: such a record is a row with nulls in all others;
    None: it is none.

    `stime`: the column with a row's time; None: the record's Kafka timestamp. `stime_unit`: what a number in that
    column counts since 1970.

    `lateness_us`: how long after its stime a row may come (microseconds). `boundary`: "clock": an input whose end has
    been read goes on with the wall clock; "data": only its rows move it. `expect_us`: an input that has been silent for
    this long is missing (microseconds); None: silence means that nothing happened. `heartbeat`: SQL predicate over the
    source's columns; records for which it is true only prove that an input lives, and are no rows.

    `by`, `values`: one input for each of these values of a column, and a last one for all others; None and empty: one
    for each partition of the topic. `inputs`: how many there are; 0: not found out yet (the topic has not been asked).

    `start`: where an app without any row of the topic begins to read it.
    """

    topic: str
    cluster: str | None = None
    format: FormatName = "json"
    fields: tuple[str, ...] = ()
    delimiter: str = ","
    writer_schema: str | None = None
    op: str | None = None
    key: str | None = None
    stime: str | None = None
    stime_unit: StimeUnit = "us"
    lateness_us: int = Field(ge=0)
    boundary: BoundaryName = "clock"
    expect_us: int | None = Field(default=None, gt=0)
    heartbeat: str | None = None
    by: str | None = None
    values: tuple[bool | int | str, ...] = ()
    inputs: int = Field(default=0, ge=0, le=INPUTS_MAX)
    start: StartName = "latest"

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.by is None) != (not self.values):
            raise ValueError("an ingress has `by` and `values` together or neither")
        if self.by is not None and self.inputs != len(self.values) + 1:
            raise ValueError(f"an ingress by {self.by!r} has one input for each value and one for the others")
        return self

    @property
    def needs_registry(self) -> bool:
        """Whether a schema registry must say what its records are."""
        return self.format == "protobuf" or (self.format == "avro" and self.writer_schema is None)

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

    def label(self, index: int) -> str:
        """What feeds an input, for people: `partition 0`, `shop = 'berlin'`, `other shop`."""
        if self.by is None:
            return f"partition {index}"
        return f"{self.by} = {self.values[index]!r}" if index < len(self.values) else f"other {self.by}"

    def determining(self) -> list[object]:
        """What a description may not change while the app lives: it decides which rows the source's partitions hold,
        and the offsets in them count in this very topic."""
        layouts: dict[str, list[object]] = {
            "csv": [list(self.fields), self.delimiter], "avro": [self.writer_schema], "debezium": [self.op]
        }  # fmt: skip
        read = [self.format, self.key, self.stime, self.stime_unit, self.by, list(self.values)]
        where = [self.cluster, self.topic, *read]
        return [*where, *layouts.get(self.format, ())]
